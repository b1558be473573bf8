"""Threads that launch and compile while a session begins, is paused and ends."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import triton
import triton.language as tl

from profscope import emulator
from tests.support.quick import quick
from tests.support.sessions import session

# ruff: noqa: N803


@triton.jit
def fresh_kernel(out_ptr, VALUE: tl.constexpr):
    tl.store(out_ptr + tl.arange(0, 32), tl.full([32], VALUE, tl.float32))


@pytest.mark.filterwarnings("ignore::profscope.errors.EmptyProfileWarning")
@pytest.mark.parametrize("number", quick(range(12), range(1, 3)))
def test_a_thread_compiles_while_a_session_ends(number: int) -> None:
    """The program's own launch must never fail, whatever moment the session ends at."""

    def work() -> None:
        for value in range(2):
            out = torch.empty(32)
            fresh_kernel[(1,)](out, VALUE=100 * number + value)
            assert (out == 100 * number + value).all()

    with emulator.activate(), ThreadPoolExecutor(1) as pool:  # the device outlives the session
        with session():
            launched = pool.submit(work)
            time.sleep(0.03 * number)
        launched.result()


@triton.jit
def sum_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    total = tl.zeros([BLOCK], tl.float32)
    for at in range(0, n, BLOCK):
        total += tl.load(x_ptr + at + tl.arange(0, BLOCK), at + tl.arange(0, BLOCK) < n, 0.0)
    tl.store(out_ptr, tl.sum(total))


def test_launches_of_two_configurations_with_equal_code_are_not_mixed_up() -> None:
    """100 and 400 differ in what divides them: two configurations, which may have the same PTX."""
    x = torch.ones(512)

    def work(n: int) -> None:
        for _ in range(150):
            sum_kernel[(1,)](x, torch.empty(1), n, BLOCK=32)

    with session(instrument="light") as prof, ThreadPoolExecutor(2) as pool:
        list(pool.map(work, (100, 400)))
    assert sorted(prof.launches.groupby("variant").size()) == [150, 150]
    loops = prof.df[prof.df["kind"] == "loop"].merge(prof.launches[["launch", "variant"]], on="launch")
    cycles = loops.groupby("variant")["duration_cycles"].agg(["min", "max"])
    assert (cycles["min"] == cycles["max"]).all()  # one trip count each
