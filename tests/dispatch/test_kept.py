"""Binaries that users keep and launch themselves, in a session, after it, and in the next one."""

from __future__ import annotations

import gc
import re
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton.backends.nvidia.driver import CudaLauncher
from triton.compiler import CompiledKernel
from triton.runtime import _allocation

from instrument_passes.errors import PassError
from profscope import emulator
from profscope.launching import kept
from profscope.recording.programs import PROGRAMS
from tests.support.foreign import UserAllocator
from tests.support.sessions import session

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
def test_compiled_before_the_session_it_is_recorded(make: Make) -> None:
    kernel = make()
    with session() as prof:
        run(kernel)
        run(kernel)
    run(kernel)
    assert prof.launches["kernel"].tolist() == ["kept_kernel"] * 2
    assert prof.metadata["notes"] == []
    assert prof.profile.validate() == []
    assert PROGRAMS.program(kernel) is None  # it is still the bare one


@each_make
@pytest.mark.parametrize("loaded", [True, False])
def test_compiled_in_the_session_it_runs_on_unrecorded(make: Make, loaded: bool) -> None:
    before = _allocation._profile_allocator.get()
    with session() as prof:
        kernel = make()
        if loaded:
            run(kernel)
        count = len(prof.launches)
    assert PROGRAMS.program(kernel) is not None
    run(kernel)
    assert len(prof.launches) == count
    assert _allocation._profile_allocator.get() is before


def test_a_users_allocator_is_asked_for_nothing_afterwards() -> None:
    with session():
        kernel = launched()
    user, before = UserAllocator(), _allocation._profile_allocator.get()
    _allocation._profile_allocator.set(user)
    try:
        run(kernel)
    finally:
        _allocation._profile_allocator.set(before)
    assert user.calls == []


@each_make
def test_kept_from_a_session_it_is_recorded_in_the_next_one(make: Make) -> None:
    with session():
        kernel = make()
    run(kernel)  # loaded between sessions, if it was not yet
    for _ in range(2):
        with session() as prof:
            run(kernel)
            launched()
        run(kernel)
        assert len(prof.launches) == 2
        assert prof.metadata["notes"] == []


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


@pytest.mark.filterwarnings("ignore::profscope.errors.EmptyProfileWarning")
def test_launched_past_the_session_it_is_counted() -> None:
    with session(instrument="light"):
        kernel = launched()
    out = torch.empty_like(X)
    run_directly = kernel[(2, 1, 1)]  # it knows nothing of sessions
    with session() as prof:
        run_directly(X, out, N, 512)
    assert torch.equal(out, X * 3)
    assert prof.launches.empty
    (note,) = prof.metadata["notes"]
    # Kernels of other tests may ask for memory alike, which is all that is known of this launch.
    assert re.fullmatch(
        r"1 launch ran unrecorded: a binary of (\w+ or )*kept_kernel( or \w+)* was kept from a session "
        "with other options, and launched directly",
        note,
    )


def test_what_launches_it_may_be_kept_too() -> None:
    kernel = warmed_up()
    with session() as prof:
        launch = kernel[(2, 1, 1)]
        launch(X, torch.empty_like(X), N, 512)
    out = torch.empty_like(X)
    launch(X, out, N, 512)
    assert torch.equal(out, X * 3)
    assert len(prof.launches) == 1


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
def test_one_that_cannot_be_built_runs_on_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = launched()

    def fail(*args: Any, **options: Any) -> None:
        raise MemoryError("no disk")

    monkeypatch.setattr(kept, "compiled_again", fail)
    with session() as prof:
        run(kernel)
        run(kernel)
    assert prof.launches.empty
    assert prof.metadata["notes"] == [
        "2 launches of kept_kernel ran unrecorded, by a binary that was kept: MemoryError: no disk"
    ]


@pytest.mark.filterwarnings("ignore::profscope.errors.EmptyProfileWarning")
def test_one_that_cannot_be_instrumented_is_named_in_every_session(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any) -> None:
        raise PassError("it is refused")

    monkeypatch.setattr("profscope.launching.hook.run_pipeline", refuse)
    for _ in range(2):
        with session(kernels="kept_kernel|1234") as prof:  # other tests have not compiled for it
            launched()
        assert prof.launches.empty
        assert prof.metadata["notes"] == ["kept_kernel runs bare: it is refused"]


def test_threads_that_keep_one_binary_build_one(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = launched()
    built = []
    again = kept.compiled_again
    monkeypatch.setattr(kept, "compiled_again", lambda binary: built.append(binary) or again(binary))
    with session() as prof:
        threads = [threading.Thread(target=run, args=(kernel,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert built == [kernel]
    assert len(prof.launches) == 4


def test_nothing_of_a_session_keeps_a_binary() -> None:
    with session():
        kernel = launched()
        run(kernel)
    kept_kernel.device_caches.clear()
    before = len(PROGRAMS._programs)
    del kernel
    gc.collect()
    assert len(PROGRAMS._programs) < before


@pytest.mark.parametrize("size", [0, 96])
def test_nvidias_launcher_passes_null_where_a_binary_asks_for_nothing(size: int) -> None:
    """Read in Triton's source: what it does with None is tested on devices."""
    given: list[Any] = []
    launcher = SimpleNamespace(
        global_scratch_size=0, global_scratch_align=1, profile_scratch_size=size, profile_scratch_align=3,
        num_ctas=1, launch_cooperative_grid=False, launch_pdl=False, gsan_enabled=False, arg_annotations=(),
        kernel_signature=b"", launch=lambda *args: given.extend(args),
    )  # fmt: skip
    buffer, before = object(), _allocation._profile_allocator.get()
    _allocation._profile_allocator.set(lambda *asked: buffer)
    try:
        CudaLauncher.__call__(launcher, 2, 1, 1, 0, None, None, None, None, None)
    finally:
        _allocation._profile_allocator.set(before)
    assert (buffer in given) == (size > 0)
