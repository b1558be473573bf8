"""Large profiles are looked at a piece at a time: what comes out is what comes of all rows together."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest

from profscope.analysis.findings import findings, findings_frame, findings_of, of_each_kernel
from profscope.analysis.kernels import kernel_analysis as judging_module
from profscope.analysis.kernels.kernel_analysis import KernelAnalysis, kernel_analyses
from profscope.analysis.spans import pieces as module
from profscope.analysis.spans.corrections import CORRECTED, narrow_durations, with_corrected
from profscope.analysis.spans.pieces import pieces
from profscope.analysis.spans.rows import SITE_COLUMNS, OfLaunches, narrow_sites, numbered, own_times
from profscope.analysis.spans.summing import summed_spans
from profscope.analysis.summary import summary
from profscope.analysis.verdict import verdict
from profscope.schema import Tables, launches_frame, spans_frame
from tests.support.profiles import launch_table, profile_metadata, regular_profile

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


def test_no_span_is_in_another_piece_than_its_parent(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PIECE_ROWS", 50)
    df = tables.df
    cut = pieces(df)
    assert [part.start for part in cut] == [0, *(part.stop for part in cut[:-1])]
    assert cut[-1].stop == len(df)
    for part in cut:
        parent = df["parent"].to_numpy()[part]
        assert ((parent < 0) | ((parent >= part.start) & (parent < part.stop))).all()


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
