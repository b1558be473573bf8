"""What memory accesses, expanded instructions and other warps cost, and to what the cycles are charged."""

from __future__ import annotations

from collections import Counter

import pytest

from profscope.emulator.costs import BARRIER_CYCLES, COSTS, SECTORS_PER_CYCLE, Cost, tensor_cycles
from profscope.emulator.device import Model
from profscope.emulator.machine.counts import Totals
from tests.support.ptx_kernel import LANE, SHARED_AT, counted


def cycles(body: str, **options: int) -> int:
    return counted(body, **options)[0]


def waits(totals: Totals) -> Counter[tuple[str, str]]:
    """Cycles by the opcode of an instruction and the reason."""
    found: Counter[tuple[str, str]] = Counter()
    for each in totals.waits:
        found[totals.instructions[each.number].instruction.opcode, each.stall] += each.cycles
    return found


def access(text: str, stride: int) -> str:
    return LANE + f"mad.wide.u32 %q1, %r1, {stride}, %a;\n{text};"


@pytest.mark.parametrize(
    "text", ["ld.global.b32 %r2, [%q1]", "st.global.b32 [%q1], %r1", "red.global.add.u32 [%q1], 1"]
)
def test_scattered_accesses_cost_their_sectors(text: str) -> None:
    """32 lanes in 32 sectors, not in 4, by 16 warps at a time."""
    warps = 16
    coalesced, scattered = (cycles(access(text, stride), threads=32 * warps) for stride in (4, 32))
    assert scattered - coalesced == warps * (32 - 4) // SECTORS_PER_CYCLE


@pytest.mark.parametrize("text", ["ld.shared.b32 %r4, [%r2]", "st.shared.b32 [%r2], %r1"])
def test_a_column_of_shared_memory_costs_its_wavefronts(text: str) -> None:
    """128 bytes apart, all lanes want one bank; of a padded row, none does."""
    warps = 4
    conflict, padded = (
        cycles(SHARED_AT.format(stride=stride) + text + ";", threads=32 * warps) for stride in (128, 132)
    )
    assert conflict - padded == warps * (32 - 1)


def test_warps_pay_for_their_own_sectors() -> None:
    """Of two warps, the first scatters: the second does not wait for it."""
    body = """
  mov.u32 %r2, %warpid;
  mov.u32 %r1, %laneid;
  setp.eq.u32 %p1, %r2, 0;
  selp.b32 %r3, 64, 4, %p1;
  mad.wide.u32 %q1, %r1, 1, %a;
  mul.wide.u32 %q2, %r1, %r3;
  add.s64 %q1, %a, %q2;
  st.global.b32 [%q1], %r1;"""
    _, totals = counted(body, threads=64)
    assert waits(totals)["st.global.b32", "lg_throttle"] == 2 * 3 + (2 * 8 - COSTS[Cost.STORE].issue)


@pytest.mark.parametrize(
    ("opcode", "slots"), [("div.s64", 86), ("div.u64", 70), ("rem.s64", 80), ("rem.u64", 66)]
)
def test_an_int64_division_issues_its_instructions(opcode: str, slots: int) -> None:
    """As ptxas of CUDA 12.8 makes them for sm_80."""
    _, totals = counted(f"mul.wide.u32 %q1, %t, 9;\n{opcode} %q2, %q1, %a;\nst.global.b64 [%a], %q2;")
    assert waits(totals)[opcode, "selected"] == slots
    assert waits(totals)["st.global.b64", "wait"] > slots


BUSY = "mov.u32 %r1, %laneid;\n" + "mad.lo.s32 %r1, %r1, 3, 1;\n" * 200


def test_ctas_of_one_sm_share_its_issue_slots() -> None:
    """16 warps are four for each partition: each issues in turn."""
    one, two, four = (cycles(BUSY, threads=512, ctas=ctas, sms=1) for ctas in (1, 2, 4))
    assert one < two < four
    assert two - one == pytest.approx(200 * 4, abs=40)
    assert cycles(BUSY, threads=512, ctas=2, sms=2) == one


def test_other_warps_fill_the_wait_for_a_load() -> None:
    body = access("ld.global.b32 %r2, [%q1]", 4) + "add.s32 %r3, %r1, 1;" * 20 + "st.global.b32 [%q1], %r2;"
    one, sixteen = (cycles(body, threads=32 * warps, sms=1) for warps in (1, 16))
    assert sixteen - one < 150 < 16 * 20


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ("m16n8k16.row.col.f32.f16.f16.f32", 2),
        ("m16n8k8.row.col.f32.tf32.tf32.f32", 2),
        ("m16n8k32.row.col.satfinite.s32.s8.s8.s32", 2),
        ("m8n8k4.row.col.f64.f64.f64.f64", 4),
    ],
)
def test_cycles_of_the_tensor_cores(shape: str, expected: int) -> None:
    """16 * 8 * 16 products at 1,024 a cycle, and so on."""
    assert tensor_cycles(f"mma.sync.aligned.{shape}") == expected


LOOP = """
  mov.u32 %r1, %warpid;
  mov.u32 %r5, %laneid;
  add.s32 %r2, %r1, 1;
  mad.wide.u32 %q1, %r5, 32, %a;
$loop:
  ld.global.b32 %r3, [%q1];
  add.s32 %r4, %r3, %r4;
  sub.s32 %r2, %r2, 1;
  setp.gt.s32 %p1, %r2, 0;
  @%p1 bra $loop;
  bar.sync 0;
  cp.async.ca.shared.global [memory], [%a], 16;
  cp.async.commit_group;
  cp.async.wait_group 0;
  st.global.b32 [%q1], %r4;"""


def test_the_waits_of_all_warps_are_their_time() -> None:
    """Without records, every cycle from a CTA's start to its end is somewhere. All CTAs start at once."""
    threads, ctas = 96, 3
    time, totals = counted(LOOP + "bar.sync 0;", threads=threads, ctas=ctas, sms=3)
    overhead = Model().cycles(Model().launch_overhead_ns)
    whole = time - overhead
    found = waits(totals)
    assert sum(found.values()) == whole * ctas * threads // 32
    assert found["bar.sync", "barrier"] > ctas * (400 + 800 + 3 * BARRIER_CYCLES)
    assert found["cp.async.wait_group", "long_scoreboard"] > 0.9 * 450 * ctas * threads // 32
    assert min(found.values()) > 0


def test_waits_are_charged_to_what_they_are_for() -> None:
    _, totals = counted(LOOP, threads=96)
    causes = {
        totals.instructions[each.blamed].instruction.opcode
        for each in totals.waits
        if each.stall == "long_scoreboard"
    }
    assert causes == {"ld.global.b32", "cp.async.ca.shared.global"}


RECORDED = """
  mov.u32 %r10, %clock;
{body}
  mov.u32 %r11, %clock;
  sub.s32 %r12, %r11, %r10;
  mad.wide.u32 %q31, %t, 4, %out;
  setp.eq.u32 %p9, %t, 0;
  @%p9 st.global.b32 [%q31], %r12;"""


def test_records_are_charged_to_nobody() -> None:
    body = access("ld.global.b32 %r2, [%q1]", 32) + "\nadd.s32 %r3, %r2, 1;\nst.global.b32 [%q1], %r3;"
    (_, bare), (_, recorded) = counted(body, threads=96), counted(RECORDED.format(body=body), threads=96)
    of_body = [
        {key: cycles for key, cycles in waits(each).items() if key[0].startswith(("ld.global", "add", "st"))}
        for each in (bare, recorded)
    ]
    assert of_body[0] == of_body[1]
    assert of_body[0]["add.s32", "long_scoreboard"] == 3 * (400 - COSTS[Cost.GLOBAL_LOAD].issue)
    assert not [key for key in waits(recorded) if key[0].startswith(("sub", "setp"))]
