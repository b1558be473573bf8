"""Which role a launch takes: one table, for all numbers and options."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from profscope.launching.roles import (
    Role,
    kept_by,
    numbers_sampled,
    numbers_timed,
    numbers_with_spans,
    role_of,
    turn_of_null,
)
from profscope.launching.turns import Turns
from profscope.options import Options

keeps = st.sampled_from(["sums", "totals"])
numbers = st.integers(0, 10_000)


@given(keep=keeps, spans_every=st.integers(1, 2000), launches=numbers)
def test_the_first_launch_of_a_variant_keeps_spans_and_then_one_in_so_many(
    keep: str, spans_every: int, launches: int
) -> None:
    options = Options(keep=keep, spans_every=spans_every)
    roles = [role_of(options, number) for number in range(launches)]
    spans = [number for number, role in enumerate(roles) if role is Role.SPANS]
    assert spans == list(range(0, launches, spans_every))
    assert roles.count(Role.SUMS) == launches - len(spans)


@given(keep=keeps | st.just("spans"), spans_every=st.integers(0, 50), number=numbers)
def test_what_launches_look_at_is_what_the_table_says(keep: str, spans_every: int, number: int) -> None:
    options = Options(keep=keep) if keep == "spans" else Options(keep=keep, spans_every=spans_every)
    assert (number in numbers_with_spans(options)) == (role_of(options, number) is Role.SPANS)


@given(keep=keeps, number=numbers)
def test_none_keeps_spans_if_none_is_wanted(keep: str, number: int) -> None:
    assert role_of(Options(keep=keep, spans_every=0), number) is Role.SUMS


@given(keep=keeps, spans_every=st.integers(0, 5))
def test_a_launch_without_a_number_keeps_sums(keep: str, spans_every: int) -> None:
    assert role_of(Options(keep=keep, spans_every=spans_every), None) is Role.SUMS


@given(number=st.none() | numbers)
def test_all_keep_spans_unless_sums_are_wanted(number: int | None) -> None:
    assert role_of(Options(), number) is Role.SPANS


@given(
    keep=keeps | st.just("spans"), samples=st.booleans() | st.integers(1, 50), launches=st.integers(0, 100)
)
def test_the_first_launch_is_never_sampled_and_those_after_it_are(
    keep: str, samples: bool | int, launches: int
) -> None:
    options = Options(keep=keep, samples=samples)
    roles = [role_of(options, number) for number in range(launches)]
    bare = 3 if samples is True else int(samples)
    assert roles[1 : bare + 1] == [Role.SAMPLED] * min(bare, max(launches - 1, 0))
    assert roles.count(Role.SAMPLED) <= bare
    sampled_too = [number for number, role in enumerate(roles) if role is Role.SAMPLED_RECORDED]
    assert sampled_too == ([bare + 1] if samples and launches > bare + 1 else [])
    others = [number for number in range(launches) if number not in numbers_sampled(options)]
    assert [roles[number] for number in others] == [kept_by(options, number) for number in others]


@given(number=numbers, samples=st.booleans())
def test_a_launch_without_a_number_is_not_sampled(number: int, samples: bool) -> None:
    options = Options(samples=samples, every=2)
    assert role_of(options, None) is Role.SPANS
    assert role_of(options, number, of_function=1) is Role.LEFT_OUT


@given(every=st.integers(1, 50), launches=st.integers(0, 200), keep=keeps, number=numbers)
def test_a_functions_turns_are_what_the_table_says(every: int, launches: int, keep: str, number: int) -> None:
    options, turns = Options(every=every, keep=keep), Turns(every, "left out", "due")
    for of_function in range(launches):
        due = turns.draw() == "due" and turns.take()
        assert due == (role_of(options, number, of_function) is not Role.LEFT_OUT)


@given(keep=keeps | st.just("spans"), baseline=st.integers(2, 50), launches=st.integers(0, 300))
def test_what_is_timed_follows_a_launch_of_its_kind(keep: str, baseline: int, launches: int) -> None:
    options = Options(keep=keep, baseline=baseline)
    roles = [role_of(options, number) for number in range(launches)]
    period = 2 * baseline
    for number, role in enumerate(roles):
        at = number % period
        assert (role is Role.BARE) == (at == period - 2)
        assert (role in (Role.TIMED, Role.NULL)) == (at == period - 1) == (number in numbers_timed(options))
        assert (role is Role.TIMED_RECORDED) == (at == 1 and number > period)
    kept = (Role.SPANS, Role.SUMS)
    for before, role in pairwise(roles):
        if role in (Role.TIMED, Role.NULL):
            assert before is Role.BARE
        if role is Role.TIMED_RECORDED:
            assert before in kept
    assert role_of(options, None) in kept
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
