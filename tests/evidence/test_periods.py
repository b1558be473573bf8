"""How often samples are taken: soon enough of them, and few lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from profscope.evidence.periods import ENOUGH, FIRST, FREQUENT, RARE, next_period

counts = st.integers(0, 1 << 40)


@given(period=st.integers(FREQUENT, RARE), taken=counts, dropped=counts)
def test_it_stays_within_what_is_of_use(period: int, taken: int, dropped: int) -> None:
    chosen = next_period(period, taken, dropped)
    assert FREQUENT <= chosen <= RARE
    if dropped > taken:
        assert chosen > period or chosen == RARE


@given(cycles=st.integers(1, 1 << 34))
def test_the_second_launch_has_enough_samples_or_the_shortest_period(cycles: int) -> None:
    """cycles: of the kernel, on as many partitions as it has."""
    period = next_period(FIRST, cycles >> FIRST, 0)
    assert cycles >> period >= ENOUGH or period == FREQUENT
    assert next_period(period, cycles >> period, 0) == period or not ENOUGH <= cycles >> period <= 100_000


@given(cycles=st.integers(1 << 25, 1 << 36), keeps_up=st.integers(7, 11))
def test_where_the_hardware_does_not_keep_up_samples_get_rarer_until_it_does(
    cycles: int, keeps_up: int
) -> None:
    period = FREQUENT
    for _ in range(6):
        rate = cycles >> period
        most = cycles >> keeps_up
        period = next_period(period, min(rate, most), max(rate - most, 0))
    assert period >= keeps_up
