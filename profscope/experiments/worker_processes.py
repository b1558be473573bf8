"""Processes that work for this one: each is asked one thing after the other, and answers in JSON."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import select
import subprocess
import sys
from typing import Any

__all__ = ["Asker", "ask", "end", "start"]

_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_LOOK_S = 1.0  # how often a process looks for the one that started it


def start(program: str, nice: int = 0) -> subprocess.Popen[bytes]:
    """A clean interpreter with this one's path that runs a program. Libraries of its start no threads of
    theirs. Raises OSError if there is none."""
    begin = f"import os, sys; os.nice({nice}); sys.path[:] = {sys.path!r}; {program}"
    return subprocess.Popen(
        [sys.executable, "-c", begin],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env={**os.environ, **_ONE_THREAD},
        start_new_session=True,  # a Ctrl-C is the program's
    )  # fmt: skip


def ask(process: subprocess.Popen[bytes], question: object, longest_s: float | None = None) -> bytes | None:
    """Its answer, a line; without its end if the process has ended; None if it takes longer than that."""
    assert process.stdin is not None
    assert process.stdout is not None
    with contextlib.suppress(BrokenPipeError):  # it is gone, as its answer tells
        pickle.dump(question, process.stdin)
        process.stdin.flush()
    if longest_s is not None and not select.select([process.stdout], [], [], longest_s)[0]:
        return None
    return process.stdout.readline()


def end(process: subprocess.Popen[bytes]) -> int:
    """Close the pipes, on which the process ends; its exit status."""
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        with contextlib.suppress(OSError):  # what was still to be written is of no use any more
            pipe.close()
    return process.wait()


class Asker:
    """The process that started this one. It asks one thing at a time."""

    def __init__(self) -> None:
        self._process = os.getppid()
        self._asked, self._answers = os.fdopen(os.dup(0), "rb"), os.dup(1)
        os.dup2(2, 1)  # what compilers print is no answer

    def read(self) -> Any:
        """What it asks. Raises EOFError if it is gone: children of its own may hold the pipe open."""
        while not select.select([self._asked], [], [], _LOOK_S)[0]:
            if os.getppid() != self._process:
                raise EOFError
        return pickle.load(self._asked)

    def answer(self, value: object) -> None:
        os.write(self._answers, json.dumps(value).encode() + b"\n")
