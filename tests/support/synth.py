"""Programs made up by the tests, run record by record in plain Python as an instrumented kernel would run.

A program is a tree of nodes. `launch` lays the programs of a kernel out in a manifest, runs every warp of
every CTA, writes the words that the kernel would write, and keeps its own list of the spans that a decoder
must find: what happened, less what rings overwrote.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from instrument_passes.manifest import Column, Frame, Manifest, Section, Span, layout
from instrument_passes.records import CTA_HEADER, LAUNCH_HEADER, LaunchBits

__all__ = [
    "Branch",
    "Launch",
    "Loop",
    "Node",
    "Program",
    "Return",
    "Scope",
    "Seen",
    "Work",
    "launch",
    "launch_header",
    "write_headers",
]


# What programs are made of.


@dataclass(frozen=True)
class Work:
    """Code that is not recorded."""

    cycles: int


@dataclass(frozen=True)
class Scope:
    """A span around other nodes; with `on`, around one predicated op, which is on or off in turn."""

    body: tuple[Node, ...] = ()
    on: tuple[bool, ...] = ()


@dataclass(frozen=True)
class Loop:
    """A loop; `trips` are the trip counts of its executions in turn, over and over."""

    trips: tuple[int, ...]
    body: tuple[Node, ...]
    iterations: bool = True  # one span per iteration, where the loop has one
    span: bool = True


@dataclass(frozen=True)
class Branch:
    """scf.if; `taken` are its conditions in turn, over and over."""

    taken: tuple[bool, ...]
    then: tuple[Node, ...]
    otherwise: tuple[Node, ...] = ()


@dataclass(frozen=True)
class Return:
    """Leave the kernel early in the CTAs whose id `taken` picks; only at the top level of a program."""

    taken: tuple[bool, ...]


Node = Work | Scope | Loop | Branch | Return


@dataclass(frozen=True)
class Program:
    """A warp program: the kernel's body (group 0) or a partition of the `group`-th warp_specialize op.

    entries: how often a partition in a loop is entered; None for one that is in no loop.
    """

    body: tuple[Node, ...]
    warps: int = 1
    group: int = 0
    entries: int | None = None


class Seen(NamedTuple):
    """A span that a decoder must find, or found. `parent` is the whole span above it."""

    section: int
    span: int
    cta: int
    warp: int
    sm: int
    start: int
    end: int
    iteration: int
    depth: int
    parent: Seen | None


@dataclass(frozen=True)
class Launch:
    """A launch that was made up. buffer: uint8, the areas of the recorded CTAs. spans: those that a decoder
    must find; happened: these and what rings overwrote."""

    manifest: Manifest
    buffer: npt.NDArray[np.uint8]
    spans: list[Seen]
    happened: list[Seen]
    records: int
    dropped: int


# Laying a program out: which tick goes to which column of which frame.


@dataclass
class _Tick:
    """One clock read, shared by all records next to each other: spans that begin (True) or end, in order."""

    column: int
    records: list[tuple[int, bool]] = field(default_factory=list)


@dataclass
class _PredicateCode:
    on: tuple[bool, ...]
    column: int


@dataclass
class _LoopCode:
    frame: int
    trips: tuple[int, ...]
    code: list[_Code]
    count_column: int


@dataclass
class _BranchCode:
    taken: tuple[bool, ...]
    then: list[_Code]
    otherwise: list[_Code]
    counts: list[tuple[int, int]]  # (frame, column) of the loops in either side


@dataclass
class _ReturnCode:
    taken: tuple[bool, ...]
    tick: _Tick


_Code = _Tick | Work | _PredicateCode | _LoopCode | _BranchCode | _ReturnCode


@dataclass
class _FrameDraft:
    parent: int
    loop: int
    capacity: int
    columns: list[Column]


@dataclass
class _SpanDraft:
    kind: str
    parent: int
    frame: int
    begin: int = -1
    ends: list[int] = field(default_factory=list)
    ran: int = -1


class _Layout:
    """One program's frames, spans and code."""

    def __init__(self, program: Program, *, marked: bool) -> None:
        self.frames = [_FrameDraft(-1, -1, 1, [Column("section")] if marked else [])]
        self.spans: list[_SpanDraft] = []
        self.entries, self.home = program.entries, 0
        if program.entries is not None:
            self.home = 1
            self.frames[0].columns.append(Column("count", 1))
            self.frames.append(_FrameDraft(0, -1, 0, []))
        span, start = self._span("kernel", -1, self.home), self._tick(self.home)
        self._begin(start, span)
        body = self._block(program.body, self.home, span, start)
        self.code = [*body, _ReturnCode((True,), self._return_tick())]

    def _span(self, kind: str, parent: int, frame: int) -> int:
        self.spans.append(_SpanDraft(kind, parent, frame))
        return len(self.spans) - 1

    def _tick(self, frame: int) -> _Tick:
        self.frames[frame].columns.append(Column("clock"))
        return _Tick(len(self.frames[frame].columns) - 1)

    def _return_tick(self) -> _Tick:
        tick = self._tick(self.home)
        self._end(tick, 0)
        return tick

    def _block(
        self, nodes: Sequence[Node], frame: int, parent: int, first: _Tick | None = None
    ) -> list[_Code]:
        code: list[_Code] = [] if first is None else [first]
        shared = first  # the tick that further records share until other code comes

        def record() -> _Tick:
            nonlocal shared
            if shared is None:
                shared = self._tick(frame)
                code.append(shared)
            return shared

        def visit(nodes: Sequence[Node], parent: int) -> None:
            nonlocal shared
            for node in nodes:
                if isinstance(node, Scope):
                    span = self._span("op", parent, frame)
                    if node.on:
                        code.append(self._predicate(node.on, frame, span))
                    self._begin(record(), span)
                    visit(node.body, span)
                    self._end(record(), span)
                    continue
                if isinstance(node, Loop) and node.span:
                    span = self._span("loop", parent, frame)
                    self._begin(record(), span)
                    code.append(self._loop(node, frame, span))
                    shared = None
                    self._end(record(), span)
                    continue
                shared = None
                if isinstance(node, Loop):
                    code.append(self._loop(node, frame, parent))
                elif isinstance(node, Branch):
                    code.append(self._branch(node, frame, parent))
                elif isinstance(node, Return):
                    code.append(_ReturnCode(node.taken, self._return_tick()))
                else:
                    code.append(node)

        visit(nodes, parent)
        return code

    def _predicate(self, on: tuple[bool, ...], frame: int, span: int) -> _PredicateCode:
        self.spans[span].ran = len(self.frames[frame].columns)
        self.frames[frame].columns.append(Column("ran"))
        return _PredicateCode(on, self.spans[span].ran)

    def _begin(self, tick: _Tick, span: int) -> None:
        tick.records.append((span, True))
        self.spans[span].begin = tick.column

    def _end(self, tick: _Tick, span: int) -> None:
        tick.records.append((span, False))
        self.spans[span].ends.append(tick.column)

    def _loop(self, node: Loop, parent_frame: int, span: int) -> _LoopCode:
        frame = len(self.frames)
        # As the lowering does: no ring where the trip count is static and the loop runs once.
        static = parent_frame == 0 and len(set(node.trips)) == 1 and 0 < node.trips[0] <= 8
        self.frames.append(_FrameDraft(parent_frame, span, node.trips[0] if static else 0, []))
        above, first = span, None
        if node.iterations and node.span:
            above, first = self._span("iteration", span, frame), self._tick(frame)
            self._begin(first, above)
        code = self._block(node.body, frame, above, first)
        self.frames[parent_frame].columns.append(Column("count", frame))
        return _LoopCode(frame, node.trips, code, len(self.frames[parent_frame].columns) - 1)

    def _branch(self, node: Branch, frame: int, parent: int) -> _BranchCode:
        before = len(self.frames[frame].columns)
        sides = [self._block(nodes, frame, parent) for nodes in (node.then, node.otherwise)]
        added = enumerate(self.frames[frame].columns[before:], start=before)
        counts = [(column.frame, at) for at, column in added if column.kind == "count"]
        return _BranchCode(node.taken, *sides, counts)

    def section(self, name: str, warps: int) -> Section:
        frames = []
        for index, draft in enumerate(self.frames):
            width = len(draft.columns)
            pads = 0 if width in (1, 2) else -width % 4
            columns = (*draft.columns, *[Column("pad")] * pads) or (Column("pad"),)
            frames.append(Frame(index, draft.parent, columns, draft.capacity, loop=draft.loop))
        spans = tuple(
            Span(
                id=i,
                parent=s.parent,
                frame=s.frame,
                kind=s.kind,
                name=f"{s.kind} {i}",
                op="",
                file="made_up.py",
                line=i,
                begin=s.begin,
                ends=tuple(s.ends),
                ran=s.ran,
            )
            for i, s in enumerate(self.spans)
        )
        return Section(name, warps, tuple(frames), spans)


# Running it.


class _Returned(Exception):  # noqa: N818  control flow, not an error
    """An early return was taken."""


@dataclass
class _Event:
    """A span that began; `row` is the (frame, row number) that holds its begin."""

    span: int
    parent: _Event | None
    row: tuple[int, int]
    start: int
    iteration: int
    end: int = -1


class _Warp:
    """One warp running one program."""

    def __init__(
        self,
        plan: _Layout,
        section: Section,
        cta: int,
        clock: int,
        noise: random.Random,
        *,
        skip_zero: bool,
    ) -> None:
        self.plan = plan
        self.section = section
        self.cta = cta
        self.clock = clock
        self.noise = noise
        self.skip_zero = skip_zero
        self.rows: list[list[list[int]]] = [[] for _ in section.frames]  # by frame, every row ever written
        self.parents: list[list[int]] = [[] for _ in section.frames]  # by frame, the parent's row number
        self.open: list[_Event] = []
        self.events: list[_Event] = []
        self.runs: dict[int, int] = {}  # by id of a code object

    def run(self, marker: int) -> None:
        if self.plan.entries == 0:
            return
        self._new_row(0, -1)
        columns = self.section.frames[0].columns
        if columns and columns[0].kind == "section":
            self.rows[0][0][0] = marker
        for entry in range(self.plan.entries or 1):
            if self.plan.home:
                self._new_row(1, 0)
                self.rows[0][0][[c.kind for c in columns].index("count")] = entry + 1
            with contextlib.suppress(_Returned):
                self._code(self.plan.code, self.plan.home, entry if self.plan.home else -1)

    def _new_row(self, frame: int, parent_row: int) -> None:
        """A row of zeros, and for loops that may not run in it the counts so far."""
        columns = self.section.frames[frame].columns
        self.rows[frame].append([len(self.rows[c.frame]) if c.kind == "count" else 0 for c in columns])
        self.parents[frame].append(parent_row)

    def _turn(self, code: _LoopCode | _BranchCode | _PredicateCode) -> int:
        self.runs[id(code)] = self.runs.get(id(code), -1) + 1
        return self.runs[id(code)]

    def _code(self, code: Sequence[_Code], frame: int, iteration: int) -> None:
        row = self.rows[frame][-1]
        for step in code:
            if isinstance(step, Work):
                self.clock += step.cycles
            elif isinstance(step, _Tick):
                self._tick(step, row, frame, iteration)
            elif isinstance(step, _PredicateCode):
                row[step.column] = int(step.on[self._turn(step) % len(step.on)])
            elif isinstance(step, _ReturnCode):
                if step.taken[self.cta % len(step.taken)]:
                    self._tick(step.tick, row, frame, iteration)
                    raise _Returned
            elif isinstance(step, _LoopCode):
                parent_row = len(self.rows[frame]) - 1
                for trip in range(step.trips[self._turn(step) % len(step.trips)]):
                    self._new_row(step.frame, parent_row)
                    self._code(step.code, step.frame, trip)
                row[step.count_column] = len(self.rows[step.frame])
            else:
                taken = step.taken[self._turn(step) % len(step.taken)]
                self._code(step.then if taken else step.otherwise, frame, iteration)
                for child, column in step.counts:  # the side that did not run hands its counts on
                    row[column] = len(self.rows[child])

    def _tick(self, tick: _Tick, row: list[int], frame: int, iteration: int) -> None:
        self.clock += self.noise.randrange(1, 40)
        self.clock += self.skip_zero and self.clock % (1 << 32) == 0  # it would read as "did not run"
        row[tick.column] = self.clock % (1 << 32)
        for span, begins in tick.records:
            if not begins:
                self._close(span)
                continue
            if self.plan.spans[span].kind == "iteration" and self.open[-1].span == span:
                self._close(span)
            parent = self.open[-1] if self.open else None
            event = _Event(span, parent, (frame, len(self.rows[frame]) - 1), self.clock, iteration)
            self.events.append(event)
            self.open.append(event)

    def _close(self, span: int) -> None:
        while self.open[-1].span != span:  # an iteration ends where its loop does
            assert self.plan.spans[self.open[-1].span].kind == "iteration"
            self.open.pop().end = self.clock
        self.open.pop().end = self.clock

    def kept_rows(self, ring_log2: int) -> list[set[int]]:
        """By frame, the row numbers that a decoder can place.

        Those in the ring whose parent row it can place too, with the row before that one: it says where the
        parent's own rows begin.
        """
        kept: list[set[int]] = []
        for frame in self.section.frames:
            count = len(self.rows[frame.index])
            found = set(range(max(0, count - frame.rows(ring_log2)), count))
            if frame.parent >= 0:
                above = kept[frame.parent]
                parents = self.parents[frame.index]
                found = {
                    n for n in found if parents[n] in above and (parents[n] == 0 or parents[n] - 1 in above)
                }
            kept.append(found)
        return kept


def launch(
    programs: Sequence[Program],
    ctas: int = 1,
    *,
    ring_log2: int = 4,
    stride_log2: int = 0,
    start_clock: int = 1 << 40,
    seed: int = 0,
    skip_zero: bool = True,
) -> Launch:
    """Run a kernel of these warp programs; the first is its body.

    ctas: CTAs of the grid, of which every 2^stride_log2-th records. Clocks but for a constant follow from the
    programs and `seed`. skip_zero: no clock has a low half of 0.
    """
    noise = random.Random(seed)
    plans = [_Layout(program, marked=len(programs) > 1) for program in programs]
    drafts = [plan.section(f"s{i}", programs[i].warps) for i, plan in enumerate(plans)]
    first_warp = _first_warps(programs)
    warps = max(first + program.warps for first, program in zip(first_warp, programs, strict=True))
    sections, fixed, ring = layout(drafts, [program.group for program in programs])
    manifest = Manifest("made_up", "cuda:90", warps, fixed, ring, sections)
    areas = [launch_header(manifest, ctas, LaunchBits(stride_log2, ring_log2))]
    spans: list[Seen] = []
    happened: list[Seen] = []
    records, dropped = 0, 0
    for cta in range(0, ctas, 1 << stride_log2):
        sm = noise.randrange(132)
        area = np.zeros(manifest.cta_bytes(ring_log2), np.uint8)
        words = area.view("<u4")
        clocks: dict[int, int] = {}
        for index, (plan, section) in enumerate(zip(plans, sections, strict=True)):
            for warp in range(first_warp[index], first_warp[index] + section.warps):
                at = clocks.get(warp, start_clock + noise.randrange(-900, 900))
                ran = _Warp(plan, section, cta, at, noise, skip_zero=skip_zero)
                ran.run(index + 1)
                clocks[warp] = ran.clock
                base = (CTA_HEADER.itemsize + warp * manifest.segment_bytes(ring_log2)) // 4
                _store(ran, manifest, ring_log2, words[base:])
                kept = ran.kept_rows(ring_log2)
                spans += list(_seen(ran, index, cta, warp, sm, kept))
                happened += list(_seen(ran, index, cta, warp, sm, [set(range(len(r))) for r in ran.rows]))
                records += _records(ran, kept)
                dropped += _dropped(ran, kept)
        end = max(start_clock, *clocks.values()) + 5
        clock = start_clock, end
        ns = [cycle // 64 * 32 for cycle in clock]  # 2 GHz, 32 ns steps
        write_headers(area[: CTA_HEADER.itemsize].view(CTA_HEADER), cta, sm, clock, ns)
        areas.append(area)
        start_clock += noise.randrange(1_000_000)
    return Launch(manifest, np.concatenate(areas), spans, happened, records, dropped)


def _first_warps(programs: Sequence[Program]) -> list[int]:
    """Partitions of one warp_specialize op run side by side, after the warps of the body."""
    next_warp: dict[int, int] = {}
    found = []
    for program in programs:
        first = next_warp.get(program.group, programs[0].warps if program.group else 0)
        found.append(first)
        next_warp[program.group] = first + program.warps
    return found


def _store(warp: _Warp, manifest: Manifest, ring_log2: int, words: npt.NDArray[np.uint32]) -> None:
    for frame in warp.section.frames:
        start = manifest.start(frame, ring_log2) // 4
        for number, row in enumerate(warp.rows[frame.index]):
            at = start + number % frame.rows(ring_log2) * len(row)
            words[at : at + len(row)] = row


def _seen(warp: _Warp, section: int, cta: int, warp_id: int, sm: int, kept: list[set[int]]) -> Iterator[Seen]:
    made: dict[int, Seen] = {}
    for event in warp.events:
        frame, number = event.row
        ran = warp.section.spans[event.span].ran
        if number not in kept[frame] or (ran >= 0 and not warp.rows[frame][number][ran]):
            continue
        parent = None if event.parent is None else made[id(event.parent)]
        depth = 0 if parent is None else parent.depth + 1
        seen = Seen(
            section, event.span, cta, warp_id, sm, event.start, event.end, event.iteration, depth, parent
        )
        made[id(event)] = seen
        yield seen


def _records(warp: _Warp, kept: list[set[int]]) -> int:
    return sum(
        sum(
            word != 0 and column.kind == "clock"
            for word, column in zip(warp.rows[f.index][n], f.columns, strict=True)
        )
        for f in warp.section.frames
        for n in kept[f.index]
    )


def _dropped(warp: _Warp, kept: list[set[int]]) -> int:
    return sum(
        (len(warp.rows[f.index]) - len(kept[f.index])) * sum(column.kind == "clock" for column in f.columns)
        for f in warp.section.frames
    )


def launch_header(manifest: Manifest, ctas: int, bits: LaunchBits) -> npt.NDArray[np.uint8]:
    """The launch header of a grid along x, as bytes."""
    header = np.zeros(1, LAUNCH_HEADER)
    header["grid_x"], header["grid_y"] = ctas, 1
    header["digest"], header["launch_bits"] = manifest.digest, bits.encode()
    return header.view(np.uint8)


def write_headers(
    packed: npt.NDArray[np.void], cta: Any, sm: Any, clock: Sequence[Any], ns: Sequence[Any]
) -> None:
    """Write CTA headers, of CTA_HEADER dtype. cta, sm: ids; clock, ns: of the starts and of the ends; each an
    int, or an int64 array with one for each header."""
    packed["start_clock_low"], packed["end_clock"] = clock[0] & 0xFFFFFFFF, clock[1]
    packed["start_ns_low"], packed["start_ns_high"] = ns[0] & 0xFFFFFFFF, ns[0] >> 32 & 0xFFFF
    packed["end_globaltimer"] = ns[1]
    packed["cta"], packed["place"] = cta, sm
