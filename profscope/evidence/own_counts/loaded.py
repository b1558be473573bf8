"""A counting kernel in the GPU's memory, through the CUDA driver."""

from __future__ import annotations

import ctypes
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from profscope.evidence.cupti import SamplerError
from profscope.evidence.own_counts.counting_ptx import COPIES, WORDS

__all__ = ["LoadedKernel"]

_MOST_WITHOUT_ASKING: Final = 48 << 10  # bytes of shared memory
_DYNAMIC_SHARED: Final = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES


class LoadedKernel:
    """In the current context. function: its handle, for launchers. Raises SamplerError, as its methods do.

    shared_bytes: of a CTA. words: of one copy of the counts.
    """

    def __init__(self, cubin: bytes, name: str, shared_bytes: int, words: int) -> None:
        try:
            self._driver: Any = ctypes.CDLL("libcuda.so.1")
        except OSError as error:
            raise SamplerError(str(error)) from error
        self._module = ctypes.c_void_p()
        self._words = COPIES * words
        self._check(self._driver.cuModuleLoadData(ctypes.byref(self._module), cubin))
        function = ctypes.c_void_p()
        self._check(
            self._driver.cuModuleGetFunction(ctypes.byref(function), self._module, name.encode())
        )  # fmt: skip
        if shared_bytes > _MOST_WITHOUT_ASKING:
            self._check(self._driver.cuFuncSetAttribute(function, _DYNAMIC_SHARED, shared_bytes))
        self.function = function.value or 0

    def words(self) -> NDArray[np.uint64]:
        """The counts of the launches so far, which have ended."""
        found = np.zeros(self._words, np.uint64)
        at, size = ctypes.c_void_p(), ctypes.c_size_t()
        self._check(
            self._driver.cuModuleGetGlobal_v2(
                ctypes.byref(at), ctypes.byref(size), self._module, WORDS.encode()
            )
        )
        self._check(self._driver.cuMemcpyDtoH_v2(found.ctypes.data_as(ctypes.c_void_p), at, found.nbytes))
        return found

    def unload(self) -> None:
        """Give its memory back. Not while it runs."""
        module, self._module = self._module, ctypes.c_void_p()
        if module:
            self._check(self._driver.cuModuleUnload(module))

    def _check(self, result: int) -> None:
        if result:
            text = ctypes.c_char_p()
            self._driver.cuGetErrorName(result, ctypes.byref(text))
            raise SamplerError((text.value or b"CUDA error").decode())
