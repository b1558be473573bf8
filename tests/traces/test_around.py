"""Host scopes and events in files: drawn where they were, and read back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import profscope
from profscope.profiles import Profile
from profscope.traces.around_tracks import around_tracks
from profscope.traces.jobs.merging import merged
from profscope.traces.jobs.stack import Part
from tests.support.around import UNIX_NS, program
from tests.support.processor import Processor

SLICES = """
select coalesce(thread.name, track.name), slice.name, slice.category, slice.ts, slice.dur, slice.depth
from slice join track on slice.track_id = track.id
left join thread_track on thread_track.id = track.id left join thread using (utid)
where category is not null  -- launches as slices of the GPU have none
"""


@pytest.fixture(scope="module")
def profile() -> Profile:
    return program()


def test_files_have_them(profile: Profile, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    profile.save(path)
    read = profscope.load(path)
    pd.testing.assert_frame_equal(read.host, profile.host)
    pd.testing.assert_frame_equal(read.events, profile.events)
    pd.testing.assert_frame_equal(read.launches, profile.launches)
    pd.testing.assert_frame_equal(read.df, profile.df)


@pytest.mark.parametrize("suffix", [".json", ".pftrace"])
def test_perfetto_shows_them_on_one_axis(
    profile: Profile, suffix: str, tmp_path: Path, processor: Processor
) -> None:
    path = tmp_path / f"trace{suffix}"
    profile.save(path)
    processor.load(path)
    assert processor.errors() == []
    rows = [row for row in processor.query(SLICES) if row[0].startswith(("thread ", "stream "))]
    # Of the GPU's timer: the first launch begins at UNIX_NS by the host's clock.
    names = [*profile.host["scope"], *profile.events["name"].astype("str")]
    starts = pd.concat([profile.host["start_unix_ns"], profile.events["start_unix_ns"]]) - UNIX_NS
    ends = pd.concat([profile.host["end_unix_ns"], profile.events["end_unix_ns"]]) - UNIX_NS
    expected = sorted(zip(names, starts.tolist(), (ends - starts).tolist(), strict=True))
    origin = min(row[3] for row in rows) - int(starts.min())
    assert sorted((name, ts - origin, dur) for _, name, _, ts, dur, _ in rows) == expected
    depth = {name: depth for _, name, _, _, _, depth in rows}
    assert [depth[name] for name in ("step", "forward", "aten::copy_", "cudaMemcpyAsync")] == [0, 1, 2, 3]
    assert {row[0] for row in rows} == {"thread 100", "thread 200", "stream 7", "stream 8"}
    # The first kernel span begins with its launch, that is inside of its event.
    inside = [ts for place, _, _, ts, _, _ in processor.query(SLICES) if "warp" in place]
    assert min(inside) == origin + int(profile.df["start_ns"].min() - profile.launches["start_ns"].min())


def test_a_program_without_launches(profile: Profile, tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    events = profile.events.assign(launch=-1)
    Profile(metadata=profile.metadata, host=profile.host, events=events).save(path)
    document = json.loads(path.read_text())
    drawn = [each for each in document["traceEvents"] if each["ph"] == "X"]
    assert len(drawn) == len(profile.host) + len(events)
    step = next(each for each in drawn if each["name"] == "step")
    assert (step["ts"], step["args"]) == (0.0, {"source": "scope", "tokens": 64.0})
    assert document["baseTimeNanoseconds"] == UNIX_NS - 9000


def test_merged_ranks_have_tracks_of_their_own(profile: Profile) -> None:
    parts = []
    for rank, boot in enumerate(("b", "b", "another")):
        job = {"id": "j", "rank": rank, "world_size": 2, "boot": boot, "clock": []}
        parts.append(Part(replace(profile.tables, metadata=profile.metadata | {"job": job}), f"{rank}", rank))
    both = merged(parts[:2])
    drawn = around_tracks(both)
    assert drawn is not None
    assert drawn.start_ns.tolist() == [*both.host["start_unix_ns"], *both.events["start_unix_ns"]]
    assert both.launches["start_ns"].min() == UNIX_NS
    tracks = {(track.process, track.name): len(track.rows) for track in drawn.tracks}
    of_one = {
        ("host", "thread 100"): 6,
        ("host", "thread 200"): 3,
        ("GPU 0", "stream 7"): 3,
        ("GPU 0", "stream 8"): 1,
    }
    assert tracks == {
        (f"rank {n} {process}", name): rows for n in (0, 1) for (process, name), rows in of_one.items()
    }
    assert around_tracks(merged(parts)) is None, "nobody knows how far the other host's clock is"
