"""Kernels compiled again from what their binaries say."""

from __future__ import annotations

from profscope import emulator
from profscope.compat.compiling import recompile
from tests.support.sessions import launch


def test_libraries_of_an_installation_that_is_gone() -> None:
    """Triton's cache is by what is in a library, and names where it was."""
    with emulator.activate():
        kernel = launch()
        gone = [["libdevice", "/gone/libdevice.10.bc"]]
        kernel.metadata = kernel.metadata._replace(extern_libs=gone)
        assert recompile(kernel).hash == kernel.hash
