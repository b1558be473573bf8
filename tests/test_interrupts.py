"""Ctrl-C at each line while a session opens or closes: it leaves nothing behind, and loses nothing."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import profscope
from profscope.around import host_scopes
from profscope.recording.open_sessions import OPEN
from profscope.sessions import uninterrupted
from tests.support.sessions import launch_add, session
from tests.support.triton_globals import triton_globals

_OURS = Path(profscope.__file__).parent
_SHIELD = (str(_OURS / "sessions.py"), str(_OURS / "recording" / "interrupts.py"))  # all others run behind it


class CtrlC:
    """At the `number`-th line of these files that runs. where: the line, once it has come."""

    def __init__(self, number: int, files: tuple[str, ...]) -> None:
        self.where = ""
        self._files = files
        self._number = number
        self._seen: set[tuple[str, int]] = set()

    def trace(self, frame: FrameType, event: str, arg: object) -> Callable[..., Any] | None:
        """For sys.settrace."""
        line = frame.f_code.co_filename, frame.f_lineno
        if not line[0].startswith(self._files):
            return None
        if event == "line" and not self.where and line not in self._seen:
            self._seen.add(line)
            if len(self._seen) > self._number:
                self.where = f"{line[0]}:{line[1]}"
                signal.raise_signal(signal.SIGINT)
        return self.trace


def left() -> tuple[Any, ...]:
    """What a session might leave behind in the process, whose pool of threads stays."""
    threads = [each for each in threading.enumerate() if not each.name.startswith("profscope-worker")]
    return (
        triton_globals(), list(OPEN), list(host_scopes.RECORDING), len(threads),
        signal.getsignal(signal.SIGINT), len(os.listdir("/proc/self/fd")),
    )  # fmt: skip


@pytest.fixture(autouse=True)
def python_raises_at_ctrl_c() -> Iterator[None]:
    """As it does by itself, whatever runs the tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupted(ctrl_c: CtrlC, phase: str, folder: Path) -> tuple[profscope.Session, bool]:
    """A session that is interrupted while it opens or closes, and whether KeyboardInterrupt was raised."""
    prof, before = session(instrument=["kernel-span"], spool=folder), sys.gettrace()
    try:
        sys.settrace(ctrl_c.trace if phase == "opens" else None)
        with prof:
            sys.settrace(None)
            launch_add(100)
            sys.settrace(ctrl_c.trace if phase == "closes" else None)
        sys.settrace(None)
    except KeyboardInterrupt:
        return prof, True
    finally:
        sys.settrace(before)
    return prof, False


@pytest.mark.parametrize(
    ("files", "step"),
    [
        (_SHIELD, 3),
        pytest.param(_SHIELD, 1, marks=pytest.mark.exhaustive),
        pytest.param((str(_OURS),), 5, marks=pytest.mark.exhaustive),
    ],
    ids=["one line in three of the shield", "each line of the shield", "one line in five of all"],
)
@pytest.mark.parametrize("phase", ["opens", "closes"])
def test_at_each_line(phase: str, files: tuple[str, ...], step: int, tmp_path: Path) -> None:
    with session(instrument=["kernel-span"]):  # what is imported or compiled once is there
        launch_add(100)
    before, number = left(), 0
    while True:
        folder, ctrl_c = tmp_path / str(number), CtrlC(number, files)
        prof, raised = interrupted(ctrl_c, phase, folder)
        if not ctrl_c.where:
            break
        assert raised, ctrl_c.where
        assert left() == before, ctrl_c.where
        if phase == "closes":
            assert len(prof.launches) == 1, ctrl_c.where
        for spool in folder.glob("*"):
            assert len(profscope.load(spool).launches) == (phase == "closes"), ctrl_c.where
        number += step
    assert number > 10
    assert len(prof.launches) == 1


def test_a_second_ctrl_c_does_not_wait() -> None:
    done = []

    def press_twice() -> None:
        with uninterrupted():
            for at in range(2):
                signal.raise_signal(signal.SIGINT)
                done.append(at)

    with pytest.raises(KeyboardInterrupt):
        press_twice()
    assert done == [0]


def test_the_programs_own_handler_is_told_afterwards_and_once() -> None:
    told: list[int] = []

    def handler(number: int, frame: FrameType | None) -> None:
        told.append(number)

    signal.signal(signal.SIGINT, handler)
    with uninterrupted():
        with uninterrupted():
            signal.raise_signal(signal.SIGINT)
        assert told == []
    assert told == [signal.SIGINT]
    assert signal.getsignal(signal.SIGINT) is handler
