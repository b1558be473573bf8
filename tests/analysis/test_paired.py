"""The ratio of recorded to bare times, from pairs, and the noise of null builds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from profscope.analysis.paired import LAYOUT_NOISE, layout_noise, ratio_of


def pair(ratio: float, count: int, shift: int = 0, spread: float = 0.0, seed: int = 0) -> dict[str, Any]:
    """Bare times that wander by 20 % with the GPU's clock, and recorded ones `ratio` times as long."""
    rng = np.random.default_rng(seed)
    bare = 1e5 * (1 + 0.2 * np.sin(np.arange(count)))
    recorded = bare * ratio * np.exp(spread * rng.standard_normal(count))
    return {
        "shift": shift, "bare_ns": bare.tolist(), "instrumented_ns": recorded.tolist(),
    }  # fmt: skip


def test_what_the_gpu_varies_by_is_not_in_it() -> None:
    ratio, low, high = ratio_of(pair(1.1, 20))
    assert (ratio, low, high) == (pytest.approx(1.1), pytest.approx(1.1), pytest.approx(1.1))


@pytest.mark.parametrize("count", [6, 10, 40])
def test_the_interval_holds_what_is_true_nearly_always(count: int) -> None:
    made = [ratio_of(pair(1.05, count, spread=0.02, seed=seed)) for seed in range(300)]
    assert np.mean([low <= 1.05 <= high for _, low, high in made]) >= 0.92
    assert np.median([high - low for _, low, high in made]) < 3.5 * 0.02 / np.sqrt(count) * 2


@pytest.mark.parametrize("count", [1, 5])
def test_of_few_pairs_it_holds_all(count: int) -> None:
    few = pair(1.0, count, spread=0.1)
    ratios = np.asarray(few["instrumented_ns"]) / few["bare_ns"]
    _, low, high = ratio_of(few)
    assert (low, high) == (pytest.approx(ratios.min()), pytest.approx(ratios.max()))


def test_the_noise_of_layouts_is_that_of_two_of_them() -> None:
    """A normal deviate of each layout, known by its pairs to a tenth of a per mille."""
    rng, held = np.random.default_rng(0), []
    for seed in range(300):
        places = 0.01 * rng.standard_normal(6)
        pairs = [pair(float(np.exp(at)), 5, shift, 1e-4, seed) for shift, at in enumerate(places[:5])]
        noise, nulls = layout_noise(pairs)
        assert nulls == 4
        held.append(abs(places[5] - places[0]) <= np.log1p(noise))
    assert 0.92 <= np.mean(held) <= 0.99


def test_two_null_builds_are_the_least() -> None:
    pairs = [pair(1.0, 5), pair(1.01, 5, 1), pair(1.02, 2, 2)]
    noise, nulls = layout_noise(pairs)
    assert np.isnan(noise)
    assert nulls == 1
    assert layout_noise([])[1] == 0
    more = [*pairs, pair(0.99, 3, 4)]
    assert layout_noise(more) == (pytest.approx(np.expm1(4.303 * np.sqrt(2) * np.std(
        np.log([1.0, 1.01, 0.99]), ddof=1))), 2)  # fmt: skip


def test_what_launches_vary_by_makes_no_noise_of_layouts_beyond_the_usual() -> None:
    """Three pairs each of layouts that are all alike, of launches that vary by 3 %."""
    alike = [
        layout_noise([pair(1.0, 3, at, 0.03, 10 * seed + at) for at in range(5)])[0] for seed in range(60)
    ]
    assert np.mean(np.array(alike) <= LAYOUT_NOISE + 1e-9) > 0.5
    # What layouts differ by beyond that stays.
    apart = layout_noise([pair(1 + 0.05 * at, 3, at, 1e-4, at) for at in range(5)])[0]
    assert apart > 0.2
