"""Builds recorded binaries in processes of their own while the program runs.

Most of a compilation is Python, and would hold the interpreter's lock: a thread that compiles slows every
launch of the others. So workers compile, each a clean interpreter that is told what a session records and
given one kernel after the other, by a thread that waits for the answer. What they make is in Triton's
cache; a launch waits only until it is loaded from there, and launches load at most a fifth of the time.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, NamedTuple

from profscope.compat.compiling import RecordedCompiler
from profscope.compat.inductor import precompiled, reloaded
from profscope.compat.programs import manifest_of_binary
from profscope.compat.triton_parts import driver, knobs
from profscope.device import backend
from profscope.dispatch.recording_stages import RecordingStages
from profscope.experiments.worker_processes import Asker, ask, end, start
from profscope.options import Options
from profscope.recording.diagnostics import reason
from profscope.threads import daemon
from profscope.version import __version__

__all__ = ["GIVEN_UP", "Build", "BuildAside", "Job", "Session", "main"]

# In place of why something was not built: the session ended, or paused.
GIVEN_UP: Final = "given up"
_MOST_WORKERS: Final = 4
_LOADING_PART: Final = 0.2  # at most so much of the time goes into loading what was built
END_S: Final = 5.0  # a worker that was told to end is waited for so long
WORKER_PROGRAM: Final = "from profscope.dispatch.build_aside import main; main()"
_NICE: Final = 10


class Session(NamedTuple):
    """What a worker is told with each kernel. cache, libdevice: of Triton's knobs."""

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


class BuildAside:
    """Installed for the length of a session. Thread-safe. backend: "gpu" or "emulator"."""

    def __init__(self, options: Options, backend: str) -> None:
        self._options = options
        self._backend = backend
        self._most = min(_MOST_WORKERS, max(1, len(os.sched_getaffinity(0)) // 2))
        self.workers: list[_Worker] = []
        self._unanswered: list[Build] = []
        self._lock = threading.Lock()
        self._waiting: SimpleQueue[Build | None] = SimpleQueue()
        self._open = False
        self._next_load_s = 0.0

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Install for the body of a with statement; what is being built at its end is given up."""
        # Of all the objects that Inductor has made it takes a third of a second or more. What is built and
        # loaded would soon bring it about in a step; here nobody waits for one.
        gc.collect()
        self._waiting = SimpleQueue()  # of threads that are all gone
        self._open = True
        try:
            yield
        finally:
            with self._lock:
                self._open = False
                workers, self.workers = self.workers, []
                for build in self._unanswered:
                    build.give(GIVEN_UP)
            for worker in workers:
                worker.stop()
                self._waiting.put(None)
            for worker in workers:
                worker.end()

    def begin(self, tuner: Any, config: Any) -> Build | None:
        """Have a kernel of torch.compile built; None where no other process can do it as this one would."""
        file = tuner.filename
        if file is None or not Path(file).is_file() or not self._portable:
            return None
        build = Build(Job(file, tuner.fn.__name__, config))
        with self._lock:
            if not self._open:
                return None
            self._unanswered = [*(each for each in self._unanswered if each.answer is None), build]
            if len(self.workers) < min(self._most, len(self._unanswered)):
                session = Session(self._options, self._backend, knobs.cache.dir, knobs.nvidia.libdevice_path)
                self.workers.append(_Worker(session, self._waiting))
            self._waiting.put(build)
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


class _Worker:
    """A process that builds (see `main`), and the thread that gives it one kernel after the other. A
    process that has ended is replaced for the next kernel.

    It gives way to this one: it runs at a lower priority, and libraries of its start no threads of theirs.
    """

    def __init__(self, session: Session, waiting: SimpleQueue[Build | None]) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self._session = session
        self._waiting = waiting
        self._lock = threading.Lock()
        self._is_stopped = False
        self._thread = daemon("build", self._serve)

    def stop(self) -> None:
        """Tell the process to end, and start none any more."""
        with self._lock:
            self._is_stopped = True
            if self.process is not None:
                self.process.terminate()

    def end(self) -> None:
        """Wait until a process that was told to end is gone; so long, then it is killed. One that is stopped
        hears of no signal but that."""
        if self.process is not None:
            try:
                self.process.wait(END_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
        if self._thread is not None:
            self._thread.join()

    def _serve(self) -> None:
        while (build := self._waiting.get()) is not None:
            if build.answer is None:
                build.give(self._built(build.job))
        if self.process is not None:
            end(self.process)

    def _built(self, job: Job) -> str:
        """Have the process build a kernel: why that failed, "" if it did not."""
        try:
            with self._lock:
                if self._is_stopped:
                    return GIVEN_UP
                if self.process is None or self.process.poll() is not None:
                    self.process = start(WORKER_PROGRAM, _NICE)
                process = self.process
        except OSError as error:
            return f"no process could build it: {error}"
        answer = ask(process, (self._session, job)) or b""
        if not answer.endswith(b"\n"):
            end(process)
            return "no process could build it: it has ended"
        return str(json.loads(answer))


def main() -> None:
    """Serve the process that started this one: build one kernel after the other, and answer "" once it is
    done, or why it could not be. It ends when there is nothing more to read, or the program is gone."""
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
