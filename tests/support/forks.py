"""Python programs in processes of their own, forked from one that has imported torch, Triton, pandas and what
a session on the emulator needs.

Importing them takes seconds. A program runs as `python -c` runs it: as `__main__`, to the end of its threads
and of what it has registered for the exit. The interpreter then takes its modules apart, for two thirds of a
second with torch among them: only with `finalize=True`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

ADD_PROGRAM: Final = """
import torch
from tests.kernels.add import add_kernel
x = torch.ones(64)
add_kernel[(4,)](x, x, x, 64, BLOCK=16)
"""
"""Launches an add once."""

_ROOT: Final = Path(__file__).parents[2]
# The child leaves the loop, and its own code is the last thing it does.
_PARENT: Final = """
import atexit, gc, json, os, sys
import numpy, pandas, torch, triton, triton.experimental.gluon
from triton.runtime.cache import triton_key
triton_key()  # hashes all of Triton, once a process
import profscope.commands.recorded_run, profscope.emulator.launcher, profscope.emulator.triton_patches
import profscope.analysis.model.build, profscope.analysis.rules.diagnose, profscope.viewer.screen
import profscope.decoding.assemble, profscope.evidence.tables, profscope.traces.saving
import profscope.commands.run_session, profscope.sessions, profscope.traces.exporters.json
import profscope.traces.perfetto.protobuf, tests.support.sessions
from profscope.instrument_passes.passes import passes
passes()  # imports each
gc.freeze()
for line in sys.stdin:
    request = json.loads(line)
    if not os.fork():
        break
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
else:
    sys.exit()
for descriptor, path in enumerate(request["streams"], start=1):
    os.dup2(os.open(path, os.O_WRONLY), descriptor)
os.environ.clear()
os.environ.update(request["environment"])
sys.argv = ["-c", *request["arguments"]]
status = 0

def leave():
    if status is not None:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)

if not request["finalize"]:
    atexit.register(leave)  # the last one that is called
try:
    exec(compile(request["code"], "<string>", "exec"), {"__name__": "__main__"})
except SystemExit as error:
    code = 0 if error.code is None else error.code
    status = code if isinstance(code, int) else 1
    raise
except KeyboardInterrupt:
    status = None  # the interpreter ends itself by the signal
    raise
except BaseException:
    status = 1
    raise
"""


class Forks:
    """Starts the process at the first program; `close` ends it."""

    def __init__(self) -> None:
        self._parent: subprocess.Popen[str] | None = None

    def run(self, code: str, *arguments: object, finalize: bool = False) -> subprocess.CompletedProcess[str]:
        """Run a program with the arguments and this process's environment, in the checkout's root."""
        if self._parent is None:
            self._parent = subprocess.Popen(
                [sys.executable, "-c", _PARENT],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=_ROOT,
            )  # fmt: skip
        words = [str(argument) for argument in arguments]
        with tempfile.NamedTemporaryFile() as out, tempfile.NamedTemporaryFile() as err:
            streams, environment = [out.name, err.name], dict(os.environ)
            request = {
                "code": code, "arguments": words, "environment": environment, "streams": streams,
                "finalize": finalize,
            }  # fmt: skip
            assert self._parent.stdin is not None
            assert self._parent.stdout is not None
            print(json.dumps(request), file=self._parent.stdin, flush=True)
            status = int(self._parent.stdout.readline())
            said = (Path(file.name).read_text() for file in (out, err))
            return subprocess.CompletedProcess(words, status, *said)

    def close(self) -> None:
        if self._parent is not None:
            self._parent.communicate()
