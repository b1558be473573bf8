"""What takes long says so on a terminal, and nowhere else."""

from __future__ import annotations

import io
import sys
import threading
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from profscope import progress
from profscope.profiles import diff, load
from profscope.progress import Steps, working
from tests.support.profiles import regular_profile


class Terminal(io.StringIO):
    """Tells when something has been written that has a text in it."""

    def __init__(self, awaited: str) -> None:
        super().__init__()
        self.awaited, self.seen = awaited, threading.Event()

    def isatty(self) -> bool:
        super().isatty()  # raises where it is closed
        return True

    def write(self, text: str) -> int:
        if self.awaited in text:
            self.seen.set()
        return super().write(text)


def shows() -> bool:
    """Whether a thread of this process shows what is done."""
    return any("progress" in each.name for each in threading.enumerate())


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "AFTER_S", 0.0)
    monkeypatch.setattr(progress, "EVERY_S", 0.001)
    monkeypatch.setenv("TERM", "xterm")


@pytest.mark.usefixtures("at_once")
def test_a_terminal_sees_what_is_done_and_keeps_nothing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal("adding, 50 %")
    monkeypatch.setattr(sys, "stderr", terminal)
    steps = Steps()
    with working("adding", 4, steps), working("something inside"):
        steps.done = 2
        assert terminal.seen.wait(10)
        assert shows()
    assert terminal.getvalue().endswith("\r\x1b[K")
    assert "inside" not in terminal.getvalue()
    assert "\n" not in terminal.getvalue()
    assert not shows()


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("kind", ["pipe", "dumb", "closed", "none"])
def test_nothing_is_written_elsewhere(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO() if kind == "pipe" else Terminal("")
    monkeypatch.setattr(sys, "stderr", None if kind == "none" else stream)
    if kind == "dumb":
        monkeypatch.setenv("TERM", "dumb")
    if kind == "closed":
        stream.close()
    with working("adding"):
        assert not shows()
    assert kind == "closed" or stream.getvalue() == ""


def test_saving_loading_and_comparing_say_what_they_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    def noted(what: str) -> AbstractContextManager[None]:
        said.append(what)
        return working(what)

    for module in ("profscope.traces.saving", "profscope.traces.loading", "profscope.profiles"):
        monkeypatch.setattr(f"{module}.working", noted)
    profile = regular_profile(launches=1, ctas=1)
    profile.save(tmp_path / "t.json")
    diff(load(tmp_path / "t.json"), profile)
    assert said == ["saving t.json", "loading t.json", "comparing two profiles"]
