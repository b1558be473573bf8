"""Intervals of shares, and how far two samples of one distribution are apart: by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profscope.analysis.estimates import expected_distance, ratio_of, shares_between, variation_distance
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


# The ratio of recorded to bare times, from pairs.


def pair(ratio: float, count: int, spread: float = 0.0, seed: int = 0) -> tuple[list[float], list[float]]:
    """Bare times that wander by 20 % with the GPU's clock, and recorded ones `ratio` times as long."""
    rng = np.random.default_rng(seed)
    bare = 1e5 * (1 + 0.2 * np.sin(np.arange(count)))
    recorded = bare * ratio * np.exp(spread * rng.standard_normal(count))
    return bare.tolist(), recorded.tolist()


def test_what_the_gpu_varies_by_is_not_in_it() -> None:
    ratio, low, high = ratio_of(*pair(1.1, 20))
    assert (ratio, low, high) == (pytest.approx(1.1), pytest.approx(1.1), pytest.approx(1.1))


@pytest.mark.parametrize("count", [6, 10, 40])
def test_the_interval_holds_what_is_true_nearly_always(count: int) -> None:
    made = [ratio_of(*pair(1.05, count, spread=0.02, seed=seed)) for seed in range(300)]
    assert np.mean([low <= 1.05 <= high for _, low, high in made]) >= 0.92
    assert np.median([high - low for _, low, high in made]) < 3.5 * 0.02 / np.sqrt(count) * 2


@pytest.mark.parametrize("count", [1, 5])
def test_of_few_pairs_it_holds_all(count: int) -> None:
    few = pair(1.0, count, spread=0.1)
    ratios = np.asarray(few[1]) / few[0]
    _, low, high = ratio_of(*few)
    assert (low, high) == (pytest.approx(ratios.min()), pytest.approx(ratios.max()))
