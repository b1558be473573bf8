"""Processes of our own, each a clean interpreter that is told what to do through its standard input.

process = begun("profscope.dispatch.build_worker:main")
write(process.stdin, b"...")
ended(process, 5.0)
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from typing import IO, Final

__all__ = ["begun", "ended", "gone", "write"]

_NICE: Final = 10
_ONE_THREAD: Final = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def begun(function: str) -> subprocess.Popen[bytes]:
    """A new interpreter that calls "package.module:function", with the path of this one; its pipes have no
    buffer. Raises OSError where there can be none.

    It gives way to this one: it runs at a lower priority, and libraries of its start no threads of theirs.
    """
    module, _, name = function.partition(":")
    start = (
        f"import os, sys; os.nice({_NICE}); sys.path[:] = {sys.path!r}; from {module} import {name}; "
        f"sys.exit({name}())"
    )
    return subprocess.Popen(
        [sys.executable, "-c", start],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0,
        env={**os.environ, **_ONE_THREAD},
        start_new_session=True,  # a Ctrl-C is the program's
    )  # fmt: skip


def write(pipe: IO[bytes], content: bytes) -> None:
    """Write all of it: a pipe without a buffer may take less at a time. Raises OSError where nobody reads."""
    left = memoryview(content)
    while left:
        left = left[pipe.write(left) :]


def ended(process: subprocess.Popen[bytes], patience_s: float) -> None:
    """Close the pipes of a process that was told to end, and wait until it is gone: so long, then it is
    killed."""
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        with contextlib.suppress(OSError):  # what was still to be written is of no use any more
            pipe.close()
    gone(process, patience_s)


def gone(process: subprocess.Popen[bytes], patience_s: float) -> None:
    """Wait until a process that was told to end is gone: so long, then it is killed. One that is stopped
    hears of no signal but that."""
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
