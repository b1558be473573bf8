"""Which role a launch takes: one table, for all numbers and options."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from profscope.launching.roles import Role, numbers_sampled, numbers_timed, role_of, turn_of_null
from profscope.launching.turns import Turns
from profscope.options import Options

numbers = st.integers(0, 10_000)


@given(number=st.none() | numbers)
def test_all_keep_spans_where_nothing_else_is_said(number: int | None) -> None:
    assert role_of(Options(), number) is Role.SPANS


@given(samples=st.booleans() | st.integers(1, 50), launches=st.integers(0, 100))
def test_the_first_launch_is_never_sampled_and_those_after_it_are(samples: bool | int, launches: int) -> None:
    options = Options(samples=samples)
    roles = [role_of(options, number) for number in range(launches)]
    bare = 3 if samples is True else int(samples)
    assert roles[1 : bare + 1] == [Role.SAMPLED] * min(bare, max(launches - 1, 0))
    assert roles.count(Role.SAMPLED) <= bare
    sampled_too = [number for number, role in enumerate(roles) if role is Role.SAMPLED_RECORDED]
    assert sampled_too == ([bare + 1] if samples and launches > bare + 1 else [])
    others = [number for number in range(launches) if number not in numbers_sampled(options)]
    assert {roles[number] for number in others} <= {Role.SPANS}


@given(number=numbers, samples=st.booleans())
def test_a_launch_without_a_number_is_not_sampled(number: int, samples: bool) -> None:
    options = Options(samples=samples, every=2)
    assert role_of(options, None) is Role.SPANS
    assert role_of(options, number, of_function=1) is Role.LEFT_OUT


@given(every=st.integers(1, 50), launches=st.integers(0, 200), number=numbers)
def test_a_functions_turns_are_what_the_table_says(every: int, launches: int, number: int) -> None:
    options, turns = Options(every=every), Turns(every, "left out", "due")
    for of_function in range(launches):
        due = turns.draw() == "due" and turns.take()
        assert due == (role_of(options, number, of_function) is not Role.LEFT_OUT)


@given(baseline=st.integers(2, 50), launches=st.integers(0, 300))
def test_what_is_timed_follows_a_launch_of_its_kind(baseline: int, launches: int) -> None:
    options = Options(baseline=baseline)
    roles = [role_of(options, number) for number in range(launches)]
    period = 2 * baseline
    for number, role in enumerate(roles):
        at = number % period
        assert (role is Role.BARE) == (at == period - 2)
        assert (role in (Role.TIMED, Role.NULL)) == (at == period - 1) == (number in numbers_timed(options))
        assert (role is Role.TIMED_RECORDED) == (at == 1 and number > period)
    for before, role in pairwise(roles):
        if role in (Role.TIMED, Role.NULL):
            assert before is Role.BARE
        if role is Role.TIMED_RECORDED:
            assert before is Role.SPANS
    assert role_of(options, None) is Role.SPANS
    bare = sum(role in (Role.BARE, Role.TIMED, Role.NULL) for role in roles)
    assert abs(bare - launches / baseline) <= 2  # one in so many


@given(baseline=st.integers(2, 50), launches=st.integers(0, 500))
def test_every_second_turn_is_a_null_builds(baseline: int, launches: int) -> None:
    options = Options(baseline=baseline)
    timed = [number for number in range(launches) if number in numbers_timed(options)]
    roles = [role_of(options, number) for number in timed]
    assert roles == ([Role.TIMED, Role.NULL] * len(timed))[: len(timed)]
    turns = [turn_of_null(options, number) for number in timed]
    assert turns[1::2] == list(range(len(turns) // 2))
    assert set(turns[::2]) <= {None}
    assert turns == [turn_of_null(options, number - 1) for number in timed]  # of what goes before
