"""When the CTAs of launches began and ended, and on which SM: by their headers and their warps' spans, or by
their stamps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from profscope.decoding.bundles import Bundle
from profscope.decoding.tables import SpanTable
from profscope.decoding.timebase import TimeBase

__all__ = ["CtaTimes", "cta_times"]

Ints = npt.NDArray[np.int64]
_CTA_BITS = 32  # of a key that orders CTAs by launch and linear id


@dataclass(frozen=True)
class CtaTimes:
    """The CTAs that are known and came to their end, by launch and linear id; arrays of shape (CTAs,).

    place: where the launch stands among all that are decoded. Cycles are of the SM's clock64, ns absolute.
    recorded: whether the CTA recorded; others have a stamp.
    """

    place: Ints
    cta: Ints
    sm: Ints
    start_cycle: Ints
    end_cycle: Ints
    start_ns: Ints
    end_ns: Ints
    recorded: npt.NDArray[np.bool_]

    def of_launches(self, launches: int) -> tuple[Ints, Ints]:
        """By launch, when its first CTA began and its last one ended, ns; 0 where none came to its end."""
        start, end = np.zeros(launches, np.int64), np.zeros(launches, np.int64)
        some, first = np.unique(self.place, return_index=True)
        if len(some):
            start[some] = np.minimum.reduceat(self.start_ns, first)
            end[some] = np.maximum.reduceat(self.end_ns, first)
        return start, end


def cta_times(bundles: Sequence[tuple[Bundle, TimeBase]], spans: SpanTable) -> CtaTimes:
    """Of all bundles, whose spans are in the table.

    A CTA begins with the first of its warps' spans and ends with the last. One thread of it reads the clocks
    of its header; they count where there are no spans of the whole kernel. One thread reads those of a stamp,
    too.
    """
    recorded = _times([_of_headers(bundle) for bundle, _ in bundles], bundles, spans)
    others = _times([_of_stamps(bundle) for bundle, _ in bundles], bundles, None)
    if not len(others.place):
        return recorded
    times = CtaTimes(
        *(np.concatenate([a, b]) for a, b in zip(vars(recorded).values(), vars(others).values(), strict=True))
    )
    return _ordered(times, np.argsort(_key(times.place, times.cta), kind="stable"))


_Part = tuple[Ints, Ints, Ints, Ints, Ints]
"""Of CTAs place, linear id, SM as decoding numbers it, start and end in cycles."""


def _times(
    parts: Sequence[_Part], bundles: Sequence[tuple[Bundle, TimeBase]], spans: SpanTable | None
) -> CtaTimes:
    """parts: of the bundles. spans: those of these CTAs; None if they have none."""
    places, ctas, sms, starts, ends = (
        np.concatenate([np.zeros(0, np.int64), *(part[at] for part in parts)]) for at in range(5)
    )
    key = _key(places, ctas)
    order = np.argsort(key, kind="stable")
    if spans is not None:
        _widen(starts, ends, key, order, spans)
    start_ns, end_ns = np.zeros_like(starts), np.zeros_like(ends)
    bounds = np.cumsum([0, *(len(part[0]) for part in parts)]).tolist()
    for (bundle, base), begin, end in zip(bundles, bounds[:-1], bounds[1:], strict=True):
        own, several = slice(begin, end), bundle.decoded.several
        of_bundle = sms[own].astype(np.int32)
        start_ns[own], end_ns[own] = base.to_ns(starts[own], of_bundle), base.to_ns(ends[own], of_bundle)
        if several:
            sms[own] %= several.apart.sms
    recorded = np.full(len(places), spans is not None)
    return _ordered(CtaTimes(places, ctas, sms, starts, ends, start_ns, end_ns, recorded), order)


def _ordered(times: CtaTimes, order: Ints) -> CtaTimes:
    return replace(times, **{name: values[order] for name, values in vars(times).items()})


def _key(places: Ints, ctas: Ints) -> Ints:
    return places << _CTA_BITS | ctas


def _of_stamps(bundle: Bundle) -> _Part:
    stamps = bundle.stamped
    return bundle.places[stamps.launch], stamps.cta, stamps.sm, stamps.start_cycle, stamps.end_cycle


def _of_headers(bundle: Bundle) -> _Part:
    """Of each recorded CTA that ended."""
    headers = bundle.decoded.headers
    written = headers["start_clock"] != 0
    launch, headers = bundle.launch_of_header[written], headers[written]
    cta, sm, start, end = (headers[n].astype(np.int64) for n in ("cta", "sm", "start_clock", "end_clock"))
    if bundle.decoded.several:
        cta -= launch * bundle.decoded.several.apart.ctas
    return bundle.places[launch], cta, sm, start, end


def _widen(start: Ints, end: Ints, key: Ints, order: Ints, spans: SpanTable) -> None:
    """Let CTAs cover their outermost spans, and no more where these are of the whole kernel: behind those the
    header waits for the last records. key: of each CTA, by which `order` sorts."""
    df = spans.df
    rows = np.flatnonzero(df["depth"].to_numpy() == 0)
    kind = df["kind"].array[rows]
    rows, kind = rows[np.asarray(kind != "async")], kind[kind != "async"]
    if not len(rows):
        return
    place = np.searchsorted(np.cumsum(spans.sizes), rows, side="right")
    of_row = place << _CTA_BITS | df["cta"].to_numpy()[rows]
    first = np.flatnonzero(np.diff(of_row, prepend=-1))
    at = order[np.searchsorted(key, of_row[first], sorter=order)]
    begin = df["start_cycle"].to_numpy()[rows]
    least = np.minimum.reduceat(begin, first)
    most = np.maximum.reduceat(begin + df["duration_cycles"].to_numpy()[rows], first)
    whole = np.logical_or.reduceat(np.asarray(kind == "kernel"), first)
    start[at] = np.where(whole, least, np.minimum(start[at], least))
    end[at] = np.where(whole, most, np.maximum(end[at], most))
