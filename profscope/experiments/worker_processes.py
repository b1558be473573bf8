"""Processes that work for this one: each is asked one thing after the other, and answers in JSON.

    workers = Workers("from my.module import main; main()", most=4)  # which calls `serve`
    answer = workers.ask("question").result()

What crashes or hangs there ends a process and not the program.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, Final

from profscope.threads import daemon

__all__ = ["Worker", "WorkerError", "Workers", "serve"]

_ONE_THREAD: Final = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
_LOOK_S: Final = 1.0  # how often a process looks for the one that started it
END_S: Final = 5.0  # a process that was told to end is waited for so long


class WorkerError(Exception):
    """There is no answer. The text says what the process did: "crashed (signal 11, SIGSEGV)"."""


class Worker:
    """One process, started when it is asked, and again if it has ended. One thread asks it.

    program: what it runs, with this process's path, in an interpreter whose libraries start no threads.
    """

    def __init__(self, program: str, nice: int = 0) -> None:
        self.program = program
        self.process: subprocess.Popen[bytes] | None = None
        self._nice = nice
        self._lock = threading.Lock()
        self._is_stopped = False

    def ask(self, question: object, longest_s: float | None = None) -> Any:
        """Its answer. Raises WorkerError if there is none, or none within that time."""
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # it is gone, as its answer tells
            pickle.dump(question, process.stdin)
            process.stdin.flush()
        if longest_s is not None and not select.select([process.stdout], [], [], longest_s)[0]:
            process.kill()
            _close(process)
            raise WorkerError(f"took more than {longest_s:g} s")
        line = process.stdout.readline()
        if line.endswith(b"\n"):
            return json.loads(line)
        status = _close(process)
        if status < 0:
            raise WorkerError(f"crashed (signal {-status}, {signal.Signals(-status).name})")
        raise WorkerError(f"ended with status {status}")

    def stop(self) -> None:
        """Tell the process to end, and start none any more."""
        with self._lock:
            self._is_stopped = True
            if self.process is not None:
                self.process.terminate()

    def close(self) -> None:
        """Wait for a process that was told to end. Later, or if it is stopped and hears nothing, it is
        killed, and not asked again."""
        if self.process is not None:
            self.end()
            _close(self.process)

    def end(self) -> None:
        """Wait as `close`, while a thread may still read its answer."""
        if self.process is not None:
            try:
                self.process.wait(END_S)
            except subprocess.TimeoutExpired:
                self.process.kill()

    def _running(self) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._is_stopped:
                raise WorkerError("was stopped")
            if self.process is None or self.process.poll() is not None:
                try:
                    self.process = self._started()
                except OSError as error:
                    raise WorkerError(f"could not be started: {error}") from error
            return self.process

    def _started(self) -> subprocess.Popen[bytes]:
        begin = f"import os, sys; os.nice({self._nice}); sys.path[:] = {sys.path!r}; {self.program}"
        return subprocess.Popen(
            [sys.executable, "-c", begin],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={**os.environ, **_ONE_THREAD},
            start_new_session=True,  # a Ctrl-C is the program's
        )  # fmt: skip


def _close(process: subprocess.Popen[bytes]) -> int:
    """Close the pipes, on which the process ends; its exit status."""
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        with contextlib.suppress(OSError):  # what was still to be written is of no use any more
            pipe.close()
    return process.wait()


class Workers:
    """Up to `most` workers, each asked by a thread of its own; as many as there are questions. Thread-safe.

    longest_s: of an answer.
    """

    def __init__(self, program: str, most: int, nice: int = 0, longest_s: float | None = None) -> None:
        self.workers: list[Worker] = []
        self._new = (program, nice)
        self._most = most
        self._longest_s = longest_s
        self._threads: list[threading.Thread | None] = []
        self._questions: SimpleQueue[tuple[object, Future[Any]] | None] = SimpleQueue()
        self._unanswered = 0
        self._lock = threading.Lock()
        self._is_closed = False

    def ask(self, question: object) -> Future[Any]:
        """The answer, or WorkerError; cancelled if there is none yet when the workers are closed."""
        future: Future[Any] = Future()
        with self._lock:
            if self._is_closed:
                future.cancel()
                return future
            self._unanswered += 1
            self._questions.put((question, future))
            if len(self.workers) < min(self._most, self._unanswered):
                self.workers.append(Worker(*self._new))
                self._threads.append(daemon("worker", self._serve, self.workers[-1]))
        return future

    def close(self) -> None:
        """Give up unanswered work, and end all processes."""
        with self._lock:
            self._is_closed = True
            workers, self.workers = self.workers, []
        with contextlib.suppress(Empty):
            while (asked := self._questions.get_nowait()) is not None:
                asked[1].cancel()
        for worker in workers:
            worker.stop()
            self._questions.put(None)
        for worker, thread in zip(workers, self._threads, strict=True):
            worker.end()
            if thread is not None:
                thread.join()
            worker.close()

    def _serve(self, worker: Worker) -> None:
        while (asked := self._questions.get()) is not None:
            question, future = asked
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(worker.ask(question, self._longest_s))
                except WorkerError as error:
                    future.set_exception(error)
            with self._lock:
                self._unanswered -= 1


def serve(answer: Callable[[Any], object]) -> None:
    """In a worker's process: answer what it is asked, until the process that asks is gone. That closes the
    pipe; but children of its own may hold it open."""
    asker = os.getppid()
    asked, answers = os.fdopen(os.dup(0), "rb"), os.dup(1)
    os.dup2(2, 1)  # what compilers print is no answer
    with contextlib.suppress(EOFError):
        while True:
            while not select.select([asked], [], [], _LOOK_S)[0]:
                if os.getppid() != asker:
                    return
            os.write(answers, json.dumps(answer(pickle.load(asked))).encode() + b"\n")
