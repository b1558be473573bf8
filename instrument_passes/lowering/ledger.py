"""Which numbers a warp program keeps in registers where sums are kept, and under which keys they flow.

Of every site the sum of its durations and, if wanted, the longest. How often it ran is kept only where that
is not implied: a body of a loop with constant bounds runs so often whenever what is around it runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from instrument_passes.analyses.walk import loop_body
from instrument_passes.dialect import BEGIN, PAYLOAD, record_id
from instrument_passes.ir import Block, Op, Region
from instrument_passes.ir.tokens import unquote
from instrument_passes.lowering.flights import Flight, Flights
from instrument_passes.lowering.flow import in_loop
from instrument_passes.lowering.numbers import WORDS
from instrument_passes.lowering.plan import Plan
from instrument_passes.lowering.trips import static_trips
from instrument_passes.manifest import Column

__all__ = ["InFlight", "Ledger", "Site"]


@dataclass(frozen=True, slots=True)
class Site:
    """Keys of what is kept of one span. count: of how often its block, or its op, ran, which the span did
    `times` each; None: `times` whenever the warp program ran. longest: None if it is not kept."""

    total: int
    longest: int | None
    count: int | None
    times: int


@dataclass(frozen=True, slots=True)
class InFlight:
    """Keys of what is kept of asynchronous work: the ends less the starts, and how much is under way."""

    total: int
    left: int


class Ledger:
    """Of one warp program. A key is the number of the column that the value is stored in.

    columns: of the one row. sites: by span. counts: by block that is counted, the key. ran: by block and
    predicate. iterations: by loop, the span on its iterations. last: by such a loop, the key of the
    clock at which the last iteration began, which is not stored. numbers: by payload, the keys of
    what is kept of it. in_flight: of asynchronous work.
    """

    def __init__(self, region: Region, plan: Plan, flights: Flights, *, marked: bool, longest: bool) -> None:
        self._plan = plan
        self._callers = {callee: call for call, callee in plan.calls.items()}
        self._longest = longest
        self.columns = [Column("section")] if marked else []
        self.sites: dict[int, Site] = {}
        self.counts: dict[Block, int] = {}
        self.ran: dict[tuple[Block | None, str], int] = {}
        self.iterations: dict[Op, int] = {}
        self.last: dict[Op, int] = {}
        self.numbers: dict[Op, range] = {}
        self.in_flight: dict[Flight, InFlight] = {}
        self._also: dict[int, list[int]] = {}  # by span, more keys that it changes
        entered_often = in_loop(region.parent)
        self._function(region, self._counted(region.entry) if entered_often else None, 1)
        for flight in flights.flights:
            self.in_flight[flight] = InFlight(self._new("flight"), self._new("left"))
        moved = [(span, [flight]) for span, flight in flights.started.items()]
        moved += [(span, [each.flight for each in landed]) for span, landed in flights.landed.items()]
        for span, moving in moved:
            for flight in moving:
                kept = self.in_flight[flight]
                self._also.setdefault(span, []).extend((kept.total, kept.left))

    @property
    def keys(self) -> list[int]:
        """Of all values that are stored, in order."""
        return [key for key, column in enumerate(self.columns) if column.kind != "section"]

    def below(self, op: Op) -> list[int]:
        """Keys of the values that are changed below a loop or call."""
        keys: dict[int, None] = {}
        if op in self.last:
            keys[self.last[op]] = None
        for begin in self._plan.begins(op):
            site = self.sites[record_id(begin)]
            keys |= dict.fromkeys(key for key in (site.total, site.longest) if key is not None)
            keys |= dict.fromkeys(self._also.get(record_id(begin), ()))
            if begin.operands:
                keys[self.ran[begin.parent, begin.operands[0]]] = None
        for block, key in self.counts.items():
            if self._is_below(block, op):
                keys[key] = None
        return list(keys)

    def _is_below(self, block: Block, op: Op) -> bool:
        at: Op | None = block.parent_op
        while at is not None and at is not op:
            at = self._callers.get(at, at.parent_op)
        return at is op

    def _new(self, kind: str) -> int:
        self.columns.append(Column(kind))
        return len(self.columns) - 1

    def _counted(self, block: Block) -> int | None:
        """The key that counts a block; None if nothing in it asks."""
        if not any(True for op in block.ops for _ in self._plan.begins(op)):
            return None
        self.counts[block] = self._new("times")
        return self.counts[block]

    def _function(self, region: Region, count: int | None, times: int) -> None:
        for block in region.blocks:
            if block is region.entry:
                self._block(block, count, times)
            else:
                self._block(block, self._counted(block), 1)

    def _block(self, block: Block, count: int | None, times: int) -> None:
        for op in block.ops:
            if op.name == BEGIN:
                self._site(op, block, count, times)
            elif op.name == PAYLOAD:
                self._payload(op)
            elif op in self._plan.loops:
                body, trips = loop_body(op), static_trips(op)
                if trips is None:
                    self._block(body, self._counted(body), 1)
                else:
                    self._block(body, count, times * trips)
            elif op.name == "scf.if":
                for region in op.regions:
                    self._block(region.entry, self._counted(region.entry), 1)
            elif op.name == "ttg.warp_specialize":
                self._block(op.regions[0].entry, count, times)
            elif op in self._plan.calls:
                self._function(self._plan.calls[op].regions[0], count, times)

    def _payload(self, op: Op) -> None:
        """What is wrong with it is said where it is lowered."""
        words = WORDS.get(next(iter(op.operand_types), ""), 0)
        name = unquote(op.attributes.get("name", ""))
        first = len(self.columns)
        for number in range(words):
            self.columns.append(Column("more" if number else op.operand_types[0], name=name))
        self.numbers[op] = range(first, len(self.columns))
        self._also.setdefault(record_id(op), []).extend(self.numbers[op])

    def _site(self, op: Op, block: Block, count: int | None, times: int) -> None:
        if op.operands:
            key = block, op.operands[0]
            if key not in self.ran:
                self.ran[key] = self._new("times")
            count, times = self.ran[key], 1
        total, longest = self._new("sum"), self._new("longest") if self._longest else None
        self.sites[record_id(op)] = Site(total, longest, count, times)
        if op.attributes.get("kind") == '"iteration"':
            self._iteration(op, block.parent_op)

    def _iteration(self, op: Op, loop: Op | None) -> None:
        """Its clock flows from one iteration to the next: there must be a loop, and one such span in it."""
        if loop is None or loop not in self._plan.loops:
            raise op.error("expected the span of an iteration in the body of a loop")
        if loop in self.iterations:
            raise op.error(f"span {self.iterations[loop]} is of the iterations of the same loop already")
        self.iterations[loop] = record_id(op)
        self.last[loop] = -1 - len(self.last)
