"""The rows of a launch that is laid out: what its kinds of CTAs say once, written for each CTA."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any

import numpy as np
import numpy.typing as npt

from profscope.decoding.bundles import Bundle
from profscope.decoding.layouts import Part
from profscope.decoding.payloads import PayloadColumns
from profscope.decoding.timebase import TimeBase

__all__ = ["fill_laid_out"]

Arrays = dict[str, npt.NDArray[Any]]


def fill_laid_out(
    columns: Arrays,
    payloads: PayloadColumns,
    target: slice,
    of_site: Arrays,
    bundle: Bundle,
    base: TimeBase,
    of_blocks: Executor,
) -> None:
    """All rows of a launch, `target` of the table's columns, in order of CTA, warp and time. of_site: what
    sites say."""
    decoded, layout = bundle.decoded, bundle.decoded.layout
    assert layout is not None
    site = decoded.span.astype(np.intp)
    same = {name: values.take(site) for name, values in of_site.items()}
    same |= {name: getattr(decoded, name).astype(np.int32) for name in ("warp", "iteration", "depth")}
    above = {"parent": decoded.parent, "wait": decoded.wait}
    links = {
        name: (rows.astype(np.int64), (rows >= 0).astype(np.int64))
        for name, rows in above.items()
        if rows is not None
    }

    def fill(part: Part) -> None:
        rows = slice(target.start + part.spans.start, target.start + part.spans.stop)
        here = {name: values[rows].reshape(part.shape) for name, values in columns.items()}
        for name, values in same.items():
            here[name][:] = values[part.rows]
        here["launch"][:] = bundle.index
        here["cta"][:] = layout.cta[part.ctas, None]
        here["sm"][:] = layout.sm[part.ctas, None]
        here["wait"][:] = -1
        first = target.start + layout.base[part.ctas, None] - part.origin
        for name, (row, known) in links.items():  # those of -1 stay
            np.multiply(known[part.rows], first, out=here[name])
            here[name] += row[part.rows]
        words = layout.words(part)
        begin, end = layout.clocks(part, words)
        anchor = layout.anchor[part.ctas, None]
        np.add(begin, anchor, out=here["start_cycle"])
        np.subtract(end, begin, out=here["duration_cycles"])
        opens = np.arange(0, begin.size, part.shape[1])
        start_ns, end_ns = (
            base.stretches_to_ns(cycles.reshape(-1), layout.sm[part.ctas], opens)
            for cycles in (here["start_cycle"], end + anchor)
        )
        columns["start_ns"][rows] = start_ns
        np.subtract(end_ns, start_ns, out=columns["duration_ns"][rows])
        payloads.fill_laid_out(decoded, part, rows, words)

    for _ in of_blocks.map(fill, layout.parts()):
        pass
