"""A span table as Perfetto's track events, block by block: bytes at the speed of filling arrays.

Each row is a packet that begins a slice and one that ends it (docs/records.md). So is a mark, since
Perfetto takes an instant for the parent of what follows in the same nanosecond.
All packets are of one sequence, which starts afresh for every track: its clock counts from the packet
before, the track and the names are those said at the start. So a packet holds what is new and little else.

Fields of whole 32-bit words (`words`) make packets of few lengths, and the loop of a kernel
the same bytes again and again but for its durations, which is what gzip is good at.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise, starmap

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.analysis.spans.pieces import each_piece, whole_pieces
from profscope.analysis.spans.rows import begins_of_runs
from profscope.traces.perfetto.annotations import SEQUENCE, Part, TrackNames, annotations, kinds_of
from profscope.traces.perfetto.protobuf import (
    SHORT_BITS,
    Words,
    constant,
    fixed64,
    long_varint,
    padded_varint,
    short_varint,
    varint,
    word_table,
)
from profscope.traces.tracks import Tracks, stable_order

__all__ = ["Drawing", "EventPackets", "draw", "event_places", "nested_depth", "number_arrows"]

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
BLOCK_ROWS = 1 << 17
SLICE_BEGIN, SLICE_END = 1, 2
FLOW_BEGINS_TAG, FLOW_ENDS_TAG = 47 << 3 | 1, 48 << 3 | 1
"""Tags of TrackEvent.flow_ids and terminating_flow_ids, 64 bits each."""

TIMESTAMP = 8 << 3
"""The tag of TracePacket.timestamp."""

FLOW_WORDS = 3
SHORT_PACKET = 127
"""Bytes of a packet whose length takes one."""


# Begin and end events nest as the spans do, also those of no length, if they are drawn in this order: of
# a warp's track, spans in pre-order with the depth each is drawn at; of a lane, its intervals one by one.


@dataclass(frozen=True)
class Drawing:
    """The rows of a span table, track by track: those of `Tracks.table`, then the lanes.

    rows   the table's rows as they are drawn, shape (rows,)
    depth  how deep each of `rows` lies on its track; after a row comes one at most a level deeper
    first  where each track's rows begin in `rows`, and at the end their number, shape (tracks + 1,)
    """

    rows: Ints
    depth: Ints
    first: Ints


class EventPackets:
    """The packets of a span table's events, made block by block."""

    def __init__(
        self,
        df: pd.DataFrame,
        site: Ints,
        sites: pd.DataFrame,
        tracks: Tracks,
        drawing: Drawing,
    ) -> None:
        """`site` and `sites` are those of `profscope.analysis.spans.rows.sites`; the table has rows."""
        self._drawing, self._site = drawing, site
        self._start, self._duration = df["start_ns"].to_numpy(), df["duration_ns"].to_numpy()
        self._origin_ns = int(self._start.min())
        self._is_mark = (sites["kind"] == "mark").to_numpy()
        self._sites = _site_words(sites)
        self._annotations = annotations(df)
        self._names = TrackNames(sites, self._annotations, self._origin_ns)
        self._arrows = number_arrows(df, tracks, drawing)
        self._roots = np.flatnonzero(drawing.depth == 0)

    def cuts(self) -> list[tuple[int, int]]:
        """The drawn rows cut into blocks."""
        count = len(self._site)
        return list(pairwise([*range(0, count, BLOCK_ROWS), count]))

    def block(self, begin: int, end: int) -> bytes:
        """The packets of the drawn rows begin..end, in order.

        Of spans that are open at the begin only the ends are, of those open at the end only the begins.
        """
        drawing = self._drawing
        around = self._around(begin)
        drawn = np.concatenate([around, np.arange(begin, end)])
        rows, depth = drawing.rows[drawn], drawing.depth[drawn]
        at_begin, at_end = event_places(depth)
        times = np.empty(len(at_begin) + len(at_end), np.int64)
        times[at_begin] = self._start[rows]
        times[at_end] = self._end(rows)
        step = np.diff(times, prepend=0)
        # Without the begins, which come first, and the ends, which come last, of other blocks.
        at_begin, rows, depth = (of[len(around) :] for of in (at_begin, rows, depth))
        at_end = at_end[at_end < len(times) - (drawing.depth[end] if end < len(drawing.depth) else 0)]
        step[at_begin[0]] = times[at_begin[0]] - self._time_before(begin)
        first_rows, fresh = self._sections(begin, end)
        opening = at_begin[first_rows]
        step[opening[fresh]] = times[opening[fresh]] - self._origin_ns
        begins = self._begins(rows, depth == 0, step[at_begin])
        ends = _Events(step[at_end], np.full(len(at_end), SLICE_END), [])
        width = np.zeros(len(times), np.int64)
        width[at_begin], width[at_end] = begins.width, ends.width
        offset = np.cumsum(width) - width
        words = np.empty(int(width.sum()), "<u4")
        begins.fill(words, offset[at_begin])
        ends.fill(words, offset[at_end])
        data = words.data.cast("B")
        cuts = pairwise([*(4 * offset[opening]).tolist(), len(data)])
        tracks = np.searchsorted(drawing.first, begin + first_rows, "right").tolist()
        names = self._names.used(rows, self._site[rows], first_rows)
        sections = zip(tracks, fresh.tolist(), names, cuts, strict=True)
        return b"".join(
            piece
            for track, new, name, (at, to) in sections
            for piece in (self._names.start(track) if new else b"", name, data[at:to])
        )

    def _end(self, rows: Ints) -> Ints:
        lasts = np.where(self._is_mark[self._site[rows]], 0, self._duration[rows])
        end: Ints = self._start[rows] + lasts
        return end

    def _around(self, place: int) -> Ints:
        """The places of the spans that the one drawn at a place lies in, outermost first."""
        depth = self._drawing.depth
        root = int(self._roots[np.searchsorted(self._roots, place, "right") - 1])
        above = [np.flatnonzero(depth[root:place] == level)[-1] for level in range(depth[place])]
        return root + np.array(above, np.int64)

    def _time_before(self, place: int) -> int:
        """When the event before the begin of what is drawn at a place is."""
        if place == 0:
            return self._origin_ns
        rows, depth = self._drawing.rows, self._drawing.depth
        if depth[place] > depth[place - 1]:
            return int(self._start[rows[place - 1]])
        root = self._roots[np.searchsorted(self._roots, place) - 1]
        sibling = root + np.flatnonzero(depth[root:place] == depth[place])[-1]
        return int(self._end(rows[sibling : sibling + 1])[0])

    def _begins(self, rows: Ints, roots: Flags, step: Ints) -> "_Events":
        site, everywhere = self._site[rows], np.ones(len(rows), np.bool_)
        parts = [
            Part(everywhere, self._sites.shape[1], lambda at: iter(self._sites.take(site[at], axis=0).T))
        ]
        if self._arrows is not None:
            begins, wait = self._arrows.begins[rows].astype(np.int64), self._arrows.wait[rows]
            first = self._arrows.first[wait]
            count = self._arrows.first[wait + 1] - first
            parts.append(Part(begins > 0, FLOW_WORDS, lambda at: _flow(FLOW_BEGINS_TAG, begins[at])))
            for most in np.unique(count[count > 0]).tolist():
                parts.append(Part(count == most, FLOW_WORDS * most, partial(self._flow_ends, first, most)))
        parts += [one.part(rows, roots) for one in self._annotations]
        return _Events(step, np.full(len(rows), SLICE_BEGIN), parts)

    def _flow_ends(self, first: Ints, count: int, at: Ints) -> Iterator[Words | int]:
        assert self._arrows is not None
        for number in range(count):
            yield from _flow(FLOW_ENDS_TAG, self._arrows.ends[first[at] + number])

    def _sections(self, begin: int, end: int) -> tuple[Ints, Flags]:
        """Where in a block tracks begin or go on, and which of them begin."""
        first = self._drawing.first
        inside = np.unique(first[np.searchsorted(first, begin, "right") : np.searchsorted(first, end)])
        opening = np.concatenate([[begin], inside])
        return opening - begin, np.isin(opening, first)


class _Events:
    """Packets of events that begin alike and go on as their `parts` say."""

    def __init__(self, step: Ints, kind: Ints, parts: list[Part]) -> None:
        """`step` is the time since the event before, in ns."""
        far = (step < 0) | (step >= 1 << SHORT_BITS)
        number = kind * 2 + far
        for part in parts:
            number = number * 2 + part.has
            if len(number) and int(number.max()) >= 1 << 16:
                number = np.unique(number, return_inverse=True)[1]
        self._step, self._groups = step, []
        self.width = np.empty(len(step), np.int64)
        for value in np.flatnonzero(np.bincount(number)).tolist():
            at = np.flatnonzero(number == value)
            mine = [part for part in parts if part.has[at[0]]]
            words = sum(part.width for part in mine)
            header = _Header(int(kind[at[0]]), 4 * words, bool(far[at[0]]))
            self.width[at] = header.width + words
            self._groups.append((at, header, mine))

    def fill(self, words: Words, offset: Ints) -> None:
        """Write the packets; event by event, `offset` says where."""
        for at, header, parts in self._groups:
            to = offset[at]
            own = (column for part in parts for column in part.words(at))
            for column in chain(header.before(), own, header.after(self._step[at])):
                words[to] = column
                to += 1


class _Header:
    """What packets of a form have before and after what is their own: lengths, sequence, kind of event, time.

    The fields of a TracePacket may come in any order.
    """

    def __init__(self, kind: int, own_bytes: int, far: bool) -> None:
        """far: the time needs more than `SHORT_BITS`."""
        event_bytes = 2 + own_bytes
        packet_bytes = 2 + 2 + event_bytes + 4
        self._far = far or packet_bytes > SHORT_PACKET
        if self._far:
            event_bytes = 4 + own_bytes
            packet_bytes = 4 + 8 + event_bytes + 12
            self._before = b"\x0a" + padded_varint(packet_bytes, 7) + b"\x50" + padded_varint(SEQUENCE, 3)
            self._before += b"\x5a" + padded_varint(event_bytes, 7) + b"\x48" + padded_varint(kind, 3)
        else:
            self._before = bytes([0x0A, packet_bytes, 0x50, SEQUENCE, 0x5A, event_bytes, 0x48, kind])
        self.width = len(self._before) // 4 + (3 if self._far else 1)

    def before(self) -> Iterator[int]:
        return constant(self._before)

    def after(self, step: Ints) -> Iterator[Words]:
        if self._far:
            yield from long_varint(TIMESTAMP, step)
        else:
            yield short_varint(TIMESTAMP, step)


def event_places(depth: Ints) -> tuple[Ints, Ints]:
    """Where spans begin and end among the events of a track: a span ends after all that lies in it.

    `depth` is that of spans in pre-order, at most one more than the depth before.
    """
    count = len(depth)
    number = np.arange(count)
    # Before a span's begin: all begins so far, and the ends of all but what is open.
    at_begin = 2 * number - depth
    after = np.empty(count, np.int64)
    for level in range(int(depth.max(initial=-1)), -1, -1):
        number = number[depth[number] <= level]
        here = depth[number] == level
        after[number[here]] = np.append(number[1:], count)[here]
    return at_begin, 2 * after - depth - 1


def _flow(tag: int, flow: Ints) -> Iterator[Words | int]:
    yield from constant(padded_varint(tag, 4))
    yield from fixed64(flow)


def _site_words(sites: pd.DataFrame) -> Words:
    """Each site's name, category and source location, as numbers of what is interned; shape (sites, width).

    All are numbered from 1, kinds as they first appear, names and locations as their sites. A site of no
    known file and line has no location.
    """
    few = len(sites) < 1 << 7
    kinds = kinds_of(sites)
    rows = []
    for iid, (kind, file, line) in enumerate(
        zip(sites["kind"], sites["file"], sites["line"], strict=True), 1
    ):
        category = kinds.index(kind) + 1
        name = b"\x50" + padded_varint(iid, 1 if few else 3) + b"\x18"
        if file or line:
            source = varint(34 << 3) + padded_varint(iid, 2 if few else 4)
            rows.append(name + padded_varint(category, 1) + source)
        else:
            rows.append(name + padded_varint(category, 5 if few else 7))
    return word_table(rows)


@dataclass(frozen=True)
class Arrows:
    """The flows of a span table.

    begins  the flow each row begins, 0 if none, shape (rows,)
    wait    the number of each row that ends flows, from 1, 0 if it ends none, shape (rows,)
    first   where the flows of each number begin in `ends`, shape (numbers + 1,)
    ends    the flows that rows end, row by row

    With few bits: memory that is new takes longer than what is done with it.
    """

    begins: NDArray[np.int32]
    wait: NDArray[np.int32]
    first: Ints
    ends: Ints


def number_arrows(df: pd.DataFrame, tracks: Tracks, drawing: Drawing) -> Arrows | None:
    """The arrows of a table; None where it has none.

    Arrows run forward in time: what did not begin before its wait has none, as with a consumer that waits
    before its producer has started the copy.
    """
    wait, start = df["wait"].to_numpy(), df["start_ns"].to_numpy()
    rows = drawing.rows[drawing.first[len(tracks.table)] :]  # lane by lane, in time
    by = wait[rows]
    rows = rows[(by >= 0) & (by < len(df))]
    rows = rows[start[rows] < start[wait[rows]]]
    if not len(rows):
        return None
    by, lane = wait[rows], tracks.async_lane[rows]
    early = np.flatnonzero((lane[1:] == lane[:-1]) & (start[rows[1:]] <= start[by[:-1]])) + 1
    lanes = int(lane.max()) + 1
    crowded = np.zeros(lanes, np.bool_)
    crowded[lane[early]] = True
    own = np.flatnonzero(crowded[lane])
    flow = lane + 1
    flow[own] = lanes + 1 + np.arange(len(own))
    begins, waits = np.zeros(len(df), np.int32), np.zeros(len(df), np.int32)
    begins[rows] = flow
    rows = np.flatnonzero(begins)  # as they stand in the table, nearly in the order of their waits
    by = wait[rows]
    order = np.argsort(by, kind="stable")
    by, ends = by[order], begins[rows[order]].astype(np.int64)
    first = begins_of_runs(by)
    waits[by[first]] = np.arange(1, len(first) + 1)
    return Arrows(begins, waits, np.concatenate([[0], first, [len(by)]]), ends)


def draw(df: pd.DataFrame, tracks: Tracks) -> Drawing:
    """Order a span table's rows by its tracks."""
    start, duration, depths = (df[name].to_numpy() for name in ("start_ns", "duration_ns", "depth"))
    is_mark = (df["kind"] == "mark").to_numpy()
    is_spread = np.zeros(len(tracks.first), np.bool_)
    is_spread[tracks.spread] = True
    begin, length = _run_by_run(tracks, start)

    def of_runs(part: slice) -> tuple[Ints, Ints, Ints, Ints]:
        """Of whole runs: the rows that are drawn on their tracks, depths, rows on lanes, rows by track."""
        rows = _rows_of(begin[part], length[part])
        on_lanes = tracks.async_lane[rows] >= 0
        in_lanes, rows = rows[on_lanes], rows[~on_lanes]
        run, depth = tracks.run[rows], depths[rows].astype(np.int64)
        starts, ends = start[rows], start[rows] + np.where(is_mark[rows], 0, duration[rows])
        deep = _runs_of_wrong_depth(run, depth, is_mark[rows])
        wrong = _runs_that_do_not_nest(run, depth, starts, ends)
        for stray in np.unique(np.concatenate([run[is_spread[run]], deep, wrong])).tolist():
            at = np.flatnonzero(run == stray)
            order = at[np.lexsort((-ends[at], starts[at]))]
            rows[at], depth[at] = rows[order], nested_depth(starts[order], ends[order])
        return rows, depth, in_lanes, np.bincount(tracks.track[run], minlength=len(tracks.table))

    found = each_piece(of_runs, _cut(tracks.run[begin], length))
    rows, depth, on_lanes, counts = zip(*found, strict=True)
    in_lanes = _lane_by_lane(np.concatenate(on_lanes), tracks.async_lane, start)
    by_lane = np.bincount(tracks.async_lane[in_lanes])
    return Drawing(
        np.concatenate([*rows, in_lanes]),
        np.concatenate([*depth, np.zeros(len(in_lanes), np.int64)]),
        np.cumsum(np.concatenate([[0], sum(counts), by_lane])).astype(np.int64),
    )


def _cut(run: Ints, length: Ints) -> list[slice]:
    """Stretches of rows, with their run and length, cut so that no run is in two pieces."""
    first = np.append(0, np.cumsum(length))  # of each stretch
    begins = begins_of_runs(run)
    cuts = [np.searchsorted(first, each.start) for each in whole_pieces(first[begins], int(first[-1]))]
    return list(starmap(slice, pairwise([*cuts, len(run)])))


def nested_depth(start: Ints, end: Ints) -> Ints:
    """How many spans of a lane each lies in; those are in order of their start, the longest first."""
    depth = np.zeros(len(start), np.int64)
    open_ends: list[int] = []
    for at, (begin, finish) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        while open_ends and open_ends[-1] <= begin:
            open_ends.pop()
        depth[at] = len(open_ends)
        open_ends.append(finish)
    return depth


def _run_by_run(tracks: Tracks, start: Ints) -> tuple[Ints, Ints]:
    """All rows in stretches of one run, ordered by their run's track, their run's start, and their number:
    where each begins, and its length."""
    rank = np.empty(len(tracks.first), np.int64)
    rank[np.lexsort((tracks.first, start[tracks.first], tracks.track))] = np.arange(len(rank))
    begin = begins_of_runs(tracks.run) if len(tracks.spread) else tracks.first
    length = np.diff(begin, append=len(tracks.run))
    order = np.lexsort((begin, rank[tracks.run[begin]]))
    return begin[order], length[order]


def _rows_of(begin: Ints, length: Ints) -> Ints:
    """Stretches of rows, one behind the other."""
    rows: Ints = np.arange(int(length.sum())) + np.repeat(begin - (np.cumsum(length) - length), length)
    return rows


def _lane_by_lane(rows: Ints, async_lane: Ints, start: Ints) -> Ints:
    """Async rows, ordered by lane and start."""
    lane = async_lane[rows]
    rows = rows[stable_order(lane)]
    lane, at = async_lane[rows], start[rows]
    if ((lane[1:] == lane[:-1]) & (at[1:] < at[:-1])).any():
        rows = rows[np.lexsort((at, lane))]
    return rows


def _runs_of_wrong_depth(run: Ints, depth: Ints, mark: Flags) -> Ints:
    """Of whole runs, those whose depth leaps or does not begin at 0, or that have something inside a mark."""
    limit = np.zeros(len(depth), np.int64)
    limit[1:] = np.where(run[1:] == run[:-1], depth[:-1] + ~mark[:-1], 0)
    return np.unique(run[depth > limit])


def _runs_that_do_not_nest(run: Ints, depth: Ints, start: Ints, end: Ints) -> Ints:
    """The runs with spans outside the ones they would be drawn in, as a selection of rows may have."""
    number, wrong = np.arange(len(depth)), []
    for level in range(int(depth.max(initial=0)), 0, -1):
        number = number[depth[number] <= level]
        here = depth[number] == level
        above = np.maximum.accumulate(np.where(depth[number] == level - 1, number, 0))[here]
        mine = number[here]
        outside = (start[mine] < start[above]) | (end[mine] > end[above])
        outside[1:] |= (above[1:] == above[:-1]) & (start[mine[1:]] < end[mine[:-1]])
        wrong.append(run[mine[outside]])
    return np.unique(np.concatenate(wrong)) if wrong else np.zeros(0, np.int64)
