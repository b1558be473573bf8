"""Decoded launches to the tidy table: one row per span, strings categorical, sorted, parents resolved."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from profscope.decoding.bundles import Bundle
from profscope.decoding.columns import BLOCK_SPANS
from profscope.decoding.decoded import DecodedLaunch, Part, time_order
from profscope.decoding.timebase import TimeBase
from profscope.instrument_passes.analyses.loop_stages import STAGES
from profscope.schema import SPAN_DTYPES

__all__ = ["SpanTable", "span_table"]

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint32]
Arrays = dict[str, npt.NDArray[Any]]


class SpanTable(NamedTuple):
    """The span table of Profile.df; and by launch, how many spans it has."""

    df: pd.DataFrame
    sizes: Ints


def span_table(bundles: Sequence[tuple[Bundle, TimeBase]], pool: Executor) -> SpanTable:
    """The spans of all launches. Bundles are sorted and filled in side by side, into their own rows, and the
    blocks of each, in the same pool: so a few large launches, too, use all cores."""
    every = [bundle for bundle, _ in bundles]
    sizes = list(pool.map(_spans_each, every))
    launches = sum(map(len, every))
    row_base = np.zeros(launches + 1, np.int64)
    for bundle, of_bundle in zip(every, sizes, strict=True):
        row_base[bundle.places + 1] = of_bundle
    np.cumsum(row_base, out=row_base)
    total = int(row_base[-1])
    decoded = [bundle.decoded for bundle in every]
    sites = [site for each in decoded for site in each.sites]
    site_base = np.cumsum([0, *(len(each.sites) for each in decoded)])
    texts = {
        "kernel": [bundle.manifest.kernel for bundle in every for _ in bundle.decoded.sites],
        "scope": [site.name for site in sites],
        "kind": [site.kind for site in sites],
        "file": [site.file for site in sites],
        "call_path": [site.call_path for site in sites],
    }
    coded = {name: _codes(values) for name, values in texts.items()}
    lines = np.array([site.line for site in sites], np.int32)
    columns: Arrays = {
        name: np.empty(total, coded[name][0].dtype if name in coded else dtype)
        for name, dtype in SPAN_DTYPES.items()
    }

    payloads = _PayloadColumns(decoded, total)
    stages = np.array([STAGES.index(site.stage) if site.stage else -1 for site in sites], np.int8)
    if (stages >= 0).any():
        columns["stage"] = np.empty(total, np.int8)
    of_site: Arrays = {name: codes for name, (codes, _) in coded.items()} | {
        "line": lines,
        "stage": stages,
    }

    def fill(index: int) -> None:
        bundle, base = bundles[index]
        known = {
            name: values[site_base[index] : site_base[index + 1]]
            for name, values in of_site.items()
            if name in columns
        }
        if bundle.decoded.layout is not None:
            (place,) = bundle.places
            rows = slice(int(row_base[place]), int(row_base[place + 1]))
            _fill_laid_out(columns, payloads, rows, known, bundle, base, pool)
            return
        target = _rows(row_base[bundle.places], sizes[index])
        if isinstance(target, slice):
            mine = {name: values[target] for name, values in columns.items()}
        else:
            mine = {name: np.empty(len(target), values.dtype) for name, values in columns.items()}
        rank = _fill_bundle(mine, known, bundle, base, sizes[index], target, pool)
        if not isinstance(target, slice):
            for name, values in columns.items():
                values[target] = mine[name]
        payloads.fill(bundle.decoded, target, rank)

    for _ in pool.map(fill, range(len(bundles))):
        pass
    stage = columns.pop("stage", None)
    df = pd.DataFrame(
        {
            name: _categorical(values, coded[name][1]) if name in coded else values
            for name, values in columns.items()
        }
        | payloads.series()
        | ({"stage": _categorical(stage, list(STAGES))} if stage is not None else {}),
        copy=False,
    )
    return SpanTable(df, np.diff(row_base))


class _PayloadColumns:
    """One column a name: Int32, missing if a span carries none; float64, NaN there, if a value is f32."""

    def __init__(self, launches: Sequence[DecodedLaunch], rows: int) -> None:
        kinds: dict[str, bool] = {}
        for decoded in launches:
            for payload in decoded.payloads:
                kinds[payload.name] = kinds.get(payload.name, False) or payload.values.dtype == np.float32
        self._values: dict[str, npt.NDArray[Any]] = {
            name: np.empty(rows, np.float64 if floating else np.int32)
            for name, floating in sorted(kinds.items())
        }
        self._missing = {name: np.empty(rows, np.bool_) for name, floating in kinds.items() if not floating}

    def fill(self, decoded: DecodedLaunch, target: Ints | slice, rank: Ints) -> None:
        """Put a launch's values into its rows, `target`: those that its spans got, and nothing elsewhere."""
        self._clear(target)
        for payload in decoded.payloads:
            rows = rank.take(payload.rows)
            self._values[payload.name][rows] = payload.values
            if payload.name in self._missing:
                self._missing[payload.name][rows] = False

    def fill_laid_out(self, decoded: DecodedLaunch, part: Part, target: slice, words: Words) -> None:
        """The same of a part of a launch that is laid out. words: of its CTAs, shape (CTAs, words)."""
        self._clear(target)
        for payload in decoded.payloads:
            mine = slice(*np.searchsorted(payload.rows, [part.rows.start, part.rows.stop]).tolist())
            rows = payload.rows[mine] - part.rows.start
            of_all: Any = payload.values[mine]
            if payload.places is not None:
                of_all = words.take(payload.places[mine], axis=1).view(payload.values.dtype)
            self._values[payload.name][target].reshape(part.shape)[:, rows] = of_all
            if payload.name in self._missing:
                self._missing[payload.name][target].reshape(part.shape)[:, rows] = False

    def _clear(self, target: Ints | slice) -> None:
        for name, values in self._values.items():
            values[target] = 0 if name in self._missing else np.nan
            if name in self._missing:
                self._missing[name][target] = True

    def series(self) -> dict[str, Any]:
        """By name what goes into the table."""
        return {
            name: pd.arrays.IntegerArray(values, self._missing[name]) if name in self._missing else values
            for name, values in self._values.items()
        }


def _spans_each(bundle: Bundle) -> Ints:
    """By launch, how many spans it has."""
    spans = bundle.decoded
    if len(bundle) == 1:
        return np.array([spans.total], np.int64)
    return np.bincount(bundle.launch_of(spans.cta), minlength=len(bundle))


def _rows(first: Ints, sizes: Ints) -> Ints | slice:
    """Where in the table the spans of launches go, so many each from their first rows on."""
    if len(first) == 1:
        return slice(int(first[0]), int(first[0] + sizes[0]))
    rows: Ints = np.repeat(first - np.cumsum(sizes) + sizes, sizes)
    rows += np.arange(len(rows))
    return rows


def _fill_bundle(
    mine: Arrays,
    of_site: Arrays,
    bundle: Bundle,
    base: TimeBase,
    sizes: Ints,
    target: Ints | slice,
    pool: Executor,
) -> Ints:
    """All rows of a bundle, in order of launch, CTA, warp and time. mine: the columns' parts; of_site: what
    sites say; sizes: by launch, its rows; target: where they go in the table.

    Returns the row of every span in the table, and behind them -1, where a parent of -1 looks.
    """
    decoded = bundle.decoded
    order, spans = time_order(decoded), len(decoded.span)
    rank = np.empty(spans + 1, np.int64)
    rank[:-1][order] = np.arange(target.start, target.stop) if isinstance(target, slice) else target
    rank[-1] = -1

    def fill_block(begin: int) -> None:
        block = slice(begin, min(begin + BLOCK_SPANS, spans))
        here = {name: values[block] for name, values in mine.items()}
        _fill(here, of_site, decoded, base, block if isinstance(order, slice) else order[block], rank)

    begins = range(0, spans, BLOCK_SPANS)
    for _ in pool.map(fill_block, begins) if len(begins) > 1 else map(fill_block, begins):
        pass
    mine["launch"][:] = np.repeat(np.array([raw.index for raw in bundle.raws], np.int32), sizes)
    if decoded.several:
        apart = decoded.several.apart
        number = np.repeat(np.arange(apart.launches, dtype=np.int32), sizes)
        mine["cta"] -= number * np.int32(apart.ctas)
        mine["sm"] -= number * np.int32(apart.sms)
    return rank


def _fill_laid_out(
    columns: Arrays,
    payloads: _PayloadColumns,
    target: slice,
    of_site: Arrays,
    bundle: Bundle,
    base: TimeBase,
    pool: Executor,
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

    for _ in pool.map(fill, layout.parts()):
        pass


def _fill(
    here: Arrays,
    of_site: Arrays,
    decoded: DecodedLaunch,
    base: TimeBase,
    at: Ints | slice,
    rank: Ints,
) -> None:
    """Some rows of a bundle. here: the columns' parts; of_site: what sites say; at: the spans, in order."""
    site = decoded.span[at].astype(np.intp)
    for name, values in of_site.items():
        here[name][:] = values.take(site)
    for name in ("cta", "sm", "warp", "iteration", "depth"):
        here[name][:] = getattr(decoded, name)[at]
    here["parent"][:] = rank.take(decoded.parent[at])
    here["wait"][:] = -1 if decoded.wait is None else rank.take(decoded.wait[at])
    start, end, sm = decoded.start_cycle[at], decoded.end_cycle[at], here["sm"]
    here["start_cycle"][:] = start
    np.subtract(end, start, out=here["duration_cycles"])
    here["start_ns"][:] = base.to_ns(start, sm)
    np.subtract(base.to_ns(end, sm), here["start_ns"], out=here["duration_ns"])


def _codes(values: Sequence[str]) -> tuple[npt.NDArray[np.signedinteger[npt.NBitBase]], list[str]]:
    """Category codes, of the smallest dtype as pandas has them, and the categories, sorted."""
    names = sorted(set(values))
    index = {name: i for i, name in enumerate(names)}
    return np.array([index[value] for value in values], np.min_scalar_type(-max(1, len(names)))), names


def _categorical(codes: Any, names: list[str]) -> Any:
    dtype: Any = pd.CategoricalDtype(pd.Index(names, dtype=str))
    return pd.Categorical.from_codes(codes, dtype=dtype, validate=False)
