"""Patches of Triton while an emulator is active.

Kernels are told that their target is CUDA and sm_80, as they are compiled for. Triton's own parts need
the emulator's name for it; kernels and libraries that ask `tl.target_info` whether it is CUDA would take
another path, or refuse to compile.

Kernels that are loaded then are unloaded with the emulator. From Triton 3.8 on a kernel asks the driver that
is active when it is collected to unload its module. That may be another driver by then, or none.
"""

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from triton.backends.compiler import GPUTarget
from triton.compiler import CompiledKernel
from triton.language import target_info

from profscope.emulator.compiler import BACKEND_NAME

__all__ = ["Module", "patched", "tell_cuda"]

Ask = Callable[[], GPUTarget | None]


class Module:
    """Triton's handle of a loaded binary."""


@contextmanager
def patched() -> Iterator[None]:
    """Tell kernels so in the body of a with statement; at its end those that it has loaded have no module."""
    load, ask = CompiledKernel._init_handles, target_info.current_target
    loaded: weakref.WeakSet[CompiledKernel] = weakref.WeakSet()

    def init_handles(kernel: CompiledKernel) -> None:
        load(kernel)
        if isinstance(kernel.module, Module):
            loaded.add(kernel)

    CompiledKernel._init_handles = init_handles
    tell_cuda()
    try:
        yield
    finally:
        target_info.current_target = ask
        if CompiledKernel._init_handles is init_handles:
            CompiledKernel._init_handles = load
        for kernel in list(loaded):
            kernel.module = None


def tell_cuda() -> None:
    """Tell kernels so that are compiled for the emulator from now on."""
    target_info.current_target = _as_cuda(target_info.current_target)


def _as_cuda(ask: Ask) -> Ask:
    def current_target() -> GPUTarget | None:
        target = ask()
        if target is None or target.backend != BACKEND_NAME:
            return target
        return GPUTarget("cuda", target.arch, target.warp_size)

    current_target.__triton_builtin__ = True  # type: ignore[attr-defined]  # as Triton's own: no key counts it
    return current_target
