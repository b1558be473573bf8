"""Why a configuration cannot be built, in one line."""

from __future__ import annotations

import traceback
from typing import Final

from profscope.compat.triton_parts import CompilationError, OutOfResources
from profscope.recording.diagnostics import one_line

__all__ = ["why_not_built"]

_COMPILER: Final = "triton.compiler.compiler"
_MOST_CHARACTERS: Final = 200


def why_not_built(error: Exception) -> str:
    """What the compiler, the assembler or the loader says of a configuration that it cannot build; "" for an
    error of another kind, like that of a launch."""
    if isinstance(error, CompilationError):
        return _of_source(error)
    if isinstance(error, OutOfResources) or _arose_in_compiler(error):
        return one_line(error, _MOST_CHARACTERS)
    return ""


def _arose_in_compiler(error: Exception) -> bool:
    """Errors of passes and of ptxas have no class in common, in some versions none but RuntimeError."""
    return any(
        frame.f_code.co_name == "compile" and frame.f_globals.get("__name__") == _COMPILER
        for frame, _ in traceback.walk_tb(error.__traceback__)
    )


def _of_source(error: CompilationError) -> str:
    """The statement it is about and what is wrong with it. Triton's own text quotes the kernel up to there,
    and nests that of each function that was called."""
    inner = error
    while isinstance(inner.__cause__, CompilationError):
        inner = inner.__cause__
    lines = (inner.src or "").splitlines()
    number = getattr(inner.node, "lineno", 0)
    statement = f" at `{lines[number - 1].strip()}`" if 0 < number <= len(lines) else ""
    said = inner.error_message or str(inner.__cause__ or "")
    text = " ".join(f"{statement}{': ' if said else ''}{said}".split())
    return f"{type(inner).__name__}: {text}"[:_MOST_CHARACTERS]
