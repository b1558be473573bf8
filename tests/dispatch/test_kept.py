"""Binaries that users keep and launch themselves, in a session, after it, and in the next one."""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton.compiler import CompiledKernel

from profscope import emulator
from profscope.compat import compiling
from profscope.compat.first_launch import FirstLaunch
from profscope.instrument_passes.errors import PassError
from tests.support.sessions import parts_of_session, recording, session
from tests.support.validation import validate

# ruff: noqa: N803

N = 1000
X = torch.arange(N, dtype=torch.float32)
Make = Callable[[], CompiledKernel]


@triton.jit
def kept_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=offs < n) * 3, mask=offs < n)


def launched() -> CompiledKernel:
    return kept_kernel[(2,)](X, torch.empty_like(X), N, BLOCK=512, num_warps=2)


def warmed_up() -> CompiledKernel:
    return kept_kernel.warmup(X, torch.empty_like(X), N, BLOCK=512, grid=(2,), num_warps=2)


def run(kernel: CompiledKernel) -> None:
    """Launch a binary as those who keep it do; its result is checked."""
    out = torch.empty_like(X)
    kernel[(2, 1, 1)](X, out, N, 512)
    assert torch.equal(out, X * 3)


@pytest.fixture(autouse=True)
def on_the_emulator() -> Iterator[None]:
    """Binaries outlive the sessions here, and so does the device that they run on."""
    with emulator.activate():
        yield
    kept_kernel.device_caches.clear()


each_make = pytest.mark.parametrize("make", [launched, warmed_up])


@each_make
@pytest.mark.parametrize("compiled", ["before", "in a session"])
def test_it_is_recorded_in_each_session_and_in_none_between(make: Make, compiled: str) -> None:
    if compiled == "before":
        kernel = make()
    else:
        with session():
            kernel = make()
    run(kernel)
    for _ in range(2):
        with session() as prof:
            run(kernel)
            launched()
        run(kernel)
        assert prof.launches["kernel"].tolist() == ["kept_kernel"] * 2
        assert prof.metadata["notes"] == []
        assert validate(prof.profile.tables) == []
    assert not recording(kernel)


@pytest.mark.filterwarnings("ignore::profscope.errors.EmptyProfileWarning")
def test_kept_from_a_session_with_other_options_it_records_as_this_one_says() -> None:
    with session(instrument="light"):
        kernel = launched()
    with session(instrument="heavy", kernels="kept") as prof:
        run(kernel)
        launched()
    first, second = (prof.df.loc[prof.df["launch"] == launch, "scope"].tolist() for launch in (0, 1))
    assert "load" in first
    assert first == second
    with session(kernels="other") as prof:
        run(kernel)
    assert prof.launches.empty


@pytest.mark.parametrize("fetched", ["before", "in a session"])
def test_what_launches_it_may_be_kept_too(fetched: str) -> None:
    kernel = warmed_up()
    if fetched == "before":
        launch = kernel[(2, 1, 1)]
    else:
        with session(instrument="light"):
            launched()
            launch = kernel[(2, 1, 1)]
    out = torch.empty_like(X)
    with session() as prof:
        launch(X, out, N, 512)
    launch(X, out, N, 512)
    assert torch.equal(out, X * 3)
    assert len(prof.launches) == 1
    assert prof.metadata["notes"] == []


def call(run: Callable[..., Any], kernel: CompiledKernel) -> None:
    """Launch as those who hold `CompiledKernel.run` do; the result is checked."""
    out = torch.empty_like(X)
    run(2, 1, 1, 0, kernel.function, kernel.packed_metadata, None, None, None, X, out, N, 512)
    assert torch.equal(out, X * 3)


@pytest.mark.parametrize("fetched", ["before", "in a session", "in one of other kernels", "while paused"])
@pytest.mark.filterwarnings("ignore::profscope.errors.EmptyProfileWarning")
def test_its_run_may_be_held(fetched: str) -> None:
    kernel = launched()
    if fetched == "before":
        held = kernel.run
    elif fetched == "while paused":
        with session() as prof:
            prof.pause()
            held = kernel.run
            prof.resume()
            call(held, kernel)
        assert len(prof.launches) == 1
    else:
        with session(kernels="kept" if fetched == "in a session" else "other"):
            held = kernel.run
            call(held, kernel)
    call(held, kernel)
    for _ in range(2):
        with session() as prof:
            call(held, kernel)
            prof.pause()
            call(held, kernel)
            prof.resume()
            call(held, kernel)
            launched()
        call(held, kernel)
        assert prof.launches["kernel"].tolist() == ["kept_kernel"] * 3
        assert prof.metadata["notes"] == [
            "recording was paused once; what was launched meanwhile counts nowhere"
        ]
    with session(kernels="other") as prof:
        call(held, kernel)
    assert prof.launches.empty


def test_a_held_run_is_recorded_once_it_is_switched_on() -> None:
    """As `profscope run` waits for the first launch."""
    kernel = launched()
    held, opened = kernel.run, []
    with contextlib.ExitStack() as stack:

        def then() -> Any:
            opened.append(stack.enter_context(parts_of_session()))
            return opened[0].entered

        first = FirstLaunch(then)
        call(held, kernel)
        first.await_it()
        call(held, kernel)
        call(held, kernel)
    call(held, kernel)
    assert len(opened[0].recorder.fetch()[0]) == 2


@pytest.mark.filterwarnings("ignore::profscope.errors.EmptyProfileWarning")
def test_a_held_run_whose_kernel_is_gone_runs_bare_and_is_counted() -> None:
    kernel = launched()
    held, function, packed = kernel.run, kernel.function, kernel.packed_metadata
    kept_kernel.device_caches.clear()
    del kernel
    gc.collect()
    with session() as prof:
        for _ in range(2):
            out = torch.empty_like(X)
            held(2, 1, 1, 0, function, packed, None, None, None, X, out, N, 512)
            assert torch.equal(out, X * 3)
    assert prof.metadata["notes"] == [
        "2 launches ran unrecorded: they were made with a CompiledKernel.run from before the session, whose "
        "kernel is gone; keep the kernel"
    ]


@pytest.mark.parametrize("make", ["before", "recorded", "left out", "warmed up"])
def test_with_every_it_takes_turns_with_its_function(make: str) -> None:
    kernel = launched()
    with session(every=3) as prof:
        if make == "recorded":
            kernel = launched()
        elif make == "left out":
            kernel = [launched(), launched()][1]
        elif make == "warmed up":
            kernel = warmed_up()
        begun = {"recorded": 1, "left out": 2}.get(make, 0)
        for _ in range(9 - begun):
            run(kernel)
    run(kernel)
    assert len(prof.launches) == 3
    told = prof.metadata["sampling"]["kernels"]["kept_kernel"]
    assert told == {"launches": 9, "recorded": 3}
    assert prof.metadata["notes"] == [
        "kept_kernel: 3 of 9 launches were recorded; counts and totals are of those"
    ]


@pytest.mark.filterwarnings("ignore::profscope.errors.EmptyProfileWarning")
def test_one_that_cannot_be_compiled_again_runs_on_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any) -> None:
        raise MemoryError("no disk")

    kernel = launched()
    monkeypatch.setattr(compiling, "recompile", fail)
    with session() as prof:
        run(kernel)
        run(kernel)
    assert prof.launches.empty
    assert prof.metadata["notes"] == ["kept_kernel runs bare: MemoryError: no disk"]


@pytest.mark.filterwarnings("ignore::profscope.errors.EmptyProfileWarning")
def test_one_that_cannot_be_instrumented_is_named_in_every_session(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any) -> None:
        raise PassError("it is refused")

    monkeypatch.setattr("profscope.dispatch.recording_stages.run_pipeline", refuse)
    for _ in range(2):
        with session(kernels="kept_kernel|1234") as prof:  # other tests have not compiled for it
            launched()
        assert prof.launches.empty
        assert prof.metadata["notes"] == ["kept_kernel runs bare: it is refused"]


def test_threads_that_keep_one_binary_build_one(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = launched()
    built = []
    recompile = compiling.recompile
    monkeypatch.setattr(compiling, "recompile", lambda binary: built.append(binary) or recompile(binary))
    with session() as prof, ThreadPoolExecutor(4) as pool:
        list(pool.map(run, [kernel] * 4))
    assert built == [kernel]
    assert len(prof.launches) == 4


def test_nothing_of_a_session_keeps_a_binary() -> None:
    with session():
        kernel = weakref.ref(launched())
    kept_kernel.device_caches.clear()
    gc.collect()
    assert kernel() is None
