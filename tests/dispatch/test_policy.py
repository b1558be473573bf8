"""Roles of launches: a pure function of the launch's number."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profscope.dispatch.policy import LaunchNumbers, Policy

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
    numbers, bare = LaunchNumbers(policy), []
    for _ in range(launches):
        drawn = numbers.draw()
        bare.append(policy.is_bare(numbers.take()) if drawn is None else drawn != 0)
    assert bare == [policy.is_bare(number) for number in range(launches)]
    assert numbers.launches == launches
    assert numbers.draw() is None or launches >= policy.rest


def test_paused_turns_count_nothing_and_go_on_where_they_were() -> None:
    numbers = LaunchNumbers(Policy(every=3))
    assert numbers.draw() is None
    assert numbers.take() == 0
    assert numbers.draw()
    numbers.pause()
    assert all(numbers.draw() for _ in range(10))
    assert numbers.launches == 2
    numbers.resume()
    assert numbers.draw()
    assert numbers.draw() == 0
    assert numbers.launches == 4


def test_a_number_taken_in_a_pause_does_not_end_it() -> None:
    """Another thread had drawn before."""
    numbers = LaunchNumbers(Policy())
    assert numbers.draw() is None
    numbers.pause()
    assert numbers.take() == 0
    assert numbers.draw()
    numbers.resume()
    assert numbers.draw() == 0


@pytest.mark.parametrize("every", [1, 4])
def test_threads_that_draw_at_once_have_a_number_each(every: int) -> None:
    numbers, recorded = LaunchNumbers(Policy(every=every)), []

    def launch(thread: int) -> None:
        for _ in range(1000):
            drawn = numbers.draw()
            if not drawn:
                recorded.append(numbers.take() if drawn is None else drawn)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(launch, range(4)))
    assert numbers.launches == 4000
    assert 0 <= len(recorded) - 4000 // every <= 3  # those that asked for a number at once


def test_observed_launches_have_no_number_and_each_launch_asks_until_they_are_done() -> None:
    numbers = LaunchNumbers(Policy(every=3, observes=True))
    assert numbers.is_first
    assert numbers.take() == 0
    assert not numbers.is_first
    for _ in range(4):
        assert numbers.draw() is None
        numbers.observe()
    assert numbers.draw() is None
    assert numbers.take() == 1  # the observer did not want this one
    numbers.observing = False
    assert numbers.draw() is None
    assert numbers.take() == 2
    assert numbers.draw() == 0
    assert numbers.draw()
    assert numbers.launches == 4 + 5
