"""What is read or saved when no thread can be started any more, as in a process's last moments."""

from __future__ import annotations

import threading
import time
from collections import Counter
from pathlib import Path

import pytest

import profscope
from profscope.threads import WorkerPool
from tests.support.forks import Forks
from tests.support.validation import validate

_LAST_MOMENTS = """
import atexit, sys
import profscope
from tests.support.sessions import launch_add

def last():
    {last}

{opened}
    launch_add()
    launch_add()
    {end}
"""
_LEFT = "with profscope.session(backend='emulator') as prof:"
_LEFT_BEFORE = f"atexit.register(last)\n{_LEFT}"
_OPEN = """
prof = profscope.session(backend='emulator').__enter__()
atexit.register(last)
if True:
"""
_CLOSED = "prof.__exit__(None, None, None)"
_SAVE = "prof.save(sys.argv[1])"


@pytest.mark.parametrize(
    ("opened", "last", "end", "code", "suffix"),
    [
        pytest.param(_LEFT_BEFORE, _SAVE, "", 0, ".json", marks=pytest.mark.exhaustive),
        (_OPEN, _SAVE, "sys.exit(3)", 3, ".json"),
        pytest.param(_OPEN, f"{_CLOSED}; {_SAVE}", "", 0, ".json.gz", marks=pytest.mark.exhaustive),
        pytest.param(_LEFT_BEFORE, _SAVE, "sys.exit(3)", 3, ".pftrace", marks=pytest.mark.exhaustive),
        pytest.param(_OPEN, _SAVE, "", 0, ".pftrace.gz", marks=pytest.mark.exhaustive),
    ],
    ids=["left", "open", "left-at-exit", "left-by-exit", "open to the end"],
)
def test_a_profile_can_be_saved(
    tmp_path: Path, forks: Forks, opened: str, last: str, end: str, code: int, suffix: str
) -> None:
    path = tmp_path / f"trace{suffix}"
    ran = forks.run(_LAST_MOMENTS.format(opened=opened, last=last, end=end), path, finalize=True)
    assert (ran.returncode, ran.stderr) == (code, "")
    profile = profscope.load(path)
    assert len(profile.launches) == 2
    assert validate(profile.tables) == []


def test_launches_at_exit_reach_the_spool(tmp_path: Path, forks: Forks) -> None:
    last = "launch_add(); prof._parts().recorder.spooler.full()"  # as when memory= is used up
    opened = _OPEN.replace("backend=", "spool=sys.argv[1], backend=")
    ran = forks.run(_LAST_MOMENTS.format(opened=opened, last=last, end=""), tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
    profile = profscope.load(tmp_path)
    assert len(profile.launches) == 3
    assert profile.metadata["notes"] == []


def test_work_that_raises_does_so_for_whoever_asks(forks: Forks) -> None:
    ran = forks.run(
        """
import atexit
from profscope.threads import in_order, worker_pool

def last():
    with worker_pool() as pool:
        print(list(in_order(pool, int, "123")))
        failed = pool.submit(int, "x")
        try:
            failed.result()
        except ValueError as error:
            print(error)

atexit.register(last)
""",
        finalize=True,
    )
    assert ran.stdout == "[1, 2, 3]\ninvalid literal for int() with base 10: 'x'\n", ran.stderr


# Where the system gives few threads or none.

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
