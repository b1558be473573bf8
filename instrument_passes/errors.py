"""What goes wrong in a TTGIR module or in a pass over it.

InstrumentError
├── IRError        text that is not TTGIR, or an edit that the op at hand does not allow
│   └── PassError  a pass cannot do its work on this module; the message names the pass and the op
├── PipelineError  a pipeline names an unknown pass or option, or cannot be read
└── ManifestError  a manifest is not one, or of another version
"""

from __future__ import annotations

__all__ = ["IRError", "InstrumentError", "ManifestError", "PassError", "PipelineError"]


class InstrumentError(Exception):
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


class ManifestError(InstrumentError, ValueError):
    """A manifest is not one, or of another version."""
