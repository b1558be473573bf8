"""The process that builds kernels aside: it reads one after the other, each with what the session records. It
answers with a line of JSON, the text "" once it is done, or why it could not be. See `build_aside`.

It ends when there is nothing more to read, or when the program is gone without having said so.
"""

from __future__ import annotations

import contextlib
import signal
import sys

from profscope.compat.compiling import RecordedCompiler
from profscope.compat.inductor import precompiled, reloaded
from profscope.compat.programs import manifest_of_binary
from profscope.compat.triton_parts import driver, knobs
from profscope.device import backend
from profscope.dispatch.build_aside import Job, Session
from profscope.dispatch.recording_stages import RecordingStages
from profscope.experiments.worker_processes import Asker
from profscope.recording.diagnostics import reason
from profscope.version import __version__

__all__ = ["main"]


def main() -> int:
    """Serve the process that started this one."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # folders of a compilation are removed
    program = Asker()
    with contextlib.suppress(EOFError), contextlib.ExitStack() as stack:
        session, job = _asked(program)
        knobs.cache.dir = session.cache
        if session.libdevice is not None:
            knobs.nvidia.libdevice_path = session.libdevice
        if session.backend == "emulator":
            stack.enter_context(backend.select("emulator"))
        compiler = RecordedCompiler(session.options.digest(__version__), RecordingStages(session.options))
        while True:
            program.answer(_built(compiler, job))
            _, job = _asked(program)
    return 0


def _asked(program: Asker) -> tuple[Session, Job]:
    asked: tuple[Session, Job] = program.read()
    return asked


def _built(compiler: RecordedCompiler, job: Job) -> str:
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
