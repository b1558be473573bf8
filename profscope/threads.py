"""Threads that share the work of decoding, writing and reading, and background threads.

zlib and numpy let them run side by side.
"""

import functools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Thread
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")

__all__ = ["WorkerPool", "daemon", "in_background", "in_order", "worker_pool"]

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
            return once.future


class _Once(Generic[T]):
    """Work that is done once, by who comes first: where no thread can be started it is in the pool's queue
    all the same, and a thread that the pool has already may take it."""

    def __init__(self, work: Callable[[], T]) -> None:
        self.future: Future[T] = Future()
        self._work = work
        self._taken = threading.Lock()

    def __call__(self) -> T:
        self.run()
        return self.future.result()

    def run(self) -> None:
        if not self._taken.acquire(blocking=False):
            return
        try:
            self.future.set_result(self._work())
        except BaseException as error:  # whatever it is, result() raises it
            self.future.set_exception(error)
            if not isinstance(error, Exception):  # Ctrl-C: nothing more of this thread's
                raise


@contextmanager
def worker_pool(threads: int | None = None) -> Iterator[Executor]:
    """So many threads; by default as many as this process may use cores, eight at most.

    A body that raises, as Ctrl-C makes it, waits for what has begun and not for what has not.
    """
    pool = WorkerPool(threads or _worker_count())
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


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
