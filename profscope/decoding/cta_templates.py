"""Launches whose CTAs are of few kinds: one of each is decoded, and what it says is laid out for the others.

Which spans a CTA has, in which order they stand in the table, and which wait ended which asynchronous work
follows from its kind, as long as clocks went on as programs do. That is looked at in every CTA; a launch of
which it does not hold is decoded span by span.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from instrument_passes.manifest import Manifest
from profscope.decoding.columns import Columns, Recorded, spread
from profscope.decoding.decode import Found, find, spans_of
from profscope.decoding.decoded import DecodedLaunch, Layout, Payload, time_order
from profscope.decoding.in_flight import kinds_of_ctas, with_transactions

__all__ = ["decode_launch"]

Ints = npt.NDArray[np.int64]

# Below these, steps of numpy's have too little to do: spans of a CTA, and of CTAs of one kind that follow
# each other, on average. They take about 180 us however few spans there are; span by span, each takes 80 ns.
_LEAST_OF_CTA: Final = 16
_LEAST_ALIKE: Final = 4096


def decode_launch(buffer: npt.NDArray[np.uint8], manifest: Manifest) -> DecodedLaunch:
    """A launch with its transactions, and with a layout where it can have one. Raises RecordError (see
    `read_buffer`)."""
    found = find(buffer, manifest)
    return _laid_out(found) or with_transactions(spans_of(found, found.recorded))


def _laid_out(found: Found) -> DecodedLaunch | None:
    """One CTA of each kind, and the layout of all; None where CTAs are too many kinds or too short, or where
    clocks do not go on in the order of the program."""
    spans = int(found.recorded.spans.sum())
    if spans < _LEAST_ALIKE:
        return None
    some = _part(found.recorded, np.flatnonzero(found.recorded.spans))
    opens = np.append(True, some.cta[1:] != some.cta[:-1])
    first = np.flatnonzero(opens)
    kind, chosen = kinds_of_ctas(some)
    runs = 1 + np.count_nonzero(kind[1:] != kind[:-1])
    if spans < _LEAST_OF_CTA * len(kind) or spans < _LEAST_ALIKE * runs:
        return None
    one_each = _part(some, spread(np.append(first, len(some.cta)), chosen))
    if 2 * int(one_each.spans.sum()) > spans or (opens[1:] != (some.area[1:] != some.area[:-1])).any():
        return None
    plain = spans_of(found, one_each)
    model = with_transactions(plain, forward=False)
    order = np.arange(len(model.span))[time_order(model)]
    recorded = order[order < len(plain.span)]
    if (recorded[1:] < recorded[:-1]).any():
        return None
    begin, end = _places(found, one_each, model)
    layout = Layout(
        segments=found.words,
        area=some.area[first],
        anchor=found.clocks.anchor[some.area[first]],
        cta=some.cta[first],
        sm=some.sm[first].astype(np.int32),
        kind=kind,
        first=np.append(np.searchsorted(model.cta[order], some.cta[first][chosen]), len(order)),
        begin=begin[order],
        end=end[order],
    )
    return _in_order(model, order, layout) if _holds(layout, model, order) else None


def _part(recorded: Recorded, at: Ints) -> Recorded:
    """Some warps, as if there were no others."""
    part = Recorded(*(column[at] for column in vars(recorded).values()))
    return replace(part, first=np.cumsum(part.spans) - part.spans)


def _places(found: Found, recorded: Recorded, model: DecodedLaunch) -> tuple[Ints, Ints]:
    """Of each span, where among its CTA's words its clocks are; an async one has them of two others."""
    at = spread(found.patterns.first, recorded.pattern)
    segment = np.repeat(recorded.segment * found.words.shape[2], recorded.spans)
    begin, end = found.patterns.begin[at] + segment, found.patterns.end[at] + segment
    if model.wait is None:
        return begin, end
    start, wait = model.parent[len(at) :], model.wait[len(at) :]
    return np.append(begin, begin[start]), np.append(end, end[wait])


def _holds(layout: Layout, model: DecodedLaunch, order: Ints) -> bool:
    """Whether in every CTA no span ends before it begins, and the spans of a warp begin in this order: where
    spans were put between others, those that begin together have to be in order of their sites."""
    site, warp = model.span[order], model.warp[order]
    other_warp = warp[1:] != warp[:-1]
    apart = (site[1:] < site[:-1]) | ((site[1:] == site[:-1]) & (order[1:] < order[:-1]))
    if model.wait is None:
        apart[:] = False
    for part in layout.parts(whole=True):
        begin, end = layout.clocks(part, layout.words(part))
        if (end < begin).any():
            return False
        pairs = slice(part.rows.start, part.rows.stop - 1)
        later = begin[:, :-1] <= begin[:, 1:]
        later[:, other_warp[pairs]] = True
        if not later.all():
            return False
        at = np.flatnonzero(apart[pairs] & ~other_warp[pairs])
        if len(at) and (begin[:, at] == begin[:, at + 1]).any():
            return False
    return True


def _in_order(model: DecodedLaunch, order: Ints, layout: Layout) -> DecodedLaunch:
    """The model with its spans in order of the table."""
    rank = np.full(len(order) + 1, -1, np.int32)  # behind the last: that of -1
    rank[order] = np.arange(len(order), dtype=np.int32)
    columns = {name: getattr(model, name)[order] for name in Columns.__dataclass_fields__}
    laid_out = replace(
        model,
        **columns | {"parent": rank[columns["parent"]]},
        wait=None if model.wait is None else rank[model.wait[order]],
        idle=rank[model.idle].astype(np.int64),
        payloads=tuple(_sorted(replace(each, rows=rank[each.rows])) for each in model.payloads),
        recorded=None,
        layout=layout,
    )
    # The site of asynchronous work stands behind that which starts it.
    counts = laid_out.counts
    started = [at - 1 for at, site in enumerate(model.sites) if site.kind == "async"]
    unpaired = sum(int(counts[at] - counts[at + 1]) for at in started)
    return replace(laid_out, unpaired=unpaired)


def _sorted(payload: Payload) -> Payload:
    """With its rows in order."""
    at = np.argsort(payload.rows)
    places = None if payload.places is None else payload.places[at]
    return Payload(payload.name, payload.rows[at], payload.values[at], places)
