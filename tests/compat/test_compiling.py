"""Kernels compiled again from what their binaries say."""

from __future__ import annotations

from pathlib import Path

import pytest
from triton import knobs
from triton.backends import backends
from triton.backends.compiler import GPUTarget

from profscope import emulator
from profscope.compat.compiling import RecordedCompiler, recompile
from tests.support.sessions import launch


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
