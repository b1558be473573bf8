"""The timing of a block, step by step, and the order in which its instructions are issued.

A GPU does not run PTX: the assembler issues loads early, and fills waits with independent instructions. So
does this, by list scheduling. Among instructions with ready operands, loads go first, while there are
registers for their data, then the inputs of loads, then the others, each in the order of the PTX. Operands
come before an instruction. Accesses to one memory keep their order if one writes, and so do tensor cores,
exchanges between lanes and loads of shared memory among each other. Nothing passes a fence, or a clock that
the kernel itself reads.

Instructions that only serve records do not count: a recorded kernel is issued in the order of the bare one.
Clocks of records keep their order and place: an access that goes early goes before the clock.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, NamedTuple

from profscope.emulator.costs import Cost, Stalls, Use
from profscope.emulator.opcodes.table import Form
from profscope.emulator.translation.graph import Block

__all__ = [
    "FENCE",
    "BlockSteps",
    "Issue",
    "Tick",
    "Touches",
    "in_order",
    "register_budget",
    "touches",
]


class Touches(NamedTuple):
    """The memories that an instruction reads and writes, by state space. is_fence: no other instruction may
    be issued on its other side."""

    read: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()
    is_fence: bool = False

    @property
    def any(self) -> bool:
        return bool(self.read or self.written)


_NOTHING: Final = Touches()
FENCE: Final = Touches(is_fence=True)
_GLOBAL, _SHARED, _LOCAL = (frozenset([space]) for space in ("global", "shared", "local"))
_EVERYWHERE: Final = _GLOBAL | _SHARED | _LOCAL
_SPACES: Final = {
    "global": _GLOBAL, "shared": _SHARED, "local": _LOCAL, "param": frozenset[str](),
    "const": frozenset[str](), "": _EVERYWHERE,
}  # fmt: skip
_ORDERED: Final = ("volatile", "acquire", "release", "acq_rel", "mmio")


def touches(form: Form, cost: Cost) -> Touches:
    """The memory that an instruction touches, as written."""
    if cost in (Cost.WAIT, Cost.CONTROL, Cost.CALL):
        return FENCE
    where = _SPACES[form.pick("global", "shared", "local", "param", "const")]
    if form.name in ("ld", "ldu", "st") and form.pick(*_ORDERED):
        return Touches(_EVERYWHERE, _EVERYWHERE)
    match form.name:
        case "ld" | "ldu":
            return Touches(read=where)
        case "ldmatrix":
            return Touches(read=_SHARED)
        case "st":
            return Touches(written=where)
        case "atom" | "red":
            return Touches(_EVERYWHERE, _EVERYWHERE)
        case "cp.async":
            return Touches(read=_GLOBAL, written=_SHARED)
    return _NOTHING


@dataclass(frozen=True, eq=False)
class Issue:
    """An instruction. number: among those that are counted, -1 if it only serves records. unit: of those that
    issue in the order of the PTX, "" for others. clocks: numbers of the times at which it reads a clock."""

    number: int
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    issue: int
    latency: int
    use: Use
    stalls: Stalls
    touches: Touches
    unit: str
    clocks: list[int] = field(default_factory=list)

    @property
    def is_fence(self) -> bool:
        """Whether nothing may be issued on its other side: so it is with clocks that the kernel reads."""
        return self.touches.is_fence or (self.number >= 0 and bool(self.clocks))

    @property
    def is_load(self) -> bool:
        return bool(self.touches.read and self.writes) and not self.touches.written

    @property
    def is_mark(self) -> bool:
        """Whether spans are about it: accesses to memory, tensor cores, exchanges between lanes."""
        return self.touches.any or bool(self.unit)


@dataclass(frozen=True, eq=False)
class Tick:
    """Clocks are brought up to date, at the time of this number. needed: registers that must be there."""

    time: int
    needed: tuple[str, ...] = ()


@dataclass(frozen=True)
class BlockSteps:
    """`predicate` is that of the first instruction, as in `SyncPoint`. One that `is_cut` is followed by a
    block that goes on in the middle of things."""

    block: Block
    steps: Sequence[Issue | Tick]
    predicate: tuple[int, bool] | None
    is_cut: bool


_REGISTERS: Final = 65536  # of an SM
_MOST_REGISTERS: Final = 255  # of a thread

Width = Callable[[str], int]
"""How many registers of 32 bits hold a register of PTX."""


def register_budget(threads: int) -> int:
    """The registers of a thread, of so many in a CTA (0: not known)."""
    return min(_MOST_REGISTERS, _REGISTERS // max(threads, 1))


def in_order(
    steps: Sequence[Issue | Tick], needed_after: Iterable[str], width: Width, budget: int
) -> list[Issue | Tick]:
    """The steps of a block in the order in which they are issued.

    needed_after: registers that are read behind them. budget: registers of a thread. If records wait for the
    kernel's data (`measure="latency"`), the order is that of the PTX.
    """
    if any(isinstance(step, Issue) and step.number < 0 and step.is_fence for step in steps):
        return list(steps)
    needed = set(needed_after)
    groups: list[Sequence[Issue | Tick]] = []
    for is_fence, group in reversed([(key, list(group)) for key, group in groupby(steps, key=_is_fence)]):
        issues = [step for step in group if isinstance(step, Issue)]
        groups.append(group if is_fence else _between_fences(issues, needed, width, budget))
        for step in reversed(issues):
            needed = (needed - set(step.writes)) | set(step.reads)
    return [step for group in reversed(groups) for step in group]


def _is_fence(step: Issue | Tick) -> bool:
    return isinstance(step, Tick) or step.is_fence


def _between_fences(steps: Sequence[Issue], needed: set[str], width: Width, budget: int) -> list[Issue]:
    own = [step for step in steps if step.number >= 0]
    dependencies = _Dependencies(own)
    registers = _Registers(own, dependencies.values, needed, width)
    order = [own[at] for at in _list_schedule(own, dependencies, registers, budget)]
    return order if len(own) == len(steps) else _with_records(steps, order)


class _Dependencies:
    """What must come before what, of instructions by number.

    successors: of each, those that depend on it, and the cycles from its issue to theirs. values: of each,
    what it reads: the number of the instruction that writes it, or the name of a register from before.
    """

    def __init__(self, steps: Sequence[Issue]) -> None:
        self.steps = steps
        self.successors: list[dict[int, int]] = [{} for _ in steps]
        self.values: list[set[int | str]] = []
        self._data()
        self._memory()
        self._loads()

    def after(self, first: int, second: int, cycles: int | None = None) -> None:
        if first != second:
            cycles = self.steps[first].issue if cycles is None else cycles
            self.successors[first][second] = max(self.successors[first].get(second, 0), cycles)

    def _data(self) -> None:
        writer: dict[str, int] = {}
        readers: dict[str, list[int]] = {}
        for at, step in enumerate(self.steps):
            self.values.append({writer.get(name, name) for name in step.reads})
            for first in self.values[at]:
                if isinstance(first, int):
                    self.after(first, at, max(self.steps[first].latency, self.steps[first].issue))
            for name in step.reads:
                readers.setdefault(name, []).append(at)
            for name in step.writes:
                for first in readers.pop(name, []):
                    self.after(first, at)
                if name in writer:
                    self.after(writer[name], at)
                writer[name] = at

    def _memory(self) -> None:
        stored: dict[str, int] = {}
        loaded: dict[str, list[int]] = {}
        for at, (read, written, _) in enumerate(step.touches for step in self.steps):
            for space in read | written:
                if space in stored:
                    self.after(stored[space], at)
            for space in read:
                loaded.setdefault(space, []).append(at)
            for space in written:
                for first in loaded.pop(space, []):
                    self.after(first, at)
                stored[space] = at

    def _loads(self) -> None:
        """Loads whose addresses take arithmetic alone keep their order."""
        late = set[int | str]()
        before: int | None = None
        for at, step in enumerate(self.steps):
            is_late = not late.isdisjoint(self.values[at])
            if is_late or step.is_mark:
                late.add(at)
            if step.is_load and not is_late:
                if before is not None:
                    self.after(before, at)
                before = at


class _Registers:
    """How many registers are in use as instructions are issued. needed: those that are read behind all."""

    def __init__(
        self, steps: Sequence[Issue], values: Sequence[set[int | str]], needed: set[str], width: Width
    ) -> None:
        self.steps = steps
        self.values = values
        self.width = width
        writer = {name: at for at, step in enumerate(steps) for name in step.writes}
        self.uses = Counter(value for each in values for value in each)
        self.uses.update(writer.get(name, name) for name in needed)
        self.in_use = sum(width(value) for value in self.uses if isinstance(value, str))

    def issue(self, at: int) -> None:
        if self.uses[at]:
            self.in_use += self._room(at)
        for value in self.values[at]:
            self.uses[value] -= 1
            if not self.uses[value]:
                self.in_use -= self._room(value)

    def _room(self, value: int | str) -> int:
        if isinstance(value, str):
            return self.width(value)
        return sum(map(self.width, self.steps[value].writes))


def _list_schedule(
    steps: Sequence[Issue], dependencies: _Dependencies, registers: _Registers, budget: int
) -> list[int]:
    """The numbers of instructions in the order of their issue. Without registers, loads wait while there is
    anything else to issue."""
    ranks = _ranks(steps, dependencies.values)
    missing = Counter(later for successors in dependencies.successors for later in successors)
    runs = _Runs(steps)
    ready = [0] * len(steps)
    coming = [(0, at) for at in range(len(steps)) if not missing[at] and runs.may_come(at)]
    heapq.heapify(coming)
    now: tuple[list[int], ...] = ([], [], [])  # of each rank, what can be issued
    order: list[int] = []
    time = 0
    while len(order) < len(steps):
        while coming and coming[0][0] <= time:
            _, at = heapq.heappop(coming)
            heapq.heappush(now[ranks[at]], at)
        has_room = registers.in_use < budget or not (coming or now[_OTHER])
        queue = next((queue for queue in (now if has_room else now[_OTHER:]) if queue), None)
        if queue is None:
            time = coming[0][0]
            continue
        at = heapq.heappop(queue)
        order.append(at)
        registers.issue(at)
        for later, cycles in dependencies.successors[at].items():
            ready[later] = max(ready[later], time + cycles)
            missing[later] -= 1
        time += steps[at].issue
        freed = [
            later for later in dependencies.successors[at] if not missing[later] and runs.may_come(later)
        ]
        for later in (*freed, *runs.issue(at)):
            heapq.heappush(coming, (max(ready[later], time), later))
    return order


_LOAD, _FOR_LOAD, _OTHER = range(3)


def _ranks(steps: Sequence[Issue], values: Sequence[set[int | str]]) -> list[int]:
    """What goes first: loads, then what loads need."""
    ranks = [_LOAD if step.is_load else _OTHER for step in steps]
    for at in reversed(range(len(steps))):
        if ranks[at] != _OTHER:
            for value in values[at]:
                if isinstance(value, int) and ranks[value] == _OTHER:
                    ranks[value] = _FOR_LOAD
    return ranks


class _Runs:
    """Instructions of one unit with none of another unit between them in the PTX are a run. A run comes when
    the one before it has been issued."""

    def __init__(self, steps: Sequence[Issue]) -> None:
        self.of: dict[int, int] = {}
        unit = ""
        run = 0
        for at, step in enumerate(steps):
            if step.unit:
                run += step.unit != unit
                unit = step.unit
                self.of[at] = run
        self.left = Counter(self.of.values())
        self.held: dict[int, list[int]] = {}

    def may_come(self, at: int) -> bool:
        """Whether an instruction whose operands come may be issued; if not, it is held back."""
        run = self.of.get(at, 0)
        if not self.left[run - 1]:
            return True
        self.held.setdefault(run, []).append(at)
        return False

    def issue(self, at: int) -> list[int]:
        """Those that need not be held back any longer."""
        run = self.of.get(at)
        if run is None:
            return []
        self.left[run] -= 1
        return [] if self.left[run] else self.held.pop(run + 1, [])


def _with_records(steps: Sequence[Issue], order: Sequence[Issue]) -> list[Issue]:
    """The kernel's own instructions in their order, and among them those that serve records.

    steps: all, in the order of the PTX. A clock behind a mark (`Issue.is_mark`) is read when all marks up to
    there have been issued. Any other is read behind all that is before it, but before the marks that follow
    it up to the next clock.
    """
    place = {step: at for at, step in enumerate(order)}
    next_marks = _next_marks(steps, place)
    among: list[list[Issue]] = [[] for _ in range(len(order) + 1)]
    clock = mark = any_mark = latest = 0  # places behind the clocks, marks and instructions so far
    is_behind_mark = False
    writer: dict[str, int] = {}
    for step, next_mark in zip(steps, next_marks, strict=True):
        if step.number >= 0:
            at = place[step] + 1
            if step.is_mark:
                mark, any_mark = max(mark, at), max(any_mark, at)
            if step.use.slots:
                latest = max(latest, at)
                is_behind_mark = step.is_mark
        elif step.clocks:
            at = clock = max(clock, mark, 0 if is_behind_mark else min(latest, next_mark))
            mark, is_behind_mark = 0, False
            among[at].append(step)
        else:
            at = max([clock, any_mark, *(writer.get(name, 0) for name in step.reads)])
            among[at].append(step)
        writer |= dict.fromkeys(step.writes, at)
    return [step for at, records in enumerate(among) for step in (*records, *order[at : at + 1])]


def _next_marks(steps: Sequence[Issue], place: Mapping[Issue, int]) -> list[int]:
    """For each step, the first place of a mark that is between it and the next clock in the PTX."""
    nowhere = len(place)
    first = nowhere
    found = [nowhere] * len(steps)
    for number in reversed(range(len(steps))):
        step = steps[number]
        found[number] = first
        if step.number >= 0 and step.is_mark:
            first = min(first, place[step])
        elif step.number < 0 and step.clocks:
            first = nowhere
    return found
