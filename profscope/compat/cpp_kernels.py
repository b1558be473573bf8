"""Kernels that torch.compile made for a CPU: in C++, which no session of Triton's kernels sees.

Internals of torch 2.11 to 2.15 that this uses, of `torch._inductor.codecache`:
`CppPythonBindingsCodeCache.cache`, and `CppWrapperCodeCache.cache`, of graphs
that C++ calls (`cpp_wrapper=True`).
"""

from __future__ import annotations

import sys
from typing import Final, NamedTuple

__all__ = ["CppKernels", "cpp_kernels"]

_FOR_A_CPU: Final = (
    "torch.compile made kernels for a CPU, in C++: Inductor makes Triton kernels on GPUs only, so move the "
    'model and its inputs there: .to("cuda")'
)
_WRAPPED: Final = (
    "; and leave cpp_wrapper=True out: it has C++ launch the kernels, on a GPU, too, "
    "and there they go unrecorded"
)


class CppKernels(NamedTuple):
    """How many there are in this process. bound: that Python calls; wrapped: that C++ calls."""

    bound: int = 0
    wrapped: int = 0

    def why_unseen(self, now: CppKernels) -> str:
        """Why a session saw no launch around a model that was compiled meanwhile; "" if none was."""
        if now.wrapped > self.wrapped:
            return _FOR_A_CPU + _WRAPPED
        return _FOR_A_CPU if now.bound > self.bound else ""


def cpp_kernels() -> CppKernels:
    """Those of now; none where Inductor is not loaded. Imports nothing."""
    module = sys.modules.get("torch._inductor.codecache")
    caches = (getattr(module, name, None) for name in ("CppPythonBindingsCodeCache", "CppWrapperCodeCache"))
    return CppKernels(*(len(getattr(cache, "cache", ())) for cache in caches))
