"""Noise is not news, and news is not lost in noise: by simulation, with known seeds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from profscope.analysis.comparing.chance import (
    FALSE_DISCOVERIES,
    Change,
    Floor,
    Sample,
    benjamini_hochberg,
    compared,
    floor_of,
    sample_of_ctas,
    sample_of_launches,
)
from profscope.analysis.estimates import expected_distance, ratio_of, shares_between, variation_distance
from tests.support.examples import examples

Floats = NDArray[np.float64]

SHARES = np.array([0.4, 0.2, 0.1, 0.1, 0.05, 0.05, 0.04, 0.03, 0.02, 0.005, 0.003, 0.002])
TIME = 1e6
TRIALS = 150
SAME = floor_of(emulated=False, same_build=True, single=False)
SINGLE = floor_of(emulated=False, same_build=True, single=True)


def judged(a: Sample, b: Sample, floor: Floor) -> tuple[NDArray[np.bool_], Change]:
    """Trials stand one after the other; significant: by trial and row."""
    size = floor.relative * np.maximum(a.mean, b.mean) + floor.share * TIME
    change = compared(a, b, size)
    each = change.probability.reshape(-1, len(SHARES))
    return np.array([benjamini_hochberg(probability) for probability in each]), change


def sessions(random: np.random.Generator, launches: int, scale: Floats | float = 1.0) -> Sample:
    """A session a trial: what it shares, what a launch shares, heavy tails, and stragglers."""
    trials, rows = (TRIALS, 1, 1), (TRIALS, len(SHARES), 1)
    shared = 1 + 0.002 * random.standard_normal(trials) + 0.003 * random.standard_normal(rows)
    launch = 1 + 0.003 * np.abs(random.standard_t(3, (TRIALS, 1, launches)))
    launch *= np.where(random.random(launch.shape) < 0.02, 1.2, 1.0)
    own = 1 + 0.005 * random.standard_t(3, (TRIALS, len(SHARES), launches))
    figures = np.maximum((scale * SHARES * TIME)[:, None] * shared * launch * own, 0.0)
    return sample_of_launches(figures.reshape(-1, launches))


def single_launches(random: np.random.Generator, ctas: int) -> Sample:
    """A launch a trial: its CTAs share how it went."""
    shared = 1 + 0.02 * random.standard_normal((TRIALS, 1, 1))
    shared = shared + 0.01 * random.standard_normal((TRIALS, len(SHARES), 1))
    own = 1 + 0.1 * random.standard_t(3, (TRIALS, len(SHARES), ctas))
    figures = np.maximum((SHARES * TIME / ctas)[:, None] * shared * own, 0.0)
    return sample_of_ctas(figures.reshape(-1, ctas), 1.0)


@pytest.mark.parametrize(("of_a", "of_b"), [(2, 2), (2, 7), (3, 3), (5, 5), (8, 20), (20, 20)])
def test_two_runs_of_one_kernel_are_the_same(of_a: int, of_b: int) -> None:
    random = np.random.default_rng(of_a * 100 + of_b)
    significant, _ = judged(sessions(random, of_a), sessions(random, of_b), SAME)
    assert significant.any(axis=1).mean() <= 0.01


@pytest.mark.parametrize("ctas", [16, 132])
def test_one_launch_each_of_one_kernel_is_the_same(ctas: int) -> None:
    random = np.random.default_rng(ctas)
    significant, _ = judged(single_launches(random, ctas), single_launches(random, ctas), SINGLE)
    assert significant.any(axis=1).mean() <= 0.01


@pytest.mark.parametrize(("of_a", "of_b", "least"), [(5, 5, 0.7), (8, 8, 0.95), (20, 20, 0.99)])
def test_a_tenth_more_is_found(of_a: int, of_b: int, least: float) -> None:
    random = np.random.default_rng(of_a)
    scale = np.ones(len(SHARES))
    scale[1] = 1.1
    significant, change = judged(sessions(random, of_a), sessions(random, of_b, scale), SAME)
    told = significant.mean(axis=0)
    assert told[1] >= least
    assert told.sum() - told[1] <= 0.01
    row, more = slice(1, None, len(SHARES)), 0.1 * SHARES[1] * TIME
    assert np.mean((change.low[row] < more) & (change.high[row] > more)) >= 0.95


def test_without_a_floor_a_tail_is_as_likely_as_it_says() -> None:
    """Normal figures: of Student's t 5 of 100 lie outside the interval, and so do ours."""
    random = np.random.default_rng(11)
    rows = 10_000
    a, b = (sample_of_launches(100 + random.standard_normal((rows, 4))) for _ in "ab")
    change = compared(a, b, np.zeros(rows))
    outside = np.mean((change.low > 0) | (change.high < 0))
    assert outside == pytest.approx(0.05, abs=0.01)  # Welch's is a little cautious
    assert np.mean(change.probability < 0.05) == pytest.approx(outside, abs=1e-3)
    for below in (0.2, 0.5):
        assert np.mean(change.probability < below) == pytest.approx(below, abs=0.02)


@pytest.mark.parametrize(
    ("freedom", "t"), [(1, 12.7062), (2, 4.3027), (3, 3.1824), (10, 2.2281), (30, 2.0423), (1000, 1.9623)]
)
def test_intervals_are_those_of_the_table(freedom: int, t: float) -> None:
    """Student's t, 97.5 %, from the printed tables; all of the variance is on one side."""
    none = Sample(np.zeros(1), np.zeros(1), np.ones(1))
    one = Sample(np.full(1, 50.0), np.ones(1), np.full(1, float(freedom)))
    change = compared(none, one, np.zeros(1))
    assert change.high[0] - 50 == pytest.approx(t, abs=1e-4)
    assert change.low[0] - 50 == pytest.approx(-t, abs=1e-4)
    at_the_edge = compared(none, Sample(np.full(1, t), one.variance, one.freedom), np.zeros(1))
    assert at_the_edge.probability[0] == pytest.approx(0.05, abs=1e-4)


def test_the_floor_is_in_interval_and_test() -> None:
    a = Sample(np.array([100.0, 100.0]), np.ones(2), np.full(2, 1000.0))
    b = Sample(np.array([109.0, 130.0]), np.ones(2), np.full(2, 1000.0))
    change = compared(a, b, np.full(2, 10.0))
    assert change.probability[0] > 0.5
    assert change.probability[1] < 1e-6
    assert change.low.tolist() == pytest.approx([9 - 12.775, 30 - 12.775], abs=0.01)


def test_figures_without_noise_differ_or_do_not() -> None:
    a = Sample(np.array([100.0, 100.0, 0.0]), np.zeros(3), np.ones(3))
    b = Sample(np.array([100.0, 101.0, 0.0]), np.zeros(3), np.ones(3))
    change = compared(a, b, np.zeros(3))
    assert change.probability.tolist() == [1.0, 0.0, 1.0]
    assert change.low.tolist() == change.high.tolist() == [0.0, 1.0, 0.0]


def test_one_launch_has_the_spread_of_the_others() -> None:
    several = sample_of_launches(np.array([[98.0, 102.0, 100.0, 100.0]]))
    one = sample_of_launches(np.array([[100.0]]))
    assert np.isnan(one.variance[0])
    change = compared(one, several, np.zeros(1))
    error = np.sqrt(np.var([98, 102, 100, 100], ddof=1) * (1 + 1 / 4))
    assert change.high[0] == pytest.approx(3.1824 * error, abs=1e-3)


def test_stragglers_are_trimmed() -> None:
    calm = np.array([[100.0, 101.0, 99.0, 100.0, 100.0]])
    straggling = np.array([[100.0, 101.0, 99.0, 100.0, 500.0]])
    assert sample_of_launches(straggling).mean[0] == pytest.approx(sample_of_launches(calm).mean[0], abs=0.5)


def test_discoveries_by_hand() -> None:
    """Benjamini and Hochberg: the greatest k with p(k) <= k / m x q; all up to it are discoveries."""
    q, count = FALSE_DISCOVERIES, 5
    probability = np.array([0.9, q * 2.9 / count, q * 3 / count, 1e-9, q * 5])
    assert benjamini_hochberg(probability).tolist() == [False, True, True, True, False]
    assert benjamini_hochberg(np.array([q * 1.01 / 2, 1.0])).tolist() == [False, False]
    assert benjamini_hochberg(np.zeros(0)).tolist() == []


# Intervals of shares and ratios, and how far two samples of one distribution are apart.

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
