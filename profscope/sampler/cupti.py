"""The CUPTI library of this process, and its calls."""

from __future__ import annotations

import ctypes
import importlib.util
from pathlib import Path
from typing import Any, Final

from profscope.errors import ProfscopeError

__all__ = ["Cupti", "SamplerError", "library_path"]

_DENIED: Final = 35  # CUPTI_ERROR_INSUFFICIENT_PRIVILEGES


class SamplerError(ProfscopeError):
    """The GPU's sampler cannot be used here; the text says why, and what would help."""


def library_path(maps: str | None = None) -> Path:
    """Where CUPTI is: the one that is loaded (torch's), which sees this process's kernels; else Triton's.

    maps: what /proc/self/maps says. Raises SamplerError if there is none.
    """
    if maps is None:
        try:
            maps = Path("/proc/self/maps").read_text()
        except OSError as error:
            raise SamplerError(f"no sampler: {error}") from error
    for line in maps.splitlines():
        if "/libcupti.so" in line:
            return Path(line.split(maxsplit=5)[-1])
    spec = importlib.util.find_spec("triton")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        for path in sorted(Path(folder).glob("backends/nvidia/lib/cupti/libcupti.so*")):
            return path
    raise SamplerError("no sampler: neither torch nor Triton brings NVIDIA's CUPTI library here")


class Cupti:
    """Calls of one CUDA context. Raises SamplerError if there is no library, or no context on this thread."""

    def __init__(self) -> None:
        path = library_path()
        try:
            self._library = ctypes.CDLL(str(path))
            driver = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise SamplerError(f"no sampler: {error}") from error
        self._context = ctypes.c_void_p()
        driver.cuCtxGetCurrent(ctypes.byref(self._context))
        if not self._context:
            raise SamplerError("no sampler: this thread has no CUDA context yet; use the GPU first")
        version = ctypes.c_uint32()
        self._check("cuptiGetVersion", self._library.cuptiGetVersion(ctypes.byref(version)))
        self.version = int(version.value)
        self.path = path

    def call(self, name: str, parameters: Any) -> None:
        """Call `cuptiPCSampling<name>` for the context."""
        parameters.size = ctypes.sizeof(parameters)
        parameters.context = self._context
        function = f"cuptiPCSampling{name}"
        self._check(function, getattr(self._library, function)(ctypes.byref(parameters)))

    def _check(self, function: str, result: int) -> None:
        if not result:
            return
        if result == _DENIED:
            raise SamplerError(
                "no sampler: the driver lets only administrators read performance counters here "
                "(CUPTI_ERROR_INSUFFICIENT_PRIVILEGES; NVreg_RestrictProfilingToAdminUsers=0 allows all, in a "
                "container the capability SYS_ADMIN)"
            )
        text = ctypes.c_char_p()
        self._library.cuptiGetResultString(result, ctypes.byref(text))
        said = (text.value or b"").decode() or f"error {result}"
        raise SamplerError(f"no sampler: {function} says {said}")
