"""Instruction counts by source line, of kernels that an H200 counted."""

from __future__ import annotations

import numpy as np
import pytest

from profscope.evidence.lines import LINE_COLUMNS, line_counts
from profscope.evidence.tables import counts_table
from tests.support.h200_evidence import counted, number


def test_the_line_of_a_gather_touches_eight_times_the_sectors() -> None:
    counts, _ = counts_table([counted("gather")], number)
    lines = line_counts(counts)
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
    lines = line_counts(counts)
    worst = lines.loc[lines["wavefronts_over_ideal"].idxmax()]
    assert worst["wavefronts_over_ideal"] == 32
    assert worst["pipe"] == "lsu"
    assert worst["pipe_share"] > 0.7
    of_fma = lines[lines["pipe"] == "fma"]
    assert np.isnan(of_fma["sectors_over_ideal"]).all()


def test_no_counts_give_no_lines() -> None:
    counts, _ = counts_table([], number)
    lines = line_counts(counts)
    assert len(lines) == 0
    assert list(lines)[4:] == list(LINE_COLUMNS)
