"""What is worked out from sums by launch and site is what the spans say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from pandas.testing import assert_frame_equal

from profscope.analysis.spans.launch_sums import launch_sums
from profscope.analysis.spans.summing import summed_spans
from profscope.profiles import Profile
from profscope.schema import Tables, spans_frame
from tests.support.examples import examples
from tests.support.profiles import profiles, regular_profile

CLOCK = {"clock": {"read_cycles": 9.0, "row_cycles": 17.5, "basis": "measured"}}
_ORDERED = [f"{name}_{unit}" for name in ("p50", "p90", "p99") for unit in ("ns", "cycles")]


def of_sums(tables: Tables) -> Profile:
    """The profile of its sums alone."""
    return Profile.of(replace(tables, df=spans_frame(), sums=launch_sums(tables, summed_spans(tables))))


def sampled(every: int) -> Tables:
    """Two launches, of which each has recorded one CTA in so many."""
    tables = regular_profile(launches=2, ctas=8, warps=2, iterations=3).tables
    launches = tables.launches.assign(grid_x=np.int32(8 * every))
    return replace(tables, launches=launches, metadata=tables.metadata | CLOCK)


@settings(max_examples=examples(40))
@given(profile=profiles())
def test_a_summary_of_sums_is_that_of_the_spans(profile: Profile) -> None:
    assert_frame_equal(*map(alike, (profile.summary(), of_sums(profile.tables).summary())))


def alike(summary: pd.DataFrame) -> pd.DataFrame:
    """Without percentiles, which sums do not know; rows of equal weight have no order."""
    rows = summary.drop(columns=_ORDERED, errors="ignore").astype(
        {"kernel": "str", "scope": "str", "file": "str"}
    )
    return rows.sort_values([*rows.columns[:8]], kind="stable", ignore_index=True)


@pytest.mark.parametrize("every", [1, 4])
def test_errors_and_lines_are_those_of_the_spans(every: int) -> None:
    tables = sampled(every)
    spans, sums = Profile.of(tables), of_sums(tables)
    assert_frame_equal(alike(spans.summary()), alike(sums.summary()))
    assert spans.summary()["self_error_pct"].max() > 0
    lines = [each.lines().set_index(["file", "line"]) for each in (spans, sums)]
    shares = [each["self_share"].to_dict() for each in lines]
    assert shares[0] == shares[1]
    errors = [each["self_error_pct"].dropna().to_dict() for each in lines]
    assert errors[0].keys() == errors[1].keys()
    for line, exact in errors[0].items():  # several sites of one line may err in the same direction
        assert exact * 0.999 <= errors[1][line] <= 3 * exact


def test_there_is_a_row_for_each_launch_and_site() -> None:
    tables = sampled(4)
    sums = launch_sums(tables, summed_spans(tables))
    sites = tables.df[["launch", "scope", "kind", "line"]].drop_duplicates()
    assert len(sums) == len(sites)
    assert sums["count"].sum() == len(tables.df)
    assert sums["launch"].is_monotonic_increasing
    assert launch_sums(Tables(), summed_spans(Tables())).empty
