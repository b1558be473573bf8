"""corrected_cycles: by hand on small trees, and what must hold for any."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import given, settings

import profscope
from profscope.analysis.spans.corrections import CORRECTED, with_corrected
from profscope.analysis.spans.rows import self_times
from profscope.profiles import Profile
from profscope.schema import spans_frame
from tests.support.examples import examples
from tests.support.profiles import profile_metadata, profiles, regular_profile
from tests.support.validation import validate

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


def corrected(df: pd.DataFrame) -> list[int]:
    return with_corrected(df, METADATA)["corrected_cycles"].tolist()


def test_a_span_loses_one_read() -> None:
    assert corrected(tree(("kernel", -1, -1, 100, 192))) == [90]


def test_a_span_that_is_shorter_than_a_read_loses_what_it_has() -> None:
    assert corrected(tree(("kernel", -1, -1, 100, 101))) == [0]


def test_reads_that_neighbours_share_count_once() -> None:
    df = tree(("kernel", -1, -1, 0, 100), ("op", 0, -1, 0, 40), ("op", 0, -1, 40, 100))
    assert corrected(df) == [96, 38, 58]


def test_a_span_with_spans_inside_loses_a_read_for_each_stretch() -> None:
    df = tree(("kernel", -1, -1, 0, 100), ("op", 0, -1, 10, 40), ("op", 0, -1, 50, 90))
    assert corrected(df) == [100 - 5 * 2, 28, 38]  # before, first, between, second, behind


def test_a_mark_cuts_what_it_is_in() -> None:
    df = tree(("kernel", -1, -1, 0, 100), ("mark", 0, -1, 50, 50))
    assert corrected(df) == [96, 0]


def test_a_loop_loses_the_rows_of_its_iterations() -> None:
    df = tree(
        ("loop", -1, -1, 0, 300), ("op", 0, 0, 10, 50), ("op", 0, 0, 60, 90), ("op", 0, 1, 130, 170),
        ("op", 0, 1, 180, 210),
    )  # fmt: skip
    assert corrected(df)[0] == 300 - 9 * 2 - 2 * 20


def test_an_iteration_loses_its_row_and_the_loop_does_not() -> None:
    df = tree(
        ("loop", -1, -1, 0, 200), ("iteration", 0, 0, 0, 100), ("op", 1, 0, 10, 50),
        ("iteration", 0, 1, 100, 200), ("op", 3, 1, 110, 150),
    )  # fmt: skip
    assert corrected(df) == [200 - 6 * 2 - 2 * 20, 100 - 3 * 2 - 20, 38, 74, 38]


def test_nothing_loses_more_than_its_own_time() -> None:
    df = tree(("loop", -1, -1, 0, 50), ("op", 0, 0, 1, 25), ("op", 0, 1, 26, 50))
    own = self_times(with_corrected(df, METADATA), "corrected_cycles")
    assert corrected(df) == [22 + 22, 22, 22]
    assert (own >= 0).all()


def test_what_is_in_flight_loses_one_read_and_its_parent_nothing_by_it() -> None:
    df = tree(("kernel", -1, -1, 0, 100), ("op", 0, -1, 0, 100), ("async", 1, -1, 10, 300))
    assert corrected(df) == [98, 98, 288]


def test_ns_shrink_by_the_same_part() -> None:
    df = with_corrected(tree(("kernel", -1, -1, 0, 92), ns_per_cycle=3), METADATA)
    assert df["corrected_ns"].tolist() == [270]


def test_unknown_where_the_cost_is() -> None:
    df = with_corrected(tree(("kernel", -1, -1, 0, 92)), {})
    assert df[list(CORRECTED)].isna().all(axis=None)
    assert [str(df[name].dtype) for name in CORRECTED] == ["Int64", "Int64"]


@given(profiles())
@settings(max_examples=examples(25), deadline=None)
def test_any_profile(profile: Profile) -> None:
    df = with_corrected(profile.tables.df, METADATA)
    raw, left = (df[name].to_numpy(np.int64) for name in ("duration_cycles", "corrected_cycles"))
    assert (left >= 0).all()
    assert (left <= raw).all()
    lost = df.assign(lost=raw - left)
    synchronous = (df["kind"] != "async").to_numpy()
    # What a span lost is what those inside lost and what it lost itself, of its own time.
    own = self_times(lost, "lost")
    assert (own[synchronous] >= 0).all()
    assert (own[synchronous] <= self_times(df, "duration_cycles")[synchronous]).all()


@given(profiles())
@settings(max_examples=examples(25), deadline=None)
def test_parts_of_cycles_make_no_span_shorter_than_what_is_in_it(profile: Profile) -> None:
    """Each span is rounded with its own time, so that the sums stay sums."""
    clock = {"clock": {"read_cycles": 2.4, "row_cycles": 17.52, "basis": "measured"}}
    df = with_corrected(profile.tables.df, clock)
    synchronous = (df["kind"] != "async").to_numpy()
    for unit in ("cycles", "ns"):
        own, raw = self_times(df, f"corrected_{unit}"), self_times(df, f"duration_{unit}")
        assert (own[synchronous] <= raw[synchronous]).all()
        assert (own[synchronous & (raw >= 0)] >= 0).all()


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


def test_tables_with_the_columns_are_valid_and_saved_without_them(tmp_path: Path) -> None:
    from profscope.schema import Tables
    from profscope.traces.saving import save

    plain = regular_profile(launches=1, ctas=1, warps=1)
    tables = Tables(plain.df, plain.launches, plain.metadata)
    assert validate(plain.tables) == []
    assert validate(tables) == []
    for suffix in (".json", ".pftrace"):
        save(tables, tmp_path / f"t{suffix}")
        assert list(profscope.load(tmp_path / f"t{suffix}").tables.df) == list(plain.tables.df)
