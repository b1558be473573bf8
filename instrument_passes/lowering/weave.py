"""Replaces the records of one warp program by clock reads, stores and row counters.

The walk goes along the control flow, and carries the row counters as SSA values: an i32 that is named anew
where it changes. If something below a loop, branch, call or block changes one, it becomes a value that the
loop carries, a result of the branch, an argument of the block, and so on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from profscope.instrument_passes.analyses.walk import (
    LOOPS,
    constant_of,
    in_loop,
    loop_body,
    recordable_blocks,
)
from profscope.instrument_passes.dialect import BEGIN, END, PAYLOAD, is_record, record_id
from profscope.instrument_passes.ir import Block, Op, Region, flow
from profscope.instrument_passes.ir.tokens import unquote
from profscope.instrument_passes.lowering.builder import FrameBuilder, Pending, SectionBuilder, Tick, hole
from profscope.instrument_passes.lowering.prologue import Area, Identity, Program, allocate, find_area, set_up
from profscope.instrument_passes.lowering.rows import RowState, RowWriter
from profscope.instrument_passes.manifest import RESERVED, Column

__all__ = ["weave_kernel", "weave_partition"]

_PAYLOADS: Final = ("i32", "f32")
# A loop whose trip count is static and whose records per warp are at most this many has room for all of them.
_STATIC_RECORDS: Final = 1 << 13


def weave_kernel(program: Program, section: SectionBuilder, area: Area) -> None:
    """The kernel's body: also allocates the buffer and writes the headers."""
    region = program.kernel.regions[0]
    weaver = _Weaver(program, section, area, _Plan(region, program.calls))
    state = weaver.root()
    module, identity = program.module, weaver.identity
    buffer = module.fresh("ps_buffer")
    found = find_area(program, area, buffer, stamps=program.stamps)
    start = program.target.header_start(
        module.fresh("ps_none"), identity.segment, identity.leads, area.cta, area.slot, area.flags,
        hole("digest"),
    )  # fmt: skip
    if weaver.begun:
        start = f"{program.target.entry_clocks(weaver.begun)}\n{start}"
    found = f"{allocate(buffer)}\n{found}"
    weaver.prologue(region, state, found, start)
    weaver.function(region, state)


def weave_partition(program: Program, section: SectionBuilder, area: Area, region: Region) -> None:
    """A warp-specialised partition; `area` was captured into it."""
    weaver = _Weaver(program, section, area, _Plan(region, program.calls))
    if in_loop(region.parent):
        _weave_reentered(weaver, region)
        return
    state = weaver.root()
    weaver.prologue(region, state, "", "")
    weaver.function(region, state)


def _weave_reentered(weaver: _Weaver, region: Region) -> None:
    """A partition in a loop, which is entered once per iteration: each entry is a row of its own frame.

    Nothing flows from one entry to the next but memory, so the counts stay in the root row, from where the
    lane that stored them loads them again. Buffers start zeroed.
    """
    fresh, rows = weaver.module.fresh, weaver.rows
    root = weaver.section.new_frame(-1, 1)
    entries = weaver.section.new_frame(root.index, 0)
    weaver.add_frames(entries)
    kept = [entries, *weaver.frames.values()]
    before = {frame.index: fresh("ps_count") for frame in kept}
    pads = [Column("pad")] * len(weaver.frames)
    root.columns = [Column("section"), Column("count", frame=entries.index), *pads]
    state = RowState(dict(before), [], frame=entries, row=fresh("ps_row"))
    loads = [rows.load(root, at, name) for at, name in enumerate(before.values(), start=1)]
    address = rows.row_address(entries, before[entries.index], state.row)
    weaver.prologue(region, state, "", "\n".join([*loads, *address]))
    weaver.function(region, state)
    rows.clear(entries, region.entry, state.row, before)
    for end, counters in state.returned.items():
        bumped = fresh("ps_count")
        end.insert_before(f"{bumped} = arith.addi {before[entries.index]}, {weaver.one} : i32")
        words = [weaver.marker, bumped, *(counters[frame.index] for frame in weaver.frames.values())]
        words += [weaver.zero] * (root.width - len(words))
        for store in rows.words(root, weaver.identity.segment, words):
            end.insert_before(store)


class _Weaver:
    """Lowers the records of one section to rows; appends to its builder."""

    def __init__(self, program: Program, section: SectionBuilder, area: Area, plan: _Plan) -> None:
        self.program = program
        self.module = program.module
        self.target = program.target
        self.section = section
        self.area = area
        self.plan = plan
        self.identity = Identity.fresh(self.module)
        self.zero = self.module.fresh("ps_zero")
        self.one = self.module.fresh("ps_one")
        self.marker = self.module.fresh("ps_section") if program.marked else ""
        stamps = program.stamps and program.shared and not section.index
        self.begun = self.module.fresh("ps_begun") if stamps else ""  # its `entry_clocks`
        self.rows = RowWriter(program, section.index, self.identity, self.zero)
        self.frames: dict[Op, FrameBuilder] = {}  # by loop
        self.ran: dict[tuple[Block | None, str], Tick] = {}  # by block and predicate

    # The section's start.

    def root(self) -> RowState:
        """A frame for the section's one row and those of its loops; the state before its first op."""
        root = self.section.new_frame(-1, 1)
        self.add_frames(root)
        counters = {frame.index: self.zero for frame in self.frames.values()}
        state = RowState(counters, [], frame=root, row=self.identity.segment)
        if self.marker:
            state.pending.append(Pending(Column("section"), self.marker))
        return state

    def add_frames(self, root: FrameBuilder) -> None:
        """A frame for each loop with records, below that of the loop around it, or `root`."""
        for loop, around in self.plan.loops.items():
            parent = root if around is None else self.frames[around]
            self.frames[loop] = self.section.new_frame(parent.index, 0)

    def prologue(self, region: Region, state: RowState, before: str, after: str) -> None:
        """Set up after the records that open the region, so that the first clock is read first."""
        program = self.program
        numbers = {self.zero: 0, self.one: 1, self.marker: self.section.index + 1}
        first = set_up(program, region, self.area, self.identity, numbers, before, after)
        if any(op in program.calls for op in region.walk()):  # or the callee's words would come first
            self.rows.flush(state, first, everything=True)

    # Records.

    def _records(self, run: list[Op], state: RowState) -> None:
        """Neighbouring records share one clock read."""
        if state.may_store and all(op.name == BEGIN for op in run):
            self.rows.flush(state, run[0])
        for op in (op for op in run if op.name == END):
            for value, kind in zip(op.operands, op.operand_types, strict=True):
                if not self.target.waitable(kind):
                    raise op.error(f"cannot wait for a value of type {kind or 'that is not known'}")
                run[0].insert_before(
                    self.target.wait_for(self.module.fresh("ps_none"), value, kind), op.loc_text
                )
        clock = self.module.fresh("ps_clock")
        run[0].insert_before(self.target.clock(clock))
        tick = Tick(state.frame.index)
        for op in run:
            span = record_id(op)
            if op.name == BEGIN:
                parent = state.open[-1] if state.open else -1
                self.section.begin(span, parent, tick, op, self.program.places.of(op))
                self._predicate(op, span, state)
                state.open.append(span)
            else:
                self._end(op, span, state, tick)
            op.erase()
        state.pending.append(Pending(Column("clock"), clock, tick))

    def _end(self, op: Op, span: int, state: RowState, tick: Tick) -> None:
        if not state.open or state.open[-1] != span:
            raise op.error(f"the end of span {span} does not close the innermost open span")
        state.open.pop()
        self.section.spans[span].ends.append(tick)

    def _predicate(self, op: Op, span: int, state: RowState) -> None:
        """Store the predicate of a span that has one; ops of one block with the same one share a column."""
        if not op.operands:
            return
        key = op.parent, op.operands[0]
        if key not in self.ran:
            self.ran[key] = Tick(state.frame.index)
            bits = self.module.fresh("ps_ran")
            op.insert_before(f"{bits} = arith.extui {op.operands[0]} : i1 to i32")
            state.pending.append(Pending(Column("ran"), bits, self.ran[key]))
        self.section.spans[span].ran = self.ran[key]

    def _payload(self, op: Op, state: RowState) -> None:
        """Store the operand with the span's row, as bits."""
        span, name, kind = self._checked_payload(op, state)
        bits = op.operands[0]
        if kind == "f32":
            bits = self.module.fresh("ps_bits")
            op.insert_before(f"{bits} = arith.bitcast {op.operands[0]} : f32 to i32")
        tick = Tick(state.frame.index)
        self.section.spans[span].payloads.append(tick)
        state.pending.append(Pending(Column(kind, name=name), bits, tick))
        op.erase()

    def _checked_payload(self, op: Op, state: RowState) -> tuple[int, str, str]:
        """Span, name and type of a payload. Raises IRError if it stands, is called or is typed wrongly."""
        span, name = record_id(op), unquote(op.attributes.get("name", ""))
        if span not in state.open or self.section.spans[span].block is not op.parent:
            raise op.error("a payload must stand between its span's begin and end, in the block of the begin")
        if not name.isidentifier() or name in RESERVED:
            raise op.error(f"{name!r} cannot be the name of a column; take an identifier that is none yet")
        kind = next(iter(op.operand_types), "")
        if kind not in _PAYLOADS:
            raise op.error(f"a payload must be an i32 or f32, not {kind or 'of unknown type'}")
        return span, name, kind

    # Control flow.

    def function(self, region: Region, entry: RowState) -> None:
        """The blocks of a function or partition body; early returns make several, joined or not."""
        arrivals: dict[str | None, dict[Op, RowState]] = {}
        for block in _in_order(region):
            state = entry if block is region.entry else self._join(block, arrivals[block.label])
            self._block(block, state)
            terminator = block.terminator
            if terminator is None:
                raise block.ops[-1].error("a block of the kernel has no terminator")
            self.rows.flush(state, terminator, everything=True)
            if terminator.name in ("tt.return", "ttg.warp_return"):
                state.returned[terminator] = state.values
                self._leave(terminator)
            for target, _ in terminator.successors:
                arrivals.setdefault(target, {})[terminator] = state

    def _join(self, block: Block, arrivals: Mapping[Op, RowState]) -> RowState:
        """The state at the start of a block: values in which paths differ become its arguments."""
        first, *others = arrivals.values()
        state = first.inside(pending=[], may_store=True, conditional=True)
        if any(other.open != state.open for other in others):
            raise next(iter(arrivals)).error("joins paths between whose ends different spans are open")
        for key in _changed(first, others):

            def passed(branch: Op, key: int = key) -> str:
                arrival = arrivals.get(branch, first)  # nothing leads to a branch that has not arrived
                return arrival.values[key]

            state.values[key] = flow.add_block_argument(block, "i32", passed)
        return state

    def _block(self, block: Block, state: RowState) -> None:
        run: list[Op] = []
        for op in tuple(block.ops):
            if is_record(op):
                run.append(op)
                continue
            if run:
                self._records(run, state)
                run = []
            if op.name in LOOPS:
                self._loop(op, state)
            elif op.name == "scf.if":
                self._branch(op, state)
            elif op.name == "ttg.warp_specialize":
                self._default_region(op, state)
            elif op in self.plan.calls:
                self._call(op, state)
            elif op.name == PAYLOAD:
                self._payload(op, state)
        if run:
            self._records(run, state)

    def _leave(self, end: Op) -> None:
        """The kernel's body returns, or something else, which leaves nothing behind."""
        if self.section.index or end.parent_op is not self.program.kernel:
            return
        target, fresh, leads = self.target, self.module.fresh, self.identity.leads
        end.insert_before(target.header_end(fresh("ps_none"), self.identity.segment, leads))
        if self.begun:
            end.insert_before(target.stamp(fresh("ps_none"), self.area.raw, self.begun, leads))

    def _loop(self, loop: Op, state: RowState) -> None:
        loop.insert_before(self.target.apart(self.module.fresh("ps_none")))
        if loop not in self.plan.loops:
            return
        frame, body, keys = self.frames[loop], loop_body(loop), self._counted_below(loop)
        frame.loop = state.open[-1] if state.open else -1
        carried = flow.carry(loop, [state.values[key] for key in keys])
        counters = state.values | dict(zip(keys, carried.inside, strict=True))
        inner = RowState(dict(counters), list(state.open), frame=frame, row=self.module.fresh("ps_row"))
        self._block(body, inner)
        self.rows.flush(inner, carried.end, everything=True)
        bumped = self.module.fresh("ps_count")
        carried.end.insert_before(f"{bumped} = arith.addi {inner.values[frame.index]}, {self.one} : i32")
        inner.values[frame.index] = bumped
        flow.hand_on(loop, [inner.values[key] for key in keys])
        state.values.update(zip(keys, carried.behind, strict=True))
        frame.capacity = self._rows(loop, frame)
        before, within = self.rows.row_address(frame, counters[frame.index], inner.row)
        if before:
            loop.insert_before(before)
        body.prepend(within)
        self.rows.clear(frame, body, inner.row, counters)
        state.pending.append(Pending(Column("count", frame=frame.index), state.values[frame.index]))

    def _counted_below(self, op: Op) -> list[int]:
        """Keys of the counters that change below a loop with records, or a call."""
        return [self.frames[loop].index for loop in self.plan.below(op)]

    def _rows(self, loop: Op, frame: FrameBuilder) -> int:
        """Rows the loop will need, if that is static and within the limit; else 0, a ring."""
        trips = _static_trips(loop) if frame.parent == 0 else None
        clocks = max(1, sum(column.kind == "clock" for column in frame.columns))
        return trips if trips is not None and trips * clocks <= _STATIC_RECORDS else 0

    def _branch(self, op: Op, state: RowState) -> None:
        """scf.if: what changes or is recorded in its regions leaves it as results. What a region that did not
        run stands for: a count stays as it was, a clock is zero."""
        sides = []
        for region in op.regions:
            inner = state.inside(pending=[], may_store=False)
            self._block(region.entry, inner)
            sides.append(inner)
        recorded: list[Pending] = []
        pairs: list[tuple[str, str]] = []
        for side in sides:
            for pending in side.pending:
                column = pending.column
                other = state.values[column.frame] if column.kind == "count" else self.zero
                pairs.append((pending.value, other) if side is sides[0] else (other, pending.value))
                recorded.append(pending)
        keys = _changed(state, sides)
        first, second = (*sides, state)[:2]
        pairs += [(first.values[key], second.values[key]) for key in keys]
        if not pairs:
            return
        results = flow.add_if_results(op, pairs)
        state.pending += [replace(each, value=name) for each, name in zip(recorded, results, strict=False)]
        state.values.update(zip(keys, results[len(recorded) :], strict=True))

    def _default_region(self, op: Op, state: RowState) -> None:
        """The default region of ttg.warp_specialize runs in place; of it only values leave."""
        block = op.regions[0].entry
        conditional = state.conditional or not state.may_store
        inner = state.inside(pending=state.pending, may_store=True, conditional=conditional)
        state.pending = []
        self._block(block, inner)
        terminator = block.terminator
        if terminator is None:
            raise op.error("the default region has no terminator")
        self.rows.flush(inner, terminator, everything=True)
        keys = _changed(state, [inner])
        if keys and in_loop(op):  # else nobody counts on
            names = flow.add_yields(op, ["i32"] * len(keys), [inner.values[key] for key in keys])
            state.values.update(zip(keys, names, strict=True))

    def _call(self, op: Op, state: RowState) -> None:
        """A noinline function that only this call calls: its code is as if it stood here. Besides counters it
        needs values that it knows by the same names."""
        callee, keys, identity = self.plan.calls[op], self._counted_below(op), self.identity
        handed = {state.row: "i64", identity.leads: "i1"}
        if keys:
            handed |= {identity.segment: "i64", identity.ring: "i32", identity.ring_mask: "i32"}
        inside = {key: self.module.fresh("ps_count") for key in keys}
        flow.add_arguments(
            callee,
            [*handed.items(), *((name, "i32") for name in inside.values())],
            {op: [*handed, *(state.values[key] for key in keys)]},
        )
        inner = RowState(
            state.values | inside, list(state.open), frame=state.frame, row=state.row,
            conditional=state.conditional or not state.may_store,
        )  # fmt: skip
        self.function(callee.regions[0], inner)
        constants = f"{self.zero} = arith.constant 0 : i32\n{self.one} = arith.constant 1 : i32"
        callee.regions[0].entry.prepend(constants, callee.loc_text)
        values = {end: [there[key] for key in keys] for end, there in inner.returned.items()}
        (results,) = flow.add_returns(callee, ["i32"] * len(keys), values, [op])
        state.values.update(zip(keys, results, strict=True))


def _changed(before: RowState, after: Sequence[RowState]) -> list[int]:
    """Keys of the values that have another name in any of the states."""
    return [key for key, name in before.values.items() if any(s.values[key] != name for s in after)]


# The order in which a warp program runs, and which of its loops hold records.


def _in_order(region: Region) -> list[Block]:
    """The blocks that can be reached, each behind all that lead to it."""
    labelled = {block.label: block for block in region.blocks[1:]}
    order: list[Block] = []
    under_way: list[Block] = []

    def visit(block: Block) -> None:
        under_way.append(block)
        for label, _ in block.terminator.successors if block.terminator is not None else ():
            following = labelled.get(label, region.entry)
            if following in under_way:
                raise block.ops[-1].error("branches back; loops of branches are not supported")
            if following not in order:
                visit(following)
        order.append(under_way.pop())

    visit(region.entry)
    return order[::-1]


class _Plan:
    """Of a region that is the body of the kernel or of a warp-specialised partition.

    calls: by call, the function that only this call calls, which counts as if it stood there. loops: those
    that hold records, in program order, each with the innermost one of them around it; None if there is
    none.
    """

    def __init__(self, region: Region, calls: Mapping[Op, Op]) -> None:
        self.calls = calls
        self.loops: dict[Op, Op | None] = {}
        for block in region.blocks:
            self._add(block, None)

    def below(self, op: Op) -> list[Op]:
        """The loops with records at and below an op."""
        return [inner for inner in self._walk(op) if inner in self.loops]

    def _add(self, block: Block, around: Op | None) -> None:
        loops = [op for top in block.ops for op in self._outermost_loops(top)]
        for loop in loops:
            mine = list(recordable_blocks(loop, into_partitions=False))
            if not any(is_record(op) for inner in mine for op in inner.ops):
                continue
            self.loops[loop] = around
            for inner in mine:
                if inner.parent_op is loop:
                    self._add(inner, loop)

    def _outermost_loops(self, op: Op) -> list[Op]:
        """Loops at or below `op` that are in no other loop below it; partitions are other warps' affair."""
        if op.name in LOOPS:
            return [op]
        if op.name == "ttg.warp_specialize":
            inside = [op.regions[0].entry]
        elif op.name == "scf.if":
            inside = [region.entry for region in op.regions]
        elif op in self.calls:
            inside = self.calls[op].regions[0].blocks
        else:
            return []
        return [loop for block in inside for inner in block.ops for loop in self._outermost_loops(inner)]

    def _walk(self, op: Op) -> Iterator[Op]:
        """The op and all below it, in the functions it calls too."""
        for inner in op.walk():
            yield inner
            if inner in self.calls:
                yield from self._walk(self.calls[inner])


def _static_trips(loop: Op) -> int | None:
    """How often a scf.for with constant bounds iterates; None for any other loop."""
    if loop.name != "scf.for":
        return None
    header = flow.read_for(loop)
    bounds = [constant_of(loop, name) for name in (header.lower, header.upper, header.step)]
    if any(bound is None for bound in bounds):
        return None
    lower, upper, step = (int(bound) for bound in bounds if bound is not None)
    return max(0, -(-(upper - lower) // step)) if step > 0 else None
