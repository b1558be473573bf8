"""What null builds of a kernel differ by is called an effect by nobody."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import profscope
from profscope.analysis.cause import Finding
from profscope.analysis.comparing.floors import floor_of
from profscope.analysis.findings import merged
from profscope.analysis.overhead import known_noise
from profscope.analysis.paired import LAYOUT_NOISE
from profscope.profiles import Profile
from tests.support.profiles import profile_metadata, regular_profile

KEY = "0123456789abcdef"


def pairs(recorded: float, layouts: list[float]) -> list[dict[str, Any]]:
    """Of a bare kernel, by which a recorded launch takes `recorded` times as long, and of null builds."""
    wander = 1e5 * (1 + 0.1 * np.cos(np.arange(9)))
    return [
        {
            "shift": shift, "bare_ns": (layout * wander).tolist(),
            "instrumented_ns": (recorded * wander * (1 + 1e-4 * np.arange(9))).tolist(),
        }
        for shift, layout in enumerate([1.0, *layouts])
    ]  # fmt: skip


def profile(recorded: float, layouts: list[float], key: str = KEY) -> Profile:
    plain = regular_profile(launches=3, ctas=4, warps=2, iterations=4)
    (kernel,) = set(plain.launches["kernel"])
    of = pairs(recorded, layouts)
    times = {"key": key, "bare_ns": of[0]["bare_ns"], "instrumented_ns": of[0]["instrumented_ns"]}
    return Profile(
        plain.tables.df,
        plain.launches,
        profile_metadata(
            clock={"read_cycles": 1e-3, "row_cycles": 0.0, "basis": "measured"},
            variants={kernel: [{"variant": 0, "key": key, "builds": []}]},
            baseline={"every": 2, "kernels": {kernel: [times | {"pairs": of, "waited": 0}]}},
        ),
    )


def test_it_is_in_the_interval_of_the_slowdown() -> None:
    quiet, loud, unknown = (
        profile(1.2, layouts).overhead().iloc[0]
        for layouts in ([1.001, 0.999, 1.0], [1.05, 0.95, 1.03], [1.05])
    )
    for row in (quiet, loud, unknown):
        assert row["basis"] == "measured"
        assert row["slowdown"] == pytest.approx(1.2, rel=1e-3)
    assert (quiet["null_builds"], unknown["null_builds"]) == (3, 1)
    assert quiet["layout_noise"] < 0.005
    assert quiet["slowdown_low"] > 1.19
    assert loud["layout_noise"] > 0.1
    assert loud["slowdown_low"] < 1.1
    assert unknown["layout_noise"] == pytest.approx(LAYOUT_NOISE)
    said = profile(1.2, [1.05]).overhead().attrs["not_measured"]
    assert any("too few launches of the bare kernel with its code shifted" in text for text in said)
    assert profile(1.2, [1.001, 0.999]).overhead().attrs["not_measured"] == [
        text for text in said if "layout noise" not in text
    ]


def test_a_slowdown_within_it_is_no_reason() -> None:
    quiet, loud = (profile(1.12, layouts) for layouts in ([1.001, 0.999, 1.0], [1.05, 0.95, 1.03]))
    assert "slowdown" in str(quiet.verdict)
    assert "slowdown" not in str(loud.verdict)


def test_a_gain_within_it_is_no_finding() -> None:
    said = [Finding("tail", "f", 1, "", "", gain, "high") for gain in (5.0, 30.0)]
    said = [said[0], Finding("prologue", "f", 2, "", "", 30.0, "high")]
    assert [each.gain_pct for each in merged(said)] == [30.0, 5.0]
    assert [each.gain_pct for each in merged(said, noise_pct=6.0)] == [30.0]


def test_a_change_within_it_is_none() -> None:
    loud = profile(1.0, [1.05, 0.95, 1.03])
    (kernel,) = set(loud.launches["kernel"])
    noise = known_noise(loud.metadata, kernel, 0)
    assert noise > 0.1
    assert known_noise(loud.metadata, kernel, 1) == known_noise({}, kernel, 0) == 0
    other = {"emulated": False, "same_build": False, "single": False}
    assert floor_of(**other, layout=noise).relative == pytest.approx(noise, abs=1e-3)
    assert floor_of(**other, layout=0.001) == floor_of(**other)
    assert floor_of(**other | {"same_build": True}, layout=noise) == floor_of(**other | {"same_build": True})
    notes = profscope.diff(loud, profile(1.0, [], key="another")).attrs["notes"]
    assert any("null builds, whose code lies elsewhere, differ so much" in note for note in notes)
