"""corrected_cycles: by hand on small trees, and what must hold for any."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import profscope
from profscope.analysis.spans.corrections import CORRECTED, with_corrected
from profscope.analysis.spans.rows import self_times
from profscope.profiles import Profile
from profscope.schema import spans_frame
from tests.support.examples import examples
from tests.support.profiles import profile_metadata, profiles, regular_profile

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
