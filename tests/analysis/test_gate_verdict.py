"""The gate's verdict on bare times of a GPU, which tests' baselines have; made-up ones, with known noise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import profscope
from profscope.errors import OptionError
from profscope.profiles import Profile
from tests.support.edited import run_of_matmul


def timed(mean_ns: float, spread_pct: float, seed: int, launches: int = 100) -> Profile:
    """A run of the matmul with bare times of this mean and standard deviation."""
    profile = run_of_matmul(seed)
    (about,) = profile.metadata["variants"]["matmul_kernel"]
    grid = [int(profile.launches[f"grid_{axis}"].iloc[0]) for axis in "xyz"]
    times = np.random.default_rng(seed).normal(mean_ns, spread_pct / 100 * mean_ns, launches)
    entry = {"key": about["key"], "grid": grid, "times": times.tolist()}
    return replace(profile, metadata=profile.metadata | {"bare_times": {"matmul_kernel": [entry]}})


def test_bare_times_are_compared_where_both_have_them() -> None:
    difference = profscope.diff(timed(20_000, 1, 0), timed(20_100, 1, 1))
    assert difference.iloc[0]["self_a"] == pytest.approx(20_000, rel=0.005)
    assert difference.iloc[0]["launches_b"] == 100
    assert "launches are compared by their bare times" in difference.attrs["notes"]
    assert difference.failed(above=5) == difference.too_noisy(above=5) == difference.not_judged == []
    recorded = profscope.diff(timed(20_000, 1, 0), run_of_matmul(1))
    assert recorded.iloc[0]["launches_b"] < 100


def test_ten_percent_are_a_reason() -> None:
    difference = profscope.diff(timed(20_000, 1, 0), timed(22_000, 1, 1))
    (reason,) = difference.failed(above="5%")
    assert reason.startswith("matmul_kernel: ")
    assert reason.endswith(", significant; the bound is 5%")
    assert "% slower (mean launch 20.0us to 22.0us" in reason
    assert difference.failed(above=15) == []
    assert profscope.diff(timed(22_000, 1, 1), timed(20_000, 1, 0)).failed(above=5) == []


def test_noise_above_the_bound_is_told_with_both_figures() -> None:
    """Two sessions of one binary differ by 3 %, however many launches each has."""
    quiet = profscope.diff(timed(20_000, 0.5, 0), timed(20_000, 0.5, 1))
    (text,) = quiet.too_noisy(above=2)
    assert text.startswith("matmul_kernel: too noisy to tell: 3.")
    assert text.endswith(" % against a bound of 2 %")
    noisy = profscope.diff(timed(20_000, 40, 0), timed(20_000, 40, 1))
    assert noisy.failed(above=5) == []
    assert len(noisy.too_noisy(above=5)) == 1
    assert noisy.too_noisy(above=90) == []
    faster = profscope.diff(timed(20_000, 30, 0), timed(8_000, 30, 1))
    assert faster.too_noisy(above=5) == []


@pytest.mark.parametrize("bound", ["much", "-1%", "", None, float("nan")])
def test_what_is_no_bound_is_refused(bound: object) -> None:
    with pytest.raises(OptionError, match="not a percentage, such as 5%"):
        profscope.diff(run_of_matmul(0), run_of_matmul(1)).failed(above=bound)  # type: ignore[arg-type]
