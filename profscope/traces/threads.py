"""Threads that share the work of writing and reading a trace; zlib and numpy let them run side by side."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

S = TypeVar("S")
T = TypeVar("T")

__all__ = ["in_order", "worker_pool"]

MOST_THREADS = 8


@contextmanager
def worker_pool() -> Iterator[Executor]:
    """As many threads as this process may use cores, eight at most.

    A body that raises, as Ctrl-C makes it, waits for what has begun and not for what has not.
    """
    pool = ThreadPoolExecutor(_worker_count())
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
