"""Builds recorded binaries in processes of their own while the program runs.

Most of a compilation is Python, and would hold the interpreter's lock: a thread that compiles slows every
launch of the others. So workers compile, each a clean interpreter that is told what a session records. They
run at a lower priority. What they make is in Triton's cache; a launch waits only until it is loaded from
there, and launches load at most a fifth of the time.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from profscope.compat.compiling import RecordedCompiler
from profscope.compat.inductor import precompiled, reloaded
from profscope.compat.programs import manifest_of_binary
from profscope.compat.triton_parts import driver, knobs
from profscope.device import backend
from profscope.dispatch.recording_stages import RecordingStages
from profscope.experiments.worker_processes import Worker, WorkerError, Workers, serve
from profscope.options import Options
from profscope.recording.diagnostics import reason
from profscope.version import __version__

__all__ = ["GIVEN_UP", "Build", "BuildAside", "Job", "Session", "main"]

# In place of why something was not built: the session ended, or paused.
GIVEN_UP: Final = "given up"
_MOST_WORKERS: Final = 4
_LOADING_PART: Final = 0.2  # at most so much of the time goes into loading what was built
WORKER_PROGRAM: Final = "from profscope.dispatch.build_aside import main; main()"
_NICE: Final = 10


class Session(NamedTuple):
    """The message to a worker with each kernel. cache, libdevice: of Triton's knobs."""

    options: Options
    backend: str
    cache: str
    libdevice: str | None


class Job(NamedTuple):
    """A kernel of torch.compile. file: its generated module; name: that of its tuner there; config: the
    chosen one."""

    file: str
    name: str
    config: Any


@dataclass(eq=False)
class Build:
    """A kernel that is being built. answer: why that failed, "" if it did not, None as long as it goes on."""

    job: Job
    answer: str | None = None

    def give(self, answer: str) -> None:
        """Answer, unless it has been given up."""
        if self.answer is None:
            self.answer = answer

    def answered(self, answer: Future[str]) -> None:
        """The worker has ended its work on it."""
        if answer.cancelled():
            self.give(GIVEN_UP)
        elif isinstance(error := answer.exception(), WorkerError):
            self.give(f"the compiler {error}")
        else:
            self.give(answer.result())


class BuildAside:
    """Installed for the length of a session. Thread-safe. backend: "gpu" or "emulator"."""

    def __init__(self, options: Options, backend: str) -> None:
        self._options = options
        self._backend = backend
        self._most = min(_MOST_WORKERS, max(1, len(os.sched_getaffinity(0)) // 2))
        self._workers: Workers | None = None
        self._builds: list[Build] = []
        self._next_load_s = 0.0

    @property
    def workers(self) -> list[Worker]:
        return [] if self._workers is None else self._workers.workers

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Install for the body of a with statement; what is being built at its end is given up."""
        # Of all the objects that Inductor has made it takes a third of a second or more. What is built and
        # loaded would soon bring it about in a step; here nobody waits for one.
        if "torch._inductor" in sys.modules:
            gc.collect()
        self._workers = workers = Workers(WORKER_PROGRAM, self._most, _NICE)
        try:
            yield
        finally:
            self._workers = None
            for build in self._builds:
                build.give(GIVEN_UP)
            workers.close()

    def begin(self, tuner: Any, config: Any) -> Build | None:
        """Have a kernel of torch.compile built; None where no other process can do it as this one would."""
        file = tuner.filename
        workers = self._workers
        if workers is None or file is None or not Path(file).is_file() or not self._portable:
            return None
        build = Build(Job(file, tuner.fn.__name__, config))
        self._builds.append(build)
        session = Session(self._options, self._backend, knobs.cache.dir, knobs.nvidia.libdevice_path)
        workers.ask((session, build.job)).add_done_callback(build.answered)
        return build

    @property
    def _portable(self) -> bool:
        """Whether another process compiles as this one does: no hook, mode or pass of the program's own."""
        own = any(type(step).__module__ == "__main__" for step in self._options.pipeline)
        user = knobs.runtime.add_stages_inspection_hook, knobs.compilation.instrumentation_mode
        return not any(user) and not own

    def may_load(self) -> bool:
        """Whether a launch may wait for a binary that is built to be loaded now."""
        return time.perf_counter() >= self._next_load_s

    @contextlib.contextmanager
    def loading(self) -> Iterator[None]:
        """In the body of the with statement this thread loads what has been built."""
        began_s = time.perf_counter()
        try:
            yield
        finally:
            ended_s = time.perf_counter()
            self._next_load_s = ended_s + (ended_s - began_s) * (1 / _LOADING_PART - 1)


def main() -> None:
    """Serve the process that started this one: build one kernel after the other, and answer "" once it is
    done, or why it could not be. It ends when there is nothing more to read, or the program is gone."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # folders of a compilation are removed
    compilers: list[RecordedCompiler] = []  # one, of the session that asks first
    with contextlib.ExitStack() as stack:

        def answer(asked: tuple[Session, Job]) -> str:
            session, job = asked
            if not compilers:
                compilers.append(_compiler(session, stack))
            return _built(compilers[0], job)

        serve(answer)


def _compiler(session: Session, stack: contextlib.ExitStack) -> RecordedCompiler:
    """What records as the session does. stack: of this process."""
    knobs.cache.dir = session.cache
    if session.libdevice is not None:
        knobs.nvidia.libdevice_path = session.libdevice
    if session.backend == "emulator":
        stack.enter_context(backend.select("emulator"))
    return RecordedCompiler(session.options.digest(__version__), RecordingStages(session.options))


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
