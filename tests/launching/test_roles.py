"""Which role a launch takes: one table, for all numbers and options."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from profscope.launching.roles import Role, numbers_sampled, numbers_timed, role_of
from profscope.launching.turns import Turns
from profscope.options import Options

numbers = st.integers(0, 10_000)


@given(number=st.none() | numbers)
def test_all_are_recorded_unless_something_else_is_wanted(number: int | None) -> None:
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


@given(samples=st.integers(0, 5), baseline=st.integers(0, 50), launches=st.integers(0, 300))
def test_pairs_stand_behind_the_first_launch_and_the_sampled_ones(
    samples: int, baseline: int, launches: int
) -> None:
    options = Options(samples=samples or False, baseline=baseline)
    roles = [role_of(options, number) for number in range(launches)]
    first = 2 + samples if samples else 1
    pairs = [Role.BARE, Role.TIMED] * baseline
    assert roles[first:] == (pairs + [Role.SPANS] * launches)[: max(0, launches - first)]
    assert [number for number in range(launches) if number in numbers_timed(options)] == [
        number for number, role in enumerate(roles) if role in (Role.BARE, Role.TIMED)
    ]
    assert role_of(options, None) is Role.SPANS
