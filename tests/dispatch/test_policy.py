"""Roles of launches: a pure function of the launch's number."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profscope.dispatch.policy import Policy, Turns

policies = st.builds(Policy, every=st.integers(1, 7), pairs=st.integers(0, 3))


@given(policies)
def test_the_first_launch_is_recorded(policy: Policy) -> None:
    assert not policy.is_bare(0)


@given(policies)
def test_pairs_have_one_bare_and_one_recorded_launch_each(policy: Policy) -> None:
    roles: dict[int, list[bool]] = {}
    for number in range(100):
        pair = policy.timed_pair(number)
        if pair is None:
            continue
        roles.setdefault(pair, []).append(policy.is_bare(number))
        assert policy.is_bare(number - 1) is policy.is_bare(number)  # it follows a launch of its own kind
    assert len(roles) == policy.pairs
    assert all(each == [True, False] for each in roles.values())


@given(policies, st.integers(0, 60))
def test_launches_draw_what_the_policy_says_or_take_the_number_to_ask_it(
    policy: Policy, launches: int
) -> None:
    turns, bare = Turns(policy), []
    for _ in range(launches):
        drawn = turns.draw()
        bare.append(policy.is_bare(turns.take()) if drawn is None else drawn != 0)
    assert bare == [policy.is_bare(number) for number in range(launches)]
    assert turns.launches == launches
    assert turns.draw() is None or launches >= policy.rest


def test_paused_turns_count_nothing_and_go_on_where_they_were() -> None:
    turns = Turns(Policy(every=3))
    assert turns.draw() is None
    assert turns.take() == 0
    assert turns.draw()
    turns.pause()
    assert all(turns.draw() for _ in range(10))
    assert turns.launches == 2
    turns.resume()
    assert turns.draw()
    assert turns.draw() == 0
    assert turns.launches == 4


def test_a_number_taken_in_a_pause_does_not_end_it() -> None:
    """Another thread had drawn before."""
    turns = Turns(Policy())
    assert turns.draw() is None
    turns.pause()
    assert turns.take() == 0
    assert turns.draw()
    turns.resume()
    assert turns.draw() == 0


@pytest.mark.parametrize("every", [1, 4])
def test_threads_that_draw_at_once_have_a_number_each(every: int) -> None:
    turns, recorded = Turns(Policy(every=every)), []

    def launch() -> None:
        for _ in range(1000):
            drawn = turns.draw()
            if not drawn:
                recorded.append(turns.take() if drawn is None else drawn)

    threads = [threading.Thread(target=launch) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert turns.launches == 4000
    assert 0 <= len(recorded) - 4000 // every <= 3  # those that asked for a number at once


def test_observed_launches_have_no_number_and_each_launch_asks_until_they_are_done() -> None:
    turns = Turns(Policy(every=3, observes=True))
    assert turns.is_first
    assert turns.take() == 0
    assert not turns.is_first
    for _ in range(4):
        assert turns.draw() is None
        turns.observe()
    assert turns.draw() is None
    assert turns.take() == 1  # the observer did not want this one
    turns.observing = False
    assert turns.draw() is None
    assert turns.take() == 2
    assert turns.draw() == 0
    assert turns.draw()
    assert turns.launches == 4 + 5
