"""A made-up program laid out: which tick goes to which column of which frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from profscope.instrument_passes.manifest import Column, Frame, Section, Span
from tests.support.synth.nodes import Branch, Loop, Node, Program, Return, Scope, Work


@dataclass
class Tick:
    """One clock read, shared by all records next to each other: spans that begin (True) or end, in order."""

    column: int
    records: list[tuple[int, bool]] = field(default_factory=list)


@dataclass
class PredicateCode:
    on: tuple[bool, ...]
    column: int


@dataclass
class LoopCode:
    frame: int
    trips: tuple[int, ...]
    code: list[Code]
    count_column: int


@dataclass
class BranchCode:
    taken: tuple[bool, ...]
    then: list[Code]
    otherwise: list[Code]
    counts: list[tuple[int, int]]  # (frame, column) of the loops in either side


@dataclass
class ReturnCode:
    taken: tuple[bool, ...]
    tick: Tick


Code = Tick | Work | PredicateCode | LoopCode | BranchCode | ReturnCode


@dataclass
class FrameDraft:
    parent: int
    loop: int
    capacity: int
    columns: list[Column]


@dataclass
class SpanDraft:
    kind: str
    parent: int
    frame: int
    begin: int = -1
    ends: list[int] = field(default_factory=list)
    ran: int = -1


class Layout:
    """One program's frames, spans and code."""

    def __init__(self, program: Program, *, marked: bool) -> None:
        self.frames = [FrameDraft(-1, -1, 1, [Column("section")] if marked else [])]
        self.spans: list[SpanDraft] = []
        self.entries, self.home = program.entries, 0
        if program.entries is not None:
            self.home = 1
            self.frames[0].columns.append(Column("count", 1))
            self.frames.append(FrameDraft(0, -1, 0, []))
        span, start = self._span("kernel", -1, self.home), self._tick(self.home)
        self._begin(start, span)
        body = self._block(program.body, self.home, span, start)
        self.code = [*body, ReturnCode((True,), self._return_tick())]

    def _span(self, kind: str, parent: int, frame: int) -> int:
        self.spans.append(SpanDraft(kind, parent, frame))
        return len(self.spans) - 1

    def _tick(self, frame: int) -> Tick:
        self.frames[frame].columns.append(Column("clock"))
        return Tick(len(self.frames[frame].columns) - 1)

    def _return_tick(self) -> Tick:
        tick = self._tick(self.home)
        self._end(tick, 0)
        return tick

    def _block(self, nodes: Sequence[Node], frame: int, parent: int, first: Tick | None = None) -> list[Code]:
        code: list[Code] = [] if first is None else [first]
        shared = first  # the tick that further records share until other code comes

        def record() -> Tick:
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
                    code.append(ReturnCode(node.taken, self._return_tick()))
                else:
                    code.append(node)

        visit(nodes, parent)
        return code

    def _predicate(self, on: tuple[bool, ...], frame: int, span: int) -> PredicateCode:
        self.spans[span].ran = len(self.frames[frame].columns)
        self.frames[frame].columns.append(Column("ran"))
        return PredicateCode(on, self.spans[span].ran)

    def _begin(self, tick: Tick, span: int) -> None:
        tick.records.append((span, True))
        self.spans[span].begin = tick.column

    def _end(self, tick: Tick, span: int) -> None:
        tick.records.append((span, False))
        self.spans[span].ends.append(tick.column)

    def _loop(self, node: Loop, parent_frame: int, span: int) -> LoopCode:
        frame = len(self.frames)
        # As the lowering does: no ring where the trip count is static and the loop runs once.
        static = parent_frame == 0 and len(set(node.trips)) == 1 and 0 < node.trips[0] <= 8
        self.frames.append(FrameDraft(parent_frame, span, node.trips[0] if static else 0, []))
        above, first = span, None
        if node.iterations and node.span:
            above, first = self._span("iteration", span, frame), self._tick(frame)
            self._begin(first, above)
        code = self._block(node.body, frame, above, first)
        self.frames[parent_frame].columns.append(Column("count", frame))
        return LoopCode(frame, node.trips, code, len(self.frames[parent_frame].columns) - 1)

    def _branch(self, node: Branch, frame: int, parent: int) -> BranchCode:
        before = len(self.frames[frame].columns)
        sides = [self._block(nodes, frame, parent) for nodes in (node.then, node.otherwise)]
        added = enumerate(self.frames[frame].columns[before:], start=before)
        counts = [(column.frame, at) for at, column in added if column.kind == "count"]
        return BranchCode(node.taken, *sides, counts)

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
