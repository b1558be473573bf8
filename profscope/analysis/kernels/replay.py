"""One CTA as a graph of its warps' slices of time: walked back from its end, and run again.

A slice is a piece of a warp's time that belongs to one site: an op's span, or a loop's own time between two
of them. A slice waits for the slice before it in its warp; at a meeting (a barrier, reduction or layout
conversion that all warps leave together) for the last warp; at a wait, for the asynchronous work that it
ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.analysis.kernels.kernel_analysis import KernelAnalysis
from profscope.analysis.op_labels import op_info
from profscope.analysis.spans.rows import Ints

__all__ = ["Replay", "partition_of_warp", "partitions_of", "replay_of", "slices_of"]

_CLASSES: Final = ("reduce", "layout")

# Ends of warps that met lie closer together than their begins: by at least this.
_ALIGNED: Final = 0.5


def may_meet(judged: KernelAnalysis) -> NDArray[np.bool_]:
    """By site: whether warps may wait for each other there: barriers that complete, reductions, layouts."""
    sites = zip(judged.sites["scope"].tolist(), judged.sites["cls"].tolist(), strict=True)
    return np.array(
        [cls in _CLASSES or (cls == "barrier" and _completes(scope)) for scope, cls in sites], np.bool_
    )


def _completes(scope: str) -> bool:
    info = op_info(scope)
    return info is not None and info.completes


def meetings(judged: KernelAnalysis, first: int, last: int) -> pd.DataFrame:
    """One row per span that may be part of a meeting, of the spans `first` to `last`.

    span, site, cta, warp, begin, end; number, the same for what met; came, how many warps did; earliest,
    latest, mean, of their begins; ended, the last end; aligned, whether they left closer together than they
    came.
    """
    spans = judged.spans
    part = slice(first, last)
    here = np.flatnonzero(may_meet(judged)[spans.site[part]]) + first
    table = pd.DataFrame(
        {
            "span": here,
            "site": spans.site[here],
            "cta": spans.cta[here],
            "warp": spans.warp[here],
            "begin": spans.start[here],
            "end": spans.end[here],
        }
    )
    time = table.groupby(["warp", "site"]).cumcount()
    table["number"] = table.groupby([table["site"], table["cta"], time], sort=False).ngroup()
    by_key = table.groupby("number", sort=False)
    begins, ends = by_key["begin"], by_key["end"]
    table = table.assign(
        came=begins.transform("size"),
        earliest=begins.transform("min"),
        latest=begins.transform("max"),
        mean=begins.transform("mean"),
        ended=ends.transform("max"),
    )
    spread = table["latest"] - table["earliest"]
    return table.assign(aligned=table["ended"] - ends.transform("min") <= _ALIGNED * spread)


def meetings_of(judged: KernelAnalysis, first: int, last: int) -> dict[int, int]:
    """By span of one CTA that is part of a meeting of all its warps, the meeting's number, from 0."""
    if not may_meet(judged).any():
        return {}
    table = meetings(judged, first, last)
    warps = len(np.unique(judged.spans.warp[first:last]))
    met = table[(table["came"] == warps) & table["aligned"] & (warps > 1)]
    number, _ = pd.factorize(met["number"])
    return dict(zip(met["span"].tolist(), number.tolist(), strict=True))


def partition_of_warp(judged: KernelAnalysis) -> Ints:
    """By warp (of `Spans.warp`): the site of the span around all it did, which differs between partitions."""
    spans = judged.spans
    roots = np.flatnonzero(spans.parent < 0)
    first = roots[np.unique(spans.warp[roots], return_index=True)[1]]
    return spans.site[first]


def partitions_of(judged: KernelAnalysis) -> int:
    """How many programs the warps of a CTA run."""
    return len(np.unique(partition_of_warp(judged)))


_PASSED = 30  # cycles of a wait that had nothing to wait for, its record included


@dataclass(eq=False)
class Replay:
    """The slices of a CTA in the order of their ends, each list with one entry for each slice.

    site: whose time it is. begin, end: cycles from the CTA's begin. before: the slice before it in its
    warp, -1 at the first. meeting: the number of its meeting, -1 if it is none. works: for a wait, the
    asynchronous work that it ended, as pairs of the slice that started it and the site of the work in
    flight.
    """

    site: list[int]
    begin: list[int]
    end: list[int]
    before: list[int]
    meeting: list[int]
    works: dict[int, list[tuple[int, int]]]
    members: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.members = [[] for _ in range(max(self.meeting, default=-1) + 1)]
        for at, meeting in enumerate(self.meeting):
            if meeting >= 0:
                self.members[meeting].append(at)

    @property
    def cycles(self) -> int:
        return max(self.end, default=0)

    def path(self) -> dict[int, int]:
        """Cycles by site on the way that ends last, walked back from its end; work in flight counts where
        a wait waited for it."""
        cycles: dict[int, int] = {}
        at, until = (int(np.argmax(self.end)) if self.end else -1), self.cycles
        while at >= 0:
            last, since, site = at, self.begin[at], self.site[at]
            if self.meeting[at] >= 0:
                last = max(self.members[self.meeting[at]], key=lambda each: self.begin[each])
                since = self.begin[last]
            elif self._waited(at) and at in self.works:
                last, site = max(self.works[at], key=lambda work: self.begin[work[0]])
                since = self.begin[last]
            since = min(since, until)
            cycles[site] = cycles.get(site, 0) + until - since
            at, until = self.before[last], since
        return cycles

    def run(self, factors: Mapping[int, float]) -> float:
        """The cycles that the CTA takes if each slice of a site, or its work in flight, takes `factors`
        times as long."""
        begin, end = [0.0] * len(self.site), [0.0] * len(self.site)
        ends_of: dict[int, float] = {}
        for at, before in enumerate(self.before):
            # A warp's first slice begins when it did.
            begin[at] = (
                end[before] + self.begin[at] - self.end[before] if before >= 0 else float(self.begin[at])
            )
            took = (self.end[at] - self.begin[at]) * factors.get(self.site[at], 1.0)
            meeting = self.meeting[at]
            if meeting >= 0:
                if meeting not in ends_of:
                    ends_of[meeting] = self._met(meeting, begin, end, factors)
                end[at] = ends_of[meeting]
            elif at in self.works and self._waited(at):
                end[at] = begin[at] + _PASSED * factors.get(self.site[at], 1.0)
                for start, flight in self.works[at]:
                    took = (self.end[at] - self.begin[start]) * factors.get(flight, 1.0)
                    since = begin[start] if start < at else float(self.begin[start])
                    end[at] = max(end[at], since + took)
            else:
                end[at] = begin[at] + took
        return max(end, default=0.0)

    def _met(self, meeting: int, begin: list[float], end: list[float], factors: Mapping[int, float]) -> float:
        """When a meeting ends: as long behind the last arrival as it did."""
        members = self.members[meeting]
        last = max(self.begin[each] for each in members)
        arrivals = [
            end[self.before[each]] + self.begin[each] - self.end[self.before[each]]
            if self.before[each] >= 0
            else float(self.begin[each])
            for each in members
        ]
        behind = max(self.end[each] for each in members) - last
        return max(arrivals) + behind * factors.get(self.site[members[0]], 1.0)

    def _waited(self, at: int) -> bool:
        return self.end[at] - self.begin[at] > _PASSED


def replay_of(judged: KernelAnalysis, cta: int) -> Replay:
    """The replay of a CTA, a row of `judged.ctas`; empty if its spans are not among those that are judged."""
    spans = judged.spans
    first, last = np.searchsorted(spans.cta, [cta, cta + 1])
    slices = slices_of(judged, np.arange(first, last))
    in_time = np.lexsort((slices[2], slices[1], slices[3]))
    sites, begins, ends, warps, rows = (each[in_time] for each in slices)
    order = np.lexsort((begins, ends))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    before = np.full(len(order), -1)
    same = warps[1:] == warps[:-1]
    before[1:][same] = place[:-1][same]
    of_row = {int(row): int(at) for row, at in zip(rows, place, strict=True) if row >= 0}
    met = meetings_of(judged, int(first), int(last))
    meeting = [met.get(int(rows[each]), -1) for each in order]
    origin = int(begins.min()) if len(begins) else 0
    before_in_order = [int(before[each]) for each in order]
    return Replay(
        site=[int(each) for each in sites[order]],
        begin=[int(each) - origin for each in begins[order]],
        end=[int(each) - origin for each in ends[order]],
        before=before_in_order,
        meeting=meeting,
        works=_works(judged, int(first), int(last), of_row),
    )


def slices_of(judged: KernelAnalysis, rows: Ints) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """site, begin, end, warp and span (-1: the own time of a span with others inside) of the slices of some
    spans, in no order. rows: of `judged.spans`, in order, whole warps.

    A span with none inside is a slice. So is what lies before each span inside of another one, from the end
    of the one before it there or the begin of the one around, and what lies behind the last of them.
    """
    spans = judged.spans
    inside = rows[spans.parent[rows] >= 0]
    around = spans.parent[inside]
    order = np.argsort(around, kind="stable")  # those in one span, in order of time
    inside, around = inside[order], around[order]
    opens = np.ones(len(inside), np.bool_)
    opens[1:] = around[1:] != around[:-1]
    since = np.append(np.zeros(1, np.int64), spans.end[inside])[:-1]
    since = np.where(opens, spans.start[around], since)
    closes = np.append(opens[1:], np.ones(1, np.bool_))[: len(inside)]
    leaf = np.ones(len(spans), np.bool_)
    leaf[around] = False
    leaves = rows[leaf[rows]]
    own = np.concatenate([around, around[closes]])
    begin = np.concatenate([since, spans.end[inside[closes]]])
    end = np.concatenate([spans.start[inside], spans.end[around[closes]]])
    takes_time = end > begin
    own, begin, end = own[takes_time], begin[takes_time], end[takes_time]
    span = np.concatenate([leaves, own])
    return (
        spans.site[span],
        np.concatenate([spans.start[leaves], begin]),
        np.concatenate([spans.end[leaves], end]),
        spans.warp[span],
        np.concatenate([leaves, np.full(len(own), -1)]),
    )


def _works(
    judged: KernelAnalysis, first: int, last: int, of_row: Mapping[int, int]
) -> dict[int, list[tuple[int, int]]]:
    """By slice of a wait, what it ended: the slice that started it, and the site of that start."""
    if first == last:
        return {}
    spans, df = judged.spans, judged.tables.df
    begin, end = int(spans.row[first]), int(spans.row[last - 1]) + 1
    wait, parent = df["wait"].to_numpy()[begin:end], df["parent"].to_numpy()[begin:end]
    slice_of = {int(spans.row[row]): at for row, at in of_row.items()}
    result: dict[int, list[tuple[int, int]]] = {}
    for at in np.flatnonzero(wait >= 0):
        ended, started = slice_of.get(int(wait[at])), slice_of.get(int(parent[at]))
        if ended is not None and started is not None:
            start = int(np.searchsorted(spans.row, parent[at]))
            result.setdefault(ended, []).append((started, int(spans.site[start])))
    return result
