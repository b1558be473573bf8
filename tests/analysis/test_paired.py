"""The ratio of recorded to bare times, from pairs."""

from __future__ import annotations

import numpy as np
import pytest

from profscope.analysis.estimates import ratio_of


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
