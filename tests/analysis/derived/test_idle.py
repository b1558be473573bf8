"""The idle part of SMs, of launches made up CTA by CTA."""

from __future__ import annotations

import pandas as pd
import pytest

from profscope.analysis.derived.idle import idle_of
from profscope.schema import ctas_frame


def ctas(*rows: tuple[int, int, int], launch: int = 0) -> pd.DataFrame:
    """rows: SM, begin and end of each CTA."""
    sms, starts, ends = zip(*rows, strict=True)
    alike = {"kernel": "k", "variant": 0, "launch": launch, "start_cycle": 0, "recorded": True}
    columns = {name: [value] * len(rows) for name, value in alike.items()}
    columns |= {"cta": range(len(rows)), "sm": sms, "start_ns": starts, "end_ns": ends}
    return ctas_frame(columns | {"duration_cycles": [e - s for s, e in zip(starts, ends, strict=True)]})


FULL = ctas((0, 0, 100), (1, 0, 100))


@pytest.mark.parametrize(
    ("launch", "grid", "sms", "idle"),
    [
        (FULL, 2, 2, 0.0),
        (FULL, 2, 4, 0.5),
        (ctas((0, 0, 100), (0, 100, 200), (1, 0, 100)), 3, 2, 0.25),
        (ctas((0, 0, 40), (1, 0, 100), (0, 60, 100)), 3, 2, 0.1),
        (ctas((0, 0, 100), (1, 0, 60), (1, 10, 50), (1, 20, 80)), 4, 2, 0.1),
    ],
    ids=[
        "busy",
        "SMs without a CTA",
        "a last wave",
        "a gap, rows in any order",
        "CTAs at once, one within another",
    ],
)
def test_an_sm_is_idle_while_no_cta_runs_on_it(
    launch: pd.DataFrame, grid: int, sms: int, idle: float
) -> None:
    assert idle_of(launch, grid, sms) == pytest.approx(idle)


def test_of_several_launches_it_is_the_mean() -> None:
    half = ctas((0, 1000, 1100), (0, 1100, 1200), launch=1)
    assert idle_of(pd.concat([FULL, half], ignore_index=True), 2, 2) == pytest.approx(0.25)


def test_nothing_is_known_if_a_cta_or_the_device_is_missing() -> None:
    assert idle_of(FULL, 3, 4) == 0.0
    assert idle_of(FULL, 2, 0) == 0.0
    assert idle_of(ctas((0, 5, 5)), 1, 4) == 0.0, "a launch that took no time"
    assert idle_of(FULL[:0], 2, 4) == 0.0
    part = ctas((0, 0, 100), launch=1)
    assert idle_of(pd.concat([FULL, part], ignore_index=True), 2, 4) == 0.5, "whole launches count"
