"""Walks a warp program in the order it runs, and carries values along its control flow as SSA values.

A value is an i32 that has a key and, at every point, a name. If something below a loop, branch, call or block
changes it, it becomes a value that the loop carries, a result of the branch, an argument of the block, and so
on. A `Plan` knows which loops hold records; a `Lowering` decides what becomes of the records on the way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from profscope.instrument_passes.analyses.walk import LOOPS, loop_body, recordable_blocks
from profscope.instrument_passes.dialect import PAYLOAD, is_record
from profscope.instrument_passes.ir import Block, Op, Region, func, scf, warp_specialize

__all__ = ["ControlFlow", "Plan", "State", "in_order", "static_trips"]


@dataclass
class State:
    """What flows along the control flow.

    values: names of the values by key. open: ids of the spans that are open, outermost first. returned: by
    tt.return or ttg.warp_return that was reached, the values there.
    """

    values: dict[int, str]
    open: list[int]
    returned: dict[Op, dict[int, str]] = field(default_factory=dict)


S = TypeVar("S", bound=State)


class Lowering(Protocol[S]):
    """What is done on the way. `state` is that of the point that the walk is at, to be changed in place."""

    def enter_block(self, state: S) -> S:
        """The state at the start of a block that a branch, where the state is `state`, leads to."""

    def records(self, run: list[Op], state: S) -> None:
        """Records that stand next to each other."""

    def payload(self, op: Op, state: S) -> None:
        """A payload."""

    def settle(self, state: S, end: Op) -> None:
        """Control leaves a block or default region by `end`, where nothing but values can be handed on."""

    def leave(self, end: Op, state: S) -> None:
        """The warp program, or a function that it calls, returns."""

    def before_loop(self, loop: Op, state: S) -> None:
        """Any loop, with records or without."""

    def keys(self, op: Op) -> list[int]:
        """Keys of the values that are changed below an op: a loop with records, or a call."""

    def enter_loop(self, loop: Op, state: S) -> S:
        """The state at the start of an iteration of a loop with records, but for the carried values."""

    def end_iteration(self, loop: Op, inner: S, end: Op) -> None:
        """The end of its body."""

    def leave_loop(self, loop: Op, inside: Mapping[int, str], inner: S, state: S) -> None:
        """Behind it; inside: the names that the carried values have at the start of an iteration."""

    def enter_branch(self, state: S) -> S:
        """The state at the start of a region of an scf.if."""

    def end_branch(self, region: Region, state: S) -> None:
        """The end of the region."""

    def merge(self, sides: Sequence[S], state: S) -> list[tuple[str, str]]:
        """What more than values the regions of an scf.if yield: i32 of the first and of the second."""

    def merged(self, results: Sequence[str], sides: Sequence[S], state: S) -> None:
        """The results that became of them."""

    def enter_default(self, state: S) -> S:
        """The state at the start of the default region of a ttg.warp_specialize, which runs in place."""

    def needed_behind(self, op: Op) -> bool:
        """Whether the values that its default region changed are needed behind it."""

    def enter_call(self, state: S) -> S:
        """The state at the start of a function that is called, but for the carried values."""

    def handed_to_call(self, keys: Sequence[int], state: S) -> dict[str, str]:
        """Names, with their types, that a function needs besides values; it knows them by the same names."""

    def begin_callee(self, callee: Op) -> None:
        """Put what each function needs of its own at its start."""


class ControlFlow(Generic[S]):
    """Walks with one lowering over what one plan is of."""

    def __init__(self, plan: Plan, lowering: Lowering[S]) -> None:
        self._plan = plan
        self._lowering = lowering

    def function(self, region: Region, entry: S) -> None:
        """The blocks of a function or partition body; early returns make several, joined or not."""
        arrivals: dict[str | None, dict[Op, S]] = {}
        for block in in_order(region):
            state = entry if block is region.entry else self._join(block, arrivals[block.label])
            self._block(block, state)
            terminator = block.terminator
            if terminator is None:
                raise block.ops[-1].error("a block of the kernel has no terminator")
            self._lowering.settle(state, terminator)
            if terminator.name in ("tt.return", "ttg.warp_return"):
                state.returned[terminator] = state.values
                self._lowering.leave(terminator, state)
            for target, _ in terminator.successors:
                arrivals.setdefault(target, {})[terminator] = state

    def _join(self, block: Block, arrivals: Mapping[Op, S]) -> S:
        """The state at the start of a block: values in which paths differ become its arguments."""
        first, *others = arrivals.values()
        state = self._lowering.enter_block(first)
        if any(other.open != state.open for other in others):
            raise next(iter(arrivals)).error("joins paths between whose ends different spans are open")
        for key in _changed(first, others):

            def passed(branch: Op, key: int = key) -> str:
                arrival = arrivals.get(branch, first)  # nothing leads to a branch that has not arrived
                return arrival.values[key]

            state.values[key] = func.add_block_argument(block, "i32", passed)
        return state

    def _block(self, block: Block, state: S) -> None:
        run: list[Op] = []
        for op in tuple(block.ops):
            if is_record(op):
                run.append(op)
                continue
            if run:
                self._lowering.records(run, state)
                run = []
            if op.name in LOOPS:
                self._loop(op, state)
            elif op.name == "scf.if":
                self._branch(op, state)
            elif op.name == "ttg.warp_specialize":
                self._default_region(op, state)
            elif op in self._plan.calls:
                self._call(op, state)
            elif op.name == PAYLOAD:
                self._lowering.payload(op, state)
        if run:
            self._lowering.records(run, state)

    def _loop(self, op: Op, state: S) -> None:
        self._lowering.before_loop(op, state)
        if op not in self._plan.loops:
            return
        keys = self._lowering.keys(op)
        names = scf.carry(op, [state.values[key] for key in keys])
        inside = dict(zip(keys, names.inside, strict=True))
        inner = self._lowering.enter_loop(op, state)
        inner.values.update(inside)
        self._block(loop_body(op), inner)
        self._lowering.end_iteration(op, inner, names.end)
        scf.hand_on(op, [inner.values[key] for key in keys])
        state.values.update(zip(keys, names.behind, strict=True))
        self._lowering.leave_loop(op, inside, inner, state)

    def _branch(self, op: Op, state: S) -> None:
        """scf.if: what changes in its regions leaves it as results."""
        sides = []
        for region in op.regions:
            inner = self._lowering.enter_branch(state)
            self._block(region.entry, inner)
            self._lowering.end_branch(region, inner)
            sides.append(inner)
        keys = _changed(state, sides)
        pairs = self._lowering.merge(sides, state)
        if not pairs and not keys:
            return
        first, second = (*sides, state)[:2]
        results = scf.add_if_results(
            op,
            ["i32"] * (len(pairs) + len(keys)),
            [one for one, _ in pairs] + [first.values[key] for key in keys],
            [other for _, other in pairs] + [second.values[key] for key in keys],
        )
        self._lowering.merged(results[: len(pairs)], sides, state)
        state.values.update(zip(keys, results[len(pairs) :], strict=True))

    def _default_region(self, op: Op, state: S) -> None:
        """The default region of ttg.warp_specialize runs in place; of it only values leave."""
        block = op.regions[0].entry
        inner = self._lowering.enter_default(state)
        self._block(block, inner)
        terminator = block.terminator
        if terminator is None:
            raise op.error("the default region has no terminator")
        self._lowering.settle(inner, terminator)
        keys = _changed(state, [inner])
        if keys and self._lowering.needed_behind(op):
            names = warp_specialize.add_results(op, ["i32"] * len(keys), [inner.values[key] for key in keys])
            state.values.update(zip(keys, names, strict=True))

    def _call(self, op: Op, state: S) -> None:
        """A noinline function that only this call calls: its code is as if it stood here."""
        callee = self._plan.calls[op]
        keys = self._lowering.keys(op)
        handed = self._lowering.handed_to_call(keys, state)
        inside = {key: op.module.fresh("ps_count") for key in keys}
        func.add_arguments(
            callee,
            [*handed.items(), *((name, "i32") for name in inside.values())],
            {op: [*handed, *(state.values[key] for key in keys)]},
        )
        inner = self._lowering.enter_call(state)
        inner.values.update(inside)
        self.function(callee.regions[0], inner)
        self._lowering.begin_callee(callee)
        values = {end: [there[key] for key in keys] for end, there in inner.returned.items()}
        (results,) = func.add_results(callee, ["i32"] * len(keys), values, [op])
        state.values.update(zip(keys, results, strict=True))


def _changed(before: State, after: Sequence[State]) -> list[int]:
    """Keys of the values that have another name in any of the states."""
    return [key for key, name in before.values.items() if any(s.values[key] != name for s in after)]


def in_order(region: Region) -> list[Block]:
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


class Plan:
    """Of a region that is the body of the kernel or of a warp-specialised partition.

    calls: by call, the function that only this call calls, which counts as if it stood there. loops: those
    that hold records, in program order, each with the innermost one of them around it; None where there is
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


_CONSTANT = re.compile(r"arith\.constant\s+(-?\d+)\s*:\s*(?:i\d+|index)")


def static_trips(loop: Op) -> int | None:
    """How often a scf.for with constant bounds iterates; None for any other loop."""
    if loop.name != "scf.for":
        return None
    header = scf.read_for(loop)
    bounds = [_constant(loop, name) for name in (header.lower, header.upper, header.step)]
    if any(bound is None for bound in bounds):
        return None
    lower, upper, step = (int(bound) for bound in bounds if bound is not None)
    return max(0, -(-(upper - lower) // step)) if step > 0 else None


def _constant(op: Op, name: str) -> int | None:
    value = op.resolve(name)
    if value is None or not isinstance(value.owner, Op):
        return None
    match = _CONSTANT.search(value.owner.first_line)
    return int(match[1]) if match else None
