"""Threads that share the work of decoding, writing and reading, and background threads.

zlib and numpy let them run side by side.
"""

from __future__ import annotations

import functools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Thread
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")

__all__ = ["MOST_THREADS", "WorkerPool", "daemon", "in_background", "in_order", "worker_pool"]

MOST_THREADS = 8


class WorkerPool(ThreadPoolExecutor):
    """Where no thread can be started, as in what `atexit` calls, the calling thread does the work."""

    def __init__(self, threads: int, name: str = "profscope-worker") -> None:
        super().__init__(threads, name)

    def submit(self, work: Callable[P, T], /, *args: P.args, **options: P.kwargs) -> Future[T]:
        once = _Once(functools.partial(work, *args, **options))
        try:
            return super().submit(once)
        except RuntimeError:  # which is all that says so; `work` itself never raises here
            once.run()
            return once


class _Once(Future[T]):
    """Work that is done once, by who comes first: where no thread can be started it is in the pool's queue
    all the same, and a thread that the pool has already may take it."""

    def __init__(self, work: Callable[[], T]) -> None:
        super().__init__()
        self._work: Callable[[], T] | None = work
        self._taken = threading.Lock()

    def __call__(self) -> T:
        self.run()
        return self.result()

    def run(self) -> None:
        if not self._taken.acquire(blocking=False):
            return
        work, self._work = self._work, None  # what it holds goes with it, however long the answer is kept
        if not self.set_running_or_notify_cancel():
            return
        try:
            assert work is not None
            self.set_result(work())
        except BaseException as error:  # whatever it is, result() raises it
            self.set_exception(error)
            if not isinstance(error, Exception):  # Ctrl-C: nothing more of this thread's
                raise


class _Share(Executor):
    """At most so many threads of the process's pool at a time, for one body.

    Whoever waits for work that no thread has begun does it. So work may share the pool in its turn: no thread
    waits for work that waits for a thread.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._changed = threading.Condition()
        self._queue: deque[_Work[Any]] = deque()
        self._busy = 0  # threads of the pool that serve the queue
        self._begun = 0  # works that have not ended

    def submit(self, work: Callable[P, T], /, *args: P.args, **options: P.kwargs) -> Future[T]:
        future = _Work(functools.partial(work, *args, **options), self)
        with self._changed:
            self._queue.append(future)
            if self._busy == self._threads:
                return future
            self._busy += 1
        _shared(os.getpid()).submit(self._serve)
        return future

    def _serve(self) -> None:
        while (work := self._next()) is not None:
            try:
                self._do(work)
            except BaseException:
                with self._changed:
                    self._busy -= 1
                raise

    def _next(self) -> _Work[Any] | None:
        with self._changed:
            if self._queue:
                self._begun += 1
                return self._queue.popleft()
            self._busy -= 1  # in the same breath, so that submit() knows that nobody looks again
            return None

    def help(self, work: _Work[Any]) -> None:
        """Do it, unless another thread does."""
        with self._changed:
            self._begun += 1
        self._do(work)

    def _do(self, work: _Work[Any]) -> None:
        try:
            work.run()
        finally:
            with self._changed:
                self._begun -= 1
                self._changed.notify_all()

    def close(self) -> None:
        """Wait for what has begun; the rest never will."""
        with self._changed:
            for work in self._queue:
                work.cancel()
            self._queue.clear()
            self._changed.wait_for(lambda: not self._begun)


class _Work(_Once[T]):
    """Of a share: done by a thread of the pool, or by who waits for it."""

    def __init__(self, work: Callable[[], T], share: _Share) -> None:
        super().__init__(work)
        self._share = share

    def result(self, timeout: float | None = None) -> T:
        if timeout is None and not self.done():
            self._share.help(self)
        return super().result(timeout)


@functools.cache
def _shared(pid: int) -> WorkerPool:
    """Of this process, as `_background`."""
    return WorkerPool(max(os.cpu_count() or 1, MOST_THREADS))


@contextmanager
def worker_pool(threads: int | None = None) -> Iterator[Executor]:
    """So many threads; by default as many as this process may use cores, eight at most.

    They are of one pool that the process has, which begins them when they are first needed. A body that
    raises, as Ctrl-C makes it, waits for what has begun and not for what has not.
    """
    share = _Share(threads or _worker_count())
    try:
        yield share
    finally:
        share.close()


def daemon(name: str, work: Callable[P, object], /, *args: P.args, **options: P.kwargs) -> Thread | None:
    """Begin work that may outlast the interpreter, which ends without it. None where no thread can be
    started: the interpreter is about to end, or there are too many."""
    thread = Thread(target=work, args=args, kwargs=options, name=f"profscope-{name}", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        return None
    return thread


@functools.cache
def _background(pid: int) -> WorkerPool:
    """Of this process: a fork has none of its parent's threads."""
    return WorkerPool(1, "profscope-background")


def in_background(work: Callable[[], T]) -> Future[T]:
    """Have a background thread do short pieces of work, one after the other."""
    return _background(os.getpid()).submit(work)


def in_order(pool: Executor, work: Callable[[S], T], items: Iterable[S]) -> Iterator[T]:
    """`pool.map` that stays only a little ahead of its reader, so that memory stays bounded."""
    ahead: deque[Future[T]] = deque()
    for item in items:
        ahead.append(pool.submit(work, item))
        if len(ahead) > 2 * _worker_count():
            yield ahead.popleft().result()
    while ahead:
        yield ahead.popleft().result()


def _worker_count() -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MOST_THREADS)
