"""Launches that run bare in a session: those that `every=` leaves out, and what an autotuner times."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton import knobs
from triton.compiler import CompiledKernel
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

from profscope import emulator
from profscope.errors import SessionError
from tests.support.sessions import launch, launch_add, launch_collatz, session
from tests.support.validation import validate

# ruff: noqa: N803


@pytest.fixture(autouse=True)
def patched_classes_come_back() -> Iterator[None]:
    owners = (JITFunction, Autotuner, CompiledKernel, type(knobs.compilation), type(knobs.runtime))
    before = [dict(vars(owner)) for owner in owners]
    yield
    assert [dict(vars(owner)) for owner in owners] == before


def test_one_launch_in_so_many_is_recorded_the_first_one_first(ran: list[str]) -> None:
    with session(every=4) as prof:
        for _ in range(10):
            launch()
    assert ran == (["recorded"] + ["bare"] * 3) * 2 + ["recorded", "bare"]
    assert len(prof.launches) == 3
    assert validate(prof.profile.tables) == []


def test_launches_are_counted_for_each_kernel() -> None:
    with session(every=3) as prof:
        for _ in range(4):
            launch_add()
            launch_collatz(3)
    assert prof.launches["kernel"].tolist() == ["add_kernel", "collatz_kernel"] * 2
    counts = {"launches": 4, "recorded": 2}
    assert prof.metadata["sampling"] == {
        "every": 3, "kernels": {"add_kernel": counts, "collatz_kernel": counts}
    }  # fmt: skip
    assert "add_kernel: 2 of 4 launches were recorded" in "\n".join(prof.metadata["notes"])
    summary = prof.summary()
    assert set(zip(summary["launches"], summary["launches_seen"], strict=True)) == {(2, 4)}


@pytest.mark.parametrize("every", [1, 2])
def test_the_users_binary_is_the_bare_one(every: int) -> None:
    with emulator.activate():
        bare = launch()
    with session(every=every):
        assert launch() is bare
        assert launch() is bare
    with emulator.activate():
        assert launch() is bare
    assert "run" not in vars(bare)


@pytest.mark.filterwarnings("ignore::profscope.errors.EmptyProfileWarning")
def test_a_kernel_that_is_never_recorded_keeps_its_own_launcher() -> None:
    with session(kernels="nothing"):
        bare = launch()
        own = vars(bare)["run"]
    assert own is bare._run
    assert "run" not in vars(bare)


def test_a_session_that_samples_neither_nests_nor_lets_another_in() -> None:
    for options in ({"every": 2}, {}):
        with session(every=2), pytest.raises(SessionError, match="already active"), session(**options):
            pass


# Autotuners.


@triton.jit
def tuned_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, at < n) * 2, at < n)


CONFIGS = [triton.Config({"BLOCK": block}, num_warps=warps) for block in (128, 512) for warps in (1, 4)]


class Tuning:
    """An autotuner, and how often it timed one."""

    def __init__(self) -> None:
        self.timed = 0
        self.tuner = triton.autotune(configs=CONFIGS, key=["n"], do_bench=self.bench)(tuned_kernel)

    def bench(self, launch: Any, quantiles: Any) -> list[float]:
        from triton.runtime import driver

        self.timed += 1
        measured: list[float] = driver.active.get_benchmarker()(launch, quantiles=quantiles)
        return measured

    def launch(self, n: int = 1000) -> triton.Config:
        x = torch.arange(n, dtype=torch.float32)
        out = torch.empty_like(x)
        self.tuner[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n)
        assert torch.equal(out, 2 * x)
        return self.tuner.best_config


def timings(tuning: Tuning) -> list[float]:
    return [timing[0] for timing in tuning.tuner.configs_timings.values()]


@pytest.mark.parametrize("options", [{}, {"every": 2}], ids=str)
def test_an_autotuner_chooses_as_without_a_session(options: dict[str, Any], ran: list[str]) -> None:
    with emulator.activate():
        bare = Tuning()
        best = bare.launch()
    tuning = Tuning()
    with session(instrument="heavy", **options):
        assert str(tuning.launch()) == str(best)
    assert tuning.timed == 4
    assert ran[-1] == "recorded"
    assert set(ran[:-1]) == {"bare"}
    assert timings(tuning) == pytest.approx(timings(bare), abs=2e-6)  # ms; the emulator's clock ticks in ns


def test_an_autotuner_in_one_thread_leaves_another_recording() -> None:
    inside, done = threading.Event(), threading.Event()

    class Slow(Tuning):
        def bench(self, launch: Any, quantiles: Any) -> list[float]:
            inside.set()
            done.wait()
            return super().bench(launch, quantiles)

    def work() -> None:
        inside.wait()
        launch()
        done.set()

    with session() as prof:
        other = threading.Thread(target=work)
        other.start()
        Slow().launch()
        other.join()
    assert prof.launches["kernel"].tolist() == ["add_kernel", "tuned_kernel"]
