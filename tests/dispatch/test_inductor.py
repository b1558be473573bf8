"""torch.compile's tuners, on the emulator: what they compile, time and keep is bare, and what they launch in
a session is recorded. A whole torch.compile needs a GPU: `tests/gpu`."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any
from unittest import mock

import pytest
import torch
import triton
from triton.runtime import _allocation, driver

import profscope.compat.inductor
from profscope import emulator
from profscope.dispatch import experimenting
from profscope.dispatch import inductor as profscope_inductor
from tests.support.fake_gpu import FakeHardware
from tests.support.sessions import session
from tests.support.validation import validate

_GENERATED = """\
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers

@triton.jit
def triton_per_max(in_ptr0, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    at = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    x = tl.load(in_ptr0 + at, at < xnumel)
    high = triton_helpers.max2(x, 0)
    high += triton_helpers.max2(-x, 0)
    tl.store(out_ptr0 + at, x * 2 + high * 0, at < xnumel)
"""


@pytest.fixture(scope="module")
def inductor() -> Any:
    """`tests.support.inductor`, imported where the first test runs: importing Inductor takes seconds."""
    return pytest.importorskip("tests.support.inductor")


@pytest.fixture(autouse=True)
def the_emulator_is_the_gpu(monkeypatch: pytest.MonkeyPatch, inductor: Any) -> Iterator[None]:
    monkeypatch.setenv("PROFSCOPE_EMULATOR", "1")
    for name in ("_active", "_default"):  # launches outside of sessions make the emulator the default driver
        monkeypatch.setattr(driver, name, getattr(driver, name))
    tuner = inductor.heuristics.CachingAutotuner
    before = dict(vars(tuner))
    allocator = _allocation._allocator.get()
    yield
    _allocation._allocator.set(allocator)  # Inductor leaves its own
    assert dict(vars(tuner)) == before


@pytest.mark.parametrize("compiled_before", [False, True])
def test_launches_are_recorded_and_the_tuner_keeps_its_own(inductor: Any, compiled_before: bool) -> None:
    tuner = inductor.Tuner()
    if compiled_before:
        with emulator.activate():
            tuner.launch()
    with session() as prof:
        tuner.launch()
        tuner.launch(300)
        assert [inductor.recording(launcher) for launcher in tuner.launchers] == [False]
    with emulator.activate():
        tuner.launch()  # as if there had been no session
    assert prof.launches["kernel"].tolist() == ["triton_poi_double"] * 2
    assert prof.launches["grid_x"].tolist() == [4, 2]
    assert prof.metadata["notes"] == []
    assert validate(prof.profile.tables) == []


def test_a_run_of_a_tuners_own_class_stays_before_ours(inductor: Any) -> None:
    """As that of Inductor's `DebugAutotuner`."""
    calls: list[int] = []

    class Debugged(inductor.Tuner):  # type: ignore[misc]
        def run(self, *args: Any, **kwargs: Any) -> Any:
            calls.append(len(args))
            return super().run(*args, **kwargs)

    tuner = Debugged()
    with session() as prof:
        tuner.launch()
        tuner.launch()
    tuner.launch()
    assert len(calls) == 3
    assert len(prof.launches) == 2


def test_a_tuner_times_bare_binaries_and_its_trials_are_left_out(inductor: Any) -> None:
    tuner = inductor.Tuner((64, 256, 128))
    with session() as prof:
        tuner.launch()
    assert tuner.timed == [False] * 3
    assert [launcher.config.kwargs["XBLOCK"] for launcher in tuner.launchers] == [256]
    assert prof.launches["grid_x"].tolist() == [4]


@pytest.mark.parametrize("every", [1, 2])
def test_a_paused_session_counts_nothing_and_a_tuner_may_choose_anew(inductor: Any, every: int) -> None:
    tuner = inductor.Tuner()
    with session(every=every) as prof:
        for _ in range(3):
            tuner.launch()
        prof.pause()
        tuner.launch()
        prof.resume()
        tuner.launch()
        tuner.launchers = []  # and one is chosen anew
        tuner.launch()
    tuner.launch()
    assert len(prof.launches) == 5 // every + every - 1


@pytest.mark.filterwarnings("ignore::profscope.errors.EmptyProfileWarning")
def test_kernels_that_do_not_match_are_left_alone(inductor: Any) -> None:
    tuner, plain = inductor.Tuner(), inductor.heuristics.CachingAutotuner.run
    with session(kernels="nothing") as prof:
        tuner.launch()
        assert tuner.run.__func__ is plain  # nothing of ours stands in later launches
    assert "run" not in vars(tuner)
    assert prof.launches.empty
    assert prof.metadata["notes"] == [
        "kernels='nothing' matches none of those that were launched: triton_poi_double"
    ]


@pytest.mark.filterwarnings("ignore::profscope.errors.EmptyProfileWarning")
@pytest.mark.parametrize(
    ("names", "named"), [("d", "d"), ("dcba", "a, b, c, ...")], ids=["one", "more than are named"]
)
def test_a_launch_that_has_to_run_bare_is_named(inductor: Any, names: str, named: str) -> None:
    plain = inductor.triton_poi_double.fn
    with session() as prof:
        for name in names:
            kernel = FunctionType(plain.__code__, plain.__globals__, name)
            kernel.__annotations__ = plain.__annotations__
            tuner = inductor.Tuner(kernel=triton.jit(kernel))
            tuner.inductor_meta["store_cubin"] = True
            tuner.save_gpu_kernel = lambda stream, launcher: None
            tuner.launch()
            tuner.launch()
    (note,) = prof.metadata["notes"]
    assert note.startswith(f"{2 * len(names)} launches of torch.compile's kernels ({named}) ran bare")
    assert "C++" in note


@pytest.mark.filterwarnings("ignore::profscope.errors.EmptyProfileWarning")
def test_another_inductor_launches_as_without_a_session(inductor: Any) -> None:
    tuner = inductor.Tuner()
    needed = (*profscope_inductor.NEEDED, "CachingAutotuner.renamed")
    with mock.patch.object(profscope_inductor, "NEEDED", needed), session() as prof:
        tuner.launch()
    assert prof.metadata["notes"] == [
        "torch.compile's kernels ran bare, and are in no figure: "
        f"torch {torch.__version__} has no triton_heuristics.CachingAutotuner.renamed"
    ]


@pytest.mark.filterwarnings("ignore::profscope.errors.EmptyProfileWarning")
def test_a_tuner_of_another_inductor_launches_as_without_a_session(inductor: Any) -> None:
    tuner = inductor.Tuner()
    with session() as prof:
        with mock.patch.object(profscope.compat.inductor, "_NEEDED_OF_A_TUNER", ("launchers", "renamed.too")):
            tuner.launch()
        assert prof.launches.empty
    assert [note.rpartition(" ")[2] for note in prof.metadata["notes"]] == ["Tuner.renamed.too"]


def test_ops_in_functions_of_inductor_name_the_calls(inductor: Any, tmp_path: Path) -> None:
    """Generated code has a file of its own, and calls torch's helpers, which call Triton's functions."""
    generated = tmp_path / "generated.py"
    generated.write_text(_GENERATED)
    space: dict[str, Any] = {}
    exec(compile(_GENERATED, str(generated), "exec"), space)
    linecache.getlines(str(generated))
    with session(instrument="heavy") as prof:
        inductor.Tuner(kernel=space["triton_per_max"]).launch()
    reduces = prof.summary()[prof.summary()["scope"].str.startswith("reduce")]
    paths = [path.split(" > ") for path in reduces["call_path"]]
    assert {path[0] for path in paths} == {f"triton_per_max generated.py:{line}" for line in (9, 10)}
    assert all(path[1].startswith("max2 triton_helpers.py:") for path in paths)
    assert {Path(file).name for file in reduces["file"]} == {"triton_helpers.py"}


@pytest.mark.filterwarnings("ignore::profscope.errors.EmptyProfileWarning")
def test_what_cannot_be_built_runs_bare_and_says_why(inductor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise ValueError("no such option")

    tuner = inductor.Tuner()
    with session() as prof:
        tuner.precompile()
        monkeypatch.setattr(triton, "compile", fail)
        tuner.launch()
    assert prof.launches.empty
    assert prof.metadata["notes"] == [
        "1 launch of triton_poi_double by torch.compile ran bare: ValueError: no such option"
    ]


def test_launches_are_observed_as_all_others(inductor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    FakeHardware(["triton_poi_double"]).installed(monkeypatch)
    tuner = inductor.Tuner()
    with session(evidence=True) as prof:
        for _ in range(9):
            tuner.launch()
    launches = prof.metadata["evidence"]["kernels"]["triton_poi_double"]
    assert launches == {"counts": 1, "samples": 3, "counters": 3}
    assert len(prof.launches) == 2
    assert all(len(table) for table in (prof.counts, prof.samples, prof.counters))


def test_experiments_go_before_its_launches(inductor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    monkeypatch.setattr(experimenting, "run", lambda bare, *_: tried.append(bare.name) or [])
    tuner = inductor.Tuner((64, 256))
    with session(evidence=["experiments", "seconds:600"]) as prof:
        for _ in range(4):
            tuner.launch()
    assert tried == ["triton_poi_double"]
    assert prof.metadata["evidence"]["not_measured"] == []
    assert len(prof.launches) == 3
