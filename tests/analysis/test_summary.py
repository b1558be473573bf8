"""Sums of spans: the summary against plain pandas, corrected durations, and large profiles by pieces."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import profscope
from profscope.analysis.findings import findings, findings_frame, findings_of, of_each_kernel
from profscope.analysis.kernels import kernel_analysis as judging_module
from profscope.analysis.kernels.kernel_analysis import KernelAnalysis, kernel_analyses
from profscope.analysis.spans import pieces as module
from profscope.analysis.spans.corrections import CORRECTED, narrow_durations, with_corrected
from profscope.analysis.spans.pieces import pieces
from profscope.analysis.spans.rows import (
    SITE_COLUMNS,
    OfLaunches,
    narrow_sites,
    numbered,
    own_times,
    self_times,
    sites,
)
from profscope.analysis.spans.summing import summed_spans
from profscope.analysis.summary import summary
from profscope.analysis.verdict import verdict
from profscope.profiles import Profile
from profscope.schema import Tables, launches_frame, spans_frame
from tests.support.examples import examples
from tests.support.profiles import launch_table, profile_metadata, profiles, regular_profile


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
    assert [each.summary().attrs["emulated"] for each in (profile, emulated)] == [False, True]
    assert emulated.summary().index.name is None
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


# corrected_cycles, by hand on small trees, and what must hold for any.

READ, ROW = 2.0, 20.0
METADATA: dict[str, Any] = {"clock": {"read_cycles": READ, "row_cycles": ROW, "basis": "measured"}}


def tree(*spans: tuple[str, int, int, int, int], ns_per_cycle: int = 1) -> pd.DataFrame:
    """Spans of one warp: kind, parent, iteration, start, end."""
    rows = []
    for kind, parent, iteration, start, end in spans:
        depth = 0 if parent < 0 else rows[parent]["depth"] + 1
        texts = dict.fromkeys(("kernel", "scope", "file", "call_path"), "k")
        numbers = dict.fromkeys(("launch", "cta", "sm", "warp", "line"), 0)
        times = {"start_cycle": start, "duration_cycles": end - start}
        times |= {"start_ns": start * ns_per_cycle, "duration_ns": (end - start) * ns_per_cycle}
        place = {"kind": kind, "parent": parent, "iteration": iteration, "depth": depth}
        rows.append({**texts, **numbers, **times, **place})
    return spans_frame(pd.DataFrame(rows).to_dict("series"))


# By what it shows: spans, and what they have left without the reads (2 cycles each) and rows (20) in them.
KERNEL = ("kernel", -1, -1, 0, 100)
TREES: dict[str, tuple[list[tuple[str, int, int, int, int]], list[int]]] = {
    "a span loses one read": ([("kernel", -1, -1, 100, 192)], [90]),
    "a span shorter than a read loses what it has": ([("kernel", -1, -1, 100, 101)], [0]),
    "reads that neighbours share count once": (
        [KERNEL, ("op", 0, -1, 0, 40), ("op", 0, -1, 40, 100)],
        [96, 38, 58],
    ),
    "a read for each stretch before, between and behind": (
        [KERNEL, ("op", 0, -1, 10, 40), ("op", 0, -1, 50, 90)],
        [100 - 5 * 2, 28, 38],
    ),
    "a mark cuts what it is in": ([KERNEL, ("mark", 0, -1, 50, 50)], [96, 0]),
    "a loop loses the rows of its iterations": (
        [("loop", -1, -1, 0, 300), *(("op", 0, at // 2, 10 + 60 * at, 40 + 60 * at) for at in range(4))],
        [300 - 9 * 2 - 2 * 20, 28, 28, 28, 28],
    ),
    "an iteration loses its row and the loop does not": (
        [
            ("loop", -1, -1, 0, 200),
            ("iteration", 0, 0, 0, 100),
            ("op", 1, 0, 10, 50),
            ("iteration", 0, 1, 100, 200),
            ("op", 3, 1, 110, 150),
        ],
        [200 - 6 * 2 - 2 * 20, 100 - 3 * 2 - 20, 38, 74, 38],
    ),
    "nothing loses more than its own time": (
        [("loop", -1, -1, 0, 50), ("op", 0, 0, 1, 25), ("op", 0, 1, 26, 50)],
        [22 + 22, 22, 22],
    ),
    "what is in flight loses one read and its parent nothing by it": (
        [KERNEL, ("op", 0, -1, 0, 100), ("async", 1, -1, 10, 300)],
        [98, 98, 288],
    ),
}


@pytest.mark.parametrize("shown", TREES)
def test_by_hand(shown: str) -> None:
    spans, left = TREES[shown]
    assert with_corrected(tree(*spans), METADATA)["corrected_cycles"].tolist() == left


def test_ns_shrink_by_the_same_part() -> None:
    df = with_corrected(tree(("kernel", -1, -1, 0, 92), ns_per_cycle=3), METADATA)
    assert df["corrected_ns"].tolist() == [270]


def test_unknown_where_the_cost_is() -> None:
    df = with_corrected(tree(("kernel", -1, -1, 0, 92)), {})
    assert df[list(CORRECTED)].isna().all(axis=None)
    assert [str(df[name].dtype) for name in CORRECTED] == ["Int64", "Int64"]


@given(profiles(), st.sampled_from([(READ, ROW), (2.4, 17.52)]))
@settings(max_examples=examples(40), deadline=None)
def test_any_profile(profile: Profile, cost: tuple[float, float]) -> None:
    """A span loses what those inside lost and a part of its own time; rounded, sums stay sums."""
    clock = {"read_cycles": cost[0], "row_cycles": cost[1], "basis": "measured"}
    df = with_corrected(profile.tables.df, {"clock": clock})
    synchronous = (df["kind"] != "async").to_numpy()
    left, raw = (df[name].to_numpy(np.int64) for name in ("corrected_cycles", "duration_cycles"))
    assert ((left >= 0) & (left <= raw)).all()
    for unit in ("cycles", "ns"):
        own, own_raw = self_times(df, f"corrected_{unit}"), self_times(df, f"duration_{unit}")
        assert (own[synchronous] <= own_raw[synchronous]).all()
        assert (own[synchronous & (own_raw >= 0)] >= 0).all()


def test_a_profile_has_the_columns_and_files_do_not(tmp_path: Path) -> None:
    plain = regular_profile(launches=1)
    profile = Profile(plain.tables.df, plain.launches, profile_metadata(**METADATA))
    assert list(profile.df.columns[-2:]) == list(CORRECTED)
    assert profile.df is profile.df
    assert not set(CORRECTED) & set(profile.tables.df.columns)
    profile.save(tmp_path / "trace.json")
    assert "corrected" not in (tmp_path / "trace.json").read_text()
    loaded = profscope.load(tmp_path / "trace.json")
    pd.testing.assert_frame_equal(loaded.df, profile.df)
    assert loaded.df["corrected_cycles"].notna().all()


def test_no_payload_has_the_name_of_a_column() -> None:
    from profscope.instrument_passes.manifest import RESERVED
    from profscope.schema import CORRECTED_DTYPES, MODEL_DTYPES, SPAN_DTYPES

    assert {*SPAN_DTYPES, *CORRECTED_DTYPES, *MODEL_DTYPES, "stage", "for_iteration"} == RESERVED


# Large profiles, a piece at a time: what comes out is what comes of all rows together.

CLOCK = {"clock": {"read_cycles": 2.0, "row_cycles": 17.5, "basis": "measured"}}


@pytest.fixture(scope="module", params=["corrected", "raw"])
def tables(request: pytest.FixtureRequest) -> Tables:
    plain = regular_profile(launches=3, ctas=4, warps=2, iterations=3).tables
    return replace(plain, metadata=profile_metadata(**CLOCK if request.param == "corrected" else {}))


@pytest.mark.parametrize("grid", [4, 10], ids=["whole", "scaled"])
def test_figures_are_those_of_all_rows_together(
    tables: Tables, monkeypatch: pytest.MonkeyPatch, grid: int
) -> None:
    tables = replace(tables, launches=tables.launches.assign(grid_x=grid))
    expected, believed = summary(tables), str(verdict(tables))
    monkeypatch.setattr(module, "PIECE_ROWS", 50)
    assert len(pieces(tables.df)) > 3
    pd.testing.assert_frame_equal(summary(tables), expected, check_exact=True)
    assert str(verdict(tables)) == believed


@pytest.mark.parametrize("most", [300_000, 20], ids=["all", "some SMs"])
def test_findings_are_the_same_where_the_summary_is_known(
    tables: Tables, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(judging_module, "MOST_SPANS", most)
    told = findings_frame(tables, of_each_kernel(tables, partial(findings_of, tables), summed_spans(tables)))
    pd.testing.assert_frame_equal(told, findings(tables))
    assert told.attrs == findings(tables).attrs
    known = kernel_analyses(tables, known=summed_spans(tables))
    for judged, again in zip(kernel_analyses(tables), known, strict=True):
        assert isinstance(judged, KernelAnalysis)
        assert isinstance(again, KernelAnalysis)
        pd.testing.assert_frame_equal(again.sites, judged.sites)
        assert all((getattr(again.spans, name) == each).all() for name, each in vars(judged.spans).items())


def test_one_piece_of_longer_spans_makes_durations_of_all_wide(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    df = tables.df.copy()
    df.loc[df["parent"] < 0, "duration_cycles"] += (1 << 32) * (df["launch"] == 1)
    expected = with_corrected(df, CLOCK)
    monkeypatch.setattr(module, "PIECE_ROWS", 50)
    for name, values in zip(CORRECTED, narrow_durations(df, CLOCK), strict=True):
        assert values.tolist() == expected[name].tolist()


def test_rows_that_name_others_far_away_are_one_piece(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PIECE_ROWS", 50)
    df = tables.df.copy()
    df.loc[len(df) - 1, "parent"] = 0
    assert pieces(df) == [slice(0, len(df))]


# What analyses ask of a span table: own times, and what launches have.


def test_own_times_are_exact_however_long_spans_are() -> None:
    huge = (1 << 60) + 1
    duration = np.array([3 * huge, huge, huge - 2, 7], np.int64)
    parent = np.array([-1, 0, 0, 0])
    own = own_times(duration, parent, np.array([True, True, True, False]))
    assert own.tolist() == [huge + 2, huge, huge - 2, 0]


def test_each_span_has_what_its_launch_has() -> None:
    """Times of today in nanoseconds, too; in whatever order launches are, and where one is not known."""
    tables = regular_profile(3, 1, 1, 1).tables
    table = launch_table([2, 0], ["a", "b"])
    values = np.array([1_700_000_000_000_000_003, 1_700_000_000_000_000_001])
    told = OfLaunches(table, values, 0).of(tables.df["launch"].to_numpy())
    known = {2: int(values[0]), 0: int(values[1]), 1: 0}
    assert told.tolist() == [known[launch] for launch in tables.df["launch"]]
    none = spans_frame()["launch"].to_numpy()
    assert not len(OfLaunches(launches_frame(), np.zeros(0), 1.0).of(none))


@pytest.mark.parametrize("size", [1, 40, 5000, 1 << 22, 1 << 40])
def test_numbers_are_in_order_of_first_appearance(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over all pieces, by a table of keys as by their hashes."""
    monkeypatch.setattr(module, "PIECE_ROWS", 100)
    key = np.random.default_rng(0).integers(0, size, 1050)
    number, first = numbered(key, size)
    expected, distinct = pd.factorize(key)
    assert number.tolist() == expected.tolist()
    assert key[first].tolist() == distinct.tolist()
    assert [at for at in range(len(key)) if expected[at] not in expected[:at]] == first.tolist()


def test_sites_are_told_apart_whatever_their_columns_could_hold() -> None:
    """More combinations of texts and lines than 64 bits number."""
    df = regular_profile(1, 2, 1, 3).tables.df
    many = pd.Index([f"scope {number}" for number in range(1 << 13)])
    wide = df.assign(line=df["line"].where(df.index != 1, 1 << 30).astype("int32"))
    for name in ("kernel", "scope", "file", "call_path"):
        wide[name] = wide[name].cat.add_categories(many)
    rows = list(zip(*(wide[name].tolist() for name in SITE_COLUMNS), strict=True))
    assert narrow_sites(wide)[0].tolist() == pd.factorize(pd.Index(rows, tupleize_cols=False))[0].tolist()
