"""In what order instructions are issued: as an assembler would, with records and without."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

import profscope
from profscope.emulator.costs import COSTS, STALLS, Cost, use_of
from profscope.emulator.device import Device
from profscope.emulator.driver import EmulatorDriver
from profscope.emulator.translation.ordering import Issue, Touches, in_order, register_budget
from tests.kernels.layer_norm import layer_norm_kernel
from tests.kernels.reductions import row_sums_kernel
from tests.support.ptx_kernel import run
from tests.support.quick import quick
from tests.support.sessions import CASES

# ruff: noqa: N803
LATENCY = COSTS[Cost.GLOBAL_LOAD].latency
LOAD, CONVERT = "ld.global.b32 %r{0}, [%a+{1}];", "cvt.rn.f32.u32 %r1{0}, %r{0};"
STORE = "st.global.b32 [%a+{1}], %r1{0};"


def cycles(*lines: str) -> int:
    """Of a CTA of one warp; %a is the kernel's own memory, %out that of its records."""
    given, nothing = np.zeros(64, np.int32), np.zeros(64, np.int32)
    device = Device()
    _, took = device.time(lambda: run("\n".join(lines), given, nothing, nothing, nothing, device=device))
    return took


def each(text: str, count: int = 4) -> list[str]:
    return [text.format(at, 4 * at) for at in range(1, count + 1)]


def alternated(*lists: Sequence[str]) -> list[str]:
    return [line for group in zip(*lists, strict=True) for line in group]


def test_loads_go_before_what_waits_for_other_loads() -> None:
    loads, converts, stores = each(LOAD), each(CONVERT), each(STORE)
    grouped = cycles(*loads, *converts, *stores)
    assert cycles(*alternated(loads, converts), *stores) == grouped
    one = cycles(loads[0], converts[0], stores[0])
    assert LATENCY < one < grouped < one + 3 * 20


def test_addresses_of_loads_go_before_other_work() -> None:
    work = ["mul.lo.s32 %r30, %r30, 3;"] * 100
    last = ["st.global.b32 [%a+64], %r30;"]
    load = ["add.s64 %q1, %a, 32;", "ld.global.b32 %r1, [%q1];", CONVERT.format(1), STORE.format(1, 4)]
    late, early = cycles(*work, *load, *last), cycles(*load[:2], *work, *load[2:], *last)
    assert late == pytest.approx(early, abs=10)
    assert late < cycles(*work, "bar.warp.sync -1;", *load, *last) - 300


@pytest.mark.parametrize(
    "between",
    [
        "st.global.b32 [%a+32], %r11;",
        "st.shared.b32 [%r20], %r11; ld.shared.b32 %r3, [%r20]; st.global.b32 [%a+32], %r3;",
        "atom.global.add.u32 %r5, [%a+32], %r11; st.global.b32 [%a+36], %r5;",
        "bar.warp.sync -1;",
        "membar.gl;",
        "bar.sync 0;",
        "mov.u32 %r5, %clock; st.global.b32 [%a+32], %r5;",
    ],
)
def test_loads_pass_nothing_that_they_may_not(between: str) -> None:
    """Two loads, and what must stay between them: they wait one after the other."""
    both = cycles("mov.u32 %r20, 0;", LOAD.format(1, 4), CONVERT.format(1), between, *last_load())
    assert both > 2 * LATENCY


def last_load() -> tuple[str, str, str]:
    return LOAD.format(2, 8), CONVERT.format(2), "st.global.b32 [%a+40], %r12;"


def test_loads_pass_accesses_to_other_memory() -> None:
    first = "mov.u32 %r20, 0;", LOAD.format(1, 4), CONVERT.format(1), "st.shared.b32 [%r20], %r11;"
    assert cycles(*first, *last_load()) < 2 * LATENCY


def test_records_do_not_keep_loads_apart() -> None:
    """Neither their clocks nor their stores; what they cost is their own issue."""
    body = [*alternated(each(LOAD), each(CONVERT)), *each(STORE)]
    clocks = [f"mov.u32 %r3{at}, %clock;" for at in range(8)]
    stores = [f"st.global.b32 [%out+{4 * at}], %r3{at};" for at in range(8)]
    more = cycles(*alternated(body[:8], clocks, stores), *body[8:]) - cycles(*body)
    assert 0 < more <= 8 * (COSTS[Cost.MOVE].issue + COSTS[Cost.STORE].issue)


def step(number: int, reads: Sequence[str], writes: Sequence[str], latency: int, *, load: bool) -> Issue:
    space = frozenset(["global"])
    touches = Touches(read=space) if load else Touches()
    cost = COSTS[Cost.GLOBAL_LOAD if load else Cost.ALU]
    use = use_of("ld.global.b32" if load else "add.s32")
    stalls = STALLS[Cost.ALU]
    return Issue(number, tuple(reads), tuple(writes), cost.issue, latency, use, stalls, touches, "")


@pytest.mark.parametrize(("threads", "most"), [(128, 255), (256, 255), (512, 128), (1024, 64), (0, 255)])
def test_loads_wait_for_registers(threads: int, most: int) -> None:
    """Each of 300 loads fills a register, and an addition reads it."""
    budget = register_budget(threads)
    assert budget == most
    steps = [
        each
        for at in range(300)
        for each in (
            step(2 * at, [], [f"x{at}"], LATENCY, load=True),
            step(2 * at + 1, [f"x{at}", "sum"], ["sum"], 4, load=False),
        )
    ]
    order = in_order(steps, ["sum"], lambda name: 1, budget)
    assert sorted(each.number for each in order if isinstance(each, Issue)) == list(range(600))
    in_flight = np.cumsum([1 if each.is_load else -1 for each in order if isinstance(each, Issue)])
    assert in_flight.max() == budget - 1  # one holds the sum


def order_of(*steps: Issue) -> list[int]:
    found = in_order(steps, [], lambda name: 1, 255)
    return [each.number for each in found if isinstance(each, Issue)]


def test_loads_keep_their_order_unless_they_need_loaded_data() -> None:
    """Or else a span around the first would have the second one in it."""
    parameter = step(0, [], ["pointer"], COSTS[Cost.PARAMETER].latency, load=False)
    address = step(1, ["pointer"], ["address"], 4, load=False)
    first, other = (step(2, ["address"], ["x"], LATENCY, load=True), step(3, [], ["y"], LATENCY, load=True))
    assert order_of(parameter, address, first, other) == [0, 1, 2, 3]
    index = step(1, ["pointer"], ["address"], LATENCY, load=True)
    assert order_of(parameter, index, first, other) == [0, 1, 3, 2]


@triton.jit
def chain_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.exp(tl.load(x_ptr + at))
    y = tl.exp(tl.load(x_ptr + BLOCK + at)) * x
    z = tl.exp(tl.load(x_ptr + 2 * BLOCK + at)) * y
    tl.store(out_ptr + at, z)


def launch_chain() -> None:
    chain_kernel[(1,)](torch.zeros(3072), torch.zeros(1024), BLOCK=1024)


def spans_of_chain(**options: str) -> tuple[int, list[int], list[int]]:
    """Cycles of the kernel's span, and of its loads' the beginnings within it and the durations."""
    with profscope.session(backend="emulator", **options) as prof:
        launch_chain()
    spans = prof.df[prof.df["warp"] == 0]
    loads = spans[spans["scope"].str.startswith("load")]
    begins = (loads["start_ns"] - spans["start_ns"].iloc[0]).tolist()
    return int(spans["duration_cycles"].iloc[0]), begins, loads["duration_cycles"].tolist()


def test_spans_of_loads_are_where_the_loads_are_issued() -> None:
    whole, begins, durations = spans_of_chain()
    assert whole < 2.5 * LATENCY
    assert begins == sorted(begins)
    assert max(begins) < LATENCY  # none waits for the data of another
    assert min(durations) >= 2 * COSTS[Cost.GLOBAL_LOAD].issue
    assert max(durations) < 60


def test_with_latency_each_load_is_waited_for() -> None:
    whole, _, durations = spans_of_chain(measure="latency")
    assert whole > 3 * LATENCY
    assert LATENCY < min(durations) <= max(durations) < LATENCY + 100


LEVELS = ({"instrument": "light"}, {"instrument": "heavy"}, {"ctas": 64})


def row_sums(dtype: torch.dtype) -> Callable[[], object]:
    x = torch.ones(512, 64, dtype=dtype)
    return lambda: row_sums_kernel[(1,)](x, torch.zeros(512), 512, 64)


def case(name: str) -> Callable[[], object]:
    inputs = CASES[name].inputs("cpu")
    return lambda: CASES[name].launch(inputs)


LAUNCHES = {
    "chain": lambda: launch_chain,
    "row sums fp16": lambda: row_sums(torch.float16),
    "row sums fp32": lambda: row_sums(torch.float32),
    **{name: (lambda name=name: case(name)) for name in CASES},
}


@pytest.mark.parametrize("name", quick(LAUNCHES, ["row sums fp16"]))
def test_a_kernel_takes_the_same_cycles_bare_and_recorded_at_any_level(
    name: str, emulator: EmulatorDriver
) -> None:
    """All but those of records: within 5 % of the bare binary's. With records, if all CTAs record, within 9 %
    in a kernel whose bare PTX has another order."""
    launch = LAUNCHES[name]()
    _, bare = emulator.device.time(launch)
    for options in LEVELS:
        with profscope.session(backend="emulator", **options) as prof:
            _, recorded = emulator.device.time(launch)
        (entry,) = [entry for entries in prof.metadata["baseline"]["kernels"].values() for entry in entries]
        told_bare, told_recorded = (entry[key][0] * 1.25 for key in ("bare_ns", "instrumented_ns"))
        assert told_recorded == pytest.approx(recorded)
        assert told_bare == pytest.approx(bare, rel=0.05), options
        assert told_bare < recorded
        if name == "row sums fp16" and "ctas" not in options:
            assert recorded == pytest.approx(bare, rel=0.09)


def test_ctas_with_and_without_records_take_the_same_time() -> None:
    rows, cols = 96, 1024
    x, out = torch.randn(rows, cols).half(), torch.empty(rows, cols).half()
    w, b, mean, rstd = torch.ones(cols), torch.zeros(cols), torch.zeros(rows), torch.zeros(rows)

    def durations(ctas: int) -> dict[bool, float]:
        with profscope.session(backend="emulator", ctas=ctas) as prof:
            layer_norm_kernel[(rows,)](x, out, w, b, mean, rstd, cols, cols, 1e-5, BLOCK=1024)
        return prof.ctas.groupby("recorded")["duration_cycles"].median().to_dict()

    sampled, every = durations(64), durations(1)
    assert sampled.keys() == {False, True}
    assert sampled[True] == pytest.approx(sampled[False], rel=0.05)
    assert sampled[True] == pytest.approx(every[True], rel=0.05)
