"""Threads that part and meet, barriers, calls, shared and local memory: on handwritten PTX."""

import numpy as np
import pytest

from profscope.errors import EmulatorError
from tests.support.ptx_kernel import run

STORE = """
  mad.wide.u32 %q31, %t, 4, %out;
  st.global.b32 [%q31], %r9;"""


def result(body: str, threads: int = 64, ctas: int = 3, **options: object) -> np.ndarray:
    out = np.full(threads * ctas, -1, np.int32)
    run(body + STORE, out, threads=threads, ctas=ctas, **options)  # type: ignore[arg-type]
    return out


def test_a_product_needs_all_lanes_of_a_warp() -> None:
    with pytest.raises(EmulatorError, match=r"a lane does not come .* warp 0 lane 20: mma"):
        result("""
  mov.b32 %r9, 0;
  setp.ge.s32 %p1, %t, 20;
  @%p1 bra $end;
  mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r10, %r11, %r12, %r13},
    {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%r10, %r11, %r12, %r13};
$end:""")


def test_each_lane_leaves_a_loop_on_its_own() -> None:
    """The value a lane had when it left must survive the other lanes' further iterations."""
    got = result("""
  mov.b32 %r1, 0;
  mov.b32 %r9, 0;
$loop:
  add.s32 %r9, %r9, %r1;
  add.s32 %r1, %r1, 1;
  setp.lt.u32 %p1, %r1, %t;
  @%p1 bra $loop;""")
    assert got.tolist() == [sum(range(max(t, 1))) for t in range(192)]


def test_lanes_meet_again_before_they_vote() -> None:
    """After if/else inside a loop with different trip counts, all lanes of a warp must vote together."""
    got = result("""
  and.b32 %r2, %t, 7;
  mov.b32 %r1, 0;
  mov.b32 %r8, 0;
$loop:
  and.b32 %r3, %r1, 1;
  setp.eq.s32 %p2, %r3, 0;
  @%p2 bra $skip;
  add.s32 %r8, %r8, 1;
$skip:
  add.s32 %r1, %r1, 1;
  setp.le.u32 %p1, %r1, %r2;
  @%p1 bra $loop;
  setp.ge.s32 %p3, %r8, 0;
  vote.sync.ballot.b32 %r9, %p3, -1;""")
    assert set(got.tolist()) == {-1}


def test_barrier_passes_values_between_warps() -> None:
    """Warp 0 takes a long way to the barrier; the others must wait for what it writes."""
    got = result("""
  mov.u32 %r1, %tid.x;
  shr.u32 %r2, %r1, 5;
  setp.ne.u32 %p1, %r2, 0;
  mov.b32 %r3, 0;
  @%p1 bra $wait;
$loop:
  add.s32 %r3, %r3, 1;
  setp.lt.s32 %p2, %r3, 50;
  @%p2 bra $loop;
  shl.b32 %r4, %r1, 2;
  st.shared.b32 [%r4], %r3;
$wait:
  bar.sync 0;
  and.b32 %r5, %r1, 31;
  shl.b32 %r5, %r5, 2;
  ld.shared.b32 %r9, [%r5];""")
    assert set(got.tolist()) == {50}


def test_barrier_that_cannot_be_passed() -> None:
    with pytest.raises(EmulatorError, match=r"deadlock.*CTA \(0, 0, 0\) warp 0.*bar.sync at PTX line"):
        result("""
  mov.u32 %r1, %tid.x;
  mov.b32 %r9, 0;
  setp.gt.u32 %p1, %r1, 31;
  @%p1 bra $end;
  bar.sync 1, 64;
$end:""")


def test_threads_that_ended_do_not_hold_up_a_barrier() -> None:
    got = result("""
  mov.u32 %r1, %tid.x;
  setp.gt.u32 %p1, %r1, 31;
  @%p1 ret;
  bar.sync 0;
  mov.b32 %r9, 5;""")
    assert got.reshape(3, 2, 32)[:, 0].tolist() == [[5] * 32] * 3
    assert set(got.reshape(3, 2, 32)[:, 1].ravel()) == {-1}


def test_local_memory_is_each_threads_own() -> None:
    got = result("""
  .local .align 4 .b8 depot[16];
  mov.b32 %r1, depot;
  st.local.b32 [%r1+4], %t;
  cvt.u64.u32 %q1, %r1;
  cvta.local.u64 %q2, %q1;
  ld.b32 %r9, [%q2+4];""")
    assert got.tolist() == list(range(192))


def test_ctas_of_many_lengths_split_off() -> None:
    """CTA k loops k times; the results must be those of each CTA alone."""
    got = result(
        """
  mov.b32 %r9, 1;
  mov.b32 %r1, 0;
$loop:
  mad.lo.s32 %r9, %r9, 3, %t;
  add.s32 %r1, %r1, 1;
  setp.le.u32 %p1, %r1, %cta;
  @%p1 bra $loop;""",
        threads=32,
        ctas=40,
    )
    for cta in range(40):
        value = np.full(32, 1, np.int64)
        for _ in range(cta + 1):
            value = value * 3 + np.arange(32) + 32 * cta
        assert got[32 * cta : 32 * (cta + 1)].tolist() == value.astype(np.int32).tolist()


def test_endless_loop_ends_with_an_error() -> None:
    with pytest.raises(EmulatorError, match=r"ran \d+ basic blocks without ending"):
        run("$loop:\n  bra.uni $loop;", np.zeros(1, np.int32), max_blocks=1000)


def test_trap() -> None:
    with pytest.raises(EmulatorError, match=r"kernel executed a trap, in CTA \(2, 0, 0\) warp 0 lane 0"):
        result("setp.lt.u32 %p1, %cta, 2; mov.b32 %r9, 0; @%p1 bra $ok; trap;\n$ok:")
