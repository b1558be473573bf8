"""Packed columns: exact for any integers, small for regular ones."""

import json
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal

from profscope.analysis.spans import sites
from profscope.profiles import Profile
from profscope.traces.compact import decode, encode
from profscope.traces.packing import pack, unpack
from tests.support.profiles import profiles, regular_profile

INT64 = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(INT64 | st.integers(-300, 300)))
def test_any_integers_round_trip(values: list[int]) -> None:
    packed = json.loads(json.dumps(pack(np.array(values, np.int64))))
    assert unpack(packed).tolist() == values


@given(profiles(max_actions=6), st.lists(INT64, min_size=8, max_size=8))
def test_any_times_round_trip(profile: Profile, times: list[int]) -> None:
    """Even times no clock could give: predictions may be useless and arithmetic may wrap."""
    df = profile.df
    for name, values in zip(
        ("start_cycle", "duration_cycles", "start_ns", "duration_ns"), np.reshape(times, (4, 2)), strict=True
    ):
        df[name] = np.resize(values, len(df))
    with ThreadPoolExecutor(1) as pool:
        assert_frame_equal(
            decode(json.loads(json.dumps(encode(df, *sites(df), pool)())), pool), df, check_exact=True
        )


def test_a_regular_profile_is_small() -> None:
    df = regular_profile(launches=2, ctas=64, iterations=24).df
    with ThreadPoolExecutor(1) as pool:
        encoded = encode(df, *sites(df), pool)()
    assert len(encoded["pieces"]) == 1
    streams = {
        name: len(stream["data"]) / len(df) for name, stream in encoded["pieces"][0]["streams"].items()
    }
    assert sum(streams.values()) < 2.6, "bytes a span"
    assert streams["start_ns"] + streams["end_ns"] < 0.1, "ns follow from cycles"
    assert "parent" not in streams


def test_a_column_of_another_length_is_noticed() -> None:
    df = regular_profile(launches=1, ctas=1).df
    with ThreadPoolExecutor(1) as pool:
        data = encode(df, *sites(df), pool)()
        data["pieces"][0]["streams"]["depth"] = pack(np.zeros(3, np.int64))
        with pytest.raises(ValueError, match=f"the columns do not have {len(df)} rows"):
            decode(data, pool)


def test_pieces_are_cut_between_warps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("profscope.traces.compact.PIECE_ROWS", 50)
    df = regular_profile(launches=2, ctas=3, iterations=6).df
    with ThreadPoolExecutor(2) as pool:
        data = encode(df, *sites(df), pool)()
        assert len(data["pieces"]) > 5
        assert_frame_equal(decode(data, pool), df, check_exact=True)
