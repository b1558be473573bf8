"""The spans of a warp from its rows, in program order: begin, end and parent.

A pattern holds places of words and no clocks, so that it serves every warp of the same shape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from profscope.decoding.rows import SectionRows
from profscope.instrument_passes.manifest import Frame, Section, Span

__all__ = ["FOR_ITERATION", "PAYLOAD_TYPES", "Lost", "Patterns", "Values", "find_patterns", "join"]

Ints = npt.NDArray[np.int64]
Small = npt.NDArray[np.int32]
Words = npt.NDArray[np.uint32]
Flags = npt.NDArray[np.bool_]

FOR_ITERATION: Final = "for_iteration"
"""The payload of ops in pipelined loops: which iteration of their loop they worked for."""
PAYLOAD_TYPES: Final = {"i32": np.dtype("<i4"), "f32": np.dtype("<f4")}


@dataclass(frozen=True)
class Values:
    """Values that spans carry as `name`, in order of pattern and span.

    kind: the column's in PAYLOAD_TYPES, or "" for numbers that the pattern itself knows. first: per pattern,
    its first entry here, and one more; span: position in the pattern. source: place of a word in the segment,
    or of kind "" the number.
    """

    name: str
    kind: str
    first: Ints
    span: Small
    source: Small


@dataclass(frozen=True)
class Patterns:
    """Patterns one after the other, each in program order (a span before those in it).

    sites: what `site` counts. first: per pattern, its first span here, and one more; site; begin, end: places
    of words in the segment; iteration; parent: position in the pattern, -1 at a root; depth. unmatched: per
    pattern, spans that have one of their two clocks. idle: spans for iterations that their loop did not have,
    positions here. lost: the rows that are gone.
    """

    sites: tuple[Span, ...]
    first: Ints
    site: Small
    begin: Small
    end: Small
    iteration: Small
    parent: Small
    depth: Small
    unmatched: Ints
    idle: Ints
    values: list[Values]
    lost: tuple[Lost, ...] = ()


@dataclass(frozen=True)
class Lost:
    """Rows of one frame that are gone; one entry for each row around them.

    around: index of the site in which the loop ran; before: of the first one whose spans its rows hold. span:
    position of the span around them among those of all patterns; at: that before which they would stand.
    """

    around: int
    before: int
    span: Ints
    at: Ints


@dataclass(frozen=True)
class _Site:
    """One span of the manifest, per row of its frame: whether it is one, and the place of its end's clock."""

    valid: Flags
    end: Small
    parent_row: Ints | None  # row of the parent span's frame; None where it is the same


def find_patterns(words: Words, section: Section, rows: SectionRows, *, lost: bool) -> Patterns:
    """A pattern for each of these warps; sites by their id in the section.

    words: segments, shape (warps, words); rows: those in them. lost: whether any ring of the launch has
    dropped rows so far.
    """
    return _Finder(words, section, rows).patterns(lost=lost)


def join(parts: Sequence[Patterns]) -> Patterns:
    """The patterns of all sections one after the other; none of them may have lost rows."""
    if len(parts) == 1:
        return parts[0]
    pattern_base = np.cumsum([0, *(len(part.first) - 1 for part in parts)])
    span_base = np.cumsum([0, *(len(part.site) for part in parts)])
    patterns = int(pattern_base[-1])
    site_bases = np.cumsum([0, *(len(part.sites) for part in parts)])[:-1]

    def joined(name: str, dtype: type, bases: Ints | None = None) -> npt.NDArray[Any]:
        columns = [getattr(part, name) for part in parts]
        if bases is not None:
            columns = [column + base for column, base in zip(columns, bases, strict=True)]
        return np.concatenate([np.zeros(0, dtype), *columns]).astype(dtype)

    return Patterns(
        sites=tuple(site for part in parts for site in part.sites),
        first=np.append(
            np.concatenate(
                [np.zeros(0, np.int64), *(p.first[:-1] + b for p, b in zip(parts, span_base, strict=False))]
            ),
            span_base[-1],
        ),
        site=joined("site", np.int32, site_bases),
        begin=joined("begin", np.int32),
        end=joined("end", np.int32),
        iteration=joined("iteration", np.int32),
        parent=joined("parent", np.int32),
        depth=joined("depth", np.int32),
        unmatched=joined("unmatched", np.int64),
        idle=joined("idle", np.int64, span_base[:-1]),
        values=[
            replace(
                values, first=np.pad(values.first, (base, patterns + 1 - base - len(values.first)), "edge")
            )
            for part, base in zip(parts, pattern_base, strict=False)
            for values in part.values
        ],
    )


def _values(name: str, kind: str, first: Ints, sources: list[tuple[Ints, Ints]]) -> Values:
    """sources: positions of spans, and for each where its value is (see `Values`). first: of the patterns."""
    at, source = (np.concatenate(arrays) for arrays in zip(*sources, strict=True))
    order = np.argsort(at, kind="stable")
    at, source = at[order], source[order]
    bounds = np.searchsorted(at, first)
    span = at - np.repeat(first[:-1], np.diff(bounds))
    return Values(name, kind, bounds, span.astype(np.int32), source.astype(np.int32))


class _Finder:
    def __init__(self, words: Words, section: Section, rows: SectionRows) -> None:
        self.flat = words.reshape(-1)
        self.warps = len(words)
        self.section = section
        self.rows = rows.frames
        self.unmatched = np.zeros(self.warps, np.int64)
        self.sites: dict[int, _Site] = {}

    def patterns(self, *, lost: bool) -> Patterns:
        for span in self.section.spans:
            self.sites[span.id] = self._site(span)
        first, place, entered = self._places()
        size = int(first[-1])
        site, begin, end, iteration, parent, depth = np.empty((6, size), np.int32)
        idle = [np.zeros(0, np.int64)]
        carried: dict[tuple[str, str], list[tuple[Ints, Ints]]] = {}
        for span in self.section.spans:
            mine, rows = self.sites[span.id], self.rows[span.frame]
            # Nearly always everything is valid, and then nothing is copied.
            where = slice(None) if mine.valid.all() else np.flatnonzero(mine.valid)
            at = (place[span.id] + first[rows.warp])[where]
            site[at] = span.id
            begin[at], end[at] = rows.place[where] + span.begin, mine.end[where]
            iteration[at] = rows.iteration[where]
            parent[at] = self._parent(span, mine, place)[where] if span.parent >= 0 else -1
            depth[at] = self._depth(span)
            for column in span.payloads:
                word = self.section.frames[span.frame].columns[column]
                source = rows.place[where].astype(np.int64) + column
                carried.setdefault((word.name, word.kind), []).append((at, source))
            worked_for = self._worked_for(span, lost=lost)
            if worked_for is not None:
                number, of_loop = worked_for[0][where], worked_for[1][where]
                carried.setdefault((FOR_ITERATION, ""), []).append((at, number))
                idle += [] if lost else [at[number >= of_loop]]
        return Patterns(
            self.section.spans, first, site, begin, end, iteration, parent, depth, self.unmatched,
            np.sort(np.concatenate(idle)),
            [_values(*key, first, sources) for key, sources in carried.items()],
            self._lost(first, place, entered),
        )  # fmt: skip

    def _site(self, span: Span) -> _Site:
        frame, rows = self.section.frames[span.frame], self.rows[span.frame]
        began = self._written(span.frame, span.begin)
        ended, end = self._end(span, frame)
        if span.ran >= 0:
            ran = self._written(span.frame, span.ran)
            began, ended = began & ran, ended & ran
        # Cut short; or, once in 2^32 clock reads, one of the two was 0 and looks as if its code had not run.
        self.unmatched += np.bincount(rows.warp[began != ended], minlength=self.warps)
        valid, above = began & ended, None
        if span.parent >= 0:
            valid_above = self.sites[span.parent].valid
            target = self.section.spans[span.parent].frame
            if target != span.frame:
                above = self._climb(rows.instance, frame.parent, target)
                valid_above = valid_above[above]
            valid &= valid_above
        return _Site(valid, end, above)

    def _places(self) -> tuple[Ints, dict[int, Ints], dict[int, tuple[int, Ints]]]:
        """Per warp its first span, and one more; per site and row a valid span's place in its pattern; per
        frame the first site in it, and for each row around it the place where its own rows begin."""
        frames = self.section.frames
        sizes = [np.zeros(len(rows.at), np.int64) for rows in self.rows]
        for span in self.section.spans:
            sizes[span.frame] += self.sites[span.id].valid
        for frame in reversed(frames):  # inner loops first
            if frame.parent >= 0:
                sizes[frame.parent] += self._per_instance(frame, sizes[frame.index])
        first = np.concatenate([[0], np.cumsum(sizes[0])])
        # Per frame and row, the place of the next span.
        cursors: dict[int, Ints] = {0: np.zeros(self.warps, np.int64)}
        place: dict[int, Ints] = {}
        entered: dict[int, tuple[int, Ints]] = {}

        def enter(frame: Frame, site: int) -> None:
            if frame.parent not in cursors:
                enter(frames[frame.parent], site)
            size, rows = sizes[frame.index], self.rows[frame.index]
            above = cursors[frame.parent]
            entered[frame.index] = site, above.copy()
            total = self._per_instance(frame, size)
            # Rows of an instance follow each other: what lies before them in it, and before it.
            before = np.cumsum(size) - size
            earlier = (np.cumsum(total) - total)[rows.instance]
            cursors[frame.index] = above[rows.instance] + before - earlier
            above += total

        for span in self.section.spans:  # in program order
            if span.frame not in cursors:
                enter(frames[span.frame], span.id)
            place[span.id] = cursors[span.frame].copy()
            cursors[span.frame] += self.sites[span.id].valid
        return first, place, entered

    def _lost(
        self, first: Ints, place: dict[int, Ints], entered: dict[int, tuple[int, Ints]]
    ) -> tuple[Lost, ...]:
        """Of every loop in a span the rows that are gone. The arguments are what `_places` returns."""
        lost = []
        for index, (site, at) in entered.items():
            frame, row = self.section.frames[index], self.rows[index].lost
            if frame.loop < 0 or not len(row):
                continue
            above = self._climb(row, frame.parent, self.section.spans[frame.loop].frame)
            there = self.sites[frame.loop].valid[above]
            row, above = row[there], above[there]
            origin = first[self.rows[frame.parent].warp[row]]
            lost.append(Lost(frame.loop, site, place[frame.loop][above] + origin, at[row] + origin))
        return tuple(lost)

    def _per_instance(self, frame: Frame, size: Ints) -> Ints:
        """Spans in the rows of a frame, summed for each row of the parent's frame."""
        bounds = np.searchsorted(
            self.rows[frame.index].instance, np.arange(len(self.rows[frame.parent].at) + 1)
        )
        return np.diff(np.concatenate([[0], np.cumsum(size)])[bounds])

    def _parent(self, span: Span, site: _Site, place: dict[int, Ints]) -> Ints:
        above = place[span.parent]
        return above if site.parent_row is None else above[site.parent_row]

    def _written(self, frame: int, column: int) -> Flags:
        written: Flags = self.flat[self.rows[frame].at + column] != 0
        return written

    def _end(self, span: Span, frame: Frame) -> tuple[Flags, Small]:
        """Where a span has ended, and the place of the clock that says when; per row of its frame."""
        if not span.ends:
            return self._end_of_iteration(span, frame)
        place = self.rows[frame.index].place
        ended, end = self._written(frame.index, span.ends[0]), place + np.int32(span.ends[0])
        for column in span.ends[1:]:
            end = np.where(ended, end, place + np.int32(column))
            ended = ended | self._written(frame.index, column)
        return ended, end

    def _end_of_iteration(self, span: Span, frame: Frame) -> tuple[Flags, Small]:
        """An iteration lasts until the next one of its loop begins; the last one until the loop ends."""
        rows = self.rows[frame.index]
        began, start = self._written(frame.index, span.begin), rows.place + np.int32(span.begin)
        loop_ended, loop_end = self._end(self.section.spans[frame.loop], self.section.frames[frame.parent])
        ended, end = loop_ended[rows.instance], loop_end[rows.instance]
        follows = rows.instance[1:] == rows.instance[:-1]
        np.copyto(end[:-1], start[1:], where=follows)
        np.copyto(ended[:-1], began[1:], where=follows)
        return ended, end

    def _worked_for(self, span: Span, *, lost: bool) -> tuple[Ints, Ints] | None:
        """Which iteration of a pipelined loop the op worked for, and how many there were; per row."""
        frames = {
            other.frame
            for other in self.section.spans
            if (other.stage, other.loop) == ("steady", span.loop)
            and (
                other.frame == span.frame
                or (span.stage != "steady" and self.section.frames[other.frame].parent == span.frame)
            )
        }
        if not span.stage or len(frames) != 1 or (span.stage == "epilogue" and (lost or span.ahead < 0)):
            return None
        rows = self.rows[span.frame]
        loop = self.rows[frames.pop()].instance
        # The loop's iterations, those behind it included; unless a ring has dropped some.
        iterations = np.bincount(loop, minlength=int(loop.max(initial=-1)) + 1) + span.peeled
        if span.stage == "steady":
            return rows.iteration + span.ahead, iterations[rows.instance]
        of_loop = np.full(len(rows.at), span.peeled, np.int64)
        of_loop[: len(iterations)] = iterations
        known = span.stage == "prologue"
        return np.full(len(rows.at), span.ahead) if known else of_loop - 1 - span.ahead, of_loop

    def _climb(self, row: Ints, frame: int, target: int) -> Ints:
        """For rows of a frame, the rows of a frame around it that they ran under."""
        while frame != target:
            row, frame = self.rows[frame].instance[row], self.section.frames[frame].parent
        return row

    def _depth(self, span: Span) -> int:
        return 0 if span.parent < 0 else 1 + self._depth(self.section.spans[span.parent])
