"""Triton's compiled kernels: what they are of, loading, the door that all their launches go through, and
launches with a profile buffer of ours; and what of torch launches or captures them.

`JITFunction.run`, a compiled kernel that a user holds, and Inductor's launchers all fetch
`CompiledKernel.run` and call it. Triton's launcher asks the process-wide profile allocator for the buffer.
That allocator may be a user's or Proton's, so it is left alone: the launcher's own parts are called with the
pointer instead.
Used of Triton 3.6 to 3.9: this property, `_init_handles`, `_run`, `Autotuner._bench`,
`KernelInterface.__getitem__`, the attributes of
`CudaLauncher`, and the parameters of its `launch`.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, Final

import torch
from triton.compiler import CompiledKernel
from triton.runtime import _allocation
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import KernelInterface

from profscope.compat.patches import Door, Gate, Method, patched, patched_property

__all__ = [
    "Call", "Launcher", "capturing_now", "current_device_now", "door", "hold", "load", "recording_call",
    "source_file", "trials", "watched_binaries", "watched_graphs", "watched_launches",
]  # fmt: skip

Launcher = Callable[..., Any]
# (pointer, x, y, z, stream, function, packed metadata, launch metadata, enter hook, exit hook, *arguments)
Call = Callable[..., None]

_FIRST: Final = ("self", "gridX", "gridY", "gridZ", "stream", "function")
_SINCE_3_7: Final = ("kernel_metadata", "launch_metadata", "launch_enter_hook", "launch_exit_hook", "args")
_OF_3_6: Final = ("args",)
_CYCLES_PER_NS: Final = 2  # no GPU's clock is much faster


def door(opened: Callable[[CompiledKernel, Launcher], Launcher]) -> Door:
    """The door of all launches. opened: see `Door`."""
    return Door(CompiledKernel, "run", opened)


def load(kernel: CompiledKernel) -> Launcher:
    """Load a binary, if it is not, and return what Triton's launcher of it does by itself. Raises what
    loading does."""
    if kernel._run is None:
        kernel._init_handles()
    launcher, called = kernel._run, type(kernel._run).__call__
    return called.original.__get__(launcher) if isinstance(called, Gate) else launcher  # type: ignore[no-any-return]


def source_file(kernel: CompiledKernel) -> str:
    """The file of a kernel's function; "" if it was compiled from IR."""
    function = getattr(getattr(kernel.src, "fn", None), "fn", None)
    return str(getattr(getattr(function, "__code__", None), "co_filename", ""))


def watched_launches(wrap: Callable[[Launcher], Launcher]) -> contextlib.AbstractContextManager[None]:
    """In the body of a with statement `kernel[grid](...)` goes through `wrap` of a method that launches; that
    gets the kernel, an autotuner or heuristics, `grid=`, and the arguments."""

    def watched(original: Method) -> Method:
        def get(kernel: Any, grid: Any) -> Launcher:
            plain = original(kernel, grid)

            def launch(kernel: Any, *args: Any, grid: Any, **kwargs: Any) -> Any:
                return plain(*args, **kwargs)

            return functools.partial(wrap(launch), kernel, grid=grid)

        return get

    return patched(KernelInterface, "__getitem__", watched)


def watched_binaries(
    wrap: Callable[[CompiledKernel, Launcher], Launcher],
) -> contextlib.AbstractContextManager[Any]:
    """In the body of a with statement each fetch of `CompiledKernel.run` gets `wrap(kernel, run)`."""
    original = vars(CompiledKernel)["run"]

    def get(kernel: CompiledKernel) -> Launcher:
        return wrap(kernel, original.__get__(kernel, CompiledKernel))

    return patched_property(CompiledKernel, "run", get)


def trials(wrap: Callable[[Launcher], Launcher]) -> contextlib.AbstractContextManager[None]:
    """For the body of a with statement, Triton's autotuner times a configuration by `wrap` of its method."""
    return patched(Autotuner, "_bench", wrap)


def recording_call(kernel: CompiledKernel) -> Call | None:
    """The function that launches a loaded binary with a profile buffer; None if its launcher is of an unknown
    kind."""
    launcher = kernel._run
    own: Call | None = getattr(launcher, "call_with_profile_buffer", None)  # the emulator's
    if own is not None:
        return own
    called: Any = type(launcher).__call__
    while isinstance(called, Gate):  # a session's may be over that of a run that waited for the first launch
        called = called.original
    code = getattr(called, "__code__", None)
    if code is None or getattr(launcher, "gsan_enabled", False):
        return None
    names = code.co_varnames[: code.co_argcount + bool(code.co_flags & inspect.CO_VARARGS)]
    if names[:6] != _FIRST:
        return None
    scratch = _global_scratch(launcher)
    launch, cooperative, pdl = launcher.launch, launcher.launch_cooperative_grid, launcher.launch_pdl
    if names[6:] == _OF_3_6:

        def call_3_6(pointer: Any, x: int, y: int, z: int, stream: int, function: int, *args: Any) -> None:
            memory = None if scratch is None else scratch(x * y * z, stream)
            launch(x, y, z, stream, function, cooperative, pdl, memory, pointer, *args)

        return call_3_6
    if names[6:] != _SINCE_3_7:
        return None
    annotations, signature = launcher.arg_annotations, launcher.kernel_signature

    def call(
        pointer: Any, x: int, y: int, z: int, stream: int, function: int,
        packed: Any, about: Any, enter: Any, leave: Any, *args: Any,
    ) -> None:  # fmt: skip
        memory = None if scratch is None else scratch(x * y * z, stream)
        launch(
            x, y, z, stream, function, cooperative, pdl, packed, about, enter, leave, memory, pointer,
            annotations, signature, args,
        )  # fmt: skip

    return call


def _global_scratch(launcher: Any) -> Callable[[int, int], Any] | None:
    """What allocates a launch's global scratch, by the user's allocator, as Triton's launcher does."""
    size, alignment = launcher.global_scratch_size, launcher.global_scratch_align
    if not size:
        return None
    each = size * launcher.num_ctas

    def allocate(ctas: int, stream: int) -> Any:
        return _allocation._allocator.get()(ctas * each, alignment, stream)

    return allocate


def hold(stream: torch.cuda.Stream | None, ns: int) -> None:
    """Keep a stream of a GPU busy for at least so long."""
    with torch.cuda.stream(stream):
        torch.cuda._sleep(ns * _CYCLES_PER_NS)


def current_device_now() -> Callable[[], int]:
    """torch.cuda.current_device, or the function behind it, which costs less."""
    quick: Callable[[], int] | None = getattr(torch._C, "_cuda_getDevice", None)
    return quick or torch.cuda.current_device


def capturing_now() -> Callable[[], bool]:
    """torch.cuda.is_current_stream_capturing, or the function behind it, which costs less."""
    quick: Callable[[], bool] | None = getattr(torch._C, "_cuda_isCurrentStreamCapturing", None)
    return quick or torch.cuda.is_current_stream_capturing


@contextlib.contextmanager
def watched_graphs(
    begin: Callable[[Method], Method], end: Callable[[Method], Method], replay: Callable[[Method], Method]
) -> Iterator[None]:
    """In the body of a with statement CUDA graphs are captured and replayed by what these make of the methods
    of `torch.cuda.CUDAGraph`."""
    with contextlib.ExitStack() as stack:
        for name, wrap in (("capture_begin", begin), ("capture_end", end), ("replay", replay)):
            stack.enter_context(patched(torch.cuda.CUDAGraph, name, wrap))
        yield
