"""What is asked of the CUDA driver itself, and not of torch.

Memory is zeroed and copied past torch's operators. Libraries put Triton kernels in the place of these
(flag-gems in that of `zero_` and `copy_`), and memory is prepared in the middle of a launch: to launch a
kernel for it would ask for memory again, and wait for ever.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from typing import Any, Final

__all__ = ["allow_capture", "copy", "zero"]

# Unsigned integers of the driver's functions: CUdeviceptr, size_t and CUstream; and unsigned char.
_WIDE: Final = ctypes.c_uint64
_BYTE: Final = ctypes.c_ubyte


@functools.cache
def _driver() -> Any:
    return ctypes.CDLL("libcuda.so.1")


def allow_capture() -> None:
    """Let this thread allocate and wait while another one captures a CUDA graph, else that breaks."""
    relaxed = ctypes.c_int(2)  # CU_STREAM_CAPTURE_MODE_RELAXED
    with contextlib.suppress(OSError):  # no driver, then no graphs either
        _driver().cuThreadExchangeStreamCaptureMode(ctypes.byref(relaxed))


def zero(address: int, size: int, stream: int, *, rows: int = 1, step: int = 0) -> None:
    """Write zeros to `rows` times `size` bytes, one `step` bytes behind the other, on a stream.

    The memory is that of the current device. Raises RuntimeError with the driver's number of an error.
    """
    if not size * rows:
        return
    if rows == 1:
        zeros = (_WIDE(address), _BYTE(0), _WIDE(size), _WIDE(stream))
        _check("cuMemsetD8Async", _driver().cuMemsetD8Async(*zeros))
        return
    plane = (_WIDE(address), _WIDE(step), _BYTE(0), _WIDE(size), _WIDE(rows), _WIDE(stream))
    _check("cuMemsetD2D8Async", _driver().cuMemsetD2D8Async(*plane))


def copy(to: int, source: int, size: int, stream: int) -> None:
    """Copy bytes between any two of the device's and the host's addresses, on a stream.

    Where the host's memory is not pinned it waits for that. Raises RuntimeError as `zero` does.
    """
    if size:
        copied = _driver().cuMemcpyAsync(_WIDE(to), _WIDE(source), _WIDE(size), _WIDE(stream))
        _check("cuMemcpyAsync", copied)


def _check(function: str, status: int) -> None:
    if status:
        raise RuntimeError(f"{function} failed with CUDA driver error {status}")
