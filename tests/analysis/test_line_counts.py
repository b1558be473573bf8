"""Instruction counts by source line, of kernels that an H200 counted."""

from __future__ import annotations

import numpy as np
import pytest

from profscope.analysis.line_rows import placed
from profscope.analysis.lines import LINE_COLUMNS, line_counts
from profscope.evidence.tables import counts_table
from profscope.profiles import Profile
from tests.support.h200_evidence import counted, number


def test_the_line_of_a_gather_touches_eight_times_the_sectors() -> None:
    counts, _ = counts_table([counted("gather")], number)
    lines = line_counts(placed(counts)).reset_index()
    worst = lines.loc[lines["sectors_over_ideal"].idxmax()]
    gather = counts[counts["line"] == worst["line"]]
    assert worst["sectors_over_ideal"] == pytest.approx(
        gather["sectors"].sum() / gather["sectors_ideal"].sum()
    )
    assert worst["sectors_over_ideal"] > 3
    assert worst["pipe"] == "lsu"
    assert worst["active_threads"] == 32
    assert lines["issue_share"].sum() == pytest.approx(1)


def test_the_line_of_a_column_takes_all_wavefronts_and_most_of_the_pipe() -> None:
    counts, _ = counts_table([counted("transpose, unswizzled")], number)
    lines = line_counts(placed(counts)).reset_index()
    worst = lines.loc[lines["wavefronts_over_ideal"].idxmax()]
    assert worst["wavefronts_over_ideal"] == 32
    assert worst["pipe"] == "lsu"
    assert worst["pipe_share"] > 0.7
    of_fma = lines[lines["pipe"] == "fma"]
    assert np.isnan(of_fma["sectors_over_ideal"]).all()


def test_a_constant_by_half_precision_does_not_keep_the_tensor_pipe_busy() -> None:
    counts, _ = counts_table([counted("gather")], number)
    one_line = counts.assign(
        line=1, column=0, call_path="", executed=1, opcode=counts["opcode"].astype("str")
    )
    for opcode, pipe in (("HFMA2.MMA", "lsu"), ("HMMA.16816.F32", "tensor")):
        (line,) = line_counts(placed(one_line.replace({"opcode": {"S2R": opcode}}))).itertuples()
        assert line.pipe == pipe


def test_no_counts_give_no_lines() -> None:
    counts, _ = counts_table([], number)
    lines = line_counts(placed(counts))
    assert len(lines) == 0
    assert list(lines) == list(LINE_COLUMNS)


def test_lines_have_counts_at_the_places_of_their_instructions() -> None:
    counts, _ = counts_table([counted("gather")], number)
    lines = Profile(counts=counts).lines()
    assert lines["issue_share"].sum() == pytest.approx(1)
    assert set(lines["line"]) == set(counts["line"])
    assert lines["sectors_over_ideal"].max() > 3
    assert lines["self_share"].isna().all()
    without = Profile().lines()
    assert str(without["issue_share"].dtype) == "Float64"
