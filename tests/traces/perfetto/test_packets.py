"""The packets of a Perfetto trace, read one by one; what Perfetto makes of them is in tests/perfetto."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from profscope.profiles import Profile
from profscope.traces.perfetto import packets
from profscope.traces.perfetto.packets import event_places
from profscope.traces.perfetto.protobuf import DATA_FIELD
from profscope.traces.tracks import drawn_name
from tests.support.examples import examples
from tests.support.profiles import payloads, profile_metadata, profiles, regular_profile
from tests.support.slow_packets import Slice, read_trace


def saved(profile: Profile, folder: Path) -> list[Slice]:
    profile.save(folder / "trace.pftrace")
    return read_trace((folder / "trace.pftrace").read_bytes()).slices


def as_written(text: str) -> str:
    return text.encode(errors="replace").decode()


def rows_of(profile: Profile) -> Counter[Any]:
    """(ts, dur, name, kind, iteration, source) of every row."""
    found: Counter[Any] = Counter()
    for row in profile.df.itertuples():
        known = bool(row.file) or row.line != 0
        function = as_written(str(row.call_path or row.kernel))
        source = (as_written(str(row.file)), function, row.line) if known else None
        time = (row.start_ns, row.duration_ns, as_written(drawn_name(str(row.scope), str(row.kind))))
        found[*time, row.kind, row.iteration if row.iteration >= 0 else None, source] += 1
    return found


def drawn(slices: list[Slice]) -> Counter[Any]:
    return Counter((s.ts, s.dur, s.name, s.category, s.args.get("iter"), s.source) for s in slices)


def arrows(slices: list[Slice]) -> Counter[Any]:
    """What Perfetto draws: a flow leads from where it begins to where it ends, which frees its number."""
    found: Counter[Any] = Counter()
    begun: dict[int, Slice] = {}
    for s in sorted(slices, key=lambda s: s.ts):  # stable: of one time, in the order of the file
        for flow in s.ends_flows:
            begin = begun.pop(flow)
            found[begin.ts, begin.dur, begin.name, s.ts, s.dur, s.name] += 1
        for flow in s.begins_flows:
            assert flow not in begun
            begun[flow] = s
    assert not begun
    return found


def waits_of(profile: Profile) -> Counter[Any]:
    names = map(as_written, map(drawn_name, profile.df["scope"], profile.df["kind"]))
    shown = list(zip(profile.df["start_ns"], profile.df["duration_ns"], names, strict=True))
    pairs = [(shown[row], shown[by]) for row, by in enumerate(profile.df["wait"]) if by >= 0]
    return Counter((*begin, *end) for begin, end in pairs if begin[0] < end[0])


@pytest.mark.hypothesis
@pytest.mark.parametrize("block_rows", [1, 7])
def test_every_row_is_drawn_once_at_its_time(
    block_rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packets, "BLOCK_ROWS", block_rows)  # cut everywhere

    @given(profiles())
    @settings(max_examples=examples(12))
    def check(profile: Profile) -> None:
        slices = saved(profile, tmp_path)
        assert drawn(slices) == rows_of(profile)
        assert arrows(slices) == waits_of(profile)
        depth = Counter((s.ts, s.dur, s.category, s.depth) for s in slices if s.category != "async")
        columns = [profile.df[name] for name in ("start_ns", "duration_ns", "kind", "depth")]
        assert {s.depth for s in slices if s.category == "async"} <= {0}, "lanes never overlap"
        assert depth == Counter(row for row in zip(*columns, strict=True) if row[2] != "async")

    check()


@given(profiles(), st.data())
@settings(max_examples=examples(12))
def test_any_selection_of_rows_is_drawn(
    tmp_path_factory: pytest.TempPathFactory, profile: Profile, data: st.DataObject
) -> None:
    """Whatever parents, depths and waits then say: each row is drawn at its time, and nests."""
    chosen = data.draw(st.lists(st.booleans(), min_size=len(profile.df), max_size=len(profile.df)))
    df = profile.df[np.array(chosen, np.bool_)].reset_index(drop=True)
    df["wait"] = df["wait"].where(df["wait"] < len(df), -1)
    slices = saved(Profile(df, profile.launches), tmp_path_factory.mktemp("packets"))
    assert drawn(slices) == rows_of(Profile(df))
    open_ends: dict[Any, list[int]] = {}
    for s in slices:
        ends = open_ends.setdefault(s.track if s.category != "async" else id(s), [])
        del ends[s.depth :]
        assert all(s.ts + s.dur <= end for end in ends)
        ends.append(s.ts + s.dur)
    ahead = df[(df["wait"] >= 0) & (df["kind"] == "async")]
    expected = (ahead["start_ns"].to_numpy() < df["start_ns"].to_numpy()[ahead["wait"]]).sum()
    assert sum(len(s.begins_flows) for s in slices) == sum(len(s.ends_flows) for s in slices) == expected


def test_tracks_nest_by_gpu_sm_slot_and_warp(tmp_path: Path) -> None:
    profile = regular_profile(launches=2, ctas=6, warps=2, iterations=1, sms=2)
    launches = profile.launches.assign(device=np.array([0, 3], np.int32))
    tracks = list(dict.fromkeys(s.track for s in saved(Profile(profile.df, launches), tmp_path)))
    assert tracks[:3] == [
        ("GPU 0", "matmul_kernel", "SM 0", "CTA slot 0", "warp 0"),
        ("GPU 0", "matmul_kernel", "SM 0", "CTA slot 0", "warp 1"),
        ("GPU 0", "matmul_kernel", "SM 0", "CTA 0", "warp 0"),  # the only one there
    ]
    assert {track[0] for track in tracks} == {"GPU 0", "GPU 3"}
    emulated = Profile(profile.df, profile.launches, profile_metadata("emulator"))
    for track in {s.track for s in saved(emulated, tmp_path)}:
        assert track[0].endswith("(emulated)")
        assert track[2].endswith("(emulated)")


def test_roots_name_launch_and_cta(tmp_path: Path) -> None:
    profile = regular_profile(launches=2, ctas=3, warps=1, iterations=2)
    slices = saved(profile, tmp_path)
    roots = profile.df[profile.df["depth"] == 0]
    found = Counter((s.ts, s.args["launch"], s.args["cta"]) for s in slices if s.depth == 0)
    assert found == Counter(roots[["start_ns", "launch", "cta"]].itertuples(index=False, name=None))
    assert not any("cta" in s.args for s in slices if s.depth)


def test_values_are_annotations(tmp_path: Path) -> None:
    profile = regular_profile(launches=1, ctas=2, warps=1, iterations=2)
    df = profile.tables.df
    dots = np.flatnonzero(df["scope"] == "dot")
    small, large = payloads(df, dots, [3, -7, 0, 2**31 - 1], [0.1, -np.inf, 1e300, -0.0])
    stage = pd.Categorical.from_codes([-1] * len(df), categories=["prologue", "é", "unused"])
    stage[dots[:3]] = ["é", "prologue", "é"]
    changed = df.assign(**{"line (value)": large, "iter": small, "stage": stage})
    slices = saved(Profile(changed, profile.launches), tmp_path)
    found = [s.args for s in slices if s.name == "dot"]
    names = ("iter (value)", "line (value)", "stage", "iter")
    assert [tuple(args.get(name) for name in names) for args in found] == [
        (3, 0.1, "é", 0),
        (-7, -np.inf, "prologue", 1),
        (0, 1e300, "é", 0),
        (2**31 - 1, -0.0, None, 1),
    ]
    assert all("stage" not in s.args for s in slices if s.name != "dot")


def test_many_names_and_values(tmp_path: Path) -> None:
    """Numbers that no longer fit into a byte, or a packet's length into one."""
    profile = regular_profile(launches=1, ctas=1, warps=1, iterations=200)
    df = profile.tables.df
    df["scope"] = pd.Categorical([f"scope {row}" for row in range(len(df))])
    texts = [f"text {number}" for number in range(20_000)]
    df["stage"] = pd.Categorical(texts[-len(df) :], categories=texts)
    df["nothing"] = pd.Categorical([None] * len(df), categories=pd.Index([], dtype="str"))
    for number in range(140):
        df[f"value {number}"] = pd.array(np.arange(len(df)) * number, "Int32")
    slices = saved(profile, tmp_path)
    assert drawn(slices) == rows_of(profile)
    assert sorted((s.name, s.args["stage"]) for s in slices) == sorted(
        zip(df["scope"], df["stage"], strict=True)
    )
    for number in (0, 1, 127, 128, 139):
        values = sorted(zip(df["scope"], df[f"value {number}"], strict=True))
        assert sorted((s.name, s.args[f"value {number}"]) for s in slices) == values


def test_a_wait_ends_many(tmp_path: Path) -> None:
    profile = regular_profile(launches=1, ctas=1, warps=1, iterations=60)
    df = profile.tables.df
    flying = np.flatnonzero(df["scope"].isin(["load A", "load B"]))
    wait = int(df.index[df["scope"] == "store"][0])
    df["kind"] = df["kind"].cat.add_categories("async")
    df.loc[flying, "kind"] = "async"
    df.loc[flying, "wait"] = wait
    df.loc[flying, "duration_ns"] = df["start_ns"][wait] + df["duration_ns"][wait] - df["start_ns"][flying]
    slices = saved(profile, tmp_path)
    assert arrows(slices) == waits_of(profile)
    (ending,) = [s for s in slices if s.ends_flows]
    assert (ending.name, len(ending.ends_flows)) == ("store", 120)


@pytest.mark.parametrize("suffix", [".pftrace", ".pftrace.gz"])
def test_the_same_profile_gives_the_same_bytes(suffix: str, tmp_path: Path) -> None:
    profile = regular_profile(launches=3, ctas=90, iterations=30)
    assert len(profile.df) > 2 * packets.BLOCK_ROWS, "several blocks"
    for name in ("a", "b"):
        profile.save(tmp_path / f"{name}{suffix}")
    assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()


def test_data_come_first_and_an_end_last(tmp_path: Path) -> None:
    regular_profile().save(tmp_path / "t.pftrace")
    trace = read_trace((tmp_path / "t.pftrace").read_bytes())
    assert trace.other == [(DATA_FIELD,), (DATA_FIELD - 1,)]


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
