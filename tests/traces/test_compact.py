"""Packed columns: exact for any integers, small for regular ones."""

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal

from profscope.analysis.spans.rows import sites
from profscope.store.packed_table import pack, unpack
from profscope.traces.compact import FEW_LEVELS, ROW_STREAMS, RUN_STREAMS, decode, encode, parents_of
from tests.support.profiles import regular_profile

ENOUGH = 1 << 30
INT64 = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(INT64 | st.integers(-300, 300)))
def test_any_integers_round_trip(values: list[int]) -> None:
    packed = json.loads(json.dumps(pack(np.array(values, np.int64))))
    assert unpack(packed, len(values)).tolist() == values


def test_a_regular_profile_is_small() -> None:
    df = regular_profile(launches=2, ctas=64, iterations=24).tables.df
    with ThreadPoolExecutor(1) as pool:
        encoded = encode(df, *sites(df), pool)()
    assert len(encoded["pieces"]) == 1
    streams = {
        name: len(stream["data"]) / len(df) for name, stream in encoded["pieces"][0]["streams"].items()
    }
    assert sum(streams.values()) < 2.6, "bytes a span"
    assert streams["start_ns"] + streams["end_ns"] < 0.1, "ns follow from cycles"
    assert "parent" not in streams


@pytest.mark.parametrize("name", [*ROW_STREAMS[1:], *RUN_STREAMS, "wait_after", "parent"])
@pytest.mark.parametrize("count", [1, 3])
def test_a_column_of_another_length_is_noticed(name: str, count: int) -> None:
    """One value, too, which numpy would repeat for every row."""
    df = regular_profile(launches=1, ctas=2).tables.df
    with ThreadPoolExecutor(1) as pool:
        data = encode(df, *sites(df), pool)()
        data["pieces"][0]["streams"][name] = pack(np.zeros(count, np.int64))
        with pytest.raises(ValueError, match=r"do(es)? not have \d+ (rows|values) from row 0 on"):
            decode(data, pool, ENOUGH)


def test_lengths_whose_sum_wraps_are_noticed() -> None:
    df = regular_profile(launches=1, ctas=2).tables.df
    with ThreadPoolExecutor(1) as pool:
        data = encode(df, *sites(df), pool)()
        wrapping = [2**62] * 4 + [0] * 3 + [len(df)]
        data["pieces"][0]["streams"]["run_length"] = pack(np.array(wrapping, np.int64))
        with pytest.raises(ValueError, match=f"the columns do not have {len(df)} rows"):
            decode(data, pool, ENOUGH)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"count": 6}, "a column has 6 values of 1 bytes, in 5 rows"),
        ({"count": -1}, "a column has -1 values"),
        ({"width": 3}, "values of 3 bytes"),
        ({"count": 4}, "a column does not have its 4 values"),
        ({"width": 2}, "a column does not have its 5 values"),
        ({"count": 0}, "a column does not have its 0 values"),
    ],
)
def test_a_column_that_is_not_as_long_as_it_says(change: dict[str, int], message: str) -> None:
    packed = pack(np.arange(5)) | change
    with pytest.raises(ValueError, match=message):
        unpack(packed, 5)


@given(st.lists(st.tuples(st.integers(-2, 5), st.booleans()), max_size=40), st.integers(0, 9))
def test_parents_are_found_alike_by_levels_and_at_once(rows: list[tuple[int, bool]], begin: int) -> None:
    depth, asynchronous = (
        np.array([row[of] for row in rows], kind) for of, kind in ((0, np.int64), (1, bool))
    )
    expected = [
        max((begin + above for above in range(at) if rows[above] == (level - 1, False)), default=-1)
        if level > 0 else -1
        for at, (level, _) in enumerate(rows)
    ]  # fmt: skip
    assert parents_of(depth, asynchronous, begin).tolist() == expected
    spread = np.where(depth > 0, depth + FEW_LEVELS, depth)  # the same tree deep down, without roots
    deep = [parent if level > 1 else -1 for parent, (level, _) in zip(expected, rows, strict=True)]
    assert parents_of(spread, asynchronous, begin).tolist() == deep


def test_rows_ever_deeper_take_no_longer_than_others() -> None:
    depth = np.arange(100_000) * 2**40
    depth[1::2] = depth[::2] + 1
    parents = parents_of(depth, np.zeros(len(depth), np.bool_), 0)
    assert parents[::2].tolist() == [-1] * 50_000
    assert parents[1::2].tolist() == list(range(0, 100_000, 2))


def test_pieces_are_cut_between_warps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("profscope.traces.compact.PIECE_ROWS", 50)
    df = regular_profile(launches=2, ctas=3, iterations=6).tables.df
    with ThreadPoolExecutor(2) as pool:
        data = encode(df, *sites(df), pool)()
        assert len(data["pieces"]) > 5
        assert_frame_equal(decode(data, pool, ENOUGH), df, check_exact=True)
