"""Calls of the CUDA driver itself, not through torch.

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

from numpy.typing import NDArray

__all__ = [
    "allow_capture", "aside", "check", "copy", "driver", "driver_threads", "function_of", "launch_warp",
    "load_module", "read_variable", "unload_module", "zero",
]  # fmt: skip

P = ParamSpec("P")
T = TypeVar("T")
# Unsigned integers of the driver's functions: CUdeviceptr, size_t and CUstream; and unsigned char.
_WIDE: Final = ctypes.c_uint64
_BYTE: Final = ctypes.c_ubyte
_SHARED_WITHOUT_ASKING: Final = 48 << 10  # bytes of a CTA
_DYNAMIC_SHARED: Final = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


@functools.cache
def driver() -> Any:
    """NVIDIA's driver library. Raises OSError if there is none."""
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
        driver().cuThreadExchangeStreamCaptureMode(ctypes.byref(relaxed))


def driver_threads(count: int) -> ThreadPoolExecutor:
    """Threads that may allocate and wait whatever others capture."""
    return ThreadPoolExecutor(count, "profscope-driver", allow_capture)


def aside(work: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """The result of `work` in a thread of its own. Raises its errors.

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

    The memory is that of the current device. Raises RuntimeError with the driver's name of an error.
    """
    if not size * rows:
        return
    called = _driver_at_once() if at_once else driver()
    if rows == 1:
        zeros = (_WIDE(address), _BYTE(0), _WIDE(size), _WIDE(stream))
        check("cuMemsetD8Async", called.cuMemsetD8Async(*zeros))
        return
    plane = (_WIDE(address), _WIDE(step), _BYTE(0), _WIDE(size), _WIDE(rows), _WIDE(stream))
    check("cuMemsetD2D8Async", called.cuMemsetD2D8Async(*plane))


def copy(to: int, source: int, size: int, stream: int) -> None:
    """Copy bytes between any two of the device's and the host's addresses, on a stream.

    Where the host's memory is not pinned it waits for that. Raises RuntimeError as `zero` does.
    """
    if size:
        copied = driver().cuMemcpyAsync(_WIDE(to), _WIDE(source), _WIDE(size), _WIDE(stream))
        check("cuMemcpyAsync", copied)


def load_module(image: bytes) -> ctypes.c_void_p:
    """A module of PTX, which the driver assembles, or of machine code, in the current context. Raises
    RuntimeError as `zero` does."""
    module = ctypes.c_void_p()
    check("cuModuleLoadData", driver().cuModuleLoadData(ctypes.byref(module), ctypes.c_char_p(image)))
    return module


def unload_module(module: ctypes.c_void_p) -> None:
    """Give its memory back; nothing of it may run any more. Raises RuntimeError as `zero` does."""
    check("cuModuleUnload", driver().cuModuleUnload(module))


def function_of(module: ctypes.c_void_p, name: str, shared_bytes: int = 0) -> ctypes.c_void_p:
    """A module's kernel, which may take so much shared memory. Raises RuntimeError as `zero` does."""
    function = ctypes.c_void_p()
    found = driver().cuModuleGetFunction(ctypes.byref(function), module, ctypes.c_char_p(name.encode()))
    check("cuModuleGetFunction", found)
    if shared_bytes > _SHARED_WITHOUT_ASKING:
        allowed = driver().cuFuncSetAttribute(function, _DYNAMIC_SHARED, shared_bytes)
        check("cuFuncSetAttribute", allowed)
    return function


def read_variable(module: ctypes.c_void_p, name: str, into: NDArray[Any]) -> None:
    """Copy a module's variable to the host, which waits for it. Raises RuntimeError as `zero` does."""
    at, size = ctypes.c_void_p(), ctypes.c_size_t()
    variable = ctypes.byref(at), ctypes.byref(size), module, ctypes.c_char_p(name.encode())
    check("cuModuleGetGlobal", driver().cuModuleGetGlobal_v2(*variable))
    target = into.ctypes.data_as(ctypes.c_void_p)
    check("cuMemcpyDtoH", driver().cuMemcpyDtoH_v2(target, at, ctypes.c_size_t(into.nbytes)))


def launch_warp(module: ctypes.c_void_p, name: str, argument: ctypes.c_uint64, stream: int) -> None:
    """Launch a module's kernel, which takes one argument, with one warp. Raises RuntimeError as `zero`."""
    function = function_of(module, name)
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(argument))
    one, none = ctypes.c_uint(1), ctypes.c_void_p()
    shape = one, one, one, ctypes.c_uint(32), one, one
    launched = driver().cuLaunchKernel(function, *shape, ctypes.c_uint(0), _WIDE(stream), arguments, none)
    check("cuLaunchKernel", launched)


def check(function: str, status: int) -> None:
    """Raises RuntimeError with the driver's name of an error if a function returned one."""
    if not status:
        return
    name = ctypes.c_char_p()
    driver().cuGetErrorName(status, ctypes.byref(name))
    raise RuntimeError(f"{function} says {(name.value or b'CUDA error').decode()} ({status})")
