"""Sessions with `evidence=`: which launches are observed, and what becomes of them.

CUPTI is made up (`tests/support/fake_gpu.py`); the kernels, and the binaries that run, are real.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import profscope
from profscope.dispatch import observing
from profscope.options import Options
from profscope.schema import COUNT_DTYPES, COUNTER_DTYPES
from tests.kernels.add import add_kernel
from tests.support.fake_gpu import FakeHardware
from tests.support.sessions import launch, parts_of_session, session
from tests.support.validation import validate

NAME = "add_kernel"
PASSES = 3


@pytest.fixture(autouse=True)
def compiled_anew(the_class_comes_back: None) -> Iterator[None]:
    yield
    add_kernel.device_caches.clear()


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeHardware:
    return FakeHardware([NAME]).installed(monkeypatch)


def observed(prof: profscope.Session) -> dict[str, int]:
    """By witness, launches of the add."""
    counts: dict[str, int] = prof.metadata["evidence"]["kernels"].get(NAME, {})
    return counts


def test_launches_behind_the_first_run_bare_and_all_others_are_recorded(
    gpu: FakeHardware, ran: list[str]
) -> None:
    with session(evidence=True) as prof:
        for _ in range(10):
            launch()
    assert ran == ["recorded", *["bare"] * (1 + 3 + PASSES), *["recorded"] * 2]
    assert observed(prof) == {"counts": 1, "samples": 3, "counters": PASSES}
    assert len(prof.launches) == 3
    assert validate(prof.profile.tables) == []
    assert prof.metadata["evidence"]["not_measured"] == []
    notes = [note for note in prof.metadata["notes"] if "instruments" in note]
    assert notes == [f"{NAME}: 7 launches ran bare under the hardware's instruments, unrecorded"]
    assert gpu.closed


def test_what_was_measured_stands_in_the_tables(gpu: FakeHardware) -> None:
    with session(evidence=True) as prof:
        for _ in range(8):
            launch()
    assert {name: str(dtype) for name, dtype in prof.counts.dtypes.items()} == COUNT_DTYPES
    assert {name: str(dtype) for name, dtype in prof.counters.dtypes.items()} == COUNTER_DTYPES
    assert prof.counts["executed"].tolist() == [10] * 3
    assert prof.counters.set_index("counter").loc["time", "launches"] == PASSES
    assert prof.samples["samples"].sum() > 1_000
    tensors = prof.metadata["evidence"]["tensors"]
    assert [each["kernel"] for each in tensors] == [NAME]
    assert set(tensors[0]["bytes"].values()) == {10_000}
    tables = (prof.counts, prof.samples, prof.counters)
    assert [set(table["variant"]) for table in tables] == [{0}] * 3


@pytest.mark.parametrize(
    ("evidence", "launches"),
    [
        (["counts"], {"counts": 1}),
        (["samples"], {"samples": 3}),
        (["counters"], {"counters": PASSES}),
        (["counters:lts__t_sectors_op_red.sum"], {"counters": PASSES}),
        (["samples", "counts"], {"counts": 1, "samples": 3}),
    ],
)
def test_only_what_is_asked_for_is_observed(
    gpu: FakeHardware, evidence: list[str], launches: dict[str, int]
) -> None:
    with session(evidence=evidence) as prof:
        for _ in range(8):
            launch()
    assert observed(prof) == launches
    assert len(prof.launches) == 8 - sum(launches.values())
    added = "lts__t_sectors_op_red.sum" in prof.counters["counter"].tolist()
    assert added is (evidence[0].startswith("counters:"))


@triton.jit
def waiting_kernel(flag_ptr):
    while tl.atomic_add(flag_ptr, 0) == 0:
        pass


def test_once_a_kernel_may_wait_for_another_one_nothing_is_observed(
    gpu: FakeHardware, ran: list[str]
) -> None:
    with session(evidence=True) as prof:
        launch()
        waiting_kernel[(1,)](torch.ones(1, dtype=torch.int32))
        for _ in range(3):
            launch()
    assert ran == ["recorded"] * 5
    said = "no evidence from the hardware: waiting_kernel may wait for what another kernel writes"
    assert said in prof.metadata["evidence"]["not_measured"]


def test_in_a_job_of_several_ranks_nothing_is_observed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert "one of several ranks" in observing.occupied_here(Options(evidence=True))


def test_other_launches_are_recorded_and_timed_as_without(gpu: FakeHardware, ran: list[str]) -> None:
    with session(evidence=["counts"], every=3, baseline=1) as prof:
        for _ in range(11):
            launch()
    pairs = ["bare", "bare", "recorded", "recorded"]
    assert ran == ["recorded", "bare", *pairs, "bare", "recorded", "bare", "bare", "recorded"]
    assert prof.metadata["sampling"]["kernels"] == {NAME: {"launches": 11, "recorded": 5}}


def test_launches_of_one_grid_are_observed_and_the_others_recorded(gpu: FakeHardware) -> None:
    with session(evidence=["counters"]) as prof:
        for _ in range(8):
            for n in (2500, 4500):
                launch(n)
    assert observed(prof) == {"counters": PASSES}
    assert len(prof.launches) == 16 - PASSES
    assert prof.metadata["evidence"]["not_measured"] == []


def test_integers_that_change_between_passes_are_noted(gpu: FakeHardware) -> None:
    with session(evidence=["counters"]) as prof:
        for n in (2500, 2501, 2502, 2503, 2505):
            launch(n)
    assert observed(prof) == {"counters": PASSES}
    (note,) = prof.metadata["evidence"]["not_measured"]
    assert note.startswith(f"{NAME}: integer arguments changed")


def test_too_few_launches_are_said(gpu: FakeHardware) -> None:
    with session(evidence=True) as prof:
        for _ in range(4):
            launch()
    assert observed(prof) == {"counts": 1, "samples": 2}
    assert prof.metadata["evidence"]["not_measured"] == [
        f"no {each} of a configuration that had too few launches: {NAME}" for each in ("counters", "samples")
    ]


def test_beside_a_capture_nothing_is_observed(gpu: FakeHardware) -> None:
    class Graphs:
        capturing = True

    with parts_of_session(evidence=["counts"]) as parts:
        graphs = parts.observing.graphs = Graphs()  # type: ignore[assignment]
        launch()
        launch()
        graphs.capturing = False
        launch()
        metadata, _ = parts.so_far()
        assert len(parts.recorder.log) == 2
    assert metadata["evidence"]["kernels"][NAME] == {"counts": 1}
    (said,) = metadata["evidence"]["not_measured"]
    assert said.startswith("1 launch ")
    assert "CUDA graph" in said


def test_launches_that_cannot_be_observed_are_recorded(gpu: FakeHardware, ran: list[str]) -> None:
    gpu.captured = True
    with session(evidence=True) as prof:
        for _ in range(80):
            launch()
    assert ran == ["recorded"] * 80
    assert any("launches could not be observed" in note for note in prof.metadata["evidence"]["not_measured"])


def test_the_emulator_records_all_and_notes_nothing() -> None:
    with session(evidence=True) as prof:
        for _ in range(5):
            launch()
    assert len(prof.launches) == 5
    assert prof.metadata["notes"] == []
    assert prof.metadata["evidence"]["kernels"] == {}
    assert set(prof.counters["metric"]) == {"distinct sectors"}
    assert set(prof.counts["launches"]) == {5}  # as without evidence=
    assert set(prof.samples["binary"]) == {"bare"}


def test_a_metric_that_the_emulator_cannot_read_is_noted() -> None:
    with session(evidence=["counters:lts__t_sectors_op_red.sum"]) as prof:
        launch()
    assert prof.metadata["notes"] == ["the emulator has no hardware to ask"]


def test_without_permission_all_is_recorded(gpu: FakeHardware, ran: list[str]) -> None:
    gpu.cupti.fails = dict.fromkeys(("cuptiSassMetricsSetConfig", "cuptiProfilerInitialize"), 35)
    gpu.probe.fails.add("open")
    with session(evidence=True) as prof:
        for _ in range(5):
            launch()
    assert ran == ["recorded"] * 5
    missing = prof.metadata["evidence"]["not_measured"]
    assert [note.partition(":")[0] for note in missing] == ["no counters", "no counts", "no samples"]
    assert set(missing) <= set(prof.metadata["notes"])


def test_a_binary_that_cannot_be_loaded_again_is_not_sampled(
    gpu: FakeHardware, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(kernel: Any) -> None:
        raise MemoryError("no disk")

    monkeypatch.setattr(observing, "recompile", fail)
    with session(evidence=True) as prof:
        for _ in range(6):
            launch()
    assert observed(prof) == {"counts": 1, "counters": PASSES}
    assert f"{NAME}: no samples: MemoryError: no disk" in prof.metadata["notes"]


def test_a_pause_gives_the_hardware_back_and_ends_nothing(gpu: FakeHardware) -> None:
    with session(evidence=True) as prof:
        for _ in range(3):
            launch()
        prof.pause()
        assert gpu.probe.said[-1] == "close"
        launch()
        prof.resume()
        for _ in range(8):
            launch()
    assert observed(prof) == {"counts": 1, "samples": 3, "counters": PASSES}


def test_proton_behind_which_nothing_can_sample(gpu: FakeHardware, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observing, "proton_has_sampled", lambda: "Proton's pcsampling has been on")
    with session(evidence=True) as prof:
        for _ in range(6):
            launch()
    assert observed(prof) == {"counts": 1, "counters": PASSES}
    assert prof.metadata["evidence"]["not_measured"] == ["no samples: Proton's pcsampling has been on"]


def test_what_is_spooled_comes_back(gpu: FakeHardware, tmp_path: Path) -> None:
    with session(evidence=True, spool=tmp_path) as prof:
        for _ in range(8):
            launch()
    loaded = profscope.load(tmp_path)
    for name in ("counts", "counters", "samples"):
        assert len(getattr(loaded, name)) > 0
        assert getattr(loaded, name).equals(getattr(prof, name))
    assert loaded.metadata["evidence"] == prof.metadata["evidence"]


def test_events_have_cupti_to_themselves(gpu: FakeHardware) -> None:
    with session(evidence=True, events=True) as prof:
        for _ in range(4):
            launch()
    assert len(prof.launches) == 4
    assert prof.metadata["evidence"]["not_measured"] == ["events=True has CUPTI to itself"]
