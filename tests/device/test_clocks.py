"""One moment by the GPU's clock and by the host's, from what the GPU answers."""

from __future__ import annotations

import contextlib
import math
import subprocess
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from triton import knobs

from profscope.device import clocks as host_clock
from profscope.device.clocks import Anchor, Answer, HostClocks, anchor, anchor_of, kernel_ptx


@given(
    distance=st.integers(-(10**18), 10**15),
    step=st.sampled_from([1, 32, 1000]),
    delays=st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 5000)), min_size=1, max_size=30),
)
def test_what_is_true_lies_within_the_error(distance: int, step: int, delays: list[tuple[int, int]]) -> None:
    answers, host_ns = [], 10**18
    for to_gpu, back in delays:
        read = host_ns + to_gpu
        answers.append(Answer(host_ns, (read + distance) // step * step, read + back))
        host_ns = read + back + 700
    found = anchor_of(answers)
    assert found is not None
    timer_ns, perf_counter_ns, error_ns = found
    steps = {each.timer_ns for each in answers}
    unseen = step if len(steps) == 1 else 0  # of one value nobody can tell its step
    assert abs(perf_counter_ns - (timer_ns - distance)) <= error_ns + unseen
    # As well as the quickest answer says it, or better.
    quickest = min(to_gpu + back for to_gpu, back in delays)
    assert (
        error_ns <= (quickest + math.gcd(*(late - early for early, late in pairwise(sorted(steps))))) // 2 + 1
    )


def test_a_clock_that_was_set_meanwhile() -> None:
    answers = [Answer(0, 1_000, 2_000), Answer(1_000_000, 3_000, 1_000_500)]
    timer_ns, host_ns, error_ns = anchor_of(answers) or (0, 0, 0)
    assert (timer_ns, host_ns) == (3_000, 1_000_250 - 1000)
    assert error_ns == 250 + 1000  # the quicker answer's own


def test_of_no_answers_nothing_is_known() -> None:
    assert anchor_of([]) is None


def test_where_the_driver_fails_there_is_no_anchor(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(device: int) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(torch.cuda, "set_device", fails)
    assert anchor(0) is None


def test_a_session_keeps_what_it_was_told_and_asks_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter([Anchor(1, 2, 3, 4), None, Anchor(5, 6, 7, 8), None, None, None])
    monkeypatch.setattr(host_clock, "anchor", lambda device: next(moments))
    clocks = HostClocks()
    assert clocks.describe() == {}
    clocks.meet(0)
    clocks.meet(1)
    first = {"timer_ns": 1, "perf_counter_ns": 2, "unix_ns": 3, "error_ns": 4}
    last = {"timer_ns": 5, "perf_counter_ns": 6, "unix_ns": 7, "error_ns": 8}
    assert clocks.describe() == {"host_clock": {"devices": {"0": [first, last]}}}
    assert clocks.describe() == {"host_clock": {"devices": {"0": [first, last]}}}


def test_the_kernel_reads_its_timer_behind_the_question(tmp_path: Path) -> None:
    """By the assembler that Triton ships: between the load of an answered question and the stored timer there
    is a branch, which waits for what was loaded."""
    source, cubin = tmp_path / "k.ptx", tmp_path / "k.cubin"
    source.write_text(kernel_ptx())
    for arch in ("sm_80", "sm_90"):
        subprocess.run([knobs.nvidia.ptxas.path, f"-arch={arch}", source, "-o", cubin], check=True)
    command = [knobs.nvidia.nvdisasm.path, "-c", cubin]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    named = [line for line in listing if any(name in line for name in ("LDG", "BRA", "GLOBALTIMER", "STG"))]
    stored = next(at for at, line in enumerate(named) if "STG" in line)
    assert "GLOBALTIMER" in named[stored - 1]
    assert "BRA" in named[stored - 2]


def test_a_gpu_too_busy_to_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel has not begun when the host has waited as long as it may: another thread waits for its end,
    and what it needs is given back then."""
    ended, unloaded = threading.Event(), threading.Event()
    kept: list[Any] = []

    class Stream:
        cuda_stream, device = 0, 0

        def synchronize(self) -> None:
            ended.wait()

    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: None)
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "device", lambda device: contextlib.nullcontext())
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: kept.append(tensor) or tensor)
    driver = host_clock.cuda_driver
    monkeypatch.setattr(driver, "allow_capture", lambda: None)
    monkeypatch.setattr(driver, "load_module", lambda ptx: "module")
    monkeypatch.setattr(driver, "launch_warp", lambda *arguments: None)
    monkeypatch.setattr(driver, "unload_module", lambda module: unloaded.set())
    assert anchor(0) is None
    assert not unloaded.is_set()
    (words,) = kept
    assert words[0] == len(words) - 1  # the last question: so it ends as soon as it begins
    ended.set()
    assert unloaded.wait(10)
