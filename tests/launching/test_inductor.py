"""torch.compile's tuners, on the emulator: what they compile, time and keep is bare, and what they launch in
a session is recorded. A whole torch.compile needs a GPU: `tests/gpu`."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
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
from tests.support.like_tritons import LikeTritons
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
@pytest.mark.parametrize("options", [{"keep": "sums"}, {"every": 2}, {"kernels": "other"}])
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
    assert len(prof.launches) == {"keep": 5, "every": 3, "kernels": 0}[next(iter(options))]


def test_a_launch_now_and_then_keeps_spans_where_others_keep_sums(inductor: Any) -> None:
    tuner = inductor.Tuner()
    with session(keep="sums", spans_every=2) as prof:
        for _ in range(3):
            tuner.launch()
        launches = prof._running.recorder.log.launches
    sums = [any(span.total >= 0 for span in launch.manifest.sections[0].spans) for launch in launches]
    assert sums == [False, True, False]


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


@pytest.mark.parametrize("keep", ["spans", "sums"])
def test_launches_pass_the_tuner_by_unless_someone_looks_on(
    inductor: Any, keep: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuner, seen, by_tuner = inductor.Tuner(), [], []
    run = inductor.heuristics.CachingAutotuner.run

    def counted(*args: Any, **options: Any) -> Any:
        by_tuner.append(args)
        return run(*args, **options)

    monkeypatch.setattr(inductor.heuristics.CachingAutotuner, "run", counted)
    with session(keep=keep) as prof:
        for _ in range(3):
            tuner.launch()
        assert len(by_tuner) == 1  # which prepares
        with mock.patch.object(inductor.heuristics.autograd_profiler, "_is_profiler_enabled", True):
            tuner.launch()
        assert len(by_tuner) == 2
        if keep == "spans":  # the hooks are burnt into launchers that are made while there are any
            knobs.runtime.launch_exit_hook.add(seen.append)
            tuner.launch()
            knobs.runtime.launch_exit_hook.remove(seen.append)
            assert (len(by_tuner), len(seen)) == (3, 1)
        tuner.launch()
    recorded = 5 + (keep == "spans")
    assert prof.launches["kernel"].tolist() == ["triton_poi_double"] * recorded
    assert prof.metadata["notes"] == [] or keep == "sums"
    monkeypatch.setattr(inductor.heuristics.CachingAutotuner, "run", run)


def test_launches_that_are_left_out_pass_the_tuner_by(inductor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tuner, by_tuner = inductor.Tuner(), []
    run = inductor.heuristics.CachingAutotuner.run

    def counted(*args: Any, **options: Any) -> Any:
        by_tuner.append(args)
        return run(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(inductor.heuristics.CachingAutotuner, "run", counted)
        with session(keep="sums", every=3) as prof:
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

    with session(keep="sums", every=2) as prof:
        tuner, lengths = inductor.Tuner(), []
        for _ in range(4):
            tuner.launch()
            tuner.launch()
            lengths.append(ways(vars(tuner)["run"]))
            tuner.launchers = []
    assert lengths == [2] * 4
    assert len(prof.launches) == 4


@pytest.mark.parametrize("spans_every", [0, 3])
def test_a_recorded_launch_is_one_function(
    inductor: Any, spans_every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it records is what the long way does, and it takes that where something has changed."""

    def figures() -> list[Any]:
        tuner = inductor.Tuner()
        with session(keep="sums", spans_every=spans_every) as prof:
            for n in (1000, 700, 1000, 700, 1000):
                tuner.launch(n)
            ways.append(vars(tuner)["run"].__name__)
            if ways[-1] == "our_launch":
                with pytest.raises(TypeError, match="out_ptr0"):
                    vars(tuner)["run"](None, stream=0)
            tuner.launchers = list(tuner.launchers)
            tuner.launch(1000)
        assert prof.profile.validate() == []
        summary = prof.summary()[["scope", "launches", "count"]]
        return [prof.launches[["ctas", "keeps"]].to_dict("list"), summary.to_dict("list")]

    ways: list[str] = []
    expected = figures()
    monkeypatch.setattr(LikeTritons, "direct", 0)
    with mock.patch("profscope.emulator.launcher.Launcher", LikeTritons):
        assert figures() == expected
    assert ways == ["run_quickly", "our_launch"]
    # The first launch of each size finds no route, which those that keep spans do not take either.
    assert LikeTritons.direct == (4 if spans_every == 0 else 2)


@pytest.mark.parametrize("keep", ["spans", "sums"])
def test_one_launcher_of_a_binary_is_made(inductor: Any, keep: str, monkeypatch: pytest.MonkeyPatch) -> None:
    result, made = inductor.heuristics.TritonCompileResult, []
    make = result.make_launcher
    monkeypatch.setattr(result, "make_launcher", lambda self: made.append(self) or make(self))
    with mock.patch("profscope.emulator.launcher.Launcher", LikeTritons), session(keep=keep):
        tuner = inductor.Tuner()
        tuner.launch()
        assert vars(tuner)["run"].__name__ == ("our_launch" if keep == "sums" else "run_quickly")
    assert len(made) == 2  # the tuner's own, and the session's


def test_a_launcher_that_does_more_is_not_written_anew(
    inductor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    result, done = inductor.heuristics.CompileResult, []
    make = result._gen_launcher_code

    def with_more(self: Any, scope: dict[str, Any], names: list[str], arguments: list[str]) -> Any:
        scope |= {"plain": make(self, scope, names, arguments), "done": done}
        passed = ", ".join([*names, "stream"])
        exec(f"def launcher({passed}):\n    done.append(1)\n    plain({passed})", scope)
        return scope["launcher"]

    monkeypatch.setattr(result, "_gen_launcher_code", with_more)
    with mock.patch("profscope.emulator.launcher.Launcher", LikeTritons), session(keep="sums") as prof:
        tuner = inductor.Tuner()
        for _ in range(3):
            tuner.launch()
        assert vars(tuner)["run"].__name__ == "run_quickly"
    assert (len(done), len(prof.launches)) == (3, 3)


def test_a_launch_in_one_function_fails_is_paused_and_comes_from_many_threads(
    inductor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuner = inductor.Tuner()
    with mock.patch("profscope.emulator.launcher.Launcher", LikeTritons):
        with session(keep="sums", spans_every=0) as prof:
            for _ in range(2):
                tuner.launch()
            written = vars(tuner)["run"]
            assert written.__name__ == "our_launch"
            prof.pause()
            tuner.launch()  # counts nowhere
            prof.resume()
            assert vars(tuner)["run"] is written
            with monkeypatch.context() as patch:
                patch.setattr(LikeTritons, "failing", True)
                with pytest.raises(ValueError, match="a wrong argument"):
                    tuner.launch()
            with ThreadPoolExecutor(4) as pool:
                for launched in [pool.submit(tuner.launch) for _ in range(12)]:
                    launched.result()
            tuner.launch()
        assert "run" not in vars(tuner)
    assert len(prof.launches) == 15
    assert any("wrote nothing: it did not run" in note for note in prof.metadata["notes"])
    assert prof.profile.validate() == []


class _OnGpu(torch.Tensor):
    """Says so."""

    is_cuda = True


def test_a_launch_is_handed_addresses_of_a_gpus_tensors(
    inductor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[Any, ...]] = []

    def launch(self: LikeTritons, *args: Any) -> None:
        given.append(args[-1])

    monkeypatch.setattr(LikeTritons, "launch", launch)
    x = torch.arange(1000.0)
    with mock.patch("profscope.emulator.launcher.Launcher", LikeTritons), session(keep="sums", spans_every=0):
        tuner = inductor.Tuner()
        tuner.launch()
        run = vars(tuner)["run"]
        assert run.__name__ == "our_launch"
        for each in (x, x.as_subclass(_OnGpu)):
            run(each, each, 1000, stream=0)
        run(x, None, 1000, stream=0)  # by Inductor's way, which takes that
    assert [args[:2] for args in given] == [(x, x), (x.data_ptr(), x.data_ptr()), (x, None)]


def test_a_parameter_may_have_any_name_but_ours(inductor: Any) -> None:
    from profscope.recording.direct_launches import DirectCall, Written, written

    program, call = mock.Mock(), DirectCall(lambda arguments: f"our_call({', '.join(arguments)})", {})
    launcher: Any = mock.Mock(written=Written(call, {"our_program": program}))
    grid = ["1", "1", "1"]
    assert written(launcher, ["next", "x"], "next, x, *, stream", ["pass"], [*grid, "x"], {}, {}) is not None
    assert written(launcher, ["our_x"], "our_x, *, stream", ["pass"], [*grid, "our_x"], {}, {}) is None
    assert written(print, ["x"], "x, *, stream", ["pass"], [*grid, "x"], {}, {}) is None
