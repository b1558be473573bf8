"""The spread of scopes over CTAs, warps and SMs, from spans, against plain pandas."""

from __future__ import annotations

import numpy as np
import pandas as pd
from hypothesis import given, settings

from profscope.analysis.spans.rows import SITE_COLUMNS
from profscope.profiles import Profile
from tests.support.examples import examples
from tests.support.profiles import profiles, regular_profile

KEY = list(SITE_COLUMNS)
ITEMS = {"cta": ["cta"], "warp": ["cta", "warp"], "sm": ["sm"]}


@settings(max_examples=examples(10))
@given(profiles(max_actions=6))
def test_balance_of_spans_is_that_of_a_groupby(profile: Profile) -> None:
    balance = profile.timeline.balance()
    df = profile.df.astype({name: "str" for name in KEY if name != "line"})
    assert bool(len(balance)) == bool(len(df))
    if not len(df):
        return
    parts = []
    for by, columns in ITEMS.items():
        items = df.groupby(["launch", *KEY, *columns])["duration_cycles"].sum().reset_index().assign(by=by)
        parts += [items, items.assign(launch=-1)]
    took = pd.concat(parts).groupby(["launch", *KEY, "by"])["duration_cycles"]
    told = balance.set_index(["launch", *KEY, "by"]).sort_index()
    assert list(told.index) == list(took.size().index)
    figures = (("count", took.size()), ("least_cycles", took.min()), ("greatest_cycles", took.max()))
    for name, expected in figures:
        assert told[name].tolist() == expected.tolist()
    np.testing.assert_allclose(told["mean_cycles"], took.mean())
    deviation = told["variation"] * told["mean_cycles"]
    np.testing.assert_allclose(deviation, took.std(ddof=0), atol=1e-4)


def test_an_uneven_cta_shows() -> None:
    profile = regular_profile(launches=2, ctas=8, warps=4, iterations=6)
    one = ((profile.df["cta"] == 3) & (profile.df["scope"] == "matmul_kernel")).to_numpy()
    duration = profile.df["duration_cycles"].where(~one, 5 * profile.df["duration_cycles"])
    uneven = Profile(profile.df.assign(duration_cycles=duration), profile.launches, profile.metadata)
    even, odd = (
        each.timeline.balance().set_index(["launch", "scope", "by"]).xs("matmul_kernel", level="scope")
        for each in (profile, uneven)
    )
    assert even.loc[(-1, "cta"), "count"] == 16
    assert odd.loc[(0, "cta"), "variation"] > even.loc[(0, "cta"), "variation"] + 0.5
    assert odd.loc[(0, "cta"), "greatest_cycles"] > 3 * odd.loc[(0, "cta"), "mean_cycles"] / 1.5


def test_a_profile_of_nothing_has_no_balance() -> None:
    empty = Profile().timeline.balance()
    assert not len(empty)
    assert empty["by"].dtype == "str"
    assert empty["launch"].dtype == np.int64
