"""Tasks in worker processes: one that dies, by a fault on the device or in native code, costs one task."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import torch

from bench.table import Cell, Row, row_from_json, row_to_json
from bench.timing import synchronize, why

__all__ = ["Task", "supervised", "work"]

Task = Callable[[], list[Row]]

_ROOT: Final = Path(__file__).resolve().parent.parent
_FAULTED: Final = 3  # exit status of a worker whose device cannot be used any more
_RESULT: Final = "result: "  # how a worker begins a line for its parent


def supervised(names: Sequence[str], command: Sequence[str], limit_s: float, jobs: int = 1) -> Iterator[Row]:
    """The rows of all tasks as they come; whichever of `jobs` workers is free takes the next one.

    A task that ends its worker is named, and a new worker goes on. command: starts one, which runs `work`.
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
    yield from (_missing(name, "not run: out of time") for name in waiting)


def _of_one_worker(waiting: deque[str], command: Sequence[str], deadline: float) -> Iterator[Row]:
    """The rows of the tasks that one worker runs until it ends, or none is left."""
    worker = subprocess.Popen(
        command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
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
                if rows is None:
                    waiting.appendleft(name)
                yield from rows or ()
        with contextlib.suppress(BrokenPipeError):
            worker.stdin.close()
        worker.wait()
    finally:
        timer.cancel()


def _result(name: str, worker: subprocess.Popen[str], deadline: float) -> list[Row] | None:
    """A task's rows, or why there are none; None if the task before it left a device that cannot be used."""
    assert worker.stdout is not None
    for line in worker.stdout:
        if line.startswith(_RESULT):
            found = json.loads(line.removeprefix(_RESULT))
            print(f"{found['seconds']:6.1f} s  {found['task']}", flush=True)
            return [row_from_json(row) for row in found["rows"]]
        print(line, end="", flush=True)
    status = worker.wait()
    if status == _FAULTED:
        return None
    if time.monotonic() >= deadline:
        return [_missing(name, "stopped: out of time")]
    return [_missing(name, f"the process ended with status {status} in this task")]


def work(every: dict[str, Task], names: Iterable[str]) -> int:
    """Run tasks and print each one's rows as a line of JSON. names: one a line, as from standard input."""
    for name in map(str.rstrip, names):
        start = time.monotonic()
        try:
            rows = every[name]()
        except Exception as error:  # noqa: BLE001  printed in the table; the other tasks still count
            rows = [_missing(name, why(error))]
        found = {"task": name, "seconds": time.monotonic() - start, "rows": [*map(row_to_json, rows)]}
        print(f"{_RESULT}{json.dumps(found)}", flush=True)
        try:
            synchronize()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
        except RuntimeError:
            sys.stdout.flush()
            os._exit(_FAULTED)  # nothing can be torn down in an orderly way after a fault
    return 0


def _missing(task: str, reason: str) -> Row:
    group, _, name = task.partition(": ")
    return Row(group, name, "", {"profscope": Cell(error=reason)})
