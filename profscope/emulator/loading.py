"""Kernels that are loaded while an emulator is active, and unloaded with it.

From Triton 3.8 on a kernel asks the driver that is active when it is collected to unload its module. That may
be another driver by then, or none.
"""

import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from triton.compiler import CompiledKernel

__all__ = ["Module", "loading"]


class Module:
    """What Triton knows a loaded binary by."""


@contextmanager
def loading() -> Iterator[None]:
    """At the end of the with statement the kernels that it has loaded have no module."""
    load = CompiledKernel._init_handles
    loaded: weakref.WeakSet[CompiledKernel] = weakref.WeakSet()

    def init_handles(kernel: CompiledKernel) -> None:
        load(kernel)
        if isinstance(kernel.module, Module):
            loaded.add(kernel)

    CompiledKernel._init_handles = init_handles
    try:
        yield
    finally:
        if CompiledKernel._init_handles is init_handles:
            CompiledKernel._init_handles = load
        for kernel in list(loaded):
            kernel.module = None
