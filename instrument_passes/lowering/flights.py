"""Where sums are kept: for how long asynchronous work was in flight, without a register for each stage.

The time that work was in flight adds up to the sum of the clocks at which it was found done, less the sum
of those at which it was started. So a site needs two registers: that difference, and how much is under way.
Hardware completes a channel's work in order (see `analyses/async_roles.py`). A wait that leaves the two
youngest groups leaves as many of a site's starts as these have, which the text tells if they are the same on
every path: so many are under way at most when it has returned, and what was more has ended. On an mbarrier
each wait ends one group, and all must be of one kind. Where the text does not tell, nothing is kept, and a
note says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from instrument_passes.analyses.walk import LOOPS, loop_body
from instrument_passes.dialect import attributes_of, record_id
from instrument_passes.ir import Block, Op, Region
from instrument_passes.lowering.flow import in_loop, in_order
from instrument_passes.lowering.plan import Plan

__all__ = ["IN_FLIGHT", "Flight", "Flights", "Landing", "find_flights"]

IN_FLIGHT: Final = " in flight"
"""What the name of a site in flight ends with, behind that of what starts it."""

_STARTS: Final = ("issue", "member")
_WAITS: Final = ("wait", "phase")
_MANY: Final = 1 << 16  # starts under way: more than can be told


@dataclass(eq=False)
class Flight:
    """Work that is started at one place of the source; the pipeliner may have copied it.

    name: as the table shows it. starts: ids of the spans that start it. most: how many of them are under way
    at most; 0 if that cannot be told.
    """

    name: str
    starts: list[int] = field(default_factory=list)
    most: int = 0


@dataclass(frozen=True)
class Landing:
    """What the end of a wait tells: of a flight all but `number` starts ended; with `each`, that many."""

    flight: Flight
    number: int
    each: bool


@dataclass
class Flights:
    """Of one warp program. started: by span that starts work. landed: by wait. notes: on what is not kept."""

    started: dict[int, Flight] = field(default_factory=dict)
    landed: dict[int, list[Landing]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def flights(self) -> list[Flight]:
        return list(dict.fromkeys(self.started.values()))


@dataclass(frozen=True)
class _Event:
    """A span on an op of a channel, as its begin record says. family: which flight, of a start."""

    span: int
    part: str
    pending: int
    predicate: str
    family: int


# How many starts of each family; None where paths disagree.
_Starts = Mapping[int, int] | None


@dataclass(frozen=True)
class _Queue:
    """A channel at one point. groups: youngest first, as many as any wait looks at. open: starts that are in
    no group yet, or, on barriers, those of the group that is being made. under_way: at most, by family."""

    groups: tuple[_Starts, ...] = ()
    open: _Starts = field(default_factory=dict)
    under_way: Mapping[int, int] = field(default_factory=dict)

    def joined(self, other: _Queue) -> _Queue:
        """What is known where one path or the other has been taken. Where one has made fewer groups, no more
        than those are under way, so that what the other says of older ones does no harm."""
        longer, shorter = sorted((self.groups, other.groups), key=len, reverse=True)
        groups = [one if one == two else None for one, two in zip(longer, shorter, strict=False)]
        families = self.under_way.keys() | other.under_way.keys()
        return _Queue(
            (*groups, *longer[len(shorter) :]),
            self.open if self.open == other.open else None,
            {f: max(self.under_way.get(f, 0), other.under_way.get(f, 0)) for f in families},
        )


def find_flights(regions: Sequence[Region], calls: Mapping[Op, Op]) -> list[Flights]:
    """The flights of every warp program of a kernel, whose records are not lowered yet."""
    plans = [Plan(region, calls) for region in regions]
    per_program = [_channels(region, plan) for region, plan in zip(regions, plans, strict=True)]
    found = []
    for region, plan, channels in zip(regions, plans, per_program, strict=True):
        flights = Flights()
        for channel, begins in channels.items():
            everywhere = [begin for other in per_program for begin in other.get(channel, ())]
            walk = _Walk(plan, begins)
            if len(everywhere) > len(begins) and _has_barrier(everywhere):  # queues are each warp's own
                if walk.starts and _is_paired(everywhere):
                    flights.notes.append(walk.note("other warps wait for it"))
            elif _is_paired(begins):
                walk.run(region, flights)
        found.append(flights)
    return found


def _channels(region: Region, plan: Plan) -> dict[int, list[Op]]:
    """The begin records of each channel, in program order."""
    channels: dict[int, list[Op]] = {}
    for block in region.blocks:
        for op in block.ops:
            for begin in plan.begins(op):
                if begin.attributes.get("part"):
                    channels.setdefault(attributes_of(begin).channel, []).append(begin)
    return channels


def _is_paired(begins: Sequence[Op]) -> bool:
    """Whether starts and waits are recorded, and what makes members a group."""
    parts = {attributes_of(begin).part for begin in begins}
    return bool(
        parts & set(_STARTS) and parts & set(_WAITS) and ("member" not in parts or parts & {"open", "close"})
    )


def _has_barrier(begins: Sequence[Op]) -> bool:
    return any(attributes_of(begin).part == "phase" for begin in begins)


class _Walk:
    """Follows one channel through one warp program."""

    def __init__(self, plan: Plan, begins: Sequence[Op]) -> None:
        self.plan = plan
        self.flights: dict[tuple[str, str], Flight] = {}
        self.events: dict[Op, _Event] = {}
        for begin in begins:
            said, span, family = attributes_of(begin), record_id(begin), -1
            if said.part in _STARTS:
                key = said.name, begin.loc_text
                flight = self.flights.setdefault(key, Flight(said.name))
                flight.starts.append(span)
                family = list(self.flights).index(key)
            self.events[begin] = _Event(span, said.part, said.pending, next(iter(begin.operands), ""), family)
        parts = {event.part for event in self.events.values()}
        self.closes, self.opens, self.phases = "close" in parts, "open" in parts, "phase" in parts
        self.depth = max((e.pending for e in self.events.values() if e.part == "wait"), default=0)
        self.left: dict[int, Mapping[int, int]] = {}  # by wait
        self.kinds: list[Mapping[int, int]] = []  # of groups on an mbarrier
        self.most: dict[int, int] = {}
        self.refused = ""

    @property
    def starts(self) -> list[Flight]:
        return list(self.flights.values())

    def note(self, why: str) -> str:
        names = ", ".join(dict.fromkeys(flight.name for flight in self.starts))
        return f"how long {names} was in flight is not kept with sums: {why}"

    def run(self, region: Region, into: Flights) -> None:
        self.fixpoint(region)
        if self.phases:  # what a wait ends is known now
            self.most = {}
            self.fixpoint(region)
        self.check_groups()
        if self.refused:
            into.notes.append(self.note(self.refused))
            return
        flights = self.starts
        for family, flight in enumerate(flights):
            most = self.most.get(family, 0)
            flight.most = most if most < _MANY else 0
            into.started |= dict.fromkeys(flight.starts, flight)
        for event in self.events.values():
            if event.part == "phase":
                (kind,) = self.kinds
                into.landed[event.span] = [Landing(flights[f], n, True) for f, n in kind.items()]
            elif event.part == "wait" and event.span in self.left:
                left = self.left[event.span]
                into.landed[event.span] = [Landing(f, left.get(n, 0), False) for n, f in enumerate(flights)]

    def fixpoint(self, region: Region) -> None:
        entry = _Queue(open=None if self.opens else {})
        while True:
            after = self.region(region, entry).joined(entry)
            if after == entry or self.refused or not in_loop(region.parent):
                return
            entry = _widened(entry, after)

    def check_groups(self) -> None:
        """A part of a group that is switched off alone would be counted as another group's."""
        if self.phases:
            if any(e.pending for e in self.events.values() if e.part == "phase"):
                self.refused = self.refused or "its first waits find free buffers"
            if len(self.kinds) != 1:
                self.refused = self.refused or "its groups differ"
        if (self.closes or not self.phases) and any(event.predicate for event in self.events.values()):
            self.refused = self.refused or "some of it is switched off at times"

    # The walk.

    def region(self, region: Region, queue: _Queue) -> _Queue:
        """A function or partition body; the state at its ends."""
        arrivals: dict[str | None, list[_Queue]] = {}
        ends: list[_Queue] = []
        for block in in_order(region):
            if block is not region.entry:
                queue = _all_joined(arrivals[block.label])
            queue = self.block(block, queue)
            terminator = block.terminator
            targets = terminator.successors if terminator is not None else ()
            for label, _ in targets:
                arrivals.setdefault(label, []).append(queue)
            if not targets:
                ends.append(queue)
        return _all_joined(ends)

    def block(self, block: Block, queue: _Queue) -> _Queue:
        predicate = None  # of the group that is being made on an mbarrier
        for op in block.ops:
            if op in self.events:
                event = self.events[op]
                if event.part == "open":
                    predicate = event.predicate
                elif self.opens and event.part == "member" and event.predicate != predicate:
                    self.refused = self.refused or "some of a group is switched off alone"
                queue = self.event(event, queue)
            elif op.regions or op in self.plan.calls:
                queue = self.below(op, self.apart(queue))
        return self.apart(queue)

    def below(self, op: Op, queue: _Queue) -> _Queue:
        """Ops with regions, and calls."""
        if op.name in LOOPS:
            rounds = 0
            while True:
                again = queue.joined(self.block(loop_body(op), queue))
                if again == queue or self.refused:
                    return queue
                rounds += 1
                queue = again if rounds <= self.depth + 2 else _widened(queue, again)
        if op.name == "scf.if":
            sides = [self.block(region.entry, queue) for region in op.regions]
            return _all_joined(sides if len(sides) == 2 else [*sides, queue])
        if op.name == "ttg.warp_specialize":
            return self.block(op.regions[0].entry, queue)
        if op in self.plan.calls:
            return self.region(self.plan.calls[op].regions[0], queue)
        return queue

    def event(self, event: _Event, queue: _Queue) -> _Queue:
        if event.part in _STARTS:
            queue = self.started(event, queue)
        elif event.part == "open":
            queue = replace(self.apart(queue), open={})
        elif event.part == "close":
            queue = replace(self.made(queue, queue.open), open={})
        elif event.part == "wait":
            queue = self.waited(event, queue)
        elif event.part == "phase":
            queue = self.phase(queue)
        return queue

    def started(self, event: _Event, queue: _Queue) -> _Queue:
        family = event.family
        under_way = {**queue.under_way, family: min(_MANY, queue.under_way.get(family, 0) + 1)}
        self.most[family] = max(self.most.get(family, 0), under_way[family])
        queue = replace(queue, under_way=under_way)
        if event.part == "issue":
            return self.made(queue, {family: 1})
        if queue.open is None and self.phases:
            self.refused = self.refused or "its groups are made on several paths"
        return replace(queue, open=_more(queue.open, family))

    def made(self, queue: _Queue, group: _Starts) -> _Queue:
        """One more group."""
        if self.phases and group not in self.kinds and group is not None:
            self.kinds.append(group)
        return replace(queue, groups=(group, *queue.groups)[: self.depth])

    def apart(self, queue: _Queue) -> _Queue:
        """Where control flow begins or ends: on an mbarrier no group goes on beyond it."""
        if not self.opens:
            if self.phases and queue.open:
                self.refused = self.refused or "its groups are made on several paths"
            return queue
        return replace(queue if queue.open is None else self.made(queue, queue.open), open=None)

    def waited(self, event: _Event, queue: _Queue) -> _Queue:
        left: dict[int, int] = {}
        for starts in (*queue.groups[: event.pending], *([queue.open] if self.closes else [])):
            if starts is None:
                self.refused = self.refused or "how much a wait leaves under way differs by path"
                return queue
            for family, number in starts.items():
                left[family] = left.get(family, 0) + number
        self.left[event.span] = left
        under_way = {f: min(number, left.get(f, 0)) for f, number in queue.under_way.items()}
        return replace(queue, under_way=under_way)

    def phase(self, queue: _Queue) -> _Queue:
        kind = self.kinds[0] if len(self.kinds) == 1 else {}
        under_way = {
            f: number if number == _MANY else max(0, number - kind.get(f, 0))
            for f, number in queue.under_way.items()
        }
        return replace(self.apart(queue), under_way=under_way)


def _more(starts: _Starts, family: int) -> _Starts:
    return None if starts is None else {**starts, family: starts.get(family, 0) + 1}


def _all_joined(queues: Sequence[_Queue]) -> _Queue:
    first, *others = queues
    for other in others:
        first = first.joined(other)
    return first


def _widened(before: _Queue, after: _Queue) -> _Queue:
    """What still grows has no bound."""
    under_way = {f: n if n == before.under_way.get(f) else _MANY for f, n in after.under_way.items()}
    return replace(after, under_way=under_way)
