"""Kernels compiled again from what their binaries say."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton import knobs
from triton.backends import backends
from triton.backends.compiler import GPUTarget

from profscope import emulator
from profscope.compat.compiling import RecordedCompiler, recompile, unheard
from tests.support.sessions import launch, session


def test_keys_follow_the_ptxas_that_is_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton keeps the version of the first one; a process that starts later would have another key."""
    compiler = RecordedCompiler("key", lambda backend, stages, options: None)
    backend = backends["nvidia"].compiler(GPUTarget("cuda", 90, 32))
    bare = backend.hash()
    other = tmp_path / "ptxas"
    other.symlink_to(knobs.nvidia.ptxas.path)
    with compiler.recording():
        before = backend.hash()
    monkeypatch.setenv("TRITON_PTXAS_PATH", str(other))
    with compiler.recording():
        recorded = backend.hash()
    assert str(other) in recorded
    assert str(other) not in before
    assert backend.hash() == bare


def test_libraries_of_an_installation_that_is_gone() -> None:
    """Triton's cache is by what is in a library, and names where it was."""
    with emulator.activate():
        kernel = launch()
        gone = [["libdevice", "/gone/libdevice.10.bc"]]
        kernel.metadata = kernel.metadata._replace(extern_libs=gone)
        assert recompile(kernel).hash == kernel.hash


@triton.jit
def heard_kernel(out_ptr, N: tl.constexpr):  # noqa: N803
    tl.store(out_ptr + tl.arange(0, 32), N)


def test_a_users_listener_hears_of_the_programs_own_builds_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[tuple[str, bool]] = []

    def listener(*, src: Any, cache_hit: bool, **_: Any) -> None:
        heard.append((src.name, cache_hit))

    monkeypatch.setattr(knobs.compilation, "listener", listener)
    with emulator.activate():
        for number in (1, 2):
            with session(baseline=1) as prof:  # what is recorded is compiled, and what is timed
                for _ in range(6):
                    heard_kernel[(1,)](torch.zeros(32), N=number)
            assert len(prof.launches) == 4
            assert [name for name, _ in heard] == ["heard_kernel"] * number
    assert knobs.compilation.listener is listener
    heard_kernel.device_caches.clear()


def test_a_listener_hears_of_other_threads_builds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where several threads build for a session, and end in another order than they began."""
    heard: list[str] = []
    listener = heard.append
    monkeypatch.setattr(knobs.compilation, "listener", listener)
    inside, may_end = threading.Barrier(3), [threading.Event() for _ in range(2)]

    def build(number: int) -> None:
        with unheard():
            inside.wait()
            knobs.compilation.listener(f"build {number}")
            may_end[number].wait()
        knobs.compilation.listener(f"after {number}")

    with ThreadPoolExecutor(2) as pool:
        builds = [pool.submit(build, number) for number in range(2)]
        inside.wait()
        for number, event in enumerate(may_end):
            knobs.compilation.listener(f"mine {number}")
            event.set()
            builds[number].result()
    assert heard == ["mine 0", "after 0", "mine 1", "after 1"]
    assert knobs.compilation.listener is listener
