"""Launches under the sampler of a real GPU: what is kept, and that nothing stands still for it."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.runtime import _allocation

import profscope
from profscope.dispatch.stall_samples import StallSamples
from tests.kernels.add import add_kernel
from tests.support.on_gpu import expected, launch_add

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]

NAME = "add_kernel"
LARGE = 1 << 24
_FAULT = """
import torch, triton, triton.language as tl, profscope

@triton.jit
def fault_kernel(x_ptr, far):
    tl.store(x_ptr + far, 1.0)

x = torch.zeros(32, device="cuda")
fault_kernel[(1,)](x, 0)
try:
    with profscope.session(samples=2):
        fault_kernel[(1,)](x, 0)
        fault_kernel[(1,)](x, 1 << 28)
        torch.cuda.synchronize()
except Exception as error:
    print(type(error).__name__, str(error).splitlines()[0])
"""
# What the driver says of the store far beyond the tensor, by what is mapped there.
_FAULTS = (
    "CUDA error: an illegal memory access was encountered",
    "CUDA error: operation not supported on global/shared address space",
    "[CUDA]: an illegal memory access was encountered",
    "[CUDA]: operation not supported on global/shared address space",
)


@triton.jit
def spin_kernel(mine_ptr, other_ptr, spins, out_ptr):
    """Says that it is here, and waits for the other one, but not for ever."""
    tl.atomic_xchg(mine_ptr, 1)
    n = 0
    alone = tl.atomic_add(other_ptr, 0) == 0
    while alone:
        n += 1
        alone = (tl.atomic_add(other_ptr, 0) == 0) & (n < spins)
    tl.store(out_ptr, n)


def samples_of(prof: profscope.Session) -> StallSamples:
    assert prof._running is not None
    return prof._running.samples


def told(prof: profscope.Session) -> list[tuple[str, int]]:
    return [(each.binary, each.launch) for each in samples_of(prof).taken]


@pytest.fixture(autouse=True)
def the_sampler_may_be_used() -> None:
    with profscope.session(samples=1) as prof:
        launch_add()
        launch_add()
    why = prof.metadata["sampler"].get("why", "")
    if why:
        pytest.skip(why)


@pytest.mark.parametrize("options", [{}, {"every": 2}], ids=str)
def test_bare_launches_behind_the_first_one(options: dict[str, Any]) -> None:
    add_kernel.device_caches.clear()
    x = torch.arange(LARGE, dtype=torch.float32, device="cuda")
    bare = add_kernel[(LARGE // 1024,)](x, x, torch.empty_like(x), LARGE, BLOCK=1024)
    with profscope.session(samples=2, **options) as prof:
        for _ in range(10):
            assert torch.equal(launch_add(LARGE), expected(LARGE))
    assert told(prof) == [("bare", -1)] * 2
    first, second = samples_of(prof).taken
    assert first.cubin == second.cubin == bare.asm["cubin"]
    assert len(prof.launches) == (4 if "every" in options else 8)
    assert prof.profile.validate() == []
    assert "why" not in prof.metadata["sampler"]
    for each in (first, second):
        assert each.taken == each.rows["samples"].sum() >= 1000
        assert each.dropped <= 0.01 * each.taken
        assert np.all(each.rows["pc"] % 16 == 0)
        assert np.all(each.rows["not_issued"] <= each.rows["samples"])
        sass = profscope.instructions(_Compiled(each.cubin, each.ptx))
        assert set(each.rows["pc"].tolist()) <= set(sass["pc"].tolist())
        by_reason = np.bincount(each.rows["reason"], each.rows["samples"], len(each.reasons))
        assert each.reasons[int(by_reason.argmax())] == "long_scoreboard"  # it waits for memory


class _Compiled:
    def __init__(self, cubin: bytes, ptx: str) -> None:
        self.asm = {"cubin": cubin, "ptx": ptx}


def test_session_after_session_whatever_is_loaded_between() -> None:
    for block in (256, 512, 1024):
        add_kernel.device_caches.clear()
        x = torch.rand(LARGE, device="cuda")
        with profscope.session(samples=1) as prof:
            for _ in range(3):
                add_kernel[(LARGE // block,)](x, x, x, LARGE, BLOCK=block)
        assert told(prof) == [("bare", -1)], prof.metadata["notes"]


def test_kernels_that_wait_for_one_another_go_on() -> None:
    """The one thread that launches both must not wait for the first one; both end by themselves after
    seconds."""
    flags = torch.zeros(4, dtype=torch.int32, device="cuda")
    one, two = torch.cuda.Stream(), torch.cuda.Stream()

    def pair(spins: int) -> None:
        flags.zero_()
        torch.cuda.synchronize()
        for stream, mine, other in ((one, 0, 1), (two, 1, 0)):
            with torch.cuda.stream(stream):
                spin_kernel[(1,)](flags[mine:], flags[other:], spins, flags[2 + mine :], num_warps=1)

    spins = 50_000_001  # about half a minute; odd as 11 is, so that one binary does for both
    pair(11)
    with profscope.session(samples=3, instrument="light") as prof:
        pair(11)  # all are compiled and loaded, which waits for what runs
        torch.cuda.synchronize()
        begun = time.monotonic()
        for _ in range(4):
            pair(spins)
            torch.cuda.synchronize()
            assert max(flags[2:].tolist()) < spins
        took = time.monotonic() - begun
    assert took < 20
    assert any(note.startswith("spin_kernel: not sampled any more") for note in prof.metadata["notes"])
    pair(spins)
    torch.cuda.synchronize()
    assert max(flags[2:].tolist()) < spins


def test_captured_launches_are_not_sampled() -> None:
    with profscope.session(samples=2) as prof:
        launch_add()
        stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
        x = torch.zeros(1024, device="cuda")
        add_kernel[(1,)](x, x, x, 1024, BLOCK=1024)
        torch.cuda.synchronize()
        before = told(prof)
        with torch.cuda.graph(graph, stream=stream):
            add_kernel[(1,)](x, x, x, 1024, BLOCK=1024)
        for _ in range(3):
            graph.replay()
        torch.cuda.synchronize()
        assert told(prof) == before
    assert any(f"nor are their replays: {NAME}" in note for note in prof.metadata["notes"])


@pytest.mark.filterwarnings("ignore:Warning. Profiler clears events")
def test_beside_torchs_profiler() -> None:
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as inside, profscope.session(samples=1) as prof:
        for _ in range(3):
            launch_add(LARGE)
        torch.cuda.synchronize()
    assert told(prof) == [("bare", -1)]
    assert sum(event.count for event in inside.key_averages() if NAME in event.key) == 3


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_torch_compile() -> None:
    allocator = _allocation._allocator.get()
    square = torch.compile(lambda x: x * x + 1)
    x = torch.rand(LARGE, device="cuda")
    bare = square(x)
    with profscope.session(samples=1, wait=True) as prof:
        for _ in range(3):
            assert torch.equal(square(x), bare)
    _allocation._allocator.set(allocator)  # Inductor leaves its own
    assert told(prof) == [("bare", -1)], prof.metadata["notes"]


def test_a_fault_is_the_users_to_see(tmp_path: Path) -> None:
    program = tmp_path / "fault.py"  # a kernel needs a file
    program.write_text(_FAULT)
    ended = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=120)
    assert any(fault in ended.stdout for fault in _FAULTS), ended.stdout + ended.stderr


def test_while_other_threads_launch() -> None:
    """CUPTI stands still for ever where one thread starts or stops the sampler and another one launches."""
    ends, launched = threading.Event(), [0, 0]

    def work(at: int, most: int) -> None:
        x = torch.rand(1 << 20, device="cuda")
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            while not ends.is_set():
                add_kernel[(1024,)](x, x, x, 1 << 20, BLOCK=1024)
                x.mul_(0.5)
                launched[at] += 1
                if launched[at] % most == 0:
                    stream.synchronize()

    threads = [threading.Thread(target=work, args=args) for args in ((0, 1), (1, 10))]
    for thread in threads:
        thread.start()
    try:
        for _ in range(3):
            with profscope.session(samples=20) as prof:
                for _ in range(30):
                    launch_add(LARGE)
            assert len(samples_of(prof).taken) > 10
    finally:
        ends.set()
        for thread in threads:
            thread.join()
    assert min(launched) > 100


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two NVIDIA GPUs")
def test_each_gpu_has_a_sampler() -> None:
    with profscope.session(samples=1) as prof:
        for device in (0, 1):
            with torch.cuda.device(device):
                for _ in range(3):
                    launch_add(LARGE)
    assert sorted(binary for binary, _ in told(prof)) == ["bare", "bare"]
