"""Sessions beside tools that patch what a session patches: set within, taken out within, wrapped before."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.autograd.profiler import record_function
from triton import knobs
from triton.backends import backends
from triton.backends.nvidia.compiler import CUDABackend
from triton.compiler import ASTSource, CompiledKernel
from triton.profiler import language as proton
from triton.runtime import _allocation
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

from profscope import emulator
from profscope.compat.compiling import RecordedCompiler
from profscope.emulator.launcher import Launcher
from profscope.instrument_passes.toolchain import triton_version
from tests.support.sessions import launch, session

# Each patch point of a session that records a program's Triton kernels on the emulator. (Those of Inductor
# are in test_inductor.py, and CUDA graphs' in tests/gpu.)
POINTS: list[tuple[Any, str]] = [
    (CompiledKernel, "run"),
    (Launcher, "__call__"),
    (Autotuner, "_bench"),
    (record_function, "__enter__"),
    (record_function, "__exit__"),
    (torch.cuda.nvtx, "_nvtx"),
]
POINT = pytest.mark.parametrize(("owner", "name"), POINTS, ids=lambda each: getattr(each, "__name__", each))

# Those that are patched while a kernel is compiled with records, or while the emulator is active.
PASSING: list[tuple[Any, str]] = [
    *((backend.compiler, "add_stages") for backend in backends.values()),
    (ASTSource, "hash"),
    (proton, "record"),
    (CompiledKernel, "_init_handles"),
]
if triton_version() < (3, 8):
    PASSING.append((CUDABackend, "instrumentation"))


@pytest.fixture(autouse=True)
def all_comes_back() -> Iterator[None]:
    points = [*POINTS, *PASSING]
    before = [vars(owner).get(name) for owner, name in points]
    yield
    for (owner, name), value in zip(points, before, strict=True):
        if value is not None or name in vars(owner):
            setattr(owner, name, value)


def over(current: Any) -> Any:
    """What a tool puts in the place of a method, a property or an object."""
    if callable(current) and not isinstance(current, type):

        @functools.wraps(current)
        def theirs(*args: Any, **kwargs: Any) -> Any:
            return current(*args, **kwargs)

        return theirs
    if hasattr(current, "__get__"):
        return property(lambda self: current.__get__(self, type(self)))

    class Theirs:
        def __getattr__(self, attribute: str) -> Any:
            return getattr(current, attribute)

    return Theirs()


def records() -> bool:
    with session() as prof:
        launch()
    return len(prof.launches) == 1


def test_these_are_all_patch_points() -> None:
    owners: list[Any] = [CompiledKernel, Launcher, Autotuner, JITFunction, record_function, torch.cuda.nvtx]
    owners += [type(knobs.runtime), type(knobs.compilation), knobs.runtime, knobs.compilation, _allocation]
    with emulator.activate():
        before = [dict(vars(owner)) for owner in owners]
        with session():
            launch()
            within = [dict(vars(owner)) for owner in owners]
    changed = {
        (id(owner), name)
        for owner, old, new in zip(owners, before, within, strict=True)
        for name in old.keys() | new.keys()
        if old.get(name) is not new.get(name)
    }
    assert changed == {(id(owner), name) for owner, name in POINTS}


@POINT
def test_what_others_set_and_take_out_stays_so(owner: Any, name: str) -> None:
    plain = vars(owner)[name]
    with session() as prof:
        theirs = over(vars(owner)[name])
        setattr(owner, name, theirs)
        launch()
    assert vars(owner)[name] is theirs
    assert len(prof.launches) == 1
    assert records()
    assert vars(owner)[name] is theirs
    with session():
        launch()
        setattr(owner, name, plain)
        launch()
    assert vars(owner)[name] is plain
    assert records()


@contextlib.contextmanager
def compiling() -> Iterator[None]:
    with emulator.activate(), RecordedCompiler("key", lambda *_: None).recording():
        yield


@pytest.mark.parametrize(("owner", "name"), PASSING, ids=lambda each: getattr(each, "__name__", each))
def test_what_is_patched_for_a_while(owner: Any, name: str) -> None:
    plain = getattr(owner, name)
    with compiling():
        assert getattr(owner, name) is not plain
        within = over(getattr(owner, name))
        setattr(owner, name, within)
    assert getattr(owner, name) is within
    with compiling():
        setattr(owner, name, plain)
    assert getattr(owner, name) is plain
    before = over(plain)
    setattr(owner, name, before)
    with compiling():
        assert getattr(owner, name) is not before
    assert getattr(owner, name) is before
    assert records()


def test_a_stages_hook_and_an_allocator_set_within_stay_and_launches_go_on() -> None:
    def hook(*args: Any) -> Any:
        return None if args else ("theirs", "theirs")

    def allocator(size: int, alignment: int, stream: int | None) -> Any:
        return torch.zeros(size, dtype=torch.int8)

    before = _allocation._profile_allocator.get()
    try:
        with session() as prof:
            launch()
            knobs.runtime.add_stages_inspection_hook = hook
            _allocation._profile_allocator.set(allocator)
            launch()
            launch(1)
        assert knobs.runtime.add_stages_inspection_hook is hook
        assert _allocation._profile_allocator.get() is allocator
    finally:
        knobs.runtime.add_stages_inspection_hook = None
        _allocation._profile_allocator.set(before)
    assert len(prof.launches) == 3
    assert "unrecorded" not in " ".join(prof.metadata["notes"])
