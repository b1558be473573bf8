"""The summary against plain pandas."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

from profscope.analysis.spans.rows import SITE_COLUMNS, sites
from profscope.profiles import Profile
from tests.support.examples import examples
from tests.support.profiles import profile_metadata, profiles, regular_profile


@given(profiles())
def test_counts_totals_and_percentiles_match_pandas(profile: Profile) -> None:
    df = profile.df
    summary = profile.summary()
    own = {unit: slow_self_times(df, f"duration_{unit}") for unit in ("ns", "cycles")}
    assert summary["count"].sum() == len(df)
    assert not summary.duplicated(list(SITE_COLUMNS)).any()
    groups = df.groupby(list(SITE_COLUMNS), observed=True, dropna=False).indices if len(df) else {}
    assert len(groups) == len(summary)
    for row in summary.itertuples():
        rows = groups[tuple(getattr(row, name) for name in SITE_COLUMNS)]
        assert row.count == len(rows)
        for unit in ("ns", "cycles"):
            durations = df[f"duration_{unit}"].to_numpy()[rows]
            assert getattr(row, f"total_{unit}") == durations.sum()
            assert getattr(row, f"self_{unit}") == own[unit][rows].sum()
            assert getattr(row, f"mean_{unit}") == pytest.approx(durations.mean())
            assert getattr(row, f"max_{unit}") == durations.max()
            for name, fraction in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
                nearest = np.quantile(durations, fraction, method="inverted_cdf")
                assert getattr(row, f"{name}_{unit}") == nearest


def test_percentiles_of_many_short_and_of_few_long_spans_match_pandas() -> None:
    """The short ones are counted by their length, the long ones sorted."""
    profile = regular_profile(2, 16, 4, 5)
    groups = profile.df.groupby(list(SITE_COLUMNS), observed=True)["duration_cycles"]
    assert {"load A", "loop L22"} <= set(profile.df["scope"])
    summary = profile.summary().set_index(list(SITE_COLUMNS))
    for name, fraction in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
        nearest = groups.agg(np.quantile, fraction, method="inverted_cdf")
        assert summary[f"{name}_cycles"].to_dict() == nearest.to_dict()


def test_corrected_durations_may_be_longer_than_32_bits_tell() -> None:
    tables = regular_profile(1, 2, 2, 3).tables
    times = ["start_cycle", "duration_cycles", "start_ns", "duration_ns"]
    clock = {"clock": {"read_cycles": 2.0, "row_cycles": 17.5, "basis": "measured"}}
    df = tables.df.assign(**{name: tables.df[name] * (1 << 24) for name in times})
    profile = Profile.of(replace(tables, df=df, metadata=profile_metadata(**clock)))
    summary = profile.summary().set_index("scope")
    for unit in ("ns", "cycles"):
        own = profile.df.groupby("scope", observed=True)[f"corrected_{unit}"]
        assert own.max().max() > 1 << 32
        assert summary[f"total_{unit}"].to_dict() == own.sum().to_dict()
        assert summary[f"max_{unit}"].to_dict() == own.max().to_dict()


@given(profiles())
@settings(max_examples=examples(15))
def test_figures_are_without_what_records_took_where_that_is_known(profile: Profile) -> None:
    clock = {"clock": {"read_cycles": 2.0, "row_cycles": 17.5, "basis": "measured"}}
    known = Profile(profile.tables.df, profile.launches, profile.metadata | clock)
    summary = known.summary()
    assert summary.attrs["durations"] == "corrected"
    assert profile.summary().attrs["durations"] == "raw"
    df = known.df
    for unit in ("ns", "cycles"):
        assert summary[f"total_{unit}"].sum() == df[f"corrected_{unit}"].sum()
        roots = df[(df["depth"] == 0) & (df["kind"] != "async")]
        assert summary[f"self_{unit}"].sum() == roots[f"corrected_{unit}"].sum()


def slow_self_times(df: pd.DataFrame, column: str) -> np.ndarray:
    own = df[column].to_numpy().copy()
    own[(df["kind"] == "async").to_numpy()] = 0
    for row in df.itertuples():
        if row.parent >= 0 and row.kind != "async":
            own[row.parent] -= getattr(row, column)
    return own


def test_an_emulated_summary_says_so_in_its_attributes_alone() -> None:
    """A named index would be a row of its own wherever the table is shown."""
    profile = regular_profile()
    emulated = Profile(profile.df, profile.launches, profile_metadata("emulator"))
    for by in (None, "host"):
        assert [each.summary(by=by).attrs["emulated"] for each in (profile, emulated)] == [False, True]
        assert emulated.summary(by=by).index.name is None
    assert "EMULATED" in repr(emulated)
    assert "EMULATED" not in repr(profile)


@given(profiles())
def test_sites_are_numbered_by_first_appearance(profile: Profile) -> None:
    site, table = sites(profile.df)
    for name in SITE_COLUMNS:
        assert table[name].iloc[site].tolist() == profile.df[name].tolist()
    first = pd.Series(site).drop_duplicates().tolist()
    assert first == sorted(first)
    assert not table.duplicated().any()


def test_launches_that_ran_bare_to_be_timed_were_seen() -> None:
    profile = regular_profile(launches=3, ctas=1, warps=1, iterations=1)
    (kernel,) = profile.launches["kernel"].unique()
    profile.metadata["variants"] = {kernel: [{"variant": 0, "key": "k"}]}
    timed = {"key": "k", "bare_ns": [], "instrumented_ns": [], "waited": 0, "unrecorded": 4}
    profile.metadata["baseline"] = {"pairs": 2, "kernels": {kernel: [timed]}}
    assert set(profile.summary()["launches"]) == {3}
    assert set(profile.summary()["launches_seen"]) == {7}
    assert profile.report()["kernels"][0]["launches_seen"] == 7
