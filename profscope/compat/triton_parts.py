"""What profscope uses of Triton's compiler and runtime, versions 3.6 to 3.9: nothing else imports these."""

from __future__ import annotations

from typing import Any

from triton import knobs
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, CompiledKernel
from triton.compiler.errors import CompilationError
from triton.language.core import constexpr
from triton.runtime import driver
from triton.runtime.autotuner import Autotuner, Heuristics
from triton.runtime.errors import OutOfResources
from triton.runtime.jit import JITCallable, JITFunction

__all__ = [
    "ASTSource",
    "Autotuner",
    "CompilationError",
    "CompiledKernel",
    "GPUTarget",
    "Heuristics",
    "JITCallable",
    "JITFunction",
    "OutOfResources",
    "constexpr",
    "driver",
    "ir",
    "knobs",
    "source_class",
]


def source_class(function: JITFunction[Any]) -> Any:
    """What `triton.compile` takes of a Triton or Gluon function."""
    if not function.is_gluon():
        return ASTSource
    from triton.experimental.gluon._runtime import GluonASTSource  # kernels in Triton need none of Gluon

    return GluonASTSource
