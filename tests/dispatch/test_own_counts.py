"""Sessions in which kernels count by themselves: which launches do, and what becomes of their counts.

The driver and CUPTI are made up. ptxas assembles the counting PTX, which runs on the emulator, and its words
are read for a binary that ptxas has made of the bare PTX.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton import knobs

import profscope
from profscope.compat.edited import Assembly, assembly_of
from profscope.dispatch import observing, own_counts, running
from profscope.errors import CompileError
from profscope.evidence.cupti import EVENTS, SamplerError
from profscope.evidence.subject import Subject
from tests.kernels.add import add_kernel
from tests.support.fake_cupti import FakeMachine
from tests.support.fake_gpu import FakeHardware
from tests.support.own_counts import EmulatedKernel
from tests.support.sessions import launch_add, session

NAME = "add_kernel"
N, SECTORS = 4096, 3 * 4096 * 4 // 32
INSUFFICIENT_PRIVILEGES = 35


class EmulatedAssembly:
    """The real one's, but what is loaded is PTX."""

    def __init__(self, kernel: Any) -> None:
        self._real = assembly_of(kernel)

    def cubin(self, ptx: str) -> bytes:
        assert self._real.cubin(ptx)
        return ptx.encode()


@cache
def assembled(ptx: str) -> bytes:
    return Assembly([knobs.nvidia.ptxas.path, "-lineinfo", "--gpu-name=sm_80"]).cubin(ptx)


def subject_with_cubin(**fields: Any) -> Subject:
    return Subject(**fields | {"cubin": assembled(fields["ptx"])})


@pytest.fixture(autouse=True)
def compiled_anew(the_class_comes_back: None) -> Iterator[None]:
    yield
    add_kernel.device_caches.clear()


@pytest.fixture(autouse=True)
def all_memory_comes_back(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(EmulatedKernel, "loaded", 0)
    yield
    assert EmulatedKernel.loaded == 0


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeHardware:
    gpu = FakeHardware([NAME]).installed(monkeypatch)
    count_on(gpu, monkeypatch)
    return gpu


def count_on(machine: FakeMachine | str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have kernels count by themselves on a GPU that is made up; or why there is none."""
    monkeypatch.setattr(running, "gpu_here", lambda backend, options: machine)
    monkeypatch.setattr(observing, "OwnCounts", own_counts.OwnCounts)
    monkeypatch.setattr(own_counts, "LoadedKernel", EmulatedKernel)
    monkeypatch.setattr(own_counts, "assembly_of", EmulatedAssembly)
    monkeypatch.setattr(observing, "Subject", subject_with_cubin)


def refuse_cupti(gpu: FakeHardware) -> None:
    calls = "cuptiSassMetricsSetConfig", "cuptiProfilerInitialize"
    gpu.cupti.fails = dict.fromkeys(calls, INSUFFICIENT_PRIVILEGES)
    gpu.probe.fails.add("open")


def observed(prof: profscope.Session) -> dict[str, int]:
    """By witness, launches of the add."""
    counts: dict[str, int] = prof.metadata["evidence"]["kernels"].get(NAME, {})
    return counts


def missing(prof: profscope.Session) -> list[str]:
    texts: list[str] = prof.metadata["evidence"]["not_measured"]
    return texts


def add(n: int = N) -> None:
    assert torch.equal(launch_add(n), 2 * torch.arange(n, dtype=torch.float32))


def test_the_second_launch_counts_and_the_others_are_recorded(gpu: FakeHardware, ran: list[str]) -> None:
    with session(evidence=["records"]) as prof:
        for _ in range(5):
            add()
    assert ran == ["recorded", "bare", *["recorded"] * 3]
    assert observed(prof) == {"records": 1}
    assert len(prof.launches) == 4
    assert missing(prof) == []
    assert [note for note in prof.metadata["notes"] if NAME in note] == [f"{NAME}: one counted by itself"]
    counts = prof.counts
    assert (counts["sectors"].sum(), counts["sectors_ideal"].sum()) == (SECTORS, SECTORS)
    assert set(counts["launches"]) == {1}
    loads = counts[counts["opcode"].astype(str).str.startswith("LDG")]
    assert loads["threads"].sum() * 16 == 2 * 4 * N  # 16 bytes a lane, of two tensors
    assert set(loads["line"]) == {add_kernel.fn.__code__.co_firstlineno + at for at in (5, 6)}
    assert (counts["executed"].max(), len(gpu.cupti.said)) == (16, 0)


def test_counts_that_the_driver_refuses(gpu: FakeHardware, ran: list[str]) -> None:
    refuse_cupti(gpu)
    with session(evidence=True) as prof:
        for _ in range(5):
            add()
    assert observed(prof) == {"records": 1}
    assert ran.count("bare") == 1
    assert "kernels counted their instructions and sectors by themselves instead" in missing(prof)
    assert [note for note in missing(prof) if note.startswith("no counts")]
    assert prof.counts["sectors"].sum() == SECTORS


def test_what_has_cupti_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also several ranks, or no CUPTI: counts are asked for, and nothing is observed."""
    count_on(FakeMachine(), monkeypatch)
    monkeypatch.setattr(observing, "occupied_here", lambda options: EVENTS)
    with session(evidence=["counts"]) as prof:
        for _ in range(4):
            add()
    assert observed(prof) == {"records": 1}
    assert missing(prof)[:2] == [
        EVENTS, "kernels counted their instructions and sectors by themselves instead"
    ]  # fmt: skip


def test_counts_that_cupti_gives_are_not_counted_again(gpu: FakeHardware) -> None:
    with session(evidence=["counts"]) as prof:
        for _ in range(5):
            add()
    assert observed(prof) == {"counts": 1}


def test_without_a_driver_all_is_recorded(monkeypatch: pytest.MonkeyPatch, ran: list[str]) -> None:
    count_on("no CUDA driver", monkeypatch)
    with session(evidence=["counts", "records"]) as prof:
        for _ in range(3):
            add()
    assert ran == ["recorded"] * 3
    assert missing(prof) == ["no CUDA driver"]


def test_the_launch_that_counts_has_the_grid_of_the_first_one(gpu: FakeHardware) -> None:
    """The kernel is not loaded at first, so that launches of several grids come by."""
    gpu.captured = True
    with session(evidence=["records"]) as prof:
        for n in (N, N, 2 * N, 2 * N):
            add(n)
        gpu.captured = False
        add(2 * N)
        assert observed(prof) == {}
        add(N)
        add(2 * N)
    assert observed(prof) == {"records": 1}
    assert prof.counts["sectors"].sum() == SECTORS
    assert len(prof.launches) == 6


def test_while_a_graph_is_captured_nothing_is_loaded(gpu: FakeHardware) -> None:
    gpu.captured = True
    with session(evidence=["records"]) as prof:
        for _ in range(3):
            add()
    assert observed(prof) == {}
    assert missing(prof) == [f"no records of a configuration that had too few launches: {NAME}"]


def test_once_its_seconds_are_spent_the_program_waits_for_no_ptxas(
    gpu: FakeHardware, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its kernel is built all the same, and counts when it is ready."""
    may_end = threading.Event()

    class Slow(EmulatedAssembly):
        def cubin(self, ptx: str) -> bytes:
            may_end.wait()
            return super().cubin(ptx)

    monkeypatch.setattr(own_counts, "assembly_of", Slow)
    refuse_cupti(gpu)
    with session(evidence={"seconds": 1e-9}) as prof:
        for _ in range(4):
            add()
        assert observed(prof) == {}
        may_end.set()
        while not observed(prof):
            add()
    assert observed(prof) == {"records": 1}
    assert prof.counts["sectors"].sum() == SECTORS


@pytest.mark.parametrize("said", ["ptxas ended with 255: error", "ptxas ended with -11: no message"])
def test_a_ptxas_that_fails_is_noted(said: str, gpu: FakeHardware, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(EmulatedAssembly):
        def cubin(self, ptx: str) -> bytes:
            raise CompileError(said)

    monkeypatch.setattr(own_counts, "assembly_of", Failing)
    with session(evidence=["records"]) as prof:
        for _ in range(4):
            add()
    assert len(prof.launches) == 4
    assert missing(prof) == [f"{NAME}: it could not count by itself: {said}"]


def test_a_kernel_that_cannot_be_loaded_is_noted(gpu: FakeHardware, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*_: Any) -> None:
        raise SamplerError("CUDA_ERROR_OUT_OF_MEMORY")

    monkeypatch.setattr(own_counts, "LoadedKernel", load)
    with session(evidence=["records"]) as prof:
        for _ in range(4):
            add()
    assert len(prof.launches) == 4
    assert missing(prof) == [f"{NAME}: it could not count by itself: CUDA_ERROR_OUT_OF_MEMORY"]


def test_an_empty_grid_counts_nothing(gpu: FakeHardware) -> None:
    x = torch.zeros(0)
    with session(evidence=["records"]) as prof:
        add()
        for _ in range(3):
            add_kernel[(0,)](x, x, x, N, BLOCK=1024)
    assert observed(prof) == {}
    assert prof.counts.empty


def test_a_launch_that_raises_is_the_users_to_see(gpu: FakeHardware, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(about: Any) -> None:
        raise KeyError("the user's own")

    with session(evidence=["records"]) as prof:
        add()
        with monkeypatch.context() as patch:
            patch.setattr(knobs.runtime, "launch_enter_hook", refuse)
            with pytest.raises(KeyError, match="the user's own"):
                add()
        add()
    assert prof.counts.empty
    assert missing(prof) == [f"{NAME}: it could not count by itself: its launch failed"]


def test_of_several_threads_one_counts(gpu: FakeHardware) -> None:
    ready = threading.Barrier(4)
    sums: list[torch.Tensor] = []

    def work(number: int) -> None:
        ready.wait()
        sums.extend(launch_add(N) for _ in range(5))

    with session(evidence=["records"]) as prof, ThreadPoolExecutor(4) as pool:
        add()
        list(pool.map(work, range(4)))
    assert all(torch.equal(each, sums[0]) for each in sums)
    assert observed(prof) == {"records": 1}
    assert len(prof.launches) == 20
    assert prof.counts["sectors"].sum() == SECTORS


def test_counts_are_read_while_the_session_goes_on(gpu: FakeHardware) -> None:
    with session(evidence=["records"]) as prof:
        for _ in range(3):
            add()
        gpu.busy = True
        assert prof.counts.empty
        gpu.busy = False
        add()
        assert prof.counts["sectors"].sum() == SECTORS
        assert EmulatedKernel.loaded == 0
    assert prof.counts["sectors"].sum() == SECTORS


def test_a_kernel_that_still_runs_at_the_end_is_noted(gpu: FakeHardware) -> None:
    with session(evidence=["records"]) as prof:
        add()
        add()
        gpu.busy = True
    assert prof.counts.empty
    assert missing(prof) == [f"{NAME}: it could not count by itself: its launch did not end within 5 s"]
    EmulatedKernel.loaded -= 1  # a kernel that runs cannot be unloaded


@triton.jit
def waiting_kernel(flag_ptr):
    while tl.atomic_add(flag_ptr, 0) == 0:
        pass


def test_once_a_kernel_may_wait_for_another_one_kernels_are_loaded_while_nothing_runs(
    gpu: FakeHardware,
) -> None:
    """The GPU may wait for what is launched next, and to load a kernel waits for the GPU."""
    flag = torch.ones(1, dtype=torch.int32)
    gpu.busy = True
    with session(evidence=["records"]) as prof:
        for _ in range(2):
            waiting_kernel[(1,)](flag)
            add()
        assert prof.metadata["evidence"]["kernels"] == {}
        gpu.busy = False
        waiting_kernel[(1,)](flag)
        add()
    assert prof.metadata["evidence"]["kernels"] == {NAME: {"records": 1}, "waiting_kernel": {"records": 1}}
