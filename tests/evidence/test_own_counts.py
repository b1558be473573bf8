"""Kernels that count by themselves, on the emulator: the same results, and the counts that it has itself.

What the emulator counts follows from addresses and masks alone (`tests/emulator/test_counts.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
import torch

from profscope.dispatch.own_counts import stride
from profscope.emulator import activate
from profscope.emulator.launcher import Launch
from profscope.evidence.counting_ptx import COPIES
from tests.kernels.add import add_kernel
from tests.kernels.cases import check
from tests.kernels.counting import add_old_kernel, uneven_kernel
from tests.kernels.elementwise import math_kernel
from tests.support.own_counts import Counted, compare_with_bare, count_launch
from tests.support.ptx_kernel import LANE, SHARED_AT, run
from tests.support.sessions import CASES

WARPS = 4


@pytest.fixture(autouse=True)
def emulator() -> Iterator[None]:
    torch.manual_seed(0)
    with activate(sm_count=4):
        yield


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[Counted]:
    """What launches have counted; each is also compared with the bare one."""
    launches: list[Counted] = []
    monkeypatch.setattr(Launch, "run", lambda launch: launches.append(compare_with_bare(launch)))
    return launches


@pytest.mark.parametrize(
    "name",
    [
        "add",  # a masked tail
        "softmax",  # reductions
        "matmul",  # cp.async and ldmatrix
        "early_return",
        "while",  # each CTA another number of iterations
        "nested_loops",
        "joined_paths",
        "noinline",
        "call_paths",
    ],
)
def test_each_line_counts_what_the_emulator_counts(name: str, counted: list[Counted]) -> None:
    check(CASES[name], "cpu")
    (own,) = counted
    assert own.sums("global")[0] > 0


ACCESSES = {
    "ld.shared.b16 %h1, [%r2+2]": 2,
    "ld.shared.b32 %r4, [%r2+-4]": 4,
    "ld.shared.b64 %q2, [%r2]": 8,
    "ld.shared.v4.b32 {%r4, %r5, %r6, %r7}, [%r2]": 16,
    "st.shared.v2.b16 [%r2+4], {%h1, %h2}": 4,
    "@%p1 st.shared.b32 [%r2], %r1": 4,
    "@!%p1 atom.shared.add.u32 %r4, [%r2], 1": 4,
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4, %r5, %r6, %r7}, [%r2]": 16,
    "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%r4}, [%r2]": 16,
}


@pytest.mark.parametrize(
    ("access", "stride"),
    [(each, s) for each, size in ACCESSES.items() for s in (0, 8, 64, 80, 128) if s % size == 0],
)
def test_banks_that_conflict(access: str, stride: int, counted: list[Counted]) -> None:
    """Lane i at i * stride, in one access of two warps."""
    launch(SHARED_AT.format(stride=stride) + f"add.u32 %r2, %r2, 16;\n{access};")
    _, wavefronts, fewest = counted[0].sums("shared")
    assert wavefronts >= fewest > 0
    if stride == 128:
        assert wavefronts > fewest


@pytest.mark.parametrize(
    "access",
    [
        "ld.global.nc.b8 %h1, [%q1+3]",
        "@!%p1 ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%q1]",
        "@%p1 st.global.v2.b32 [%q1+16], {%r1, %r1}",
        "@%p1 red.global.add.u32 [%q1], %r1",
        "atom.global.gpu.acq_rel.add.noftz.f16 %h1, [%q1], %h1",
        "cp.async.cg.shared.global [%r2], [%q1], 16",
        "@%p1 cp.async.cg.shared.global [%r2], [%q1], 0x10, %r3",
        "{ .reg .pred q; setp.ge.u32 q, %r1, 7; @q st.global.b8 [%q1], %h1; @!q ld.global.b8 %h1, [%q1+4]; }",
    ],
)
@pytest.mark.parametrize("stride", [0, 32, 48])
def test_sectors(access: str, stride: int, counted: list[Counted]) -> None:
    """Lane i at i * stride; every other lane copies nothing."""
    body = f"{SHARED_AT.format(stride=16)}mad.wide.u32 %q1, %r1, {stride}, %a;\nand.b32 %r3, %r1, 1;\n"
    launch(f"{body}shl.b32 %r3, %r3, 4;\n{access};")
    _, sectors, fewest = counted[0].sums("global")
    assert sectors >= fewest > 0


def launch(body: str) -> None:
    """Run PTX in two warps. %a has 4 KiB; %p1: lanes below 11."""
    given = np.zeros(4096 + 128, np.uint8)
    given = given[-given.ctypes.data % 128 :][:4096]
    run(
        f"{LANE}setp.lt.u32 %p1, %r1, 11;\n{body}", given, *[np.zeros(16, np.uint8)] * 3, threads=64,
        shared=8192, declarations=".extern .shared .align 16 .b8 memory[];",
    )  # fmt: skip


def test_compare_and_swap_until_it_succeeds(counted: list[Counted]) -> None:
    x, sums, old = torch.ones(250), torch.zeros(250), torch.zeros(250)
    add_old_kernel[(1,)](x.bfloat16(), sums.bfloat16(), old.bfloat16(), 250, BLOCK=256)
    (own,) = counted
    assert any(loop for loop in own.code.loops)
    assert max(warps for warps, _ in own.blocks.values()) > WARPS


def test_a_block_that_begins_with_a_scope(counted: list[Counted]) -> None:
    """LLVM takes 64 bits apart in braces; zeros and infinities go past them."""
    x = torch.tensor([0.0, float("inf"), -1.0, 2.0], dtype=torch.float64).repeat(64)
    x[:128] = 0.0
    math_kernel[(1,)](x, torch.empty_like(x), 256, OP="log", BLOCK=256)
    lines = pairwise(counted[0].code.text.splitlines())
    assert any("activemask" in above and below.startswith("\t{ .reg") for above, below in lines)


@pytest.mark.parametrize("every", [1, 2, 5, 7])
def test_of_every_so_many_ctas_one_counts(every: int, monkeypatch: pytest.MonkeyPatch) -> None:
    grid, launches = (3, 4, 2), list[Counted]()
    monkeypatch.setattr(Launch, "run", lambda launch: launches.append(count_launch(launch, every)))
    ctas = range(grid[0] * grid[1] * grid[2])
    x = torch.rand(len(ctas), 128)
    out = torch.empty_like(x)
    uneven_kernel[grid](x, out, BLOCK=128)
    (own,) = launches
    rounds = sum(ctas[::every])
    assert (WARPS * rounds, 32 * WARPS * rounds) in own.blocks.values()
    loads = max(own.figures.values(), key=lambda each: each.taken)
    assert (loads.taken, loads.ideal) == (4 * WARPS * rounds, 4 * WARPS * rounds)
    assert torch.equal(out[1], x[0])


def test_warps_of_the_ctas_that_count_do_not_queue_for_one_word(monkeypatch: pytest.MonkeyPatch) -> None:
    launches = list[Counted]()
    monkeypatch.setattr(Launch, "run", lambda launch: launches.append(count_launch(launch, 64)))
    add_kernel[(1025,)](torch.zeros(1), torch.zeros(1), torch.zeros(1), 1, BLOCK=128)
    assert launches[0].copies > COPIES // 2
    assert max(warps for warps, _ in launches[0].blocks.values()) == 17 * WARPS


@pytest.mark.parametrize(
    "grid", [(1, 1, 1), (127, 1, 1), (128, 1, 1), (6, 35, 11), (4096, 4096, 1), (30030, 64, 3)], ids=str
)
def test_which_ctas_count(grid: tuple[int, int, int]) -> None:
    """About 64 of a large grid; along no axis are the same ones left out each time."""
    x, y, z = grid
    every = stride(x, y, z)
    counting = range(0, x * y * z, every)
    assert 32 <= len(counting) < 128 or every == 1
    assert len({cta % x for cta in counting}) >= min(x, len(counting)) // 2
    assert len({cta // x % y for cta in counting}) >= min(y, len(counting)) // 2
