"""Sessions that sample: which launches run bare under the sampler, and what is kept of them.

The sampler is made up; the kernels, and the binaries that run, are real.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import triton

import profscope
from instrument_passes.errors import PassError
from profscope import emulator
from profscope.dispatch import recording_stages, running, stall_samples
from profscope.sampler.gpu import Gpu
from profscope.sampler.sampled import SampledLaunch
from tests.kernels.add import add_kernel
from tests.support.fake_sampler import CRC, STRANGER, FakeGpu, FakeProbe
from tests.support.sessions import launch, recording, session

NAME = "add_kernel"
X = torch.arange(40, dtype=torch.float32)


@pytest.fixture(autouse=True)
def forgotten(the_class_comes_back: None) -> Iterator[None]:
    yield
    add_kernel.device_caches.clear()


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    """In place of the GPU that there is not."""
    made = FakeGpu(FakeProbe(functions=(NAME, "callee")))

    def here(machine: object) -> Gpu:
        return made

    monkeypatch.setattr(running, "gpu_here", here)
    return made


def taken(prof: profscope.Session) -> list[SampledLaunch]:
    assert prof._running is not None
    return prof._running.samples.taken


def told(prof: profscope.Session) -> list[tuple[str, int]]:
    return [(each.binary, each.launch) for each in taken(prof)]


def loaded(prof: profscope.Session) -> Any:
    """The only binary that is sampled."""
    assert prof._running is not None
    (sampled,) = prof._running.samples._sampled.values()
    return sampled.binary


def test_launches_after_the_first_run_bare_under_the_sampler(gpu: FakeGpu, ran: list[str]) -> None:
    with emulator.activate():
        bare = launch()
    ran.clear()
    with session(samples=True) as prof:
        for _ in range(8):
            launch()
        assert loaded(prof).kernel.hash == bare.hash  # so Triton's cache has it
    assert loaded(prof) is None
    assert ran == ["recorded", *["bare"] * 3, *["recorded"] * 4]
    assert told(prof) == [("bare", -1)] * 3
    assert len(prof.launches) == 5
    assert prof.profile.validate() == []
    assert prof.metadata["sampler"]["kernels"] == {NAME: {"bare": 3}}
    assert f"{NAME}: 3 launches ran bare under the sampler, unrecorded" in prof.metadata["notes"]
    first = taken(prof)[0]
    assert first.cubin == bare.kernel  # the very one that runs without a session
    assert ".entry add_kernel" in first.ptx
    assert gpu.closed == gpu.opened == [1]


def test_rows_are_those_of_the_kernel_alone(gpu: FakeGpu) -> None:
    with session(samples=1) as prof:
        launch()
        launch()
    (one,) = taken(prof)
    assert (one.kernel, one.taken, one.in_callees, one.dropped) == (NAME, 4_000, 4_000, 0)
    assert one.rows["samples"].sum() == one.taken
    (variant,) = prof.metadata["variants"][NAME]
    assert one.variant_key == variant["key"] != ""


def test_together_with_every(gpu: FakeGpu, ran: list[str]) -> None:
    with session(every=2, samples=1) as prof:
        for _ in range(7):
            launch()
    assert ran == ["recorded", "bare"] * 3 + ["recorded"]
    assert told(prof) == [("bare", -1)]
    assert prof.metadata["sampling"]["kernels"] == {NAME: {"launches": 7, "recorded": 4}}


def test_each_configuration_is_sampled(gpu: FakeGpu) -> None:
    with session(samples=1) as prof:
        for _ in range(3):
            for n in (2500, 2512):
                launch(n)
    assert told(prof) == [("bare", -1)] * 2
    assert len({each.variant_key for each in taken(prof)}) == 2


def test_a_binary_that_is_launched_itself(gpu: FakeGpu, ran: list[str]) -> None:
    out = torch.zeros_like(X)
    with emulator.activate():
        bare = add_kernel.warmup(X, X, out, 40, BLOCK=1024, grid=(1,))
        with session(samples=1) as prof:
            for _ in range(3):
                bare[(1, 1, 1)](X, X, out, 40, 1024)
    assert ran == ["recorded", "bare", "recorded"]
    assert told(prof) == [("bare", -1)]
    assert torch.equal(out, 2 * X)


def test_trials_are_not_sampled(gpu: FakeGpu) -> None:
    configs = [triton.Config({"BLOCK": block}) for block in (512, 1024)]
    tuned = triton.autotune(configs, key=["n"])(add_kernel)
    with session(samples=1) as prof:
        for _ in range(3):
            tuned[lambda meta: (triton.cdiv(40, meta["BLOCK"]),)](X, X, torch.empty_like(X), 40)
    assert told(prof) == [("bare", -1)]
    assert len(prof.launches) == 2


def test_what_is_captured_is_recorded_and_not_sampled(gpu: FakeGpu) -> None:
    class Graphs:
        capturing = True

    with session(samples=2) as prof:
        assert prof._running is not None
        graphs = Graphs()
        prof._running.samples._graphs = graphs  # type: ignore[assignment]
        launch()
        launch()
        assert told(prof) == []
        graphs.capturing = False
        launch()
        prof._running.recorder.launches.captured[NAME] = 1
    assert told(prof) == [("bare", -1)]
    assert len(prof.launches) == 2
    assert any(note.endswith(f"nor are their replays: {NAME}") for note in prof.metadata["notes"])


def test_the_emulator_has_none_and_records_all() -> None:
    with session(samples=True) as prof:
        for _ in range(5):
            launch()
    why = "the emulator has no hardware sampler"
    assert prof.metadata["sampler"] == {"kernels": {}, "why": why}
    assert prof.metadata["notes"] == [f"no samples: {why}"]
    assert prof.metadata["options"]["samples"] is True
    assert len(prof.launches) == 5


def test_where_the_sampler_is_refused_all_is_recorded(gpu: FakeGpu, ran: list[str]) -> None:
    gpu.why = "only administrators may"
    with session(samples=2) as prof:
        for _ in range(5):
            launch()
    assert ran == ["recorded"] * 5
    assert prof.metadata["sampler"]["why"] == gpu.why
    assert prof.metadata["notes"] == [f"no samples: {gpu.why}"]


def test_where_the_sampler_fails_on_the_way_the_rest_is_recorded(gpu: FakeGpu, ran: list[str]) -> None:
    with session(samples=3) as prof:
        launch()
        launch()
        gpu.made.fails.add("start")
        for _ in range(4):
            launch()
    assert ran == ["recorded", "bare", "bare", "recorded", "recorded", "recorded"]
    assert len(taken(prof)) == 1
    assert "no samples any more: start has failed" in prof.metadata["notes"]
    assert gpu.closed == [1]


def test_a_kernel_that_waits_for_others_is_left_alone_by_name(gpu: FakeGpu) -> None:
    with session(samples=2) as prof:
        launch()
        gpu.ends = lambda: gpu.made.said[-1:] != ["start"]
        for _ in range(4):
            launch()
    assert taken(prof) == []
    assert len(prof.launches) == 4
    assert any(note.startswith(f"{NAME}: not sampled any more:") for note in prof.metadata["notes"])


def test_samples_of_another_binary_of_its_name_are_told_apart(gpu: FakeGpu) -> None:
    probe = gpu.made
    probe.functions, probe.checksums = (NAME, NAME), [CRC, STRANGER]
    with session(samples=4) as prof:
        launch()
        launch()
        assert [np.unique(each.rows["cubin_crc"]).tolist() for each in taken(prof)] == [[CRC]]
        probe.checksums, probe.unknown = [0, STRANGER], 5
        launch()
        probe.unknown = 0
        launch()
        assert len(taken(prof)) == 1
    said = [note for note in prof.metadata["notes"] if "left out" in note]
    assert said == [
        "samples of 1 launch are left out: CUPTI has not seen the binary that they are of",
        "samples of 1 launch are left out: there are none; the kernel is too short",
    ]


def test_the_period_adapts_and_few_samples_are_said(gpu: FakeGpu) -> None:
    gpu.made.per_launch = 40
    with session(samples=3) as prof:
        for _ in range(4):
            launch()
    assert gpu.made.periods == [12, 5, 5]
    assert [each.taken for each in taken(prof)] == [10, 1280, 1280]
    assert f"{NAME}: fewer than 1,000 samples; a larger samples= takes more" not in prof.metadata["notes"]


def test_a_kernel_that_cannot_be_compiled_again_is_recorded(
    gpu: FakeGpu, ran: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(binary: Any) -> None:
        raise MemoryError("no disk")

    monkeypatch.setattr(stall_samples, "recompile", fail)
    with session(samples=2) as prof:
        for _ in range(5):
            launch()
    assert ran == ["recorded"] * 5
    assert told(prof) == []
    assert [note for note in prof.metadata["notes"] if "MemoryError" in note] == [
        f"{NAME}: no launch ran under the sampler: MemoryError: no disk"
    ]


def test_a_kernel_that_cannot_be_instrumented_is_sampled_too(
    gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any) -> None:
        raise PassError("a kernel of its own kind")

    monkeypatch.setattr(recording_stages, "run_pipeline", refuse)
    with emulator.activate():
        bare = launch()
    empty = pytest.warns(profscope.EmptyProfileWarning, match="no launch was recorded")
    with empty, session(samples=2, kernels="|1236") as prof:  # other tests have not compiled for it
        for _ in range(5):
            launch()
    assert told(prof) == [("bare", -1)] * 2
    assert {each.cubin for each in taken(prof)} == {bare.kernel}
    assert len(prof.launches) == 0
    assert any(
        note.startswith(f"{NAME} runs bare: a kernel of its own kind") for note in prof.metadata["notes"]
    )


def test_threads_lose_no_launch(gpu: FakeGpu) -> None:
    ready = threading.Barrier(4)

    def work() -> None:
        ready.wait()
        for _ in range(5):
            launch()

    with session(samples=6) as prof:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(binary for binary, _ in told(prof)) == ["bare"] * 6
    assert len(prof.launches) == 20 - 6


def test_everything_comes_back_when_the_body_raises(gpu: FakeGpu) -> None:
    def body() -> None:
        with session(samples=1):
            launch()
            launch()
            raise KeyError("the user's own")

    with pytest.raises(KeyError, match="the user's own"):
        body()  # the fixtures compare
    assert gpu.closed == [1]
    with emulator.activate():
        assert not recording(launch())


def test_a_pause_ends_no_sampling(gpu: FakeGpu) -> None:
    with session(samples=2) as prof:
        for _ in range(2):
            launch()
        prof.pause()
        launch()
        prof.resume()
        for _ in range(4):
            launch()
    assert told(prof) == [("bare", -1)] * 2
    assert gpu.closed == [1, 1]


def test_each_session_loads_what_it_samples(gpu: FakeGpu) -> None:
    """CUPTI may not know what was loaded before it was opened."""
    modules = []
    for _ in range(2):
        with session(samples=1) as prof:
            for _ in range(2):
                launch()
            modules.append(loaded(prof).kernel)
            launch()
        assert told(prof) == [("bare", -1)]
    assert modules[0] is not modules[1]
    assert modules[0].hash == modules[1].hash
