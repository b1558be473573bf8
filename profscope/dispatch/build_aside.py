"""Builds recorded binaries in processes of their own while the program runs.

Most of a compilation is Python, and would hold the interpreter's lock: a thread that compiles slows every
launch of the others. So workers compile, each a clean interpreter that is told what a session records, and
then given one kernel after the other. What they make is in Triton's cache; a launch waits only until it is
loaded from there, and launches load at most a fifth of the time.

No thread waits for the workers: launches of kernels that are being built look whether there are answers.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import pickle
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from profscope.compat.triton_parts import knobs
from profscope.options import Options

__all__ = ["GIVEN_UP", "Build", "BuildAside", "Job", "Session"]

# In place of why something was not built: the session ended, or paused.
GIVEN_UP: Final = "given up"
_MOST_WORKERS: Final = 4
_LOADING_PART: Final = 0.2  # at most so much of the time goes into loading what was built
_LOOK_S: Final = 0.005  # so long a launch may take the last look at the workers for granted
END_S: Final = 5.0  # a worker that was told to end is waited for so long
WORKER_PROGRAM: Final = "from profscope.dispatch.build_worker import main; sys.exit(main())"
_NICE: Final = 10
_ONE_THREAD: Final = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


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


class Build:
    """A kernel that is being built. answer: why that failed, "" if it did not, None as long as it goes on."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.answer: str | None = None


class BuildAside:
    """Installed for the length of a session. Thread-safe. backend: "gpu" or "emulator"."""

    def __init__(self, options: Options, backend: str) -> None:
        self._options = options
        self._backend = backend
        self._most = min(_MOST_WORKERS, max(1, len(os.sched_getaffinity(0)) // 2))
        self.workers: list[_Worker] = []
        self._waiting: deque[Build] = deque()
        self._lock = threading.Lock()
        self._open = False
        self._next_look_s = 0.0
        self._next_load_s = 0.0

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Install for the body of a with statement; what is being built at its end is given up."""
        # Of all the objects that Inductor has made it takes a third of a second or more. What is built and
        # loaded would soon bring it about in a step; here nobody waits for one.
        gc.collect()
        self._open = True
        try:
            yield
        finally:
            with self._lock:
                self._open = False
                workers, self.workers = self.workers, []
                for build in (*self._waiting, *(each.build for each in workers if each.build is not None)):
                    build.answer = GIVEN_UP
                self._waiting.clear()
            for worker in workers:
                worker.process.terminate()
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
            self._waiting.append(build)
            self._look()
        return build

    @property
    def _portable(self) -> bool:
        """Whether another process compiles as this one does: no hook, mode or pass of the program's own."""
        own = any(type(step).__module__ == "__main__" for step in self._options.pipeline)
        user = knobs.runtime.add_stages_inspection_hook, knobs.compilation.instrumentation_mode
        return not any(user) and not own

    def is_done(self, build: Build) -> bool:
        """Whether a kernel has been built, or cannot be."""
        if build.answer is None and time.perf_counter() >= self._next_look_s:
            with self._lock:
                self._look()
        return build.answer is not None

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

    def _look(self) -> None:
        """Take the answers that there are, and give those workers that have nothing to do something."""
        for worker in self.workers[:]:
            if not worker.listen():
                self.workers.remove(worker)
                worker.end()
                lost = [worker.build] if worker.build is not None else self._waiting  # it cannot even begin
                for build in lost:
                    build.answer = "no process could build it: it has ended"
                self._waiting = deque(each for each in self._waiting if each.answer is None)
        while self._waiting:
            free = next((each for each in self.workers if each.is_free), None)
            if free is None:
                if len(self.workers) >= self._most:
                    break
                try:
                    self.workers.append(_Worker(self._session()))
                except OSError as error:
                    self._waiting.popleft().answer = f"no process could build it: {error}"
                    continue
                break  # one at a look: to start it takes milliseconds
            free.give(self._waiting.popleft())
        self._next_look_s = time.perf_counter() + _LOOK_S

    def _session(self) -> Session:
        return Session(self._options, self._backend, knobs.cache.dir, knobs.nvidia.libdevice_path)


class _Worker:
    """A process that builds; see `build_worker`. It gives way to this one: it runs at a lower priority, and
    libraries of its start no threads of theirs. Raises OSError if there can be none.

    build: what it builds. It is asked one thing at a time, which a pipe has room for.
    """

    def __init__(self, session: Session) -> None:
        start = f"import os, sys; os.nice({_NICE}); sys.path[:] = {sys.path!r}; {WORKER_PROGRAM}"
        self.process = subprocess.Popen(
            [sys.executable, "-c", start],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0,
            env={**os.environ, **_ONE_THREAD},
            start_new_session=True,  # a Ctrl-C is the program's
        )  # fmt: skip
        self.build: Build | None = None
        self._answer = b""
        self._asked = False
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)
        self._ask(session)

    @property
    def is_free(self) -> bool:
        """Whether it waits for something to do."""
        return not self._asked

    def give(self, build: Build) -> None:
        """Have a kernel built."""
        self.build = build
        self._ask(build.job)

    def listen(self) -> bool:
        """Take its answer, if there is one. False if the process is gone."""
        assert self.process.stdout is not None
        while self._asked:
            part: bytes | None = self.process.stdout.read(1 << 16)
            if part is None:
                break
            if not part:
                return False
            self._answer += part
            if self._answer.endswith(b"\n"):
                if self.build is not None:
                    self.build.answer = json.loads(self._answer)
                self._answer, self._asked, self.build = b"", False, None
        return True

    def end(self) -> None:
        """Wait until a process that was told to end is gone; so long, then it is killed. One that is stopped
        hears of no signal but that."""
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):  # what was still to be written is of no use any more
                pipe.close()
        try:
            self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def _ask(self, what: Session | Job) -> None:
        assert self.process.stdin is not None
        self._asked = True
        left = memoryview(pickle.dumps(what))
        with contextlib.suppress(BrokenPipeError):  # it is gone, as `listen` will see
            while left:
                left = left[self.process.stdin.write(left) :]
