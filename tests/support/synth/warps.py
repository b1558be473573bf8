"""A warp that runs a made-up program, in plain Python, record by record."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Sequence
from dataclasses import dataclass

from profscope.instrument_passes.manifest import Section
from tests.support.synth.code import BranchCode, Code, Layout, LoopCode, PredicateCode, ReturnCode, Tick
from tests.support.synth.nodes import Work


class Returned(Exception):  # noqa: N818  control flow, not an error
    """An early return was taken."""


@dataclass
class Event:
    """A span that began; `row` is the (frame, row number) that holds its begin."""

    span: int
    parent: Event | None
    row: tuple[int, int]
    start: int
    iteration: int
    end: int = -1


class Warp:
    """One warp running one program."""

    def __init__(
        self,
        plan: Layout,
        section: Section,
        cta: int,
        clock: int,
        noise: random.Random,
    ) -> None:
        self.plan = plan
        self.section = section
        self.cta = cta
        self.clock = clock
        self.noise = noise
        self.rows: list[list[list[int]]] = [[] for _ in section.frames]  # by frame, every row ever written
        self.parents: list[list[int]] = [[] for _ in section.frames]  # by frame, the parent's row number
        self.open: list[Event] = []
        self.events: list[Event] = []
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
            with contextlib.suppress(Returned):
                self._code(self.plan.code, self.plan.home, entry if self.plan.home else -1)

    def _new_row(self, frame: int, parent_row: int) -> None:
        """A row of zeros, and for loops that may not run in it the counts so far."""
        columns = self.section.frames[frame].columns
        self.rows[frame].append([len(self.rows[c.frame]) if c.kind == "count" else 0 for c in columns])
        self.parents[frame].append(parent_row)

    def _turn(self, code: LoopCode | BranchCode | PredicateCode) -> int:
        self.runs[id(code)] = self.runs.get(id(code), -1) + 1
        return self.runs[id(code)]

    def _code(self, code: Sequence[Code], frame: int, iteration: int) -> None:
        row = self.rows[frame][-1]
        for step in code:
            if isinstance(step, Work):
                self.clock += step.cycles
            elif isinstance(step, Tick):
                self._tick(step, row, frame, iteration)
            elif isinstance(step, PredicateCode):
                row[step.column] = int(step.on[self._turn(step) % len(step.on)])
            elif isinstance(step, ReturnCode):
                if step.taken[self.cta % len(step.taken)]:
                    self._tick(step.tick, row, frame, iteration)
                    raise Returned
            elif isinstance(step, LoopCode):
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

    def _tick(self, tick: Tick, row: list[int], frame: int, iteration: int) -> None:
        self.clock += self.noise.randrange(1, 40)
        self.clock += self.clock % (1 << 32) == 0  # it would read as "did not run"
        row[tick.column] = self.clock % (1 << 32)
        for span, begins in tick.records:
            if not begins:
                self._close(span)
                continue
            if self.plan.spans[span].kind == "iteration" and self.open[-1].span == span:
                self._close(span)
            parent = self.open[-1] if self.open else None
            event = Event(span, parent, (frame, len(self.rows[frame]) - 1), self.clock, iteration)
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
