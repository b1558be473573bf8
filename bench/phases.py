"""The seconds of what is done in phases, and where they go."""

from __future__ import annotations

import contextlib
import cProfile
import pstats
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from importlib import import_module
from typing import Any
from unittest import mock

__all__ = ["Clock", "Profiled", "pools", "profiled"]

Profiled = Callable[[], contextlib.AbstractContextManager[None]]
"""Prints the profile of its body, if asked for."""


class Clock:
    """By phase, seconds and CPU seconds so far."""

    def __init__(self) -> None:
        self.took: dict[str, list[float]] = {}

    @contextlib.contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        so_far = self.took.setdefault(phase, [0.0, 0.0])
        begun, cpu = time.perf_counter(), time.process_time()
        yield
        so_far[:] = so_far[0] + time.perf_counter() - begun, so_far[1] + time.process_time() - cpu

    @contextlib.contextmanager
    def parts(self, parts: Mapping[str, str]) -> Iterator[None]:
        """Time functions, by their names, as phases."""
        with contextlib.ExitStack() as stack:
            for phase, name in parts.items():
                module, _, attribute = name.rpartition(".")
                stack.enter_context(
                    mock.patch(name, self._timed(phase, vars(import_module(module))[attribute]))
                )
            yield

    def _timed(self, phase: str, function: Any) -> Any:
        def timed(*args: Any, **options: Any) -> Any:
            with self(f"    {phase}"):
                return function(*args, **options)

        return timed


@contextlib.contextmanager
def profiled() -> Iterator[None]:
    """Print the 40 functions of the body with most time; pools' work is done by the thread that has it."""

    def submit(_: object, work: Any, /, *args: Any, **options: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(work(*args, **options))
        return future

    with mock.patch.object(ThreadPoolExecutor, "submit", submit), cProfile.Profile() as profile:
        yield
    pstats.Stats(profile).sort_stats("cumulative").print_stats(40)


@contextlib.contextmanager
def pools() -> Iterator[list[ThreadPoolExecutor]]:
    """Those that are opened in the body."""
    opened: list[ThreadPoolExecutor] = []
    begin = ThreadPoolExecutor.__init__

    def counted(pool: ThreadPoolExecutor, *args: Any, **options: Any) -> None:
        opened.append(pool)
        begin(pool, *args, **options)

    with mock.patch.object(ThreadPoolExecutor, "__init__", counted):
        yield opened
