"""Whose turn it is: one launch in so many is due, whatever the threads do, and all are counted."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Iterator

import pytest

from profscope.launching.turns import Turns


def due(turns: Turns) -> bool:
    """One launch."""
    return turns.draw() == "due" and turns.take()


@pytest.mark.parametrize("every", [1, 2, 3, 100])
def test_the_first_launch_is_due_and_then_one_in_so_many(every: int) -> None:
    turns = Turns(every, "left out", "due")
    for number in range(250):
        assert turns.launches == number
        assert due(turns) == (number % every == 0)


@pytest.fixture
def threads_switch_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("threads_switch_often")
@pytest.mark.parametrize("every", [1, 2, 7])
def test_no_turn_is_lost_or_taken_twice_among_threads(every: int) -> None:
    turns = Turns(every, "left out", "due")
    ready, taken = threading.Barrier(4), [0] * 4
    each = [random.Random(every).randrange(2000, 3000) for _ in taken]

    def work(me: int) -> None:
        ready.wait()
        for _ in range(each[me]):
            taken[me] += due(turns)

    threads = [threading.Thread(target=work, args=(me,)) for me in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert turns.launches == sum(each)
    assert sum(taken) == -(-sum(each) // every)


def test_a_launch_that_is_due_waits_for_the_one_that_takes_the_turn() -> None:
    turns = Turns(10, "left out", "due")
    assert [turns.draw(), turns.draw()] == ["due", "due"]  # of two threads
    assert turns.launches == 0
    assert [turns.take(), turns.take()] == [True, False]
    assert turns.launches == 2
    assert sum(due(turns) for _ in range(9)) == 1
