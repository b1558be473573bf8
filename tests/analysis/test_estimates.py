"""Intervals of shares, and how far two samples of one distribution are apart: by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profscope.analysis.estimates import expected_distance, shares_between, variation_distance
from tests.support.examples import examples

WEIGHTS = st.lists(st.integers(0, 1000), min_size=1, max_size=60).filter(any)


@settings(max_examples=examples(25))
@given(WEIGHTS, st.integers(200, 100_000), st.none() | st.integers(200, 100_000), st.integers(0, 9))
def test_two_samples_are_as_far_apart_as_expected(
    weights: list[int], first: int, second: int | None, seed: int
) -> None:
    random = np.random.default_rng(seed)
    shares = np.array(weights) / sum(weights)
    ones = random.multinomial(first, shares, 2000)
    others = shares[None] if second is None else random.multinomial(second, shares, 2000) / second
    seen = np.abs(ones / first - others).sum(axis=1).mean() / 2
    expected = expected_distance(shares, first, second)
    assert seen == pytest.approx(expected, rel=0.15, abs=0.002)


def test_rare_lines_do_not_count_for_more_than_they_have() -> None:
    shares = np.full(10_000, 1e-4)
    random = np.random.default_rng(1)
    seen = [variation_distance(*random.multinomial(200, shares, 2)) for _ in range(50)]
    assert expected_distance(shares, 200, 200) == pytest.approx(np.mean(seen), rel=0.03)
    assert expected_distance(np.array([1.0]), 200, 200) == 0


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 1.0])
def test_nineteen_intervals_of_twenty_hold_the_share(share: float) -> None:
    counts = np.random.default_rng(2).binomial(500, share, 4000)
    low, high = shares_between(counts, 500)
    assert ((low <= share + 1e-12) & (share - 1e-12 <= high)).mean() > 0.93
    assert (low <= counts / 500 + 1e-12).all()
    assert (counts / 500 - 1e-12 <= high).all()


@given(WEIGHTS, st.randoms())
def test_distances_are_between_0_and_1(weights: list[int], random: object) -> None:
    first = np.array(weights)
    other = np.roll(first, 1)
    distance = variation_distance(first, other)
    assert 0 <= distance <= 1 + 1e-12
    assert distance == pytest.approx(variation_distance(other, first))
    assert variation_distance(first, 3 * first) == pytest.approx(0)
    assert variation_distance(np.array([1, 0]), np.array([0, 5])) == 1
