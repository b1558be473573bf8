"""Walks one warp program and replaces its records by clock reads, stores and row counters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from instrument_passes.analyses.walk import LOOPS, kernel_of, loop_body, recordable_blocks
from instrument_passes.columns import RESERVED
from instrument_passes.dialect import BEGIN, END, PAYLOAD, is_record, record_id
from instrument_passes.ir import Block, Module, Op, Region, blocks, func, if_op, warp_specialize
from instrument_passes.lowering.area import Area, Identity
from instrument_passes.lowering.builder import FrameBuilder, Pending, Placeholders, SectionBuilder, Tick
from instrument_passes.lowering.loops import carry, hand_on
from instrument_passes.lowering.prologue import find_area, find_segment
from instrument_passes.lowering.trips import static_trips
from instrument_passes.manifest import Column
from instrument_passes.selection import Selection
from instrument_passes.targets import Target

__all__ = ["Weaver"]

# Values are stored four at a time, and only once a younger one is pending: by then the clock reads have
# returned, and few registers are held. (Measured: none costs 2 cycles a record more; two, attention 1.4 %.)
_GROUP = 4
_YOUNGER = 1


@dataclass
class _State:
    """What flows along the control flow: values to store, row counters by frame, open spans, the row."""

    frame: FrameBuilder
    row: str  # i64 address of the frame's current row
    counters: dict[int, str]
    open: list[int]
    pending: list[Pending] = field(default_factory=list)
    may_store: bool = True  # not inside scf.if: what did not run there must store zeros
    conditional: bool = False  # what is stored here may not run in every row of the frame
    returned: dict[Op, dict[int, str]] = field(default_factory=dict)  # by tt.return, the counters there

    def branch(self) -> _State:
        return _State(
            self.frame, self.row, dict(self.counters), list(self.open),
            conditional=self.conditional, returned=self.returned,
        )  # fmt: skip


class Weaver:
    """Lowers the records of one section; appends to its builder.

    marked: its warps say which one it is; wide: see `find_area`; static_records: a loop whose trip count is
    static and whose records per warp are at most this many gets room for all of them.
    """

    def __init__(
        self,
        module: Module,
        target: Target,
        section: SectionBuilder,
        area: Area,
        holes: Placeholders,
        selection: Selection,
        calls: Mapping[Op, Op],
        *,
        marked: bool,
        wide: bool,
        static_records: int,
    ) -> None:
        self.module = module
        self.target = target
        self.section = section
        self.area = area
        self.holes = holes
        self.wide = wide
        self.static_records = static_records
        self.selection = selection
        self.kernel = kernel_of(module)
        self.calls = calls  # by call, the function that only this call calls
        self.identity = Identity.fresh(module)
        self.zero = module.fresh("ps_zero")
        self.one = module.fresh("ps_one")
        self.marker = module.fresh("ps_section") if marked else ""
        self.frames: dict[Op, FrameBuilder] = {}  # by loop
        self.ran: dict[tuple[Block | None, str], Tick] = {}  # by block and predicate

    # Entry points.

    def weave_kernel(self, kernel: Op) -> None:
        """The kernel's body: also allocates the buffer and writes the headers."""
        region = kernel.regions[0]
        state = self._enter(region)
        area = find_area(self.module, self.target, self.area, self.holes, self.selection, wide=self.wide)
        start = self.target.header_start(
            self.module.fresh("ps_none"), self.identity.segment, self.identity.leads, self.area.cta,
            self.area.slot, self.area.flags, self.holes.digest(),
        )  # fmt: skip
        self._prologue(region, state, area, start)
        self._function(region, state)

    def weave_partition(self, region: Region) -> None:
        """A warp-specialised partition; `area` was captured into it."""
        if _in_loop(region.parent):
            self._weave_reentered(region)
            return
        state = self._enter(region)
        self._prologue(region, state, "", "")
        self._function(region, state)

    def _weave_reentered(self, region: Region) -> None:
        """A partition in a loop, which is entered once per iteration: each entry is a row of its own frame.

        Nothing flows from one entry to the next but memory, so the counts stay in the root row, from where
        the lane that stored them loads them again. Buffers start zeroed.
        """
        root = self.section.new_frame(-1, 1)
        entries = self.section.new_frame(root.index, 0)
        for block in region.blocks:
            self._plan(block, entries)
        kept = [entries, *self.frames.values()]
        before = {frame.index: self.module.fresh("ps_count") for frame in kept}
        pads = [Column("pad")] * len(self.frames)
        root.columns = [Column("section"), Column("count", frame=entries.index), *pads]
        state = _State(entries, self.module.fresh("ps_row"), dict(before), [])
        loads = [self._load(root, at, name) for at, name in enumerate(before.values(), start=1)]
        address = self._row_address(entries, before[entries.index], state.row)
        self._prologue(region, state, "", "\n".join([*loads, *address]))
        self._function(region, state)
        self._clear(entries, region.entry, state.row, before)
        for end, counters in state.returned.items():
            bumped = self.module.fresh("ps_count")
            end.insert_before(f"{bumped} = arith.addi {before[entries.index]}, {self.one} : i32")
            words = [self.marker, bumped, *(counters[frame.index] for frame in self.frames.values())]
            words += [self.zero] * (root.width - len(words))
            for first in range(0, root.width, _GROUP):
                offset = self.holes.store_offset(self.section.index, root.index, first)
                out, group = self.module.fresh("ps_none"), words[first : first + _GROUP]
                store = self.target.store(out, self.identity.segment, offset, group, self.identity.lane)
                end.insert_before(store)

    def _load(self, root: FrameBuilder, column: int, out: str) -> str:
        """Text that loads a word of the root row where the lane stores, zero elsewhere."""
        p = self.module.fresh("ps_kept")
        offset = self.holes.store_offset(self.section.index, root.index, column)
        return (
            f"{p}_offset = arith.constant {offset} : i64\n"
            f"{p}_address = arith.addi {self.identity.segment}, {p}_offset : i64\n"
            f"{p}_word = tt.int_to_ptr {p}_address : i64 -> !tt.ptr<i32>\n"
            f"{out} = tt.load {p}_word, {self.identity.lane}, {self.zero} : !tt.ptr<i32>"
        )

    def _enter(self, region: Region) -> _State:
        root = self.section.new_frame(-1, 1)
        for block in region.blocks:
            self._plan(block, root)
        counters = {frame.index: self.zero for frame in self.frames.values()}
        state = _State(root, self.identity.segment, counters, [])
        if self.marker:
            state.pending.append(Pending(Column("section"), self.marker))
        return state

    def _prologue(self, region: Region, state: _State, before: str, after: str) -> None:
        """Set up after the records that open the region, so that the first clock is read first."""
        segment = find_segment(self.module, self.target, self.area, self.identity, self.holes, self.selection)
        numbers = {self.zero: 0, self.one: 1, self.marker: self.section.index + 1}
        constants = "\n".join(f"{name} = arith.constant {n} : i32" for name, n in numbers.items() if name)
        first = next(op for op in region.entry.ops if not is_record(op))
        first.insert_before("\n".join(text for text in (before, segment, constants, after) if text))
        if any(op in self.calls for op in region.walk()):  # or the callee's words would come first
            self._flush(state, first, everything=True)

    # Planning: which loops get a frame, and how large a ring.

    def _plan(self, block: Block, parent: FrameBuilder) -> None:
        loops = [op for top in block.ops for op in self._outermost_loops(top)]
        for loop in loops:
            mine = list(recordable_blocks(loop, into_partitions=False))
            if not any(is_record(op) for inner in mine for op in inner.ops):
                continue
            frame = self.section.new_frame(parent.index, 0)
            self.frames[loop] = frame
            for inner in mine:
                if inner.parent_op is loop:
                    self._plan(inner, frame)

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

    def _subtree(self, op: Op) -> list[FrameBuilder]:
        """Frames of a loop or call and of the loops in it, whose counters it must carry."""
        return [self.frames[inner] for inner in self._walk(op) if inner in self.frames]

    def _rows(self, loop: Op, frame: FrameBuilder) -> int:
        """Rows the loop will need, if that is static and within the buffer option; else 0, a ring."""
        trips = static_trips(loop) if frame.parent == 0 else None
        clocks = max(1, sum(column.kind == "clock" for column in frame.columns))
        return trips if trips is not None and trips * clocks <= self.static_records else 0

    # Weaving.

    def _function(self, region: Region, entry: _State) -> None:
        """The blocks of a function or partition body; early returns make several, joined or not."""
        arrivals: dict[str | None, dict[Op, _State]] = {}
        for block in _in_order(region):
            state = entry
            if block is not region.entry:
                state = self._join(block, arrivals[block.label])
                state.conditional = True
            self._block(block, state)
            terminator = block.terminator
            if terminator is None:
                raise block.ops[-1].error("a block of the kernel has no terminator")
            self._flush(state, terminator, everything=True)
            if terminator.name in ("tt.return", "ttg.warp_return"):
                self._leave(terminator, state)
            for target, _ in terminator.successors:
                arrivals.setdefault(target, {})[terminator] = state

    def _join(self, block: Block, arrivals: Mapping[Op, _State]) -> _State:
        """The state at the start of a block: counters in which paths differ become its arguments."""
        first, *others = arrivals.values()
        state = first.branch()
        if any(other.open != state.open for other in others):
            raise next(iter(arrivals)).error("joins paths between whose ends different spans are open")
        for index, name in first.counters.items():
            if any(other.counters[index] != name for other in others):
                values = {branch: arrival.counters[index] for branch, arrival in arrivals.items()}
                state.counters[index] = blocks.add_argument(block, "i32", values.__getitem__)
        return state

    def _leave(self, terminator: Op, state: _State) -> None:
        state.returned[terminator] = state.counters
        if self.section.index or terminator.parent_op is not self.kernel:
            return
        terminator.insert_before(
            self.target.header_end(self.module.fresh("ps_none"), self.identity.segment, self.identity.leads)
        )

    def _block(self, block: Block, state: _State) -> None:
        run: list[Op] = []
        for op in tuple(block.ops):
            if is_record(op):
                run.append(op)
                continue
            self._tick(run, state)
            run = []
            if op.name in LOOPS:
                self._loop(op, state)
            elif op.name == "scf.if":
                self._branch(op, state)
            elif op.name == "ttg.warp_specialize":
                self._default_region(op, state)
            elif op in self.calls:
                self._call(op, state)
            elif op.name == PAYLOAD:
                self._payload(op, state)
        if run:
            self._tick(run, state)

    def _tick(self, run: list[Op], state: _State) -> None:
        """Neighbouring records share one clock read."""
        if not run:
            return
        if state.may_store and all(op.name == BEGIN for op in run):
            self._flush(state, run[0])
        for op in (op for op in run if op.name == END):
            for value, kind in zip(op.operands, op.operand_types, strict=True):
                run[0].insert_before(
                    self.target.wait_for(self.module.fresh("ps_none"), value, kind), op.loc_text
                )
        clock = self.module.fresh("ps_clock")
        run[0].insert_before(self.target.clock(clock))
        tick = Tick(state.frame.index)
        for op in run:
            span = record_id(op)
            if op.name == BEGIN:
                self.section.begin(span, state.open[-1] if state.open else -1, tick, op)
                self._predicate(op, span, state)
                state.open.append(span)
            elif op.name == END:
                self._end(op, span, state, tick)
            op.erase()
        state.pending.append(Pending(Column("clock"), clock, tick))

    def _end(self, op: Op, span: int, state: _State, tick: Tick) -> None:
        if not state.open or state.open[-1] != span:
            raise op.error(f"the end of span {span} does not close the innermost open span")
        state.open.pop()
        self.section.spans[span].ends.append(tick)

    def _predicate(self, op: Op, span: int, state: _State) -> None:
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

    def _payload(self, op: Op, state: _State) -> None:
        """Store the operand with the span's row, as bits."""
        span, name = record_id(op), op.attributes["name"].strip('"')
        if span not in state.open or self.section.spans[span].block is not op.parent:
            raise op.error("a payload must stand between its span's begin and end, in the block of the begin")
        if not name.isidentifier() or name in RESERVED:
            raise op.error(f"{name!r} cannot be the name of a column; take an identifier that is none yet")
        kind = next(iter(op.operand_types), "")
        if kind not in ("i32", "f32"):
            raise op.error(f"a payload must be an i32 or f32, not {kind or 'of unknown type'}")
        bits = op.operands[0]
        if kind == "f32":
            bits = self.module.fresh("ps_bits")
            op.insert_before(f"{bits} = arith.bitcast {op.operands[0]} : f32 to i32")
        tick = Tick(state.frame.index)
        self.section.spans[span].payloads.append(tick)
        state.pending.append(Pending(Column(kind, name=name), bits, tick))
        op.erase()

    def _flush(self, state: _State, before: Op, *, everything: bool = False) -> None:
        """Store the oldest pending values, four at a time; or all of them, the rest in pairs and ones."""
        while len(state.pending) >= (_GROUP if everything else _GROUP + _YOUNGER):
            self._store(state, state.pending[:_GROUP], before)
            del state.pending[:_GROUP]
        if not everything:
            return
        if len(state.pending) == 3:
            state.pending.append(Pending(Column("pad"), self.zero))
        if state.pending:
            self._store(state, state.pending, before)
            state.pending = []

    def _store(self, state: _State, group: list[Pending], before: Op) -> None:
        first = state.frame.place(group)
        if state.conditional:
            state.frame.conditional.update(range(first, first + len(group)))
        offset = self.holes.store_offset(self.section.index, state.frame.index, first)
        values = [pending.value for pending in group]
        out = self.module.fresh("ps_none")
        before.insert_before(self.target.store(out, state.row, offset, values, self.identity.lane))

    # Control flow.

    def _loop(self, op: Op, state: _State) -> None:
        op.insert_before(self.target.apart(self.module.fresh("ps_none")))
        frame = self.frames.get(op)
        if frame is None:
            return
        carried = self._subtree(op)
        frame.loop = state.open[-1] if state.open else -1
        names = carry(op, [state.counters[f.index] for f in carried])
        inner = _State(frame, self.module.fresh("ps_row"), dict(state.counters), list(state.open))
        inside = {f.index: name for f, name in zip(carried, names.inside, strict=True)}
        inner.counters.update(inside)
        own = inner.counters[frame.index]
        body = loop_body(op)
        self._block(body, inner)
        bumped = self.module.fresh("ps_count")
        self._flush(inner, names.end, everything=True)
        names.end.insert_before(f"{bumped} = arith.addi {own}, {self.one} : i32")
        inner.counters[frame.index] = bumped
        hand_on(op, [inner.counters[f.index] for f in carried])
        frame.capacity = self._rows(op, frame)
        before, within = self._row_address(frame, own, inner.row)
        if before:
            op.insert_before(before)
        body.prepend(within)
        self._clear(frame, body, inner.row, inside)
        state.counters.update({f.index: name for f, name in zip(carried, names.behind, strict=True)})
        state.pending.append(Pending(Column("count", frame=frame.index), names.behind[0]))

    def _row_address(self, frame: FrameBuilder, counter: str, row: str) -> tuple[str, str]:
        """Address of a row: where the frame starts + slot * row_bytes. Text for all rows, and for one."""
        p = self.module.fresh("ps_at")
        size = self.holes.row_bytes(self.section.index, frame.index)
        before, masked, start, slot = "", "", self.identity.segment, counter
        if frame.capacity == 0:
            start, slot = f"{p}_start", f"{p}_slot"
            offset = self.holes.frame_offset(self.section.index, frame.index)
            before = (
                f"{p}_unit = arith.constant {offset} : i32\n"
                f"{p}_offset = arith.shli {p}_unit, {self.identity.ring} : i32\n"
                f"{p}_offset64 = arith.extui {p}_offset : i32 to i64\n"
                f"{start} = arith.addi {self.identity.segment}, {p}_offset64 : i64"
            )
            masked = f"{slot} = arith.andi {counter}, {self.identity.ring_mask} : i32\n"
        return before, (
            f"{masked}"
            f"{p}_size = arith.constant {size} : i32\n"
            f"{p}_bytes = arith.muli {slot}, {p}_size : i32\n"
            f"{p}_wide = arith.extui {p}_bytes : i32 to i64\n"
            f"{row} = arith.addi {start}, {p}_wide : i64"
        )

    def _clear(self, frame: FrameBuilder, body: Block, row: str, counters: Mapping[int, str]) -> None:
        """Before all else in an iteration, write what its row says of code that does not run in it.

        That is zero for clocks, which a ring needs that holds an older row there, and for loops the counts
        so far. Code in branches that join again and in functions called there stores its own words later.
        """
        width = min(_GROUP, frame.width)
        stores = []
        for first in sorted({column // width * width for column in frame.conditional}):
            columns = frame.columns[first : first + width]
            counts = [counters.get(c.frame, "") if c.kind == "count" else "" for c in columns]
            if frame.capacity == 0 or any(counts):
                values = [count or self.zero for count in counts]
                values += [self.zero] * (width - len(values))
                offset = self.holes.store_offset(self.section.index, frame.index, first)
                out = self.module.fresh("ps_none")
                stores.append(self.target.store(out, row, offset, values, self.identity.lane))
        if stores:
            (address,) = [op for op in body.ops if any(result.name == row for result in op.results)]
            address.insert_after("\n".join(stores))

    def _call(self, op: Op, state: _State) -> None:
        """A noinline function that only this call calls: it stores into the row itself, by the same names."""
        callee, identity = self.calls[op], self.identity
        entry = callee.regions[0].entry
        frames = self._subtree(op)
        shared = {state.row: "i64", identity.lane: "i1"}
        if frames:
            shared |= {identity.segment: "i64", identity.ring: "i32", identity.ring_mask: "i32"}
        inside = {f.index: self.module.fresh("ps_count") for f in frames}
        func.add_arguments(
            callee,
            [*shared.items(), *((name, "i32") for name in inside.values())],
            {op: [*shared, *(state.counters[f.index] for f in frames)]},
        )
        inner = _State(state.frame, state.row, state.counters | inside, list(state.open))
        inner.conditional = state.conditional or not state.may_store
        self._function(callee.regions[0], inner)
        entry.prepend(
            f"{self.zero} = arith.constant 0 : i32\n{self.one} = arith.constant 1 : i32", callee.loc_text
        )
        values = {end: [found[f.index] for f in frames] for end, found in inner.returned.items()}
        (results,) = func.add_results(callee, ["i32"] * len(frames), values, [op])
        state.counters.update({f.index: name for f, name in zip(frames, results, strict=True)})

    def _branch(self, op: Op, state: _State) -> None:
        """scf.if: what its regions recorded leaves as results; the other region yields zeros."""
        sides = []
        for region in op.regions:
            inner = state.branch()
            inner.may_store = False
            self._block(region.entry, inner)
            sides.append(inner)
        changed = [i for i, name in state.counters.items() if any(s.counters[i] != name for s in sides)]
        recorded = [pending for side in sides for pending in side.pending]
        if not recorded and not changed:
            return
        yields = []
        for index in range(2):
            own = sides[index].pending if index < len(sides) else []
            counters = sides[index].counters if index < len(sides) else state.counters
            values = [p.value if p in own else self._not_run(p, state) for p in recorded]
            yields.append(values + [counters[i] for i in changed])
        results = if_op.add_results(op, ["i32"] * len(yields[0]), *yields)
        state.pending += [
            Pending(pending.column, result, pending.tick)
            for pending, result in zip(recorded, results, strict=False)
        ]
        state.counters.update(dict(zip(changed, results[len(recorded) :], strict=True)))

    def _not_run(self, pending: Pending, state: _State) -> str:
        """What a region that did not run stands for: a count stays as it was, a clock is zero."""
        return state.counters[pending.column.frame] if pending.column.kind == "count" else self.zero

    def _default_region(self, op: Op, state: _State) -> None:
        """The default region of ttg.warp_specialize runs in place; of its values only counts leave it."""
        block = op.regions[0].entry
        inner = state.branch()
        inner.conditional = state.conditional or not state.may_store
        inner.pending, state.pending = state.pending, []
        self._block(block, inner)
        terminator = block.terminator
        if terminator is None:
            raise op.error("the default region has no terminator")
        self._flush(inner, terminator, everything=True)
        changed = [i for i, name in state.counters.items() if inner.counters[i] != name]
        if changed and _in_loop(op):  # else nobody counts on
            values = [inner.counters[i] for i in changed]
            names = warp_specialize.add_results(op, ["i32"] * len(values), values)
            state.counters.update(dict(zip(changed, names, strict=True)))


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


def _in_loop(op: Op | None) -> bool:
    while op is not None and op.name not in LOOPS:
        op = op.parent_op
    return op is not None
