"""Builds recorded binaries in processes of their own while the program runs.

Most of a compilation is Python, and would hold the interpreter's lock: a thread that compiles slows every
launch of the others. So workers compile, each a clean interpreter that is told what a session records, and
then given one kernel after the other. What they make is in Triton's cache; a launch waits only until it is
loaded from there, and launches load at most a fifth of the time.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple

from profscope.compat.triton_parts import knobs
from profscope.device.cuda_driver import allow_capture
from profscope.dispatch.processes import begun, ended, gone, write
from profscope.options import Options
from profscope.recording.diagnostics import one_line

__all__ = ["GIVEN_UP", "BuildAside", "Job", "Session"]

# In place of why something was not built: the session ended, or paused.
GIVEN_UP: Final = "given up"
_MOST_WORKERS: Final = 4
_LOADING_PART: Final = 0.2  # at most so much of the time goes into loading what was built
_END_S: Final = 5.0  # a worker that was told to end is waited for so long
_PROGRAM: Final = "profscope.dispatch.build_worker:main"


class Session(NamedTuple):
    """What a worker is told first. cache, libdevice: of Triton's knobs."""

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


class BuildAside:
    """Installed for the length of a session. backend: "gpu" or "emulator"."""

    def __init__(self, options: Options, backend: str) -> None:
        self._options = options
        self._backend = backend
        self._workers: list[_Worker] = []
        self._free: list[_Worker] = []
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._next_load_s = 0.0

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Install for the body of a with statement; what is being built at its end is given up."""
        cpus = len(os.sched_getaffinity(0))
        threads = min(_MOST_WORKERS, max(1, cpus // 2))
        pool = ThreadPoolExecutor(threads, "profscope-build", allow_capture)
        self._pool = pool
        # Of all the objects that Inductor has made it takes a third of a second or more. What is built and
        # loaded would soon bring it about in a step; here nobody waits for one.
        gc.collect()
        try:
            yield
        finally:
            self._pool = None
            with self._lock:
                workers, self._workers, self._free = self._workers, [], []
            for worker in workers:
                worker.terminate()
            for worker in workers:
                worker.wait()
            pool.shutdown(cancel_futures=True)  # each of what is under way gives up
            for worker in workers:
                worker.end()

    def begin(self, tuner: Any, config: Any, prepare: Callable[[], object]) -> Future[str] | None:
        """Have a kernel of torch.compile built; None where no other process can do it as this one would.
        prepare: whatever else its launches need, which takes time; called by another thread.
        """
        pool, file = self._pool, tuner.filename
        if pool is None or file is None or not Path(file).is_file() or not self._portable:
            return None
        try:
            return pool.submit(self._build, Job(file, tuner.fn.__name__, config), prepare)
        except RuntimeError:  # the session ends
            return None

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

    def _build(self, job: Job, prepare: Callable[[], object]) -> str:
        """By one of the workers, or a new one. Returns why that failed, "" if it did not."""
        failed = "no process could build it"
        try:
            with self._lock:
                worker = self._free.pop() if self._free else None
            if worker is None:
                worker = self._started()
            answer = worker.build(job)
            with self._lock:
                if worker in self._workers:
                    self._free.append(worker)
            if not answer:
                failed = "its memory could not be prepared"
                prepare()
        except Exception as error:  # noqa: BLE001  whatever it is, launches go on, bare
            return GIVEN_UP if self._pool is None else f"{failed}: {one_line(error)}"
        return answer

    def _started(self) -> _Worker:
        told = Session(self._options, self._backend, knobs.cache.dir, knobs.nvidia.libdevice_path)
        worker = _Worker()
        with self._lock:
            if self._pool is not None:
                self._workers.append(worker)
                tell = worker.tell
            else:
                tell = worker.give_up
        tell(told)
        return worker


class _Worker:
    """A process that builds; see `builder`."""

    def __init__(self) -> None:
        self._process = begun(_PROGRAM)
        answers: Any = self._process.stdout
        self._answers = io.BufferedReader(answers)

    def tell(self, what: Any) -> None:
        """Raises OSError where the process has ended."""
        assert self._process.stdin is not None
        write(self._process.stdin, pickle.dumps(what))

    def give_up(self, what: Any) -> None:
        """In place of `tell` where the session has ended. Raises EOFError."""
        self.terminate()
        self.end()
        raise EOFError("the session has ended")

    def build(self, job: Job) -> str:
        """Have a kernel built. Raises OSError or EOFError where the process is gone."""
        self.tell(job)
        answer: str = pickle.load(self._answers)
        return answer

    def terminate(self) -> None:
        self._process.terminate()

    def wait(self) -> None:
        """Until a process that was told to end is gone; one that does not is killed."""
        gone(self._process, _END_S)

    def end(self) -> None:
        """As `wait`, and nobody reads its answers any more."""
        ended(self._process, _END_S)
