"""The process that builds kernels aside: it reads what a session records, then one kernel after the other,
and answers each with "" once it is in Triton's cache, or with why it could not be built. See `build_aside`.

It ends when there is nothing more to read, or when the program is gone without having said so.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import threading
import time
from typing import Final

from profscope.compat.compiling import RecordedCompiler
from profscope.compat.inductor import precompiled, reloaded
from profscope.compat.programs import manifest_of_binary
from profscope.compat.triton_parts import driver, knobs
from profscope.device import backend
from profscope.dispatch.build_aside import Job, Session
from profscope.dispatch.left_bare import reason
from profscope.dispatch.recording_stages import RecordingStages
from profscope.version import __version__

__all__ = ["main"]

_LOOK_S: Final = 1.0  # how often it looks for the program that started it


def main() -> int:
    """Serve the process that started this one."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # folders of a compilation are removed
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    asked, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what compilers print is no answer
    with contextlib.suppress(EOFError), contextlib.ExitStack() as stack:
        session: Session = pickle.load(asked)
        knobs.cache.dir = session.cache
        if session.libdevice is not None:
            knobs.nvidia.libdevice_path = session.libdevice
        if session.backend == "emulator":
            stack.enter_context(backend.select("emulator"))
        compiler = RecordedCompiler(session.options.digest(__version__), RecordingStages(session.options))
        while True:
            answers.write(pickle.dumps(_answer(compiler, pickle.load(asked))))
            answers.flush()
    return 0


def _end_with(parent: int) -> None:
    """End this process when its parent is gone: children of the parent may hold the pipe open."""
    while os.getppid() == parent:
        time.sleep(_LOOK_S)
    os._exit(0)


def _answer(compiler: RecordedCompiler, job: Job) -> str:
    """Build a kernel."""
    try:
        tuner = reloaded(job.file, job.name)
        with compiler.recording():
            kernel = precompiled(tuner, job.config).kernel
        manifest_of_binary(kernel)
        # Before Triton 3.7 that compiles C, which stays in the cache, too.
        driver.active.launcher_cls(kernel.src, kernel.metadata)
    except Exception as error:  # noqa: BLE001  whatever it is, the program is to be told
        return reason(error)
    return ""
