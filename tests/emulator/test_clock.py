"""The cost model: deterministic, additive, and told the same through every clock register."""

import numpy as np
import pytest

from profscope.emulator import activate
from profscope.emulator.costs import BARRIER_CYCLES, COSTS, CTA_LAUNCH_CYCLES, Cost
from profscope.emulator.device import FIRST_CYCLE, FIRST_NS, SM_SKEW_CYCLES, Device, Model
from profscope.errors import OptionError
from tests.support.ptx_kernel import run

STORE_CLOCKS = """
  mad.wide.u32 %q31, %t, 16, %out;
  st.global.v2.b64 [%q31], {%q1, %q2};"""


def clocks(body: str, threads: int = 64, ctas: int = 1, device: Device | None = None) -> np.ndarray:
    """%q1 and %q2 of every thread, (CTAs, warps, lanes, 2)."""
    out = np.zeros((ctas, threads // 32, 32, 2), np.int64)
    run(body + STORE_CLOCKS, out, threads=threads, ctas=ctas, device=device)
    return out


def elapsed(between: str, **options: int) -> np.ndarray:
    there = (
        "  add.s64 %q3, %out, 0;\n  add.s64 %q4, %q3, 0;\n"  # parameters and %t can be read without a wait
    )
    found = clocks(f"{there}  mov.u64 %q1, %clock64;\n{between}\n  mov.u64 %q2, %clock64;", **options)
    assert (found == found[:, :, :1]).all()  # a warp's lanes agree
    return found[:, :, 0, 1] - found[:, :, 0, 0]


def test_a_load_costs_its_latency_only_where_its_value_is_used() -> None:
    issue, latency = COSTS[Cost.GLOBAL_LOAD]
    load = "ld.global.b32 %r1, [%out];"
    read = COSTS[Cost.MOVE].issue
    assert (elapsed(load) == read + issue).all()
    used = elapsed(load + "add.s32 %r2, %r1, 1;")
    assert (used == read + latency + COSTS[Cost.ALU].issue).all()
    twice = elapsed(load + "ld.global.b32 %r3, [%out+8]; add.s32 %r2, %r1, %r3;")
    assert (twice == used + issue).all()


def test_barrier_lets_all_warps_go_at_once() -> None:
    """Warp 1 loops; the clocks after the barrier are equal, and after warp 1's arrival."""
    found = clocks("""
  mov.u32 %r1, %warpid;
  mul.lo.s32 %r2, %r1, 20;
$loop:
  sub.s32 %r2, %r2, 1;
  setp.gt.s32 %p1, %r2, 0;
  @%p1 bra $loop;
  mov.u64 %q1, %clock64;
  bar.sync 0;
  mov.u64 %q2, %clock64;""")
    before, after = found[0, :, 0, 0], found[0, :, 0, 1]
    assert before[1] > before[0] + 50
    assert after[0] == after[1]
    assert after[0] - before[1] >= BARRIER_CYCLES


def test_both_sides_of_a_divergent_branch_cost() -> None:
    side = "mul.lo.s32 %r5, %r5, 3;" * 10
    body = """
  mov.u32 %r1, %laneid;
  mov.b32 %r5, 1;
  setp.lt.s32 %p1, %r1, {limit};
  @%p1 bra $other;
  """ + side + "bra.uni $end;\n$other:\n" + side + "\n$end:"  # fmt: skip
    divergent = elapsed(body.format(limit=16))[0, 0]
    uniform = elapsed(body.format(limit=0))[0, 0]
    assert divergent > uniform + 30


SWITCHED = {
    "load": "{p} ld.global.b32 %r1, [%out]; add.s32 %r2, %r1, 1;",
    "vector load": "{p} ld.global.v4.b32 {{%r1, %r2, %r3, %r4}}, [%out]; add.s32 %r5, %r4, 1;",
    "shared load": "mov.b32 %r1, 0; {p} ld.shared.b32 %r3, [%r1]; add.s32 %r2, %r3, 1;",
    "store": "mov.b32 %r1, 0; {p} st.shared.b32 [%r1], %r1;",
    "atomic": "{p} atom.global.add.u32 %r1, [%out], 0; add.s32 %r2, %r1, 1;",
    "shuffle": "mov.b32 %r3, 0; {p} shfl.sync.bfly.b32 %r1, %r3, 1, 31, -1; add.s32 %r2, %r1, 1;",
    "division": "{p} div.s32 %r1, %t, 3; add.s32 %r2, %r1, 1;",
    "branch": "{p} bra $over; $over: add.s32 %r2, %t, 1;",
    "copies": "mov.b32 %r1, 0; {p} cp.async.ca.shared.global [%r1], [%out], 4;"
    " cp.async.commit_group; cp.async.wait_group 0;",
}


def switched(body: str, lanes: int) -> int:
    """Cycles of the body with the predicate set in the first `lanes` lanes of a warp."""
    cycles = elapsed(f"setp.lt.u32 %p1, %t, {lanes}; {body.format(p='@%p1')}", threads=32)
    return int(cycles[0, 0])


@pytest.mark.parametrize("name", SWITCHED)
def test_what_is_switched_off_costs_as_much(name: str) -> None:
    """In all lanes of a warp or in some."""
    assert len({switched(SWITCHED[name], lanes) for lanes in (0, 1, 32)}) == 1


def test_a_wait_that_is_switched_off_does_not_wait() -> None:
    body = """mov.b32 %r1, 0; cp.async.ca.shared.global [%r1], [%out], 4; cp.async.commit_group;
    {p} cp.async.wait_group 0;"""
    assert switched(body, 32) > COSTS[Cost.ASYNC_COPY].latency
    assert switched(body, 0) < 50


def test_registers_tell_one_time() -> None:
    body = """
  mov.u64 %q3, %clock64;
  mov.u32 %r1, %clock;
  mov.u32 %r2, %clock_hi;
  mov.b64 %q4, {%r1, %r2};
  sub.s64 %q1, %q4, %q3;
  mov.u64 %q2, %globaltimer;"""
    found = clocks(body, ctas=40, device=Device(Model(sm_count=4)))
    assert set(found[..., 0].ravel()) == {1}
    timer = found[..., 1]
    assert (timer % 32 == 0).all()
    assert timer.min() >= FIRST_NS


def test_timer_and_clock_agree_on_every_sm() -> None:
    device = Device(Model(sm_count=3))
    out = np.zeros((200, 32, 4), np.int64)
    body = """
  mov.u64 %q1, %clock64;
  mov.u64 %q2, %globaltimer;
  mov.u32 %r1, %smid;
  cvt.u64.u32 %q3, %r1;
  mov.u32 %r2, %nsmid;
  cvt.u64.u32 %q4, %r2;
  mad.wide.u32 %q31, %t, 32, %out;
  st.global.v2.b64 [%q31], {%q1, %q2};
  st.global.v2.b64 [%q31+16], {%q3, %q4};"""
    run(body, out, ctas=200, device=device)
    clock, timer, sm, sm_count = out[:, 0].T
    assert set(sm) == {0, 1, 2}
    assert set(sm_count) == {3}
    cycles = clock - FIRST_CYCLE - sm * SM_SKEW_CYCLES
    expected = FIRST_NS + cycles * 1_000_000 // device.model.clock_khz
    assert (abs(expected - timer) <= device.model.globaltimer_tick_ns).all()


def test_placement_fills_slots_in_order_and_reuses_them() -> None:
    device = Device(Model(sm_count=2, warps_per_sm=4))  # four CTAs of one warp on each SM at a time
    out = np.zeros((20, 32, 2), np.int64)
    body = """
  mov.u64 %q1, %clock64;
  mov.u32 %r1, %smid;
  cvt.u64.u32 %q2, %r1;""" + STORE_CLOCKS  # fmt: skip
    run(body, out, ctas=20, device=device)
    clock, sm = out[:, 0].T
    assert sm[:8].tolist() == [0, 1] * 4
    start = clock - FIRST_CYCLE - sm * SM_SKEW_CYCLES
    rounds = [start[:8], start[8:16], start[16:]]
    assert all(len(set(r)) == 1 for r in rounds)
    assert rounds[1][0] - rounds[0][0] > CTA_LAUNCH_CYCLES
    assert rounds[1][0] - rounds[0][0] == rounds[2][0] - rounds[1][0]


def test_waiting_for_copies_takes_what_is_left_of_their_flight() -> None:
    copy = "mov.b32 %r1, 0; cp.async.ca.shared.global [%r1], [%out], 16; cp.async.commit_group;"
    flight = COSTS[Cost.ASYNC_COPY].latency
    at_once = elapsed(copy + "cp.async.wait_group 0;")[0, 0]
    assert flight < at_once < flight + 30
    work = "div.s32 %r2, %r2, 3;" * 5
    assert elapsed(copy + work + "cp.async.wait_group 0;")[0, 0] == pytest.approx(at_once, abs=4)
    assert elapsed(copy + copy + "cp.async.wait_group 2;")[0, 0] < 60
    assert elapsed(copy + copy + "cp.async.wait_group 1;")[0, 0] == pytest.approx(at_once, abs=20)


def test_fresh_devices_start_at_the_same_time_and_time_goes_on() -> None:
    device = Device()
    first = clocks("mov.u64 %q1, %globaltimer; mov.u64 %q2, %clock64;", device=device)
    second = clocks("mov.u64 %q1, %globaltimer; mov.u64 %q2, %clock64;", device=device)
    again = clocks("mov.u64 %q1, %globaltimer; mov.u64 %q2, %clock64;", device=Device())
    assert np.array_equal(first, again)
    assert (second > first).all()


def test_number_of_sms_must_make_sense() -> None:
    with pytest.raises(OptionError, match="sm_count"), activate(sm_count=0):
        pass
