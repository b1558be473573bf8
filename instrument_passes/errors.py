"""Errors of TTGIR modules, and of passes over them.

The tree of all errors is drawn in `profscope.errors`; its root is here, in the lowest package, so that
`except profscope.ProfscopeError` catches these, too.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "IRError",
    "InstrumentError",
    "ManifestError",
    "PassError",
    "PipelineError",
    "ProfscopeError",
    "ToolchainError",
]


class ProfscopeError(Exception):
    """Base of every error that profscope raises on purpose.

    exit_code: of a command-line tool, 1 for a failure, 2 for wrong usage.
    """

    exit_code: ClassVar[int] = 1


class InstrumentError(ProfscopeError):
    """Base of every error raised by instrument_passes."""


class IRError(InstrumentError):
    """Text that cannot be read as TTGIR, or an edit that cannot be made; `file` and `line` say where."""

    def __init__(self, message: str, file: str = "", line: int = 0) -> None:
        where = f"{file or '<ttgir>'}:{line}: " if file or line else ""
        super().__init__(where + message)
        self.message = message
        self.file = file
        self.line = line


class PassError(IRError):
    """A pass cannot do its work on this module; inside a pass `raise op.error("...")` is enough."""


class PipelineError(InstrumentError, ValueError):
    """A pipeline names an unknown pass or option, or cannot be read."""

    exit_code = 2


class ManifestError(InstrumentError, ValueError):
    """A manifest is not one, or of another version."""


class ToolchainError(InstrumentError):
    """Triton, or a tool it ships, is missing or too old for the request."""
