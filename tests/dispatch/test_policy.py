"""Roles of launches: a pure function of the launch's number."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profscope.dispatch.policy import BARE, OBSERVED, Policy, Role, Turns

policies = st.builds(Policy, every=st.integers(1, 7), pairs=st.integers(0, 3))


@given(policies)
def test_the_first_launch_is_recorded(policy: Policy) -> None:
    assert policy.role(0) is Role.RECORDED


@given(policies, st.integers(0, 200))
def test_launches_drawn_as_bare_are_bare_and_untimed(policy: Policy, number: int) -> None:
    run = policy.bare_from(number)
    for each in range(number, number + run):
        assert policy.role(each) is Role.BARE
        assert policy.timed_pair(each) is None


@given(policies)
def test_pairs_have_one_bare_and_one_recorded_launch_each(policy: Policy) -> None:
    roles: dict[int, list[Role]] = {}
    for number in range(100):
        pair = policy.timed_pair(number)
        if pair is None:
            continue
        roles.setdefault(pair, []).append(policy.role(number))
        assert policy.role(number - 1) is policy.role(number)  # it follows a launch of its own kind
    assert len(roles) == policy.pairs
    assert all(each == [Role.BARE, Role.RECORDED] for each in roles.values())


@given(policies, st.integers(0, 60))
def test_turns_give_the_numbers_that_are_not_merely_bare(policy: Policy, launches: int) -> None:
    turns, taken = Turns(policy), []
    for _ in range(launches):
        if turns.draw() is None:
            taken.append(turns.take())
    at, expected = 0, []
    while at < launches:
        run = policy.bare_from(at)
        if run:
            at += run
            continue
        expected.append(at)
        at += 1
    assert taken == expected
    assert turns.launches == launches


def test_paused_turns_count_nothing_and_go_on_where_they_were() -> None:
    turns = Turns(Policy(every=3))
    assert turns.draw() is None
    assert turns.take() == 0
    assert turns.draw() is BARE
    turns.pause()
    assert [turns.draw() for _ in range(10)] == [BARE] * 10
    assert turns.launches == 2
    turns.resume()
    assert turns.draw() is BARE
    assert turns.draw() is None
    assert turns.take() == 3


@pytest.mark.parametrize("every", [1, 4])
def test_threads_that_draw_at_once_have_a_number_each(every: int) -> None:
    turns, taken = Turns(Policy(every=every)), []

    def launch() -> None:
        for _ in range(1000):
            if turns.draw() is None and (number := turns.take()) is not None:
                taken.append(number)

    threads = [threading.Thread(target=launch) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == [number for number in range(max(taken) + 1) if number % every == 0]
    assert abs(len(taken) - 4000 // every) <= 4


def test_observed_launches_have_no_number_and_each_launch_asks_until_they_are_done() -> None:
    policy = Policy(every=3, observes=True)
    turns = Turns(policy)
    assert turns.is_first
    assert turns.take() == 0
    assert not turns.is_first
    assert policy.role(OBSERVED) is Role.OBSERVED
    for _ in range(4):
        assert turns.draw() is None
        turns.observe()
    assert turns.draw() is None
    assert turns.take() == 1  # the observer did not want this one
    turns.observing = False
    assert turns.draw() is None
    assert turns.take() == 2
    assert turns.draw() is None
    assert turns.take() == 3
    assert turns.draw() is BARE
    assert turns.launches == 4 + 5
