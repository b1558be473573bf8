"""The order in which spans are drawn."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from profscope.profiles import Profile
from profscope.traces.perfetto.packets import draw, event_places, nested_depth
from profscope.traces.tracks import assign_tracks, nesting_lanes, row_devices
from tests.support.examples import examples
from tests.support.profiles import profiles


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 15)), max_size=20))
def test_depth_counts_the_spans_around(spans: list[tuple[int, int]]) -> None:
    start = np.array([s for s, _ in spans], np.int64)
    end = start + np.array([d for _, d in spans], np.int64)
    lane0 = np.flatnonzero(nesting_lanes(start, end) == 0)
    order = lane0[np.lexsort((-end[lane0], start[lane0]))]
    depth = nested_depth(start[order], end[order])
    for at, row in enumerate(order):
        around = [other for other in order[:at] if start[other] <= start[row] < end[other]]
        assert depth[at] == len(around)
        assert all(end[row] <= end[other] for other in around)


@given(profiles())
@settings(max_examples=examples(20))
def test_all_rows_are_drawn_track_by_track_in_time(profile: Profile) -> None:
    df = profile.df
    tracks = assign_tracks(df, row_devices(df, profile.launches))
    drawing = draw(df, tracks)
    assert sorted(drawing.rows.tolist()) == list(range(len(df)))
    assert drawing.first[-1] == len(df)
    for number in range(len(drawing.first) - 1):
        at = slice(drawing.first[number], drawing.first[number + 1])
        rows = drawing.rows[at]
        assert (np.diff(df["start_ns"].to_numpy()[rows]) >= 0).all()
        lane = number - len(tracks.table)
        if lane >= 0:
            assert set(tracks.async_lane[rows].tolist()) == {lane}
            assert not drawing.depth[at].any()
        else:
            assert set(tracks.track[tracks.run[rows]].tolist()) <= {number}
            assert (tracks.async_lane[rows] == -1).all()
            assert (np.diff(drawing.depth[at], prepend=-1) <= 1).all()


@given(st.lists(st.booleans(), max_size=30))
def test_places_of_events(walk: list[bool]) -> None:
    """Events numbered as they come in a walk are where `event_places` says."""
    depth: list[int] = []
    begin: list[int] = []
    end: dict[int, int] = {}
    stack: list[int] = []
    event = 0
    for opens in [*walk, *[False] * len(walk)]:
        if opens:
            stack.append(len(depth))
            depth.append(len(stack) - 1)
            begin.append(event)
        elif stack:
            end[stack.pop()] = event
        else:
            continue
        event += 1
    at_begin, at_end = event_places(np.array(depth, np.int64))
    assert at_begin.tolist() == begin
    assert at_end.tolist() == [end[row] for row in sorted(end)]
