"""What kernels are told of their target: CUDA and sm_80, as they are compiled for.

Triton's driver and caches need the emulator's own name for it. `tl.target_info` asks the driver; kernels and
libraries that ask `tl.target_info` whether it is CUDA would take another path, or refuse to compile.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from triton.backends.compiler import GPUTarget
from triton.language import target_info

from profscope.emulator.compiler import BACKEND_NAME

__all__ = ["tell_cuda", "telling_cuda"]

Ask = Callable[[], GPUTarget | None]


@contextmanager
def telling_cuda() -> Iterator[None]:
    """Tell kernels so that are compiled for the emulator in the body of a with statement."""
    before = target_info.current_target
    tell_cuda()
    try:
        yield
    finally:
        target_info.current_target = before


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
