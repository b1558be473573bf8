"""Ops that several processes run side by side: whoever is free takes the next one."""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from bench.__main__ import FAULTED, RESULT, ROOT, missing
from bench.table import Row, row_from_json

__all__ = ["side_by_side"]

_STOPPED: Final = "not run: out of time"


def side_by_side(names: Sequence[str], command: Sequence[str], limit_s: float, jobs: int) -> Iterator[Row]:
    """The rows of all ops as they come. An op that ends its process is named, and a new process goes on.

    command: starts a worker, which reads a name a line, and prints a result for each.
    """
    deadline = time.monotonic() + limit_s
    waiting = deque(names)
    rows: queue.Queue[Row | None] = queue.Queue()

    def lane() -> None:
        try:
            while waiting and time.monotonic() < deadline:
                for row in _of_one_worker(waiting, command, deadline):
                    rows.put(row)
        finally:
            rows.put(None)

    threads = [threading.Thread(target=lane) for _ in range(min(jobs, len(names)))]
    for thread in threads:
        thread.start()
    for _ in threads:
        yield from iter(rows.get, None)
    for thread in threads:
        thread.join()
    yield from (missing(name, _STOPPED) for name in waiting)


def _of_one_worker(waiting: deque[str], command: Sequence[str], deadline: float) -> Iterator[Row]:
    """The rows of the ops that one worker runs until it ends, or none is left."""
    worker = subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert worker.stdin is not None
    assert worker.stdout is not None
    timer = threading.Timer(max(1.0, deadline - time.monotonic()), worker.kill)
    timer.start()
    try:
        with worker.stdout:
            while worker.poll() is None and time.monotonic() < deadline:
                try:
                    name = waiting.popleft()
                except IndexError:
                    break
                with contextlib.suppress(BrokenPipeError):
                    worker.stdin.write(f"{name}\n")
                rows = _result(name, worker, deadline)
                if not rows:
                    waiting.appendleft(name)
                yield from rows
        with contextlib.suppress(BrokenPipeError):
            worker.stdin.close()
        worker.wait()
    finally:
        timer.cancel()


def _result(name: str, worker: subprocess.Popen[str], deadline: float) -> list[Row]:
    """An op's rows, or why there are none; empty where the op before it left a device that cannot be used."""
    assert worker.stdout is not None
    for line in worker.stdout:
        if line.startswith(RESULT):
            told = json.loads(line.removeprefix(RESULT))
            print(f"{told['seconds']:6.1f} s  {told['task']}", flush=True)
            return [row_from_json(row) for row in told["rows"]]
        print(line, end="", flush=True)
    status = worker.wait()
    if status == FAULTED:
        return []
    if time.monotonic() >= deadline:
        return [missing(name, "stopped: out of time")]
    return [missing(name, f"the process ended with status {status} in this task")]
