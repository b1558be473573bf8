"""The walk along the control flow, with a lowering of its own: it counts records in a register."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from profscope.instrument_passes.analyses.places import Places
from profscope.instrument_passes.analyses.walk import in_loop, kernel_of
from profscope.instrument_passes.dialect import is_record
from profscope.instrument_passes.ir import Module, Op, Region, parse
from profscope.instrument_passes.lowering.calls import expand_calls
from profscope.instrument_passes.lowering.flow import ControlFlow, Plan, State
from profscope.instrument_passes.passes import PassContext
from profscope.instrument_passes.pipeline import parse_pipeline, run_pipeline
from profscope.instrument_passes.toolchain import triton_version, verify

INPUTS = Path(__file__).parent / "inputs"
KEY = 7
KERNELS = (
    "add", "branch_in_loop", "branches", "call_paths", "early_return", "gluon_ws", "gluon_ws_loop",
    "joined_paths", "matmul_tma_sm90", "nested_loops", "while",
)  # fmt: skip


class Counting:
    """One value: how many clock reads the program has come by."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.totals: list[str] = []

    def enter_block(self, state: State) -> State:
        return replace(state, values=dict(state.values))

    enter_branch = enter_default = enter_block

    def enter_call(self, state: State) -> State:
        return replace(state, values=dict(state.values), returned={})

    def enter_loop(self, loop: Op, state: State) -> State:
        return self.enter_call(state)

    def records(self, run: list[Op], state: State) -> None:
        one, more = self.module.fresh("one"), self.module.fresh("count")
        run[0].insert_before(
            f"{one} = arith.constant 1 : i32\n{more} = arith.addi {state.values[KEY]}, {one} : i32"
        )
        state.values[KEY] = more
        for op in run:
            op.erase()

    def payload(self, op: Op, state: State) -> None:
        raise AssertionError

    def settle(self, state: State, end: Op) -> None:
        pass

    def leave(self, end: Op, state: State) -> None:
        self.totals.append(state.values[KEY])

    def before_loop(self, loop: Op, state: State) -> None:
        pass

    def keys(self, op: Op) -> list[int]:
        return [KEY]

    def end_iteration(self, loop: Op, inner: State, end: Op) -> None:
        pass

    def leave_loop(self, loop: Op, inside: Mapping[int, str], inner: State, state: State) -> None:
        pass

    def end_branch(self, region: Region, state: State) -> None:
        pass

    def needed_behind(self, op: Op) -> bool:
        return in_loop(op)

    def merge(self, sides: Sequence[State], state: State) -> list[tuple[str, str]]:
        return []

    def merged(self, results: Sequence[str], sides: Sequence[State], state: State) -> None:
        assert not results

    def handed_to_call(self, keys: Sequence[int], state: State) -> dict[str, str]:
        return {}

    def begin_callee(self, callee: Op) -> None:
        pass


def count(module: Module, region: Region, calls: Mapping[Op, Op]) -> list[str]:
    """Count the records of one warp program; the names of the counts, by the end that it comes to."""
    counting = Counting(module)
    start = module.fresh("start")
    flow = ControlFlow(Plan(region, calls), counting)
    flow.function(region, State({KEY: start}, []))
    region.entry.prepend(f"{start} = arith.constant 0 : i32")
    return counting.totals


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_value_is_carried_through_everything(kernel: str) -> None:
    file = INPUTS / f"{kernel}.ttgir"
    if triton_version() < (3, 7) and "ttg.barrier" in file.read_text():
        pytest.skip("Triton 3.6 does not know ttg.barrier")
    if triton_version() >= (3, 8) and "tensordesc<tensor" in file.read_text():
        pytest.skip("Triton spells tensor descriptors otherwise since 3.8")
    module = parse(file.read_text(), file.name)
    run_pipeline(module, parse_pipeline("kernel-span,loop-spans,iteration-spans,op-spans"), PassContext())
    body = kernel_of(module)
    calls, _ = expand_calls(module, body, Places())
    specialised = [op for op in body.walk() if op.name == "ttg.warp_specialize"]
    totals = count(module, body.regions[0], calls)
    for op in specialised:
        for partition in op.regions[1:]:
            totals += count(module, partition, calls)
    assert not any(is_record(op) for op in module.walk())
    assert all(total.startswith("%") for total in totals)
    verify(str(module), file.name)  # every name is defined where it is used, and of the right type
