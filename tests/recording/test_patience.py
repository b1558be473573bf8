"""How long another process is waited for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from profscope.recording import patience
from profscope.recording.patience import Patience


@pytest.fixture
def pipes(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """Of a process that says and reads nothing: its ends are `says` and `reads`."""
    monkeypatch.setattr(patience, "_LOOK_S", 0.001)
    answers, says = os.pipe()
    reads, told = os.pipe()
    with open(answers, "rb", 0) as stdout, open(told, "wb", 0) as stdin:
        yield SimpleNamespace(pid=os.getpid(), stdin=stdin, stdout=stdout, says=says, reads=reads)
    for end in (says, reads):
        os.close(end)


def test_one_that_does_something_is_waited_for(
    pipes: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []

    def works(pid: int) -> list[str]:
        looks.append(pid)
        if len(looks) == 50:
            os.write(pipes.says, b"done")
        return [str(len(looks) // 9)]  # it does something now and then

    monkeypatch.setattr(patience, "_cpu_times", works)
    process: Any = pipes
    Patience(process).for_answer()
    assert len(looks) == 50
    assert pipes.stdout.read(10) == b"done"


@pytest.mark.parametrize("cpu_times", [["7"], []])
def test_one_that_does_nothing_is_not(
    pipes: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, cpu_times: list[str]
) -> None:
    monkeypatch.setattr(patience, "_cpu_times", lambda pid: cpu_times)
    process: Any = pipes
    waiting = Patience(process)
    with pytest.raises(TimeoutError, match=r"did nothing for 5 s"):
        waiting.for_answer()
    waiting.for_room()
    while pipes.stdin.write(bytes(1 << 16)) is not None:
        pass
    with pytest.raises(TimeoutError):
        waiting.for_room()


def test_what_a_process_does_is_read_from_the_system() -> None:
    if not Path("/proc/self/stat").exists():
        pytest.skip("this system does not say")
    before = patience._cpu_times(os.getpid())
    assert len(before) == 4
    while patience._cpu_times(os.getpid()) == before:
        pass
    assert patience._cpu_times(-1) == []
