"""Interval colouring and lanes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profscope.traces.tracks import assign_tracks, interval_slots, nesting_lanes
from tests.support.profiles import regular_profile

INTERVALS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 10)), max_size=25)


@given(INTERVALS)
def test_slots_are_disjoint_and_no_more_than_needed(intervals: list[tuple[int, int, int]]) -> None:
    group = np.array([g for g, _, _ in intervals], np.int64)
    start = np.array([s for _, s, _ in intervals], np.int64)
    end = start + np.array([d for _, _, d in intervals], np.int64)
    slots = interval_slots(group, start, end)
    for key in set(group.tolist()):
        mine = np.flatnonzero(group == key)
        for a in mine:
            for b in mine:
                if a < b and slots[a] == slots[b]:
                    assert end[a] < start[b] or end[b] < start[a]
        at_once = max(((start[mine] <= t) & (t <= end[mine])).sum() for t in start[mine])
        assert slots[mine].max() + 1 == at_once


def test_only_overlapping_spans_get_lanes() -> None:
    assert nesting_lanes(np.array([0, 1, 1, 3, 5]), np.array([9, 4, 3, 4, 9])).tolist() == [0] * 5
    assert nesting_lanes(np.array([0, 3, 5]), np.array([4, 8, 7])).tolist() == [0, 1, 0]


def test_a_warp_whose_spans_overlap_is_spread_over_lanes() -> None:
    df = regular_profile(launches=1, ctas=1, warps=1, iterations=1).df
    loads = df.index[df["scope"].isin(["load A", "load B"])]
    df.loc[loads[0], "duration_ns"] += 10
    tracks = assign_tracks(df, np.zeros(len(df), np.int64))
    assert tracks.table["lane"].tolist() == [0, 1]
    assert tracks.table["lane"].to_numpy()[tracks.track[tracks.run]].tolist() == [0] * 4 + [1] + [0] * 3


@pytest.mark.parametrize(("took", "lanes"), [(10, [0, 0, 0, 0]), (30, [0, 1, 0, 1]), (50, [0, 1, 2, 0])])
def test_work_in_flight_has_as_many_lanes_as_is_under_way_at_once(took: int, lanes: list[int]) -> None:
    df = regular_profile(launches=1, ctas=1, warps=1, iterations=4).df.copy()
    loads = df.index[df["scope"] == "load A"]
    df["kind"] = df["kind"].cat.add_categories("async")
    df.loc[loads, "kind"] = "async"
    df.loc[loads, "start_ns"] = df["start_ns"].min() + 20 * np.arange(len(loads))
    df.loc[loads, "duration_ns"] = took
    tracks = assign_tracks(df, np.zeros(len(df), np.int64))
    assert tracks.async_lane[loads].tolist() == lanes
    assert (np.delete(tracks.async_lane, loads) == -1).all()


def test_ctas_that_run_at_once_get_slots_of_their_sm() -> None:
    profile = regular_profile(launches=2, ctas=16, warps=2, iterations=1, sms=4)
    table = assign_tracks(profile.df, np.zeros(len(profile.df), np.int64)).table
    assert table["slot"].max() == 1, "two CTAs at a time share an SM, whatever the launches"
    assert len(table) == 4 * 2 * 2
    assert table["tid"].is_unique
    assert not set(table["tid"]) & set(table["pid"])
