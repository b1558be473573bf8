"""Kernels that torch.compile made for a CPU: in C++, which no session of Triton's kernels sees.

Internals of torch 2.11 to 2.15 that this uses: `torch._inductor.codecache.CppPythonBindingsCodeCache.cache`.
"""

from __future__ import annotations

import sys
from typing import Final

__all__ = ["FOR_A_CPU", "cpp_kernels"]

FOR_A_CPU: Final = (
    "torch.compile made kernels for a CPU, in C++: Inductor makes Triton kernels on GPUs only, so move the "
    'model and its inputs there: .to("cuda")'
)
"""Why a session around such a model saw no launch."""


def cpp_kernels() -> int:
    """How many there are in this process; 0 where Inductor is not loaded. Imports nothing."""
    module = sys.modules.get("torch._inductor.codecache")
    return len(getattr(getattr(module, "CppPythonBindingsCodeCache", None), "cache", ()))
