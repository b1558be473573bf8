"""In-flight intervals of asynchronous work, from spans on the ops that start it and the ops that wait for it.

The manifest has the channel of each site and its role there (see `instrument_passes.transactions`). Hardware
completes the work of a channel in order, so counting pairs starts and waits: the k-th group that a warp
started is done when one of its waits leaves fewer than that under way, or, on mbarriers, when the k-th wait
returns; that wait may be another warp's. Work counts as in flight until a wait has returned, when the kernel
knows; the hardware may have been done before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from profscope.decoding.columns import Recorded, empty_columns, spread
from profscope.decoding.decoded import DecodedLaunch, Payload, time_order
from profscope.decoding.patterns import FOR_ITERATION
from profscope.instrument_passes.manifest import Span

__all__ = ["kinds_of_ctas", "with_transactions"]

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_IN_FLIGHT = " in flight"
_STARTS = ("issue", "member")
_WAITS = ("wait", "phase")
_GROUPS = ("issue", "open", "close")


def with_transactions(decoded: DecodedLaunch, *, forward: bool = True) -> DecodedLaunch:
    """The launch with a span of kind "async" for every start whose wait is known, behind the others. forward:
    but for those that would end before they start.

    Each is a child of the span that started it; `wait` is the position of the span whose return ended it.

    A launch whose rings overwrote records keeps none: the remaining ones cannot be counted. A start that no
    wait follows, work left to the kernel's end, has none either and counts as unpaired.
    """
    channels = _channels(decoded.sites)
    if not channels or not len(decoded.span):
        return decoded
    if decoded.dropped:
        note = "in-flight intervals are left out: they cannot be told from an incomplete record"
        return replace(decoded, anomalies=(*decoded.anomalies, note))
    sites: list[Span] = []
    place = np.empty(len(decoded.sites), np.int64)  # old site -> new
    copy = np.full(len(decoded.sites), -1, np.int32)  # -> site of its in-flight intervals
    for index, site in enumerate(decoded.sites):
        place[index] = len(sites)
        sites.append(site)
        if site.part in _STARTS and site.channel in channels:
            copy[index] = len(sites)
            sites.append(replace(site, kind="async", name=site.name + _IN_FLIGHT, part="", payloads=()))
    start, wait = _all_pairs(decoded, sorted(channels))
    if forward:
        lasts = decoded.end_cycle[wait] >= decoded.start_cycle[start]
        start, wait = (start, wait) if lasts.all() else (start[lasts], wait[lasts])
    spans = len(decoded.span)
    columns = empty_columns(spans + len(start), len(sites))
    for name, column in vars(columns).items():
        column[:spans] = getattr(decoded, name)
        column[spans:] = getattr(decoded, name)[start]
    columns.span[:spans] = place.astype(columns.span.dtype).take(decoded.span)
    columns.span[spans:] = copy[decoded.span[start]]
    columns.end_cycle[spans:] = decoded.end_cycle[wait]
    columns.parent[spans:] = start
    columns.depth[spans:] += 1
    ended_by = np.full(spans + len(start), -1, np.int32)
    ended_by[spans:] = wait
    return replace(
        decoded,
        **vars(columns),
        sites=tuple(sites),
        wait=ended_by,
        unpaired=int(np.count_nonzero((copy >= 0)[decoded.span])) - len(start),
        payloads=(*decoded.payloads, *_iterations(decoded, start)),
        recorded=None,
    )


def _iterations(decoded: DecodedLaunch, start: Ints) -> list[Payload]:
    """Of pipelined loops, the iteration that each interval's start works for."""
    known = [payload for payload in decoded.payloads if payload.name == FOR_ITERATION]
    if not known or not len(start):
        return []
    value = np.full(len(decoded.span), -1, np.int32)
    for payload in known:
        value[payload.rows] = payload.values
    worked_for = value.take(start)
    worked_out = np.flatnonzero(worked_for >= 0)
    return [Payload(FOR_ITERATION, (len(decoded.span) + worked_out).astype(np.int32), worked_for[worked_out])]


def _channels(sites: tuple[Span, ...]) -> set[int]:
    """Channels on which both starts and waits are recorded, and what makes members a group."""
    parts: dict[int, set[str]] = {}
    for site in sites:
        if site.part:
            parts.setdefault(site.channel, set()).add(site.part)
    return {
        channel
        for channel, roles in parts.items()
        if roles & set(_STARTS)
        and roles & set(_WAITS)
        and ("member" not in roles or roles & {"open", "close"})
    }


def _all_pairs(decoded: DecodedLaunch, channels: Sequence[int]) -> tuple[Ints, Ints]:
    """Positions of starts, and for each that of the wait that ended it.

    They follow from which spans the warps of a CTA have and in what order, which is the same for many CTAs:
    they are counted out in one CTA of each kind.
    """
    order = time_order(decoded)
    site, cta, warp = (column[order] for column in (decoded.span, decoded.cta, decoded.warp))
    first = np.concatenate([[0], np.flatnonzero(cta[1:] != cta[:-1]) + 1, [len(cta)]])
    if isinstance(order, slice) and decoded.recorded is not None:
        kind, chosen = kinds_of_ctas(decoded.recorded)
    else:
        kind = chosen = np.arange(len(first) - 1)
    rows = spread(first, chosen)
    bounds = np.concatenate([[0], np.cumsum(np.diff(first)[chosen])])  # of the chosen CTAs, in `rows`
    ordered, lane = site[rows], cta[rows].astype(np.int64) << 16 | warp[rows]
    pairs = []
    for channel in channels:
        start, wait = _pairs(decoded.sites, channel, ordered, lane)
        of_cta = np.searchsorted(start, bounds)
        origin = np.repeat(bounds[:-1], np.diff(of_cta))
        start, wait = start - origin, wait - origin
        at = spread(of_cta, kind)
        base = np.repeat(first[:-1], np.diff(of_cta)[kind])
        start, wait = start[at] + base, wait[at] + base
        if not isinstance(order, slice):
            start, wait = order[start], order[wait]
        pairs.append((start, wait))
    starts, waits = (np.concatenate(rows) for rows in zip(*pairs, strict=True))
    return starts, waits


def kinds_of_ctas(recorded: Recorded) -> tuple[Ints, Ints]:
    """Per CTA that has spans its kind, from 0, and per kind the first CTA of it. CTAs of a kind have the same
    spans, in warps of the same numbers."""
    some = np.flatnonzero(recorded.spans)
    cta, warp, pattern = recorded.cta[some], recorded.warp[some], recorded.pattern[some]
    first = np.concatenate([[0], np.flatnonzero(cta[1:] != cta[:-1]) + 1, [len(cta)]])
    # Most CTAs are like the one before them: as many warps, and each like that one's.
    sizes = np.diff(first)
    before = np.maximum(np.arange(len(cta)) - np.repeat(sizes, sizes), 0)
    opens = np.logical_or.reduceat((warp != warp[before]) | (pattern != pattern[before]), first[:-1])
    opens[1:] |= sizes[1:] != sizes[:-1]
    opens[0] = True
    heads = np.flatnonzero(opens)
    number_of: dict[bytes, int] = {}
    keys = [
        warp[begin:end].tobytes() + pattern[begin:end].tobytes()
        for begin, end in zip(first[heads].tolist(), first[heads + 1].tolist(), strict=True)
    ]
    of_heads = np.array([number_of.setdefault(key, len(number_of)) for key in keys], np.int64)
    kind = np.repeat(of_heads, np.diff(heads, append=len(sizes)))
    return kind, heads[np.unique(of_heads, return_index=True)[1]]


def _pairs(
    sites: tuple[Span, ...], channel: int, ordered: npt.NDArray[np.integer[Any]], lanes: Ints
) -> tuple[Ints, Ints]:
    """Rows of starts, ascending, and for each the row of the wait that ended it.

    ordered: the sites in order of CTA, warp and time; lanes: CTA << 16 | warp of each.
    """
    mine = np.array([bool(site.part) and site.channel == channel for site in sites])
    rows = np.flatnonzero(mine[ordered])
    site, lane = ordered[rows], lanes[rows]

    def are(*parts: str) -> Flags:
        flags: Flags = np.array([s.part in parts for s in sites])[site]
        return flags

    before = _running(lane, are(*_GROUPS))  # groups that the warp has made, this row's included
    closed = any(s.part == "close" and s.channel == channel for s in sites)
    group = np.where(are("issue"), before - 1, before if closed else before - 1)
    pending = np.array([s.pending for s in sites])[site]
    done = np.maximum(np.where(are("phase"), _running(lane, are("phase")), before) - pending, 0)
    starts, waits = np.flatnonzero(are(*_STARTS) & (group >= 0)), np.flatnonzero(are(*_WAITS))
    if not len(starts) or not len(waits):
        return rows[:0], rows[:0]
    # Per lane `done` never falls (a later wait may leave more under way, but what is done stays done).
    key = lane[waits] << 32 | done[waits]
    key = np.maximum.accumulate(key)
    # A queue is its warp's own; on mbarriers another warp may wait.
    waiter = _waiter(lane[starts], lane[waits]) if are("phase").any() else lane[starts]
    at = np.searchsorted(key, waiter << 32 | group[starts], side="right")
    paired = (at < len(waits)) & (waiter >= 0)
    paired[paired] &= lane[waits[at[paired]]] == waiter[paired]
    return rows[starts[paired]], rows[waits[at[paired]]]


def _running(lane: Ints, flags: Flags) -> Ints:
    """How many of `flags` each lane has seen, the row's own included; lanes are contiguous."""
    total = np.cumsum(flags)
    first = np.flatnonzero(np.diff(lane, prepend=-1))
    base: Ints = total[first] - flags[first]
    return total - np.repeat(base, np.diff(first, append=len(lane)))


def _waiter(starts: Ints, waits: Ints) -> Ints:
    """For every start the lane that waits for it: its own, or the first of its CTA that does; -1 if none."""
    lanes = np.unique(waits)
    own = np.isin(starts, lanes)
    cta = lanes >> 16
    at = np.searchsorted(cta, starts >> 16)
    other = np.where(at < len(cta), lanes[np.minimum(at, len(lanes) - 1)], -1)
    other = np.where(other >> 16 == starts >> 16, other, -1)
    return np.where(own, starts, other)
