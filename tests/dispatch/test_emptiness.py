"""Sessions in which nothing is recorded: one warning at the end, and a note, say why."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import triton

import profscope
from profscope.errors import EmptyProfileWarning
from tests.kernels.add import add_kernel
from tests.support.sessions import launch_add, launch_collatz, session


def empty_grid() -> None:
    x = torch.zeros(4)
    add_kernel[(0,)](x, x, x, 0, BLOCK=1024)


def only_trials() -> None:
    tuned = triton.autotune([triton.Config({"BLOCK": 1024}), triton.Config({"BLOCK": 512})], key=["n"])
    x = torch.zeros(2048)

    def stop(*args: Any, **kwargs: Any) -> None:
        raise KeyError

    tuner = tuned(add_kernel)
    tuner.post_hook = stop
    with pytest.raises(KeyError):
        tuner[(2,)](x, x, torch.empty_like(x), 2048)


SESSIONS: dict[str, tuple[dict[str, Any], Callable[[], Any], str]] = {
    "kernels": ({"kernels": "none"}, launch_add, "kernels='none' matches none of those that were launched"),
    "every": ({"kernels": "none", "every": 2}, launch_add, "kernels='none' matches none of those"),
    "ctas": ({"ctas": [77]}, launch_add, "ctas= names none of the 3 CTAs of add_kernel"),
    "grid": ({}, empty_grid, "1 launch ran unrecorded: the grid of add_kernel was empty"),
    "trials": ({}, only_trials, "only an autotuner launched add_kernel; its trials are not recorded"),
}


@pytest.mark.parametrize(("options", "work", "why"), SESSIONS.values(), ids=SESSIONS)
def test_why_nothing_was_recorded(options: dict[str, Any], work: Callable[[], Any], why: str) -> None:
    with pytest.warns(EmptyProfileWarning) as warned, session(**options) as prof:
        work()
    (warning,) = warned
    assert why in str(warning.message)
    assert warning.filename == __file__
    (note,) = prof.metadata["notes"]
    assert why in note
    assert prof.launches.empty


def test_the_kernels_that_look_like_the_pattern_come_first() -> None:
    warns = pytest.warns(EmptyProfileWarning)
    with warns, session(kernels="colatz") as prof:
        launch_add()
        launch_collatz()
    (note,) = prof.metadata["notes"]
    assert note.endswith("collatz_kernel, add_kernel")


def test_a_spool_says_it_too(tmp_path: Path) -> None:
    warns = pytest.warns(EmptyProfileWarning, match="kernels='nothing'")
    with warns, session(kernels="nothing", spool=tmp_path):
        launch_add()
    (note,) = profscope.load(tmp_path).metadata["notes"]
    assert "kernels='nothing'" in note


@pytest.mark.parametrize("spooled", [False, True])
def test_sessions_that_recorded_something_do_not_warn(spooled: bool, tmp_path: Path) -> None:
    with session(spool=tmp_path if spooled else None) as prof:
        launch_add()
        prof.flush()
    assert prof.metadata["notes"] == []


def test_a_session_that_saw_no_launch_says_so_without_a_warning() -> None:
    with session() as prof:
        pass
    assert prof.metadata["notes"] == ["no launch of a Triton kernel was seen"]


def test_a_session_around_a_model_compiled_for_a_cpu_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels in C++ that there were before are no reason."""
    cache, wrapped = {"before": 1}, {"before": 1}
    inductor = SimpleNamespace(
        CppPythonBindingsCodeCache=SimpleNamespace(cache=cache),
        CppWrapperCodeCache=SimpleNamespace(cache=wrapped),
    )
    monkeypatch.setitem(sys.modules, "torch._inductor.codecache", inductor)
    with session() as prof:
        pass
    assert prof.metadata["notes"] == ["no launch of a Triton kernel was seen"]
    with pytest.warns(EmptyProfileWarning, match="Inductor makes Triton kernels on GPUs only"), session():
        cache["made"] = 2
    with pytest.warns(EmptyProfileWarning, match="GPUs only.*leave cpp_wrapper=True out"), session():
        wrapped["made"] = 2


@pytest.mark.exhaustive
def test_inductor_keeps_the_kernels_that_it_made_for_a_cpu_where_they_are_counted() -> None:
    code = """
import torch
from profscope.compat.torch_parts import cpp_kernels
assert cpp_kernels() == (0, 0)
torch.compile(lambda x: (x + 1).sum())(torch.ones(8))
assert cpp_kernels() == (1, 0)
torch.compile(lambda x: (x + 2).sum(), options={"cpp_wrapper": True})(torch.ones(8))
assert cpp_kernels() == (1, 1)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_no_warning_beside_an_error() -> None:
    def work() -> None:
        with session(kernels="nothing"):
            launch_add()
            raise KeyError

    with warnings.catch_warnings():
        warnings.simplefilter("error", EmptyProfileWarning)
        with pytest.raises(KeyError):
            work()


_INTERPRETED = """
import torch
import profscope
from tests.kernels.add import add_kernel
x = torch.ones(64)
with profscope.session(backend="emulator") as prof:
    add_kernel[(1,)](x, x, x, 64, BLOCK=64)
assert (x == 2).all()
print(prof.metadata["notes"])
"""


@pytest.mark.exhaustive
def test_tritons_interpreter_is_named() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _INTERPRETED],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    why = "Triton's interpreter is on (TRITON_INTERPRET=1)"
    assert f"EmptyProfileWarning: no launch was recorded: {why}" in ran.stderr
    assert ran.stdout.startswith(f'["{why}')


def test_a_launch_that_the_launcher_refused_did_not_run() -> None:
    x = torch.zeros(4)
    with session() as prof:
        for grid in (2.5, 1, 2.5, 1):
            refused = pytest.raises(TypeError) if grid == 2.5 else contextlib.nullcontext()
            with refused:
                add_kernel[(grid,)](x, x, x, 4, BLOCK=1024)
    assert len(prof.launches) == 2
    assert prof.metadata["notes"] == []
