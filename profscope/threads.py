"""Threads that share the work of decoding, writing and reading; zlib and numpy let them run side by side."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")

__all__ = ["WorkerPool", "in_order", "worker_pool"]

MOST_THREADS = 8


class WorkerPool(ThreadPoolExecutor):
    """Where no thread can be started, as in what `atexit` calls, the calling thread does the work."""

    def submit(self, work: Callable[P, T], /, *args: P.args, **options: P.kwargs) -> Future[T]:
        try:
            return super().submit(work, *args, **options)
        except RuntimeError:  # which is all that says so; `work` itself never raises here
            return _done(work, *args, **options)


def _done(work: Callable[P, T], *args: P.args, **options: P.kwargs) -> Future[T]:
    future: Future[T] = Future()
    try:
        future.set_result(work(*args, **options))
    except Exception as error:  # noqa: BLE001  whatever it is, result() raises it
        future.set_exception(error)
    return future


@contextmanager
def worker_pool(threads: int | None = None) -> Iterator[Executor]:
    """So many threads; by default as many as this process may use cores, eight at most.

    A body that raises, as Ctrl-C makes it, waits for what has begun and not for what has not.
    """
    pool = WorkerPool(threads or _worker_count(), "profscope-worker")
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


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
