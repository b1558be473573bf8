"""The errors and warnings of profscope; `profscope` itself has the base class and the warnings.

    ProfscopeError
    ├── OptionError          an option to session() or a pass is wrong (also a ValueError)
    ├── SessionError         sessions used in a way that cannot work (nested, wrong backend, closed)
    ├── CompileError         a pass or the rewritten module failed: names the kernel, pass, op and line
    │   └── ScopeError       a kernel's scopes are not closed properly: names the kernel and the line
    ├── RecordError          a profile buffer is truncated, foreign, or of an unknown version
    ├── TraceError           a file is not a trace that can be read
    ├── DiffError            two profiles have nothing that can be compared (also a ValueError)
    ├── DrawError            a figure, or the report in a notebook, cannot be drawn (also a ValueError)
    ├── EmulatorError        the emulator cannot or must not execute an instruction
    │   └── HangError        the emulated kernel does not end
    └── InstrumentError      an error in a TTGIR module or in a pass over it
        ├── IRError          text that is not TTGIR, or an edit that the op at hand does not allow
        │   └── PassError    a pass cannot do its work on this module: names the pass and the op
        ├── PipelineError    a pipeline names an unknown pass or option, or cannot be read
        ├── ManifestError    a manifest is not one, or of another version
        └── ToolchainError   Triton, or a tool it ships, is missing or too old

An InstrumentError reaches whoever uses `instrument_passes` itself: a pass of your own, `profscope opt`. A
session turns it into an OptionError if its options are wrong, and into a CompileError or a note if a kernel
cannot be instrumented.

Command-line tools (`run_command`) print any of them as one line on stderr and end with its `exit_code`:

| exit code | |
|---|---|
| 0 | done, also if the reader of the output left early, as `head` does |
| 1 | failed: an error of profscope or of the system, output that cannot be written included |
| 2 | wrong usage: what `argparse` refuses, and errors whose `exit_code` is 2 |
| 130 | interrupted from the keyboard |

And everything it warns of:

    EmptyProfileWarning    a session has ended in which no launch was recorded; the message says why
    DistrustWarning        the spans of a session are not to be trusted; `prof.verdict` says why
"""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Callable

from profscope.instrument_passes.errors import (
    InstrumentError,
    IRError,
    ManifestError,
    PassError,
    PipelineError,
    ProfscopeError,
    ToolchainError,
)

__all__ = [
    "CompileError",
    "DiffError",
    "DistrustWarning",
    "DrawError",
    "EmptyProfileWarning",
    "EmulatorError",
    "HangError",
    "IRError",
    "InstrumentError",
    "ManifestError",
    "OptionError",
    "PassError",
    "PipelineError",
    "ProfscopeError",
    "RecordError",
    "ScopeError",
    "SessionError",
    "ToolchainError",
    "TraceError",
]


class OptionError(ProfscopeError, ValueError):
    """An option is unknown, of the wrong type or out of range; the message names it and its allowed
    values."""

    exit_code = 2


class SessionError(ProfscopeError, RuntimeError):
    """A session was used in a way that cannot work."""


class CompileError(ProfscopeError, RuntimeError):
    """Instrumenting a kernel failed; the message names the kernel, the pass, the op and the line."""


class ScopeError(CompileError):
    """A kernel opens and closes its scopes wrongly; its launch raises this."""


class RecordError(ProfscopeError, ValueError):
    """A profile buffer is truncated, foreign, or of an unknown version."""


class TraceError(ProfscopeError, ValueError):
    """A file is not a readable trace; the message describes it."""


class DiffError(ProfscopeError, ValueError):
    """Two profiles have nothing to compare; the message names the contents of each."""


class DrawError(ProfscopeError, ValueError):
    """The profile lacks the data of a figure, or it cannot be drawn here; the message names the cause."""


class EmulatorError(ProfscopeError, RuntimeError):
    """The emulator cannot or must not execute an instruction; the message names opcode, line and thread."""


class HangError(EmulatorError):
    """The emulated kernel does not end: a deadlock, or far more steps than a kernel takes."""


class EmptyProfileWarning(UserWarning):
    """A session has ended in which kernels ran and no launch was recorded; the message says why."""


class DistrustWarning(UserWarning):
    """Recording changed a kernel so much that the spans of a session are not to be trusted."""


def exit_status(done: str, failed: str, *others: str) -> str:
    """The exit codes in the help of a command, wrapped to 80 columns."""
    said = [f"0 {done}", f"1 {failed}", "2 wrong usage", *others, "130 interrupted"]
    return textwrap.fill(f"exit status: {'; '.join(said)}", 79)


def run_command(
    tool: str, body: Callable[[], int], *, prints: bool = True, says: Callable[[str], str] = str
) -> int:
    """Run a tool's body, which returns an exit code; returns the tool's. Errors become one line on stderr.

    prints: whether it writes to standard output, and so fails where that is closed. says: an error's message
    in words of a command line.

    What argparse raises, SystemExit, passes. So does any other error: it is a mistake in the tool.
    """
    if prints and sys.stdout is None:  # the shell's `>&-`; print() would lose everything without a word
        return _failed(tool, "standard output is closed")
    try:
        try:
            return body()
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()  # here, not at the interpreter's end, where a failure would be a traceback
    except BrokenPipeError:
        _discard_output()
        return 0
    except ProfscopeError as error:
        return _failed(tool, says(str(error)), error.exit_code)
    except OSError as error:
        if error.filename is None:  # most often the output that could not be written
            _discard_output()
        where = "" if error.filename is None else f": {error.filename!r}"
        return _failed(tool, f"{error.strerror or error}{where}")
    except KeyboardInterrupt:
        return 130


def _failed(tool: str, message: str, code: int = 1) -> int:
    if sys.stderr is not None:
        function = tool.rpartition(" ")[2]  # whose name its errors in Python begin with
        sys.stderr.write(f"{tool}: {' '.join(message.removeprefix(f'{function}: ').split())}\n")
    return code


def _discard_output() -> None:
    """Let what is still buffered go nowhere: Python would complain once more when it flushes at exit."""
    if sys.stdout is None:
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
