"""Perfetto's own trace processor reads what we write, without error and without moving anything."""

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from profscope.profiles import Profile
from profscope.traces.tracks import Tracks, assign_tracks, drawn_name, row_devices
from tests.support.processor import SPAN_KINDS, Processor
from tests.support.profiles import payloads, profiles, regular_profile
from tests.support.quick import quick

THREAD_SLICES = f"""
select thread.tid, slice.ts, slice.dur, slice.depth, coalesce(slice.name, ''), slice.category
from slice join thread_track on slice.track_id = thread_track.id join thread using (utid)
where category in {SPAN_KINDS}
"""
ASYNC_SLICES = f"""
select process.pid, slice.ts, slice.dur, slice.depth, coalesce(slice.name, ''), slice.category
from slice join process_track on slice.track_id = process_track.id join process using (upid)
where category in {SPAN_KINDS}
"""


def layout(profile: Profile) -> Tracks:
    return assign_tracks(profile.df, row_devices(profile.df, profile.launches))


def origin_of(profile: Profile) -> int:
    """What times count from: what begins first, span or launch."""
    launches = profile.launches
    timed = launches["start_ns"][launches["end_ns"] > launches["start_ns"]]
    return min([*profile.df["start_ns"], *timed]) if len(profile.df) else 0


def expected_slices(profile: Profile) -> tuple[Counter[Any], Counter[Any]]:
    """(thread id, ts, dur, depth, name, kind) of synchronous rows; (process id, ...) of async ones.

    The depth of spans of no length is not Perfetto's to keep (`traces.chrome.events` says why): 0 here.
    """
    df, tracks = profile.df, layout(profile)
    start = df["start_ns"] - origin_of(profile)
    depth = df["depth"].where((df["duration_ns"] > 0) & (df["kind"] != "async"), 0)
    names = map(as_shown, map(drawn_name, df["scope"], df["kind"]))
    columns = [start.tolist(), df["duration_ns"].tolist(), depth.tolist(), names, df["kind"]]
    place = tracks.table.iloc[tracks.track[tracks.run]]
    rows = list(zip(place["pid"].tolist(), place["tid"].tolist(), *columns, strict=True))
    synchronous = Counter((tid, *rest) for _, tid, *rest in rows if rest[-1] != "async")
    return synchronous, Counter((pid, *rest) for pid, _, *rest in rows if rest[-1] == "async")


def as_shown(name: str) -> str:
    """A name as far as Perfetto keeps it: JSON's escapes stay as they are or not, by what else is in the
    name, and a NUL ends it; the nameless get one."""
    return "\\" if any(char < " " or char in '"\\' for char in name) else name or "[No name]"


def shown(rows: list[Any]) -> Counter[Any]:
    return Counter(
        (place, ts, dur, depth if dur else 0, as_shown(name), kind)
        for place, ts, dur, depth, name, kind in rows
    )


FLOWS = """
select coalesce(begin.name, ''), begin.category, begin.ts, begin.dur,
    coalesce(finish.name, ''), finish.category, finish.ts, finish.dur
from flow join slice begin on slice_out = begin.id join slice finish on slice_in = finish.id
"""


def expected_flows(profile: Profile) -> Counter[Any]:
    """Arrows: by wait, from one interval to the next that it ended and to itself, in order of time."""
    df = profile.df
    origin = origin_of(profile)
    names = map(as_shown, map(drawn_name, df["scope"], df["kind"]))
    rows = list(zip(names, df["kind"], df["start_ns"] - origin, df["duration_ns"], strict=True))
    arrows: Counter[Any] = Counter()
    for wait, ended in df[df["wait"] >= 0].groupby("wait"):
        assert isinstance(wait, int)
        by_time = sorted(ended.index.tolist(), key=lambda row: (df["start_ns"][row], row))
        chain = [row for row in by_time if df["start_ns"][row] < df["start_ns"][wait]]
        arrows.update((*rows[begin], *rows[end]) for begin, end in pairwise([*chain, wait]))
    return arrows


def assert_read_exactly(processor: Processor, path: Path, profile: Profile) -> None:
    profile.save(path)
    processor.load(path)
    synchronous, asynchronous = expected_slices(profile)
    assert processor.errors() == []
    assert shown(processor.query(THREAD_SLICES)) == synchronous
    assert shown(processor.query(ASYNC_SLICES)) == asynchronous
    assert processor.query(f"select count(*) from slice where category in {SPAN_KINDS}") == [
        (len(profile.df),)
    ]
    flows = [(as_shown(row[0]), *row[1:4], as_shown(row[4]), *row[5:]) for row in processor.query(FLOWS)]
    assert Counter(flows) == expected_flows(profile)


@pytest.mark.parametrize("suffix", quick([".json", ".json.gz"], [".json"]))
def test_regular_profile(suffix: str, tmp_path: Path, processor: Processor) -> None:
    profile = regular_profile(launches=2, ctas=10, warps=4, iterations=10)
    assert_read_exactly(processor, tmp_path / f"trace{suffix}", profile)


@pytest.mark.hypothesis
@pytest.mark.exhaustive
def test_random_profiles(tmp_path: Path, processor: Processor) -> None:
    @given(profiles())
    def check(profile: Profile) -> None:
        assert_read_exactly(processor, tmp_path / "trace.json", profile)

    check()


def test_names_and_args(tmp_path: Path, processor: Processor) -> None:
    profile = regular_profile(launches=2, ctas=6, warps=2, iterations=2, sms=2)
    profile.save(tmp_path / "trace.json")
    processor.load(tmp_path / "trace.json")
    assert processor.query("select name from process where pid > 0 order by pid") == [
        ("SM 0",),
        ("SM 1",),
        ("GPU 0 launches",),
    ]
    threads = processor.query("select name from thread where tid >= 1000 order by tid")
    assert threads[:3] == [("CTA slot 0 warp 0",), ("CTA slot 0 warp 1",), ("CTA slot 1 warp 0",)]
    args = ", ".join(f"extract_arg(arg_set_id, 'args.{name}')" for name in ("launch", "cta", "line", "iter"))
    found = Counter(processor.query(f"select {args} from slice where name = 'dot'"))
    dots = profile.df[profile.df["scope"] == "dot"]
    assert found == Counter(dots[["launch", "cta", "line", "iteration"]].itertuples(index=False, name=None))


def test_values_are_args(tmp_path: Path, processor: Processor) -> None:
    profile = regular_profile(launches=1, ctas=2, warps=1, iterations=2)
    df = profile.df
    dots = np.flatnonzero(df["scope"] == "dot")
    small, large = payloads(df, dots, [3, -7, 0, 2**31 - 1], [0.1, -np.inf, 1e300, -0.0])
    changed = Profile(df.assign(**{"trips": small, "line": df["line"], "é x": large}), profile.launches)
    assert_read_exactly(processor, tmp_path / "trace.json", changed)
    args = ", ".join(f"extract_arg(arg_set_id, 'args.{name}')" for name in ("trips", "é x"))
    found = processor.query(f"select {args} from slice where name = 'dot' order by ts")
    values = zip(small[dots].tolist(), [0.1, "-Infinity", 1e300, -0.0], strict=True)
    assert sorted(found, key=str) == sorted(values, key=str)
    assert processor.query(f"select {args} from slice where name = 'wait'") == [(None, None)] * 4


@pytest.mark.parametrize("digits", quick(range(1, 12), (1, 6, 9, 11)))
def test_times_are_exact_to_the_nanosecond(digits: int, tmp_path: Path, processor: Processor) -> None:
    """Perfetto reads microseconds as doubles; three decimals must come out as whole ns up to days."""
    random = np.random.default_rng(digits)
    profile = regular_profile(launches=1, ctas=50, warps=1, iterations=1, sms=1)
    df = profile.df[profile.df["depth"] == 0].reset_index(drop=True)
    micros = random.integers(0, 10**digits, len(df))
    df["start_ns"] = 2**60 + np.sort(micros * 1000 + random.integers(0, 1000, len(df)))
    df["duration_ns"] = np.append(np.diff(df["start_ns"]), 1) // 2
    changed = Profile(df, profile.launches, profile.metadata)
    assert_read_exactly(processor, tmp_path / "trace.json", changed)
