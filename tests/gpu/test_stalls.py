"""PC samples of kernels whose stalls are known beforehand: the reason and the blamed line.

pytest -m gpu -s tests/gpu/test_stalls.py     # prints shares of the waiting warps' samples
"""

from __future__ import annotations

import linecache
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

import profscope
from bench.kernels import matmul, surroundings
from tests.kernels.planted import late_warp_kernel

# ruff: noqa: N803

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LAUNCHES = 8  # the sampler takes some of them
ISSUES = ("selected", "not_selected")  # warps that issue, or could


@triton.jit
def chase_kernel(next_ptr, out_ptr, steps):
    at = tl.program_id(0)
    for _ in range(steps):
        at = tl.load(next_ptr + at)
    tl.store(out_ptr, at)


@triton.jit
def dots_kernel(a_ptr, b_ptr, c_ptr, rounds, BLOCK: tl.constexpr, K: tl.constexpr):
    """One dot after the other on the same tiles in shared memory: nothing is copied meanwhile."""
    at, inner = tl.arange(0, BLOCK), tl.arange(0, K)
    a = tl.load(a_ptr + at[:, None] * K + inner[None, :])
    b = tl.load(b_ptr + inner[:, None] * BLOCK + at[None, :])
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for _ in range(rounds):
        total = tl.dot(a, b, total)
    tl.store(c_ptr + tl.program_id(0) * BLOCK * BLOCK + at[:, None] * BLOCK + at[None, :], total)


def top_stall(launch: Callable[[], Any]) -> tuple[str, float, str]:
    """The reason that most waiting warps have, its share, and the source that is blamed for most of it."""
    launch()
    with profscope.session(instrument="light", evidence=["samples"] if DEVICE == "cuda" else False) as prof:
        for _ in range(LAUNCHES):
            launch()
    waiting = prof.samples[~prof.samples["stall"].isin(ISSUES)]
    shares = waiting.groupby("stall", observed=True)["samples"].sum() / waiting["samples"].sum()
    reason = str(shares.idxmax())
    of_reason = waiting[waiting["stall"] == reason]
    file, line = of_reason.groupby(["blamed_file", "blamed_line"], observed=True)["samples"].sum().idxmax()
    text = linecache.getline(str(file), int(line)).strip()
    print(f"{100 * shares.max():.1f} % {reason}: {text}; {shares.round(3).to_dict()}")
    return reason, float(shares.max()), text


# In L1 a step takes 42 cycles, of which 15 are fixed latencies: at most 69 % wait for the load.
@pytest.mark.parametrize(
    ("kib", "steps", "least"), [(16, 20_000, 0.62), (4096, 20_000, 0.95), (1 << 20, 800_000, 0.95)]
)
def test_a_pointer_chase_waits_for_its_load(kib: int, steps: int, least: float) -> None:
    """In L1, in L2, and in DRAM; one pointer a line of 128 bytes, in random order."""
    order = np.random.default_rng(0).permutation(kib * 1024 // 128)
    chain = np.zeros(len(order) * 32, np.int32)
    chain[order * 32] = np.roll(order, -1) * 32
    pointers, out = torch.from_numpy(chain).to(DEVICE), torch.zeros(1, dtype=torch.int32, device=DEVICE)
    reason, share, text = top_stall(lambda: chase_kernel[(1,)](pointers, out, steps, num_warps=1))
    assert (reason, share >= least) == ("long_scoreboard", True)
    assert "tl.load(next_ptr + at)" in text


def test_warps_wait_at_the_barrier_for_the_late_one() -> None:
    turns = torch.ones(128, dtype=torch.int32, device=DEVICE)
    turns[:32] = 500
    x, out = torch.ones(128, device=DEVICE), torch.empty(132, device=DEVICE)
    reason, _, text = top_stall(lambda: late_warp_kernel[(132,)](x, turns, out, 2000, BLOCK=128, num_warps=4))
    assert reason == "barrier"
    assert "# fault: late-warp" in text


def test_warps_wait_for_their_dots() -> None:
    """Hopper reports a wait for `wgmma` as a barrier."""
    halves = torch.zeros(128 * 64, dtype=torch.float16, device=DEVICE)
    tiles = torch.zeros(132 * 128 * 128, device=DEVICE)
    reason, _, text = top_stall(
        lambda: dots_kernel[(132,)](halves, halves, tiles, 2000, BLOCK=128, K=64, num_warps=4)
    )
    assert (reason, text) == ("barrier", "total = tl.dot(a, b, total)")


def test_a_pipelined_matmul_waits_for_its_dot() -> None:
    plain = matmul(4096, (128, 256, 64), 8)
    workload = replace(plain, options={**plain.options, "num_stages": 4})
    with surroundings():
        inputs = workload.inputs(DEVICE)
        reason, _, text = top_stall(lambda: workload.launch(inputs))
    assert reason in ("barrier", "long_scoreboard")
    assert "tl.dot(" in text
