"""Sessions with `evidence=["experiments"]`: which launches get them, and that the program sees none of it."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import profscope
from profscope import emulator
from profscope.analysis.rules.tested import experiment_of
from profscope.dispatch import experimenting
from profscope.experiments.plan import Experiment
from profscope.experiments.running import OUT_OF_TIME, Result
from tests.kernels.atomics import lock_kernel
from tests.kernels.repeated import increased, scattered_sum
from tests.support.fake_gpu import FakeHardware
from tests.support.sessions import parts_of_session, same_bits, session
from tests.support.validation import validate

pytestmark = pytest.mark.usefixtures("builds_are_shared")

LONG = "seconds:600"  # nothing here depends on how fast the machine is


@triton.jit
def printing(x_ptr):
    tl.device_print("x", tl.load(x_ptr))


@triton.jit
def far(address_ptr):
    place = tl.load(address_ptr).to(tl.pointer_type(tl.float32))
    tl.store(place, tl.load(place) + 1.0)


@pytest.fixture(autouse=True)
def compiled_anew(the_class_comes_back: None) -> Iterator[None]:
    yield
    for kernel in (scattered_sum, increased, printing, far, lock_kernel):
        kernel.device_caches.clear()


def program(rounds: int) -> dict[str, torch.Tensor]:
    """Two kernels in turn, each adding to what it left; the larger storage is around a view that is launched
    with."""
    x, whole, small = torch.arange(2048.0), torch.full((2048 * 64 + 64,), 3.0), torch.zeros(64)
    for _ in range(rounds):
        increased[(1,)](small, BLOCK=64)
        scattered_sum[(4,)](x, whole[64:], 64, BLOCK=512)
    return {"x": x, "whole": whole, "small": small}


def not_measured(prof: profscope.Session) -> list[str]:
    missing: list[str] = prof.metadata["evidence"]["not_measured"]
    return missing


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[profscope.Session, dict[str, torch.Tensor]]:
    with session(evidence=["experiments", LONG], spool=tmp_path_factory.mktemp("spool")) as prof:
        results = program(8)
    return prof, results


def test_the_bigger_kernel_is_first(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    monkeypatch.setattr(experimenting, "run", lambda bare, *_: tried.append(bare.name) or [])
    with session(evidence=["experiments", LONG]) as prof:
        program(4)
    assert tried == ["scattered_sum"]
    (missing,) = not_measured(prof)
    assert missing == "no experiments of a configuration that had too few launches (4 are needed): increased"


def test_results_are_those_of_the_program_alone(recorded: Any) -> None:
    with emulator.activate():
        bare = program(8)
    assert same_bits(recorded[1], bare)


def test_experiments_are_of_the_recorded_configurations(recorded: Any) -> None:
    prof, _ = recorded
    table, launches = prof.experiments, prof.launches
    assert set(table["kernel"]) == {"scattered_sum", "increased"}
    keys = set(zip(launches["kernel"], launches["variant"], strict=True))
    assert set(zip(table["kernel"], table["variant"], strict=True)) == keys
    timed = table[table["valid"]]
    assert timed["time_kcycles"].gt(0).all()
    assert table["time_us"].isna().all(), "cycles are no GPU time"
    assert validate(prof.profile.tables) == []


def test_what_they_took_is_told(recorded: Any) -> None:
    prof, _ = recorded
    evidence = prof.metadata["evidence"]
    made = {name: launches["experiments"] for name, launches in evidence["kernels"].items()}
    assert made["scattered_sum"] > made["increased"] > 3
    assert evidence["added_s"] > 0
    assert evidence["not_measured"] == []
    assert f"increased: {made['increased']} launches for experiments, unrecorded" in prof.metadata["notes"]
    assert len(prof.launches) == 2 * (8 - 1), "one launch of each was timed"
    assert set(prof.counts["launches"]) == {7}, "instructions are counted as without experiments"


def test_a_finding_meets_its_experiment(recorded: Any) -> None:
    prof, _ = recorded
    findings = prof.findings()
    store = findings[findings["finding"] == "uncoalesced-store"].iloc[0]
    own = prof.experiments[prof.experiments["variant"] == store["variant"]]
    test = experiment_of(store["finding"], store["file"], store["line"], own)
    assert test is not None
    assert (test["kernel"], test["experiment"]) == ("scattered_sum", "contiguous")
    assert test["saved_pct"] > 5


def test_a_spool_has_them(recorded: Any) -> None:
    prof, _ = recorded
    assert profscope.load(prof.spool).experiments.equals(prof.experiments)


def test_a_budget_that_is_spent_is_a_reason() -> None:
    with session(evidence=["experiments", "seconds:1e-9"]) as prof:
        results = program(8)
    with emulator.activate():
        assert same_bits(results, program(8))
    assert prof.experiments.empty
    assert not_measured(prof) == ["no experiments, since 1e-09 s are spent: increased, scattered_sum"]
    assert len(prof.launches) == 15


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        (lock_kernel, "it may wait for what another kernel writes"),
        (printing, r"line \d+: it prints"),
        (far, r"line \d+: it writes or reads where no argument points to"),
    ],
)
def test_a_kernel_that_cannot_be_repeated_is_refused_by_name(kernel: Any, reason: str) -> None:
    hidden = torch.zeros(1)
    arguments = {
        lock_kernel: (torch.zeros(1, dtype=torch.int32), torch.zeros(1), torch.ones(1)),
        printing: (torch.zeros(1),),
        far: (torch.tensor([hidden.data_ptr()]),),
    }
    with session(evidence=["experiments", LONG]) as prof:
        for _ in range(5):
            kernel[(1,)](*arguments[kernel])
    (missing,) = not_measured(prof)
    assert re.fullmatch(f"{kernel.__name__}: no experiments: {reason}", missing)
    assert prof.experiments.empty
    assert hidden.item() == (5.0 if kernel is far else 0.0)


def test_memory_of_other_libraries_cannot_be_copied() -> None:
    class Foreign:
        shape, dtype = (64,), torch.float32

        def data_ptr(self) -> int:
            return int(hidden.data_ptr())

    hidden = torch.zeros(64)
    with session(evidence=["experiments", LONG]) as prof:
        for _ in range(5):
            increased[(1,)](Foreign(), BLOCK=64)
    assert hidden.eq(5.0).all()
    assert not_measured(prof) == [
        "increased: no experiments: x_ptr is no tensor of torch, and its memory cannot be copied"
    ]


def test_without_room_for_a_copy_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experimenting, "free_bytes", lambda: 1 << 20)
    x = torch.zeros(1 << 18)
    with session(evidence=["experiments", LONG]) as prof:
        for _ in range(4):
            increased[(1,)](x, BLOCK=64)
    (missing,) = not_measured(prof)
    assert missing.endswith("there is no room for a copy of its arguments: 1 MiB, and 1 are free")


def test_a_kernel_whose_experiments_all_ran_out_of_time_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def spend(*_: Any) -> list[Result]:
        time.sleep(0.3)
        return [Result(Experiment("off", (), "", "store"), why_not=OUT_OF_TIME)]

    monkeypatch.setattr(experimenting, "run", spend)
    with session(evidence=["experiments", "seconds:0.2"]) as prof:
        program(4)
    assert not_measured(prof) == ["no experiments, since 0.2 s are spent: increased, scattered_sum"]


def test_an_experiment_that_fails_harms_no_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(bare: Any, launch: Any, *_: Any) -> None:
        launch(None)
        raise RuntimeError("the compiler is gone")

    monkeypatch.setattr(experimenting, "run", fail)
    with session(evidence=["experiments", LONG]) as prof:
        results = program(4)
    assert results["small"].eq(4.0).all()
    assert "scattered_sum: no experiments: RuntimeError: the compiler is gone" in not_measured(prof)


def test_launches_on_another_stream_are_left_alone() -> None:
    x = torch.zeros(64)
    with session(evidence=["experiments", LONG]) as prof:
        compiled: Any = increased[(1,)](x, BLOCK=64)
        for _ in range(5):
            launched = compiled.function, compiled.packed_metadata
            compiled.run(1, 1, 1, 7, *launched, None, None, None, x, 64)
    assert x.eq(6.0).all()
    skipped, _ = not_measured(prof)
    assert skipped == (
        "2 launches went on without experiments: it was on another stream than the current one"
    )


def test_while_a_graph_is_captured_there_are_none() -> None:
    x = torch.zeros(64)
    with parts_of_session(evidence=["experiments", LONG]) as parts:
        parts.observing.graphs = SimpleNamespace(capturing=True)  # type: ignore[assignment]
        for _ in range(4):
            increased[(1,)](x, BLOCK=64)
        missing = parts.so_far()[0]["evidence"]["not_measured"]
    assert missing == ["3 launches went on without experiments: a CUDA graph was being captured"]


def test_of_several_threads_none_is_disturbed() -> None:
    x, other = torch.zeros(64), torch.zeros(64)
    launched, ended = threading.Event(), threading.Event()

    def work() -> None:
        for _ in range(2):
            increased[(1,)](other, BLOCK=64)
        launched.set()
        ended.wait()

    with session(evidence=["experiments", LONG]) as prof:
        thread = threading.Thread(target=work)
        thread.start()
        launched.wait()
        for _ in range(3):
            increased[(1,)](x, BLOCK=64)
        ended.set()
        thread.join()
        skipped, *_ = not_measured(prof)
        for _ in range(3):
            increased[(1,)](x, BLOCK=64)
    assert skipped.startswith("1 launch went on without experiments: several threads launch kernels")
    assert len(prof.experiments) > 0, "the other thread is gone"


def test_other_evidence_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeHardware(["increased"]).installed(monkeypatch)
    x = torch.zeros(64)
    with session(evidence=["counts", "experiments", LONG]) as prof:
        for _ in range(3):
            increased[(1,)](x, BLOCK=64)
        assert prof.metadata["evidence"]["kernels"] == {"increased": {"counts": 1, "experiments": 1}}
        increased[(1,)](x, BLOCK=64)
    assert x.eq(4.0).all()
    assert len(prof.experiments) > 0
    assert len(prof.counts) > 0


@pytest.mark.parametrize(
    ("options", "environment", "reason"),
    [
        ({"events": True}, {}, "events=True would record their launches, too"),
        ({}, {"WORLD_SIZE": "2", "RANK": "0"}, "this is one of several ranks"),
    ],
)
def test_sessions_that_make_none(
    options: Any, environment: dict[str, str], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with session(evidence=["experiments"], **options) as prof:
        program(1)
    (missing,) = not_measured(prof)
    assert missing.startswith(f"no experiments: {reason}")
