"""What all command-line tools do alike: exit codes, one line for an error, output that cannot be written.

    def main(arguments: Sequence[str] | None = None) -> int:
        return run("profscope-view", lambda: _view(_parser().parse_args(arguments)))

| exit code | |
|---|---|
| 0 | done, also if the reader of the output left early, as `head` does |
| 1 | failed: an error of profscope or of the system, output that cannot be written included |
| 2 | wrong usage: what `argparse` refuses, and errors whose `exit_code` is 2 |
| 130 | interrupted from the keyboard |
"""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Callable

from instrument_passes.errors import ProfscopeError

__all__ = ["exit_status", "run"]


def exit_status(done: str, failed: str, *others: str) -> str:
    """What the help of a command says of its exit codes, wrapped to 80 columns."""
    said = [f"0 {done}", f"1 {failed}", "2 wrong usage", *others, "130 interrupted"]
    return textwrap.fill(f"exit status: {'; '.join(said)}", 79)


def run(tool: str, body: Callable[[], int]) -> int:
    """Run a tool's body, which returns an exit code; returns the tool's. Errors become one line on stderr.

    What argparse raises, SystemExit, passes. So does any other error: it is a mistake in the tool.
    """
    if sys.stdout is None:  # the shell's `>&-`; print() would then lose everything without a word
        return _failed(tool, "standard output is closed")
    try:
        try:
            return body()
        finally:
            sys.stdout.flush()  # here, not at the interpreter's end, where a failure would be a traceback
    except BrokenPipeError:
        _discard_output()
        return 0
    except ProfscopeError as error:
        return _failed(tool, str(error), error.exit_code)
    except OSError as error:
        if error.filename is None:  # most often the output that could not be written
            _discard_output()
        where = "" if error.filename is None else f": {error.filename!r}"
        return _failed(tool, f"{error.strerror or error}{where}")
    except KeyboardInterrupt:
        return 130


def _failed(tool: str, message: str, code: int = 1) -> int:
    if sys.stderr is not None:
        sys.stderr.write(f"{tool}: {' '.join(message.split())}\n")
    return code


def _discard_output() -> None:
    """Let what is still buffered go nowhere: Python would complain once more when it flushes at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
