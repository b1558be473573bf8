"""The parts of Triton's compiler and runtime, 3.6 to 3.9, that profscope uses: nothing else imports these."""

from __future__ import annotations

from triton import knobs
from triton.compiler import CompiledKernel
from triton.compiler.errors import CompilationError
from triton.language.core import constexpr
from triton.runtime import driver
from triton.runtime.autotuner import Autotuner, Heuristics
from triton.runtime.errors import OutOfResources
from triton.runtime.jit import JITCallable, JITFunction

__all__ = [
    "Autotuner",
    "CompilationError",
    "CompiledKernel",
    "Heuristics",
    "JITCallable",
    "JITFunction",
    "OutOfResources",
    "constexpr",
    "driver",
    "knobs",
]
