"""Binaries of torch.compile's kernels that other processes build, on the emulator."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from triton import knobs

from profscope.compat import compiling
from profscope.dispatch import running
from profscope.dispatch.build_aside import GIVEN_UP, Build, BuildAside, Job
from profscope.options import Options
from tests.support.sessions import parts_of_session, session

_GENERATED = """\
import triton
import triton.language as tl
from tests.support.inductor import Tuner

@Tuner.of
@triton.jit
def triton_poi_aside(in_ptr0, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    at = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    tl.store(out_ptr0 + at, tl.load(in_ptr0 + at, at < xnumel) * 2, at < xnumel)
"""


@pytest.fixture(scope="module")
def tasks() -> Any:
    """Inductor's, imported where the first test runs: that takes seconds."""
    pytest.importorskip("tests.support.inductor")
    return pytest.importorskip("torch._inductor.runtime.compile_tasks")


@pytest.fixture
def tuner(tasks: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """That of a generated module, as Inductor loads it."""
    from triton.runtime import _allocation

    monkeypatch.setenv("PROFSCOPE_EMULATOR", "1")
    allocator = _allocation._allocator.get()  # Inductor leaves its own
    path = tmp_path / "cgenerated.py"
    path.write_text(_GENERATED)
    tuner = tasks._reload_python_module("cgenerated", str(path), set_sys_modules=False).triton_poi_aside
    tuner.filename = str(path)
    yield tuner
    _allocation._allocator.set(allocator)


class NotingBuildAside(BuildAside):
    """Knows what it was asked to build."""

    def __init__(self, options: Any, backend: str) -> None:
        super().__init__(options, backend)
        self.begun: list[Build] = []

    def begin(self, tuner: Any, config: Any) -> Build | None:
        build = super().begin(tuner, config)
        self.begun += [build] if build is not None else []
        return build


@pytest.fixture
def aside(monkeypatch: pytest.MonkeyPatch) -> list[NotingBuildAside]:
    """What sessions have binaries built with."""
    made: list[NotingBuildAside] = []

    def builds_aside(options: Any, machine: Any) -> BuildAside:
        made.append(NotingBuildAside(options, "emulator"))
        return made[-1]

    monkeypatch.setattr(running, "builds_aside", builds_aside)
    return made


@pytest.fixture
def builds(aside: list[NotingBuildAside], monkeypatch: pytest.MonkeyPatch) -> list[Build]:
    """What was to be built, and is by nobody."""
    begun: list[Build] = []

    def begin(*_: Any) -> Build:
        begun.append(Build(Job("", "", None)))
        return begun[-1]

    monkeypatch.setattr(BuildAside, "begin", begin)
    return begun


def test_other_processes_build_for_gpus_unless_launches_wait() -> None:
    gpu, cpu = (SimpleNamespace(device_type=kind) for kind in ("cuda", "cpu"))
    assert isinstance(running.builds_aside(Options(), gpu), BuildAside)  # type: ignore[arg-type]
    assert running.builds_aside(Options(wait=True), gpu) is None  # type: ignore[arg-type]
    assert running.builds_aside(Options(), cpu) is None  # type: ignore[arg-type]


def answer(aside: NotingBuildAside) -> str:
    """Of the last build, which is under way."""
    build = aside.begun[-1]
    while build.answer is None:
        time.sleep(0.01)
    assert build.answer is not None
    return build.answer


@pytest.mark.slow
@pytest.mark.exhaustive  # a worker imports all of Inductor
def test_workers_build_all_that_a_launch_needs(
    tuner: Any, aside: list[NotingBuildAside], monkeypatch: pytest.MonkeyPatch
) -> None:
    cache_hits: list[bool] = []
    with parts_of_session(baseline=1) as parts:
        tuner.launch()
        assert answer(aside[0]) == ""
        assert parts.recorder.routes.opened  # before any launch asks for memory
        monkeypatch.setattr(compiling, "unheard", contextlib.nullcontext)
        monkeypatch.setattr(
            knobs.compilation, "listener", lambda cache_hit, **_: cache_hits.append(cache_hit)
        )
        for _ in range(5):
            tuner.launch()
        (worker,) = aside[0].workers
        assert len(parts.recorder.fetch()[0]) == 3
        metadata, notes = parts.so_far()
    assert cache_hits == [True, True]  # what was built, and the bare binary, are only loaded
    assert metadata["building"] == {"bare_launches": {"triton_poi_aside": 1}}
    assert "1 launch of torch.compile's kernels (triton_poi_aside) ran bare" in notes[0]
    assert "wait=True" in notes[0]
    assert worker.process is not None
    assert worker.process.returncode is not None


@pytest.mark.filterwarnings("ignore::profscope.errors.EmptyProfileWarning")
def test_launches_run_bare_while_theirs_is_built(tuner: Any, builds: list[Build]) -> None:
    with session() as prof:
        for _ in range(3):
            tuner.launch()
    assert len(builds) == 1
    assert prof.launches.empty
    assert prof.metadata["building"] == {"bare_launches": {"triton_poi_aside": 3}}


@pytest.mark.filterwarnings("ignore::profscope.errors.EmptyProfileWarning")
def test_what_could_not_be_built_is_named(tuner: Any, builds: list[Build]) -> None:
    with session() as prof:
        tuner.launch()
        builds[0].answer = "ValueError: no such option"
        tuner.launch()
        tuner.launch()
    assert (
        "2 launches of triton_poi_aside by torch.compile ran bare: ValueError: no such option"
        in prof.metadata["notes"]
    )


@pytest.mark.filterwarnings("ignore::profscope.errors.EmptyProfileWarning")
def test_what_a_pause_has_given_up_is_begun_again(tuner: Any, builds: list[Build]) -> None:
    with session() as prof:
        tuner.launch()
        prof.pause()
        builds[0].answer = GIVEN_UP
        prof.resume()
        tuner.launch()
        builds[1].answer = GIVEN_UP
        tuner.launch()
        builds[2].answer = "ValueError: no such option"
        tuner.launch()
    assert len(builds) == 3
    assert prof.metadata["building"] == {"bare_launches": {"triton_poi_aside": 3}}


@pytest.mark.filterwarnings("ignore::profscope.errors.EmptyProfileWarning")
def test_a_session_that_ends_gives_up_what_is_being_built(
    tuner: Any, aside: list[NotingBuildAside], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("profscope.dispatch.build_aside.WORKER_PROGRAM", "import signal; signal.pause()")
    with session():
        tuner.launch()
    (build,) = aside[0].begun
    assert build.answer == GIVEN_UP
    assert aside[0].workers == []


@pytest.mark.filterwarnings("ignore::profscope.errors.EmptyProfileWarning")
def test_a_worker_that_has_stopped_holds_up_no_end(
    tuner: Any, aside: list[NotingBuildAside], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("profscope.dispatch.build_aside.WORKER_PROGRAM", "import signal; signal.pause()")
    monkeypatch.setattr("profscope.experiments.worker_processes.END_S", 0.01)
    with session():
        tuner.launch()
        (worker,) = aside[0].workers
        while (process := worker.process) is None:
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
    assert process.returncode == -signal.SIGKILL


@pytest.mark.filterwarnings("ignore::profscope.errors.EmptyProfileWarning")
def test_a_worker_that_has_ended_is_replaced(
    tuner: Any, aside: list[NotingBuildAside], monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = "sys.stdin.buffer.read1(); os.kill(os.getpid(), 9)"
    monkeypatch.setattr("profscope.dispatch.build_aside.WORKER_PROGRAM", ends)
    with session():
        tuner.launch()
        assert answer(aside[0]) == "the compiler crashed (signal 9, SIGKILL)"
        answers = "[os.write(1, b'\"built\"\\n') for _ in iter(sys.stdin.buffer.read1, b'')]"
        aside[0].workers[0].program = answers
        for _ in range(2):
            aside[0].begin(tuner, None)
            assert answer(aside[0]) == "built"
            assert len(aside[0].workers) == 1


@pytest.mark.filterwarnings("ignore::profscope.errors.EmptyProfileWarning")
def test_what_inductor_times_to_decide_on_fusions_is_no_launch(tuner: Any) -> None:
    tuner.inductor_meta["kernel_name"] = "DESCRIPTIVE_NAME"
    with session() as prof:
        tuner.launch()
    assert prof.launches.empty
    assert not any("ran bare" in note for note in prof.metadata["notes"])


def test_what_a_user_has_put_into_compilation_is_built_here(
    tuner: Any, aside: list[NotingBuildAside], monkeypatch: pytest.MonkeyPatch
) -> None:
    def users_own(*args: Any) -> tuple[str, str] | None:
        return None if args else ("own", "own")

    monkeypatch.setattr(knobs.runtime, "add_stages_inspection_hook", users_own)
    with session() as prof:
        tuner.launch()
    assert len(prof.launches) == 1
    assert "building" not in prof.metadata


def test_launches_that_warm_up_a_cuda_graph_wait(
    tuner: Any, builds: list[Build], monkeypatch: pytest.MonkeyPatch
) -> None:
    for asked in ("makes_graphs", "warms_up_a_graph"):
        monkeypatch.setattr(f"profscope.dispatch.inductor.{asked}", lambda: True)
    with session() as prof:
        tuner.launch()
    assert len(prof.launches) == 1


def test_loading_takes_a_small_part_of_the_time(
    aside: list[NotingBuildAside], monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [100.0]
    monkeypatch.setattr("profscope.dispatch.build_aside.time.perf_counter", lambda: now_s[0])
    with session():
        pass
    (builds,) = aside
    assert builds.may_load()
    with builds.loading():
        now_s[0] += 0.01
    may_load: Callable[[], bool] = builds.may_load
    assert not may_load()
    now_s[0] += 0.041
    assert may_load()
