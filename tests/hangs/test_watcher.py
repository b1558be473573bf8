"""What a watcher makes of looks at a board, which the test writes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from profscope.compat.programs import Program
from profscope.hangs import watcher as watcher_module
from profscope.hangs.board import Board
from profscope.hangs.watched_launches import WatchedLaunch, WatchedLaunches
from profscope.hangs.watcher import Watcher
from profscope.instrument_passes.manifest import Manifest, Section
from profscope.instrument_passes.progress import COUNTERS, PLACE_SHIFT, SLOT, SLOTS, ProgressMark

MARKS = (ProgressMark("loop", 0), ProgressMark("iteration", 0, loop=0), ProgressMark("end", 0))
MANIFEST = Manifest("k", "cuda:90", 2, 0, 0, (Section("kernel", 2, (), ()),), marks=MARKS)


class WrittenBoard(Board):
    """Two warps of one CTA, launch number 1."""

    def __init__(self) -> None:
        super().__init__()
        self.counters, self.slots = np.zeros(8, COUNTERS), np.zeros(SLOTS, SLOT)

    def look(self) -> tuple[Any, Any]:
        return self.counters.copy(), self.slots.copy()

    def write(self, begun: int, ended: int, *places: int) -> None:
        self.counters[1]["begun"], self.counters[1]["ended"] = begun, ended
        for warp, place in enumerate(places):
            self.slots[warp]["place"], self.slots[warp]["launch"] = place << PLACE_SHIFT | warp, 1


class Looks:
    """A watcher with hang_s=10 and one launch, and looks at it at given times."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, ended_before: int | None) -> None:
        self.board, self.now = WrittenBoard(), 100.0
        monkeypatch.setattr(watcher_module.time, "monotonic", lambda: self.now)
        nothing: Any = None
        launches = WatchedLaunches(nothing, nothing, nothing, cuda=True)
        launches.boards[0] = self.board
        self.launches = launches
        self.launch = WatchedLaunch(0, 1, Program(MANIFEST), 0, 1, 0, 0, ended_before, 100.0)
        launches.under_way[0, 1] = self.launch
        self.watcher = Watcher(launches, 10.0, lambda text: None)

    def at(self, now: float) -> list[str]:
        self.now = 100.0 + now
        self.watcher.look()
        return self.watcher.notes


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch) -> Looks:
    return Looks(monkeypatch, 0)


def test_a_launch_ends_with_its_last_warp(look: Looks) -> None:
    """The counter is of each CTA's first warp."""
    look.board.write(1, 1, 2, 1)
    look.at(0)
    (text,) = look.at(11)
    assert "1 CTA; 0 ended, 0 have not begun, 1 hangs" in text
    assert "warp 1 is in" in text
    look.board.write(1, 1, 2, 2)
    look.at(12)
    assert not look.launches.under_way


def test_a_number_is_free_once_no_slot_has_it(look: Looks) -> None:
    """Another program would not know the places there."""
    look.board.free.clear()
    look.board.write(1, 1, 2, 2)
    look.at(0)
    assert (look.board.ended, [*look.board.free]) == ({1}, [])
    look.board.slots["launch"] = 2
    look.at(1)
    assert (look.board.ended, [*look.board.free]) == (set(), [1])


def test_a_launch_that_begins_while_it_is_looked_at(look: Looks) -> None:
    """Counters are read before slots."""
    look.board.write(0, 0, 1, 1)
    assert look.at(0) == []
    assert look.launch.began_s == 100.0


def test_replays_of_a_graph_are_not_one_long_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    look = Looks(monkeypatch, None)
    for replay in range(40):
        look.board.write(replay + 1, replay, 1, 1)
        assert look.at(replay) == []
    (text,) = [*look.at(45), *look.at(50)][-1:]
    assert "after 11.0 s: 1 CTA; 0 ended" in text


def test_a_launch_that_does_not_begin_is_told_once(look: Looks) -> None:
    look.at(0)
    assert look.at(9) == []
    (text,) = look.at(11)
    assert text.startswith("k, launch 0, has not begun for 11.0 s: its stream waits for an event")
    assert len(look.at(20)) == 1
    assert look.watcher.rows == []


def test_a_launch_behind_another_of_its_stream_is_not_late(look: Looks) -> None:
    behind = WatchedLaunch(1, 2, Program(MANIFEST), 0, 1, 0, 0, 0, 100.0)
    look.launches.under_way[0, 2] = behind
    look.board.write(1, 0, 1, 1)
    look.at(0)
    texts = look.at(11)
    assert [text.partition(",")[2][:9] for text in texts] == [" launch 0"]
