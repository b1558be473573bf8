"""The CUPTI library of this process, and its calls for counters and instruction counts."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from profscope.evidence.structures import STRUCTURES
from profscope.sampler.cupti import HAS_SAMPLED, SamplerError, check, cubin_crc, library_path

__all__ = ["Library", "bytes_for", "names_for"]

_BESIDE: Final = ("libnvperf_target.so", "libnvperf_host.so")
_HOST: Final = "cuptiProfilerHost"
_OLDEST: Final = 24  # CUPTI's API version in CUDA 12.6, the first with both interfaces


class Library:
    """Calls of CUPTI, under Python's lock unless they concern the host alone.

    path: default the library that this process has loaded, else Triton's. Raises SamplerError if there is
    none, if it is older than 12.6, or if the two libraries that belong to it are missing.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or library_path()
        HAS_SAMPLED.add(os.getpid())  # with the libraries that are loaded next
        try:
            for name in _BESIDE:  # unless these are loaded first, CUPTI answers CUPTI_ERROR_UNKNOWN
                ctypes.CDLL(str(self.path.with_name(name)), ctypes.RTLD_GLOBAL)
            self._calls = ctypes.PyDLL(str(self.path))
            self._host = ctypes.CDLL(str(self.path))
        except OSError as error:
            raise SamplerError(f"counters need a complete CUPTI: {error}") from error
        version = ctypes.c_uint32()
        check(self._calls, "cuptiGetVersion", self._calls.cuptiGetVersion(ctypes.byref(version)))
        self.version = int(version.value)
        if self.version < _OLDEST:
            raise SamplerError(f"counters need CUPTI 12.6 or newer, and {self.path} is older")

    def call(self, function: str, **fields: Any) -> Any:
        """Call a function of STRUCTURES and return its parameters. Raises SamplerError."""
        cls = STRUCTURES[function]
        last = getattr(cls, cls.LAST)
        parameters = cls(structSize=last.offset + last.size, **fields)
        library = self._host if function.startswith(_HOST) else self._calls
        check(self._calls, function, getattr(library, function)(ctypes.byref(parameters)))
        return parameters

    def crc(self, cubin: bytes) -> int:
        """What instruction counts have in place of a binary. Needs no GPU. Raises SamplerError."""
        return cubin_crc(self._calls, cubin) & 0xFFFFFFFF


def names_for(names: Sequence[str]) -> Any:
    """A C array of strings."""
    return (ctypes.c_char_p * len(names))(*(name.encode() for name in names))


def bytes_for(size: int) -> Any:
    """A C array of zeroed bytes."""
    return (ctypes.c_uint8 * size)()
