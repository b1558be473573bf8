"""Payloads of launches that kept sums: the table of numbers against the columns of spans."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import profscope
from instrument_passes.dialect import PROBED
from profscope.profiles import Profile
from profscope.schema import numbers_frame
from tests.kernels.add import add_kernel
from tests.support.round_trips import SUFFIXES, assert_same
from tests.support.sessions import session

PROBE = ["kernel-span", "value-probe{classes=load;store}"]


def adds(keep: str, spans_every: int) -> Profile:
    """Two launches of three CTAs, the last of which loads from x what is not finite alone."""
    x, y = torch.arange(384.0) - 100, torch.ones(384)
    x[5], x[9], x[256::2], x[257::2] = -math.inf, math.nan, math.nan, math.inf
    with session(keep=keep, instrument=PROBE, spans_every=spans_every) as prof:
        for _ in range(2):
            add_kernel[(3,)](x, y, torch.empty_like(x), 384, BLOCK=128, num_warps=2)
    return prof.profile


@pytest.fixture(scope="module")
def profiles() -> dict[str, Profile]:
    """By what was kept; of "mixed", one launch kept spans and one sums."""
    return {"spans": adds("spans", 1000), "sums": adds("sums", 0), "mixed": adds("sums", 1000)}


@pytest.mark.parametrize(("keep", "launches"), [("sums", [0, 1]), ("mixed", [1])])
def test_numbers_are_those_of_the_spans_columns(
    profiles: dict[str, Profile], keep: str, launches: list[int]
) -> None:
    df, numbers = profiles["spans"].df, profiles[keep].numbers
    assert profiles[keep].validate() == []
    df = df[df["nans"].notna() & df["launch"].isin(launches)]
    assert set(zip(numbers["scope"], numbers["name"], strict=True)) == {
        (scope, name) for scope in set(df["scope"]) for name in PROBED
    }
    for row in numbers.itertuples():
        assert (row.kernel, row.variant, row.trial, row.kind) == ("add_kernel", 0, False, "op")
        mine = df[(df["scope"] == row.scope) & (df["line"] == row.line)]
        values = mine[row.name].astype("float64")
        some = values.dropna()
        assert row.launches == len(launches)
        assert (row.count, row.nans) == (len(some), len(values) - len(some))
        told = row.total, row.mean, row.least, row.greatest
        np.testing.assert_allclose(told, (some.sum(), some.mean(), some.min(), some.max()))
    assert (numbers["nans"] > 0).any()


def test_without_sums_there_are_none(profiles: dict[str, Profile]) -> None:
    pd.testing.assert_frame_equal(profiles["spans"].numbers, numbers_frame())


def test_a_note_says_where_first_nan_cannot_look(profiles: dict[str, Profile]) -> None:
    said = (
        "add_kernel: launches that kept sums had NaNs in 'values of load x', 'values of store': see numbers; "
        "first_nan() knows those that kept spans only"
    )
    assert [said in profiles[keep].metadata["notes"] for keep in profiles] == [False, True, True]
    assert profiles["sums"].first_nan() is None
    first = profiles["mixed"].first_nan()
    assert first is not None
    assert first["launch"] == 0


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_trace_holds_numbers(profiles: dict[str, Profile], suffix: str, tmp_path: Path) -> None:
    mixed = profiles["mixed"]
    odd = mixed.numbers.copy()
    odd.loc[0, ["total", "least", "greatest"]] = [math.nan, -math.inf, math.inf]
    saved = Profile(mixed.df, mixed.launches, mixed.metadata, mixed.sums, mixed.spreads, odd)
    assert saved.validate() == []
    saved.save(tmp_path / f"t{suffix}")
    assert_same(profscope.load(tmp_path / f"t{suffix}"), saved)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"count": -1}, "numbers: negative count"),
        ({"kind": "odd"}, "numbers: kind is no kind of span"),
        ({"least": 1.0, "greatest": 0.0, "count": 1}, "numbers: least is more than greatest"),
        ({"least": math.nan, "count": 1}, "numbers: least and greatest are known where"),
    ],
)
def test_wrong_numbers_are_found(profiles: dict[str, Profile], wrong: dict[str, object], said: str) -> None:
    mixed = profiles["mixed"]
    numbers = numbers_frame(mixed.numbers.assign(**wrong))
    found = Profile(mixed.df, mixed.launches, mixed.metadata, mixed.sums, mixed.spreads, numbers).validate()
    assert any(problem.startswith(said) for problem in found), found
