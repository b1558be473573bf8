"""How often samples are taken: soon enough of them, and few lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from profscope.evidence.pc_sampler import ENOUGH, FIRST, FREQUENT, RARE, periods_after

counts = st.integers(0, 1 << 40)


@given(period=st.integers(FREQUENT, RARE), taken=counts, dropped=counts)
def test_they_stay_within_what_is_of_use(period: int, taken: int, dropped: int) -> None:
    chosen = periods_after(period, taken, dropped)
    assert FREQUENT <= chosen.shortest <= chosen.best <= chosen.longest <= RARE
    if dropped > taken:
        assert chosen.shortest > period or chosen.shortest == RARE


@given(cycles=st.integers(1, 1 << 34))
def test_each_of_them_gives_enough_samples_and_not_too_many(cycles: int) -> None:
    """cycles: of the kernel, on as many partitions as it has."""
    periods = periods_after(FIRST, cycles >> FIRST, 0)
    assert cycles >> periods.longest >= ENOUGH or periods.longest == FREQUENT
    if cycles >> FIRST:  # else nothing is known but that it is short
        assert cycles >> periods.shortest <= 2 * 120_000 or periods.shortest == RARE


@given(cycles=st.integers(1, 1 << 34), current=st.integers(FREQUENT, RARE))
def test_a_period_that_does_is_kept(cycles: int, current: int) -> None:
    periods = periods_after(FIRST, cycles >> FIRST, 0)
    kept = periods.shortest <= current <= periods.longest
    assert periods.near(current) == (current if kept else periods.best)


@given(cycles=st.integers(1 << 25, 1 << 36), keeps_up=st.integers(7, 11))
def test_where_the_hardware_does_not_keep_up_samples_get_rarer_until_it_does(
    cycles: int, keeps_up: int
) -> None:
    period = FREQUENT
    for _ in range(6):
        rate = cycles >> period
        most = cycles >> keeps_up
        period = periods_after(period, min(rate, most), max(rate - most, 0)).near(period)
    assert period >= keeps_up
