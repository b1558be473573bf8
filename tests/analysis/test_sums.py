"""The summary and the balance where some launches kept sums: the same as if all had kept spans."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profscope.analysis.span_rows import SITE_COLUMNS
from profscope.profiles import Profile
from profscope.schema import spreads_frame, sums_frame
from tests.support.examples import examples
from tests.support.folded import with_sums
from tests.support.profiles import profiles, regular_profile

KEY = ["variant", "trial", *SITE_COLUMNS]
EXACT = ["count", "launches", "launches_seen"]
EXACT += [f"{name}_{unit}" for unit in ("ns", "cycles") for name in ("total", "self", "max")]


def in_order(table: pd.DataFrame) -> pd.DataFrame:
    return table.astype({name: "str" for name in SITE_COLUMNS if name != "line"}).sort_values(
        KEY, ignore_index=True
    )


@settings(max_examples=examples(8))
@given(profiles(max_actions=6), st.data())
def test_figures_are_exact_whatever_launches_kept(profile: Profile, data: st.DataObject) -> None:
    every = profile.launches["launch"].tolist()
    folded = [launch for launch in every if data.draw(st.booleans())]
    mixed = with_sums(profile, folded)
    assert mixed.validate() == []
    expected, told = in_order(profile.summary()), in_order(mixed.summary())
    assert told[KEY].to_numpy().tolist() == expected[KEY].to_numpy().tolist()
    for name in EXACT:
        assert told[name].tolist() == expected[name].tolist(), name
    for name in ("mean_ns", "mean_cycles", "share", "sampled"):
        np.testing.assert_allclose(told[name], expected[name])
    spans = in_order(Profile(mixed.df, mixed.launches, mixed.metadata).summary())
    key = spans.set_index(KEY)
    for row in told[[*KEY, "p50_ns", "p99_cycles"]].itertuples(index=False):
        alone = key.loc[row[: len(KEY)]] if row[: len(KEY)] in key.index else None
        assert pd.isna(row[-1]) if alone is None else row[-2:] == (alone["p50_ns"], alone["p99_cycles"])


@settings(max_examples=examples(6))
@given(profiles(max_actions=6), st.data())
def test_balance_is_exact_whatever_launches_kept(profile: Profile, data: st.DataObject) -> None:
    folded = [launch for launch in profile.launches["launch"] if data.draw(st.booleans())]
    expected, told = (
        each.balance().sort_values(["launch", "by", *SITE_COLUMNS], ignore_index=True)
        for each in (profile, with_sums(profile, folded))
    )
    exact = ["launch", "by", *SITE_COLUMNS, "count", "least_cycles", "greatest_cycles"]
    pd.testing.assert_frame_equal(told[exact], expected[exact])
    np.testing.assert_allclose(told["mean_cycles"], expected["mean_cycles"])
    np.testing.assert_allclose(told["variation"], expected["variation"], atol=1e-6)


@pytest.fixture(scope="module")
def mixed() -> Profile:
    return with_sums(regular_profile(launches=4, ctas=4, warps=2, iterations=3), [1, 2, 3])


def test_percentiles_are_of_the_launches_that_kept_spans(mixed: Profile) -> None:
    summary = mixed.summary()
    assert set(summary["launches"]) == {4}
    assert set(summary["percentile_launches"]) == {1}
    assert summary["p50_ns"].dtype == summary["max_cycles"].dtype == "Int64"
    assert summary["p50_ns"].notna().all()


def test_without_sums_the_dtypes_are_those_of_before() -> None:
    profile = regular_profile(launches=2, ctas=2, warps=2, iterations=3)
    summary = profile.summary()
    assert summary["p50_ns"].dtype == summary["max_cycles"].dtype == np.int64
    assert (summary["percentile_launches"] == summary["launches"]).all()


def test_percentiles_are_missing_where_no_launch_kept_spans() -> None:
    profile = with_sums(regular_profile(launches=2, ctas=2, warps=2, iterations=3), [0, 1])
    summary = profile.summary()
    assert summary[["p50_ns", "p90_ns", "p99_ns", "p50_cycles"]].isna().all(axis=None)
    assert summary["max_ns"].notna().all()
    assert set(summary["percentile_launches"]) == {0}
    assert len(profile.transactions()) == 0
    assert profile.first_nan() is None


def test_a_longest_that_was_not_kept_is_missing(mixed: Profile) -> None:
    sums = mixed.sums.assign(longest_cycles=-1, longest_ns=-1)
    summary = Profile(mixed.df, mixed.launches, mixed.metadata, sums, mixed.spreads).summary()
    assert summary["max_ns"].isna().all()
    assert summary["p99_ns"].notna().all()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"count": -1}, "sums: negative count"),
        ({"parent": 7}, "sums: parent is not an earlier row"),
        ({"kind": "odd"}, "sums: kind is no kind of span"),
        ({"longest_cycles": 1 << 40}, "sums: longest_cycles is more than total_cycles"),
    ],
)
def test_wrong_sums_are_found(mixed: Profile, wrong: dict[str, object], said: str) -> None:
    sums = sums_frame(mixed.sums.assign(**wrong))
    found = Profile(mixed.df, mixed.launches, mixed.metadata, sums, mixed.spreads).validate()
    assert any(problem.startswith(said) for problem in found), found


def test_wrong_spreads_are_found(mixed: Profile) -> None:
    for wrong, said in (
        ({"least_cycles": 1 << 40}, "mean_cycles is not between"),
        ({"count": 0}, "a spread of nothing"),
        ({"launch": 0}, "launch is none that kept sums"),
    ):
        spreads = spreads_frame(mixed.spreads.assign(**wrong))
        found = Profile(mixed.df, mixed.launches, mixed.metadata, mixed.sums, spreads).validate()
        assert any(said in problem for problem in found), found
    odd = mixed.launches.assign(keeps="records")
    assert "launches: keeps is none of spans, sums" in Profile(mixed.df, odd, {}).validate()[0]
