"""Replaces the records of one warp program by clock reads and sums in registers, stored once when it returns.

Where that is stored is found there, too: in front of the program stand only readings of two clocks.

What the ledger lists flows along the control flow as SSA values. A difference of two clocks is taken where
its block ends: taken at once, it would wait for the clock that was read last (attention 2.6 % slower, not
0.5 %).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from instrument_passes.dialect import BEGIN, END, is_record, record_id
from instrument_passes.ir import Block, Op, Region, edit
from instrument_passes.lowering.area import Area, Identity
from instrument_passes.lowering.builder import SectionBuilder, Tick
from instrument_passes.lowering.flow import ControlFlow, State, in_loop
from instrument_passes.lowering.in_flight import Moved, add_moved, land, start
from instrument_passes.lowering.ledger import Ledger
from instrument_passes.lowering.numbers import Number, add_number, checked_payload
from instrument_passes.lowering.plan import Plan
from instrument_passes.lowering.program import Program
from instrument_passes.lowering.prologue import allocate, find_area, find_segment, set_up
from instrument_passes.lowering.rows import RowWriter

__all__ = ["sum_kernel", "sum_partition"]


@dataclass(frozen=True)
class _Lasted:
    """A span that ended: names of the clocks, and of the i1 that tells whether it was one, "" if it was.

    follows: it began with the clock of an earlier iteration, which is zero where there was none.
    """

    span: int
    begin: str
    end: str
    ran: str = ""
    follows: bool = False


@dataclass(kw_only=True)
class _SumState(State):
    """State of a program that keeps sums; its values are those of the ledger.

    began, ran: by span, the name of its first clock, and of the predicate of those that have one. lasted:
    what is to be added up where the block ends. over: spans on iterations, each with the clock at which the
    last one began, which ends with the next clock. numbers: payloads, to be added up there too; moved:
    asynchronous work that was started or waited for.
    """

    began: dict[int, str] = field(default_factory=dict)
    ran: dict[int, str] = field(default_factory=dict)
    lasted: list[_Lasted] = field(default_factory=list)
    over: list[tuple[int, str]] = field(default_factory=list)
    numbers: list[Number] = field(default_factory=list)
    moved: list[Moved] = field(default_factory=list)


def sum_kernel(program: Program, section: SectionBuilder, area: Area) -> None:
    """The kernel's body: also allocates the buffer and writes the headers."""
    summer = _Summer(program, section, program.kernel.regions[0])
    if not program.marked:
        summer.weave_alone()
        return
    # Partitions are handed the area.
    buffer, identity = program.module.fresh("ps_buffer"), summer.identity
    header = program.target.header_start(
        program.module.fresh("ps_none"), identity.segment, identity.leads, area.cta, area.slot, area.flags,
        program.holes.digest(),
    )  # fmt: skip
    summer.weave(area, f"{allocate(buffer)}\n{summer.found(buffer, area)}", header)


def sum_partition(program: Program, section: SectionBuilder, area: Area, region: Region) -> None:
    """A warp-specialised partition; `area` was captured into it."""
    summer = _Summer(program, section, region)
    if not in_loop(region.parent):
        summer.weave(area)
        return
    # It is entered once per iteration, and nothing flows from one entry to the next but memory.
    kept = {key: program.module.fresh("ps_sum") for key in summer.ledger.keys}
    loads = [summer.rows.load(summer.frame, key, name) for key, name in kept.items()]
    summer.weave(area, after="\n".join(loads), kept=kept)


class _Summer:
    """Lowers the records of one section to sums (a `flow.Lowering`); appends to its builder."""

    def __init__(self, program: Program, section: SectionBuilder, region: Region) -> None:
        self.program = program
        self.module = program.module
        self.section = section
        self.region = region
        self.plan = Plan(region, program.calls)
        self.flights = program.flights[region]
        self.ledger = Ledger(region, self.plan, self.flights, marked=program.marked, longest=program.longest)
        self.frame = section.new_frame(-1, 1)
        self.frame.columns = list(self.ledger.columns)
        self.identity = Identity.fresh(self.module)
        self.zero = self.module.fresh("ps_zero")
        self.one = self.module.fresh("ps_one")
        self.marker = self.module.fresh("ps_section") if program.marked else ""
        self.rows = RowWriter(program, section.index, self.identity, self.zero)
        self.counted: set[tuple[Block | None, str]] = set()  # predicates, by block
        self.buffer = ""  # what the area is found in at the end; "" if it was at the start
        self.time, self.first = self.module.fresh("ps_time"), ""  # of the start; the first clock
        self.always = self.module.fresh("ps_always")

    def weave_alone(self) -> None:
        """Lower a kernel's body, which no partition needs the area of."""
        self.buffer = self.module.fresh("ps_buffer")
        first = next(op for op in self.region.entry.ops if not is_record(op))
        if first is self.region.entry.ops[0]:  # there is no clock read at the start
            self._clock(first)
        first.insert_before(
            "\n".join((self.program.target.time(self.time, self.always), allocate(self.buffer)))
        )
        self.region.entry.prepend(self._constants)
        self._flow(dict.fromkeys(self.ledger.keys, self.zero))

    @property
    def _constants(self) -> str:
        """Text for the start of a function."""
        numbers = f"{self.zero} = arith.constant 0 : i32\n{self.one} = arith.constant 1 : i32"
        return f"{numbers}\n{self.program.target.always(self.always)}"

    def found(self, buffer: str, area: Area) -> str:
        """Text that finds the area in the buffer."""
        program = self.program
        return find_area(
            self.module, program.target, area, buffer, program.holes, program.selection, wide=program.wide
        )

    def weave(
        self, area: Area, before: str = "", after: str = "", kept: Mapping[int, str] | None = None
    ) -> None:
        """Lower it. kept: names of the values it starts with, by key; zeros without."""
        numbers = {self.zero: 0, self.one: 1, self.marker: self.section.index + 1}
        set_up(self.program, self.region, area, self.identity, numbers, before, after)
        self.region.entry.prepend(self.program.target.always(self.always))
        self._flow(dict(kept) if kept is not None else dict.fromkeys(self.ledger.keys, self.zero))

    def _flow(self, values: dict[int, str]) -> None:
        ControlFlow(self.plan, self).function(self.region, _SumState(values, []))
        for flight, keys in self.ledger.in_flight.items():
            self.section.flights.append((flight, {"total": keys.total, "left": keys.left}))

    # Records.

    def records(self, run: list[Op], state: _SumState) -> None:
        """Neighbouring records share one clock read."""
        for op in (op for op in run if op.name == END):
            for value, kind in zip(op.operands, op.operand_types, strict=True):
                waited = self.program.target.wait_for(self.module.fresh("ps_none"), value, kind)
                run[0].insert_before(waited, op.loc_text)
        clock = self._clock(run[0])
        state.lasted += [_Lasted(span, last, clock, follows=True) for span, last in state.over]
        state.over = []
        for op in run:
            span = record_id(op)
            if op.name == BEGIN:
                self._begin(op, span, clock, state)
            else:
                self._end(op, span, clock, state)
            op.erase()

    def _clock(self, before: Op) -> str:
        clock = self.module.fresh("ps_clock")
        self.first = self.first or clock
        pinned = self.program.pinned or not in_loop(before.parent_op)
        before.insert_before(self.program.target.clock(clock, self.always if pinned else ""))
        return clock

    def _begin(self, op: Op, span: int, clock: str, state: _SumState) -> None:
        parent = state.open[-1] if state.open else -1
        self.section.begin(span, parent, Tick(self.frame.index), op, self.program.places.of(op))
        site = self.ledger.sites[span]
        columns = {"total": site.total, "times": site.times}
        columns |= {"longest": site.longest} if site.longest is not None else {}
        self.section.spans[span].sums = columns | ({"count": site.count} if site.count is not None else {})
        state.open.append(span)
        state.began[span] = clock
        flight = self.flights.started.get(span)
        if flight is not None:
            p, left = self.module.fresh("ps_started"), state.values[self.ledger.in_flight[flight].left]
            self._move(op, start(flight, clock, next(iter(op.operands), ""), left, self.one, p), p, state)
        loop = op.parent_op
        if loop is not None and self.ledger.iterations.get(loop) == span:
            last = self.ledger.last[loop]
            state.lasted.append(_Lasted(span, state.values[last], clock, follows=True))
            state.values[last] = clock
        elif op.operands:
            state.ran[span] = op.operands[0]
            self._count_run(op, state)

    def _count_run(self, op: Op, state: _SumState) -> None:
        """Count that a predicate holds; ops of one block with the same one share the count."""
        key = op.parent, op.operands[0]
        if key in self.counted:
            return
        self.counted.add(key)
        bits, more = self.module.fresh("ps_ran"), self.module.fresh("ps_times")
        count = self.ledger.ran[key]
        op.insert_before(
            f"{bits} = arith.extui {op.operands[0]} : i1 to i32\n"
            f"{more} = arith.addi {state.values[count]}, {bits} : i32"
        )
        state.values[count] = more

    def _end(self, op: Op, span: int, clock: str, state: _SumState) -> None:
        if not state.open or state.open[-1] != span:
            raise op.error(f"the end of span {span} does not close the innermost open span")
        state.open.pop()
        for landing in self.flights.landed.get(span, ()):
            p, left = self.module.fresh("ps_landed"), state.values[self.ledger.in_flight[landing.flight].left]
            self._move(op, land(landing, clock, state.ran.get(span, ""), left, self.zero, p), p, state)
        state.lasted.append(_Lasted(span, state.began[span], clock, state.ran.get(span, "")))

    def payload(self, op: Op, state: _SumState) -> None:
        span, _, kind = checked_payload(op, self.section, state.open)
        keys = self.ledger.numbers[op]
        self.section.spans[span].payloads.append(Tick(self.frame.index, keys[0]))
        state.numbers.append(Number(keys, kind, op.operands[0], state.ran.get(span, "")))
        op.erase()

    def _add_up(self, block: Block, state: _SumState, before: Op) -> None:
        """Before the op at which control leaves a block, add what it took to the sums."""
        lines: list[str] = []
        for lasted in state.lasted:
            lines += self._added(lasted, state)
        state.lasted = []
        for moved in state.moved:
            key, p = self.ledger.in_flight[moved.flight].total, self.module.fresh("ps_flown")
            lines += add_moved(moved, state.values[key], self.zero, p)
            state.values[key] = p
        state.moved = []
        for number in state.numbers:
            kept = [state.values[key] for key in number.keys]
            text, names = add_number(number, kept, self.module.fresh("ps_number"), self.zero)
            lines += text
            state.values.update(zip(number.keys, names, strict=True))
        state.numbers = []
        if block in self.ledger.counts:
            key, more = self.ledger.counts[block], self.module.fresh("ps_times")
            lines.append(f"{more} = arith.addi {state.values[key]}, {self.one} : i32")
            state.values[key] = more
        if lines:
            before.insert_before("\n".join(lines))

    def _added(self, lasted: _Lasted, state: _SumState) -> list[str]:
        p, site = self.module.fresh("ps_lasted"), self.ledger.sites[lasted.span]
        lines, took, ran = [f"{p} = arith.subi {lasted.end}, {lasted.begin} : i32"], p, lasted.ran
        if lasted.follows:
            ran = f"{p}_follows"
            lines.append(f"{ran} = arith.cmpi ne, {lasted.begin}, {self.zero} : i32")
        if ran:
            took = f"{p}_ran"
            lines.append(f"{took} = arith.select {ran}, {p}, {self.zero} : i32")
        lines.append(f"{p}_sum = arith.addi {state.values[site.total]}, {took} : i32")
        state.values[site.total] = f"{p}_sum"
        if site.longest is not None:
            lines.append(f"{p}_longest = arith.maxui {state.values[site.longest]}, {took} : i32")
            state.values[site.longest] = f"{p}_longest"
        return lines

    def _move(self, op: Op, found: tuple[list[str], Moved], left: str, state: _SumState) -> None:
        """left: the name of how much is under way then."""
        lines, moved = found
        op.insert_before("\n".join(lines))
        state.values[self.ledger.in_flight[moved.flight].left] = left
        state.moved.append(moved)

    # Control flow.

    def enter_block(self, state: _SumState) -> _SumState:
        return replace(
            state, values=dict(state.values), open=list(state.open), began=dict(state.began),
            ran=dict(state.ran), lasted=[], over=[], numbers=[], moved=[],
        )  # fmt: skip

    enter_branch = enter_default = enter_block

    def enter_loop(self, loop: Op, state: _SumState) -> _SumState:
        return replace(self.enter_block(state), returned={})

    def enter_call(self, state: _SumState) -> _SumState:
        return replace(self.enter_block(state), returned={})

    def settle(self, state: _SumState, end: Op) -> None:
        assert end.parent is not None
        self._add_up(end.parent, state, end)

    def leave(self, end: Op, state: _SumState) -> None:
        if end.parent is None or end.parent.parent is not self.region:
            return
        program, target = self.program, self.program.target
        area, identity, rows = Area.fresh(self.module), self.identity, self.rows
        if self.buffer:  # this may be one of several ways out
            identity = Identity.fresh(self.module)
            rows = RowWriter(program, self.section.index, identity, self.zero)
            segment = find_segment(self.module, target, area, identity, program.holes, program.selection)
            end.insert_before(f"{self.found(self.buffer, area)}\n{segment}")
        words = [self.marker] if self.marker else []
        words += [state.values[key] for key in self.ledger.keys]
        words += [self.zero] * (self.frame.width - len(words))
        if self.buffer:
            end.insert_before(rows.whole(self.frame, identity.segment, words))
            end.insert_before(self._header(area, identity))
            return
        # A partition may have few registers, and the row of a whole warp needs all of its words at once.
        for store in rows.words(self.frame, identity.segment, words):
            end.insert_before(store)
        if self.section.index == 0:
            header = target.header_end(self.module.fresh("ps_none"), identity.segment, identity.leads)
            end.insert_before(header)

    def _header(self, area: Area, identity: Identity) -> str:
        """Text that stores all that headers say."""
        return self.program.target.header(
            self.module.fresh("ps_none"), identity.segment, identity.leads, identity.awake, area.cta,
            area.slot, area.flags, self.program.holes.digest(), (self.first, self.time),
        )  # fmt: skip

    def before_loop(self, loop: Op, state: _SumState) -> None:
        if loop in self.ledger.last:
            state.values[self.ledger.last[loop]] = self.zero
        loop.insert_before(self.program.target.apart(self.module.fresh("ps_none")))

    def keys(self, op: Op) -> list[int]:
        return self.ledger.below(op)

    def end_iteration(self, loop: Op, inner: _SumState, end: Op) -> None:
        assert end.parent is not None
        self._add_up(end.parent, inner, end)

    def leave_loop(self, loop: Op, inside: Mapping[int, str], inner: _SumState, state: _SumState) -> None:
        if loop not in self.ledger.last:
            return
        assert loop.parent is not None
        span, last = self.ledger.iterations[loop], state.values.pop(self.ledger.last[loop])
        following = loop.parent.ops[loop.parent.ops.index(loop) + 1]
        if is_record(following):  # its clock will do
            state.over.append((span, last))
        else:
            state.lasted.append(_Lasted(span, last, self._clock(following), follows=True))

    def end_branch(self, region: Region, state: _SumState) -> None:
        if state.lasted or state.numbers or state.moved or region.entry in self.ledger.counts:
            self._add_up(region.entry, state, edit.ensure_terminator(region.entry, "scf.yield"))

    def merge(self, sides: Sequence[_SumState], state: _SumState) -> list[tuple[str, str]]:
        return []

    def merged(self, results: Sequence[str], sides: Sequence[_SumState], state: _SumState) -> None:
        pass

    def needed_behind(self, op: Op) -> bool:
        return True

    def handed_to_call(self, keys: Sequence[int], state: _SumState) -> dict[str, str]:
        return {}

    def begin_callee(self, callee: Op) -> None:
        callee.regions[0].entry.prepend(self._constants, callee.loc_text)
