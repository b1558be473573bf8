"""What is asked of the CUDA driver itself, and not of torch.

Memory is zeroed and copied past torch's operators. Libraries put Triton kernels in the place of these
(flag-gems in that of `zero_` and `copy_`), and memory is prepared in the middle of a launch: to launch a
kernel for it would ask for memory again, and wait for ever.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, ParamSpec, TypeVar

__all__ = [
    "allow_capture", "aside", "copy", "driver_threads", "launch_warp", "load_module", "unload_module", "zero",
]  # fmt: skip

P = ParamSpec("P")
T = TypeVar("T")
# Unsigned integers of the driver's functions: CUdeviceptr, size_t and CUstream; and unsigned char.
_WIDE: Final = ctypes.c_uint64
_BYTE: Final = ctypes.c_ubyte


@functools.cache
def _driver() -> Any:
    return ctypes.CDLL("libcuda.so.1")


@functools.cache
def _driver_at_once() -> Any:
    """The same, called without letting go of the interpreter: to get that back may take a launching thread
    longer than the call."""
    return ctypes.PyDLL("libcuda.so.1")


def allow_capture() -> None:
    """Let this thread allocate and wait while another one captures a CUDA graph, else that breaks."""
    relaxed = ctypes.c_int(2)  # CU_STREAM_CAPTURE_MODE_RELAXED
    with contextlib.suppress(OSError):  # no driver, then no graphs either
        _driver().cuThreadExchangeStreamCaptureMode(ctypes.byref(relaxed))


def driver_threads(count: int) -> ThreadPoolExecutor:
    """Threads that may allocate and wait whatever others capture."""
    return ThreadPoolExecutor(count, "profscope-driver", allow_capture)


def aside(work: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """What `work` returns, done in a thread of its own. Raises what it raises.

    The caller may be capturing a CUDA graph, or allocating from the pool of one, as torch.compile does: both
    are settings of its thread, and not ours to change.
    """
    with driver_threads(1) as own:
        return own.submit(work, *args, **options).result()


def zero(
    address: int, size: int, stream: int, *, rows: int = 1, step: int = 0, at_once: bool = False
) -> None:
    """Write zeros to `rows` times `size` bytes, one `step` bytes behind the other, on a stream. at_once: one
    with so little in it that no call waits for room there.

    The memory is that of the current device. Raises RuntimeError with the driver's number of an error.
    """
    if not size * rows:
        return
    driver = _driver_at_once() if at_once else _driver()
    if rows == 1:
        zeros = (_WIDE(address), _BYTE(0), _WIDE(size), _WIDE(stream))
        _check("cuMemsetD8Async", driver.cuMemsetD8Async(*zeros))
        return
    plane = (_WIDE(address), _WIDE(step), _BYTE(0), _WIDE(size), _WIDE(rows), _WIDE(stream))
    _check("cuMemsetD2D8Async", driver.cuMemsetD2D8Async(*plane))


def copy(to: int, source: int, size: int, stream: int) -> None:
    """Copy bytes between any two of the device's and the host's addresses, on a stream.

    Where the host's memory is not pinned it waits for that. Raises RuntimeError as `zero` does.
    """
    if size:
        copied = _driver().cuMemcpyAsync(_WIDE(to), _WIDE(source), _WIDE(size), _WIDE(stream))
        _check("cuMemcpyAsync", copied)


def load_module(ptx: str) -> ctypes.c_void_p:
    """A module assembled by the driver, in the current context. Raises RuntimeError as `zero` does."""
    module = ctypes.c_void_p()
    image = ctypes.c_char_p(ptx.encode())
    _check("cuModuleLoadData", _driver().cuModuleLoadData(ctypes.byref(module), image))
    return module


def unload_module(module: ctypes.c_void_p) -> None:
    """Give its memory back; nothing of it may run any more. Raises RuntimeError as `zero` does."""
    _check("cuModuleUnload", _driver().cuModuleUnload(module))


def launch_warp(module: ctypes.c_void_p, name: str, argument: ctypes.c_uint64, stream: int) -> None:
    """Launch a module's kernel, which takes one argument, with one warp. Raises RuntimeError as `zero`."""
    function = ctypes.c_void_p()
    found = _driver().cuModuleGetFunction(ctypes.byref(function), module, ctypes.c_char_p(name.encode()))
    _check("cuModuleGetFunction", found)
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(argument))
    one, none = ctypes.c_uint(1), ctypes.c_void_p()
    shape = one, one, one, ctypes.c_uint(32), one, one
    launched = _driver().cuLaunchKernel(function, *shape, ctypes.c_uint(0), _WIDE(stream), arguments, none)
    _check("cuLaunchKernel", launched)


def _check(function: str, status: int) -> None:
    if status:
        raise RuntimeError(f"{function} failed with CUDA driver error {status}")
