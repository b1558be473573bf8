"""Processes of our own, each a clean interpreter that is told what to do through its standard input.

process = begun("profscope.launching.builder:main")
process.stdin.write(...)
ended(process, 5.0)
"""

from __future__ import annotations

import contextlib
import subprocess
import sys

__all__ = ["begun", "ended"]


def begun(function: str) -> subprocess.Popen[bytes]:
    """A new interpreter that calls "package.module:function", with the path of this one; its pipes have no
    buffer. Raises OSError where there can be none."""
    module, _, name = function.partition(":")
    start = f"import sys; sys.path[:] = {sys.path!r}; from {module} import {name}; sys.exit({name}())"
    return subprocess.Popen(
        [sys.executable, "-c", start],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0,
        start_new_session=True,  # a Ctrl-C is the program's
    )  # fmt: skip


def ended(process: subprocess.Popen[bytes], patience_s: float) -> None:
    """Close the pipes of a process that was told to end, and wait until it is gone: so long, then it is
    killed."""
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        with contextlib.suppress(OSError):  # what was still to be written is of no use any more
            pipe.close()
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
