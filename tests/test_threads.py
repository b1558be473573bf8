"""Threads that share work, where the system gives few of them or none."""

from __future__ import annotations

import threading
import time
from collections import Counter

import pytest

from profscope.threads import WorkerPool

NAME = "profscope-few"


@pytest.mark.parametrize("most", [0, 1, 4])
def test_work_is_done_once_where_threads_are_few(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """A pool queues work before it begins a thread for it: those that it has would do it, too."""
    begin, begun = threading.Thread.start, Counter[str]()

    def start(thread: threading.Thread) -> None:
        if thread.name.startswith(NAME):
            if begun[NAME] == most:
                raise RuntimeError("can't start new thread")
            begun[NAME] += 1
        begin(thread)

    done = Counter[int]()

    def work(number: int) -> int:
        time.sleep(0.001)
        done[number] += 1
        return -number

    monkeypatch.setattr(threading.Thread, "start", start)
    with WorkerPool(4, NAME) as pool:
        assert list(pool.map(work, range(16))) == [-number for number in range(16)]
    assert done == dict.fromkeys(range(16), 1)


def test_what_work_raises_comes_back_where_there_are_no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    def fail() -> None:
        raise ValueError("no such thing")

    def stop() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", start)
    with WorkerPool(2, NAME) as pool:
        with pytest.raises(ValueError, match="no such thing"):
            pool.submit(fail).result()
        with pytest.raises(KeyboardInterrupt):  # at once, and not when somebody asks
            pool.submit(stop)
