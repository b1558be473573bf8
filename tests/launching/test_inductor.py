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
from triton import knobs
from triton.runtime import _allocation

from profscope import emulator
from profscope.launching import inductor as profscope_inductor
from profscope.launching import running
from tests.support.fake_sampler import FakeGpu, FakeProbe
from tests.support.forks import Forks
from tests.support.sessions import session

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
    assert prof.profile.validate() == []


def test_a_tuner_times_bare_binaries_and_its_trials_are_left_out(inductor: Any) -> None:
    tuner = inductor.Tuner((64, 256, 128))
    with session() as prof:
        tuner.launch()
    assert tuner.timed == [False] * 3
    assert [launcher.config.kwargs["XBLOCK"] for launcher in tuner.launchers] == [256]
    assert prof.launches["grid_x"].tolist() == [4]


def test_one_launch_in_so_many_is_recorded(inductor: Any) -> None:
    tuner = inductor.Tuner()
    with session(every=3) as prof:
        for _ in range(7):
            tuner.launch()
    assert len(prof.launches) == 3
    assert prof.metadata["sampling"]["kernels"] == {"triton_poi_double": {"launches": 7, "recorded": 3}}


@pytest.mark.filterwarnings("ignore::profscope.EmptyProfileWarning")
@pytest.mark.parametrize("options", [{"instrument": "heavy"}, {"every": 2}, {"kernels": "other"}])
def test_a_tuner_runs_by_itself_while_the_session_records(inductor: Any, options: dict[str, Any]) -> None:
    tuner = inductor.Tuner()
    with session(**options) as prof:
        for _ in range(3):
            tuner.launch()
        assert "run" in vars(tuner)
        prof.pause()
        assert "run" not in vars(tuner)
        tuner.launch()
        prof.resume()
        assert "run" in vars(tuner)
        tuner.launch()
        tuner.launchers = []  # and one is chosen anew
        tuner.launch()
    assert "run" not in vars(tuner)
    assert len(prof.launches) == {"instrument": 5, "every": 3, "kernels": 0}[next(iter(options))]


@pytest.mark.filterwarnings("ignore::profscope.errors.EmptyProfileWarning")
def test_kernels_that_do_not_match_are_left_alone(inductor: Any) -> None:
    with session(kernels="nothing") as prof:
        inductor.Tuner().launch()
    assert prof.launches.empty
    assert prof.metadata["notes"] == [
        "kernels='nothing' matches none of those that were launched: triton_poi_double"
    ]


@pytest.mark.filterwarnings("ignore::profscope.errors.EmptyProfileWarning")
def test_a_launch_that_has_to_run_bare_is_named(inductor: Any) -> None:
    tuner = inductor.Tuner()
    tuner.inductor_meta["store_cubin"] = True
    tuner.save_gpu_kernel = lambda stream, launcher: None
    with session() as prof:
        tuner.launch()
        tuner.launch()
    assert prof.metadata["notes"] == [
        "2 launches by torch.compile ran bare, and are in no figure: their binaries were written to a file, "
        "for C++ to launch (triton_poi_double)"
    ]


@pytest.mark.filterwarnings("ignore::profscope.errors.EmptyProfileWarning")
def test_another_inductor_launches_as_without_a_session(inductor: Any) -> None:
    tuner = inductor.Tuner()
    used = (*profscope_inductor._USED, "CachingAutotuner.renamed")
    with mock.patch.object(profscope_inductor, "_USED", used), session() as prof:
        tuner.launch()
    assert prof.metadata["notes"] == [
        "torch.compile's kernels ran bare, and are in no figure: "
        f"torch {torch.__version__} has no triton_heuristics.CachingAutotuner.renamed"
    ]


@pytest.mark.filterwarnings("ignore::profscope.errors.EmptyProfileWarning")
def test_a_tuner_of_another_inductor_launches_as_without_a_session(inductor: Any) -> None:
    tuner = inductor.Tuner()
    with session() as prof:
        with mock.patch.object(profscope_inductor, "_USED_OF_A_TUNER", ("launchers", "renamed.too")):
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


def test_everything_comes_back_when_the_body_raises(inductor: Any) -> None:
    def body() -> None:
        with session():
            inductor.Tuner().launch()
            raise KeyError("the user's own")

    with pytest.raises(KeyError, match="the user's own"):
        body()  # the fixtures compare


_IMPORTED_LATER = """
import sys
from profscope import session
name = "torch._inductor.runtime.triton_heuristics"
finders = list(sys.meta_path)
with session(backend="emulator"):
    assert name not in sys.modules
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner
    inside = CachingAutotuner.run
assert CachingAutotuner.run is not inside
assert CachingAutotuner.run.__module__ == name
assert sys.meta_path == finders
print(inside.__module__)
"""


@pytest.mark.slow
def test_inductor_may_be_imported_inside_the_session(forks: Forks) -> None:
    ran = forks.run(_IMPORTED_LATER)
    assert (ran.stdout, ran.returncode) == ("profscope.launching.inductor\n", 0), ran.stderr


def test_launches_are_sampled_as_all_others(inductor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = FakeGpu(FakeProbe(functions=("triton_poi_double",)))
    monkeypatch.setattr(running, "gpu_here", lambda machine: gpu)
    tuner = inductor.Tuner()
    with session(samples=2) as prof:
        for _ in range(5):
            tuner.launch()
        assert prof._running is not None
        taken = prof._running.samples.taken
    assert [(each.binary, each.launch) for each in taken] == [("bare", -1)] * 2 + [("spans", 1)]
    assert len(prof.launches) == 3


def test_launches_pass_the_tuner_by_unless_someone_looks_on(
    inductor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuner, seen, by_tuner = inductor.Tuner(), [], []
    run = inductor.heuristics.CachingAutotuner.run

    def counted(*args: Any, **options: Any) -> Any:
        by_tuner.append(args)
        return run(*args, **options)

    monkeypatch.setattr(inductor.heuristics.CachingAutotuner, "run", counted)
    with session() as prof:
        for _ in range(3):
            tuner.launch()
        assert len(by_tuner) == 1  # which prepares
        with mock.patch.object(inductor.heuristics.autograd_profiler, "_is_profiler_enabled", True):
            tuner.launch()
        assert len(by_tuner) == 2
        knobs.runtime.launch_exit_hook.add(seen.append)
        tuner.launch()
        knobs.runtime.launch_exit_hook.remove(seen.append)
        assert (len(by_tuner), len(seen)) == (3, 1)
        tuner.launch()
    assert prof.launches["kernel"].tolist() == ["triton_poi_double"] * 6
    assert prof.metadata["notes"] == []
    monkeypatch.setattr(inductor.heuristics.CachingAutotuner, "run", run)


def test_launches_that_are_left_out_pass_the_tuner_by(inductor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tuner, by_tuner = inductor.Tuner(), []
    run = inductor.heuristics.CachingAutotuner.run

    def counted(*args: Any, **options: Any) -> Any:
        by_tuner.append(args)
        return run(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(inductor.heuristics.CachingAutotuner, "run", counted)
        with session(every=3) as prof:
            for _ in range(5):
                tuner.launch()
            assert len(by_tuner) == 1  # the first, which is recorded
            with mock.patch.object(inductor.heuristics.autograd_profiler, "_is_profiler_enabled", True):
                tuner.launch()
            assert len(by_tuner) == 2
            tuner.launchers = []  # and one is chosen anew
            for _ in range(3):
                tuner.launch()
            assert len(by_tuner) == 3
    assert prof.metadata["sampling"]["kernels"] == {"triton_poi_double": {"launches": 9, "recorded": 3}}


def test_a_tuner_that_chooses_anew_has_no_longer_way_for_that(inductor: Any) -> None:
    def ways(run: Any) -> int:
        """Its own `run`, and those that it goes to where it does not launch itself."""
        if not isinstance(run, FunctionType):
            return 0
        cells = dict(zip(run.__code__.co_freevars, run.__closure__ or (), strict=True))
        return 1 + ways(cells["run"].cell_contents)

    with session(every=2) as prof:
        tuner, lengths = inductor.Tuner(), []
        for _ in range(4):
            tuner.launch()
            tuner.launch()
            lengths.append(ways(vars(tuner)["run"]))
            tuner.launchers = []
    assert lengths == [2] * 4
    assert len(prof.launches) == 4
