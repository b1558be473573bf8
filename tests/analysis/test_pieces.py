"""Large profiles are looked at a piece at a time: what comes out is what comes of all rows together."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from profscope.analysis.findings import findings
from profscope.analysis.kernels import kernel_analysis as judging_module
from profscope.analysis.kernels.kernel_analysis import KernelAnalysis, kernel_analyses
from profscope.analysis.model.judgement import judgement_of
from profscope.analysis.spans import pieces as module
from profscope.analysis.spans.corrections import CORRECTED, narrow_durations, with_corrected
from profscope.analysis.spans.pieces import pieces
from profscope.analysis.spans.summing import summed_spans
from profscope.analysis.summary import summary
from profscope.analysis.verdict import verdict
from profscope.schema import Tables
from tests.support.profiles import profile_metadata, regular_profile

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
    told = judgement_of(tables, (), summed_spans(tables)).findings
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
