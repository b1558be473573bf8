"""Ranks that wait in collectives, and launches by the host's clocks, on tables whose times are known."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from profscope.analysis.program.host_times import HOST_TIME_DTYPES
from profscope.around.host_tables import with_events, with_host
from profscope.profiles import Profile, load
from profscope.schema import Tables
from profscope.traces.jobs.merging import merged
from profscope.traces.jobs.stack import Part
from tests.support.around import MAIN, UNIX_NS, kineto, scopes
from tests.support.profiles import profile_metadata, regular_profile
from tests.support.validation import validate

REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
_STEP_NS = 10_000_000


def part(rank: int, late_ns: int, *, steps: range = range(3), names: str = REDUCE, boot: str = "b") -> Tables:
    """Of a rank: in each step a kernel, late by so much, and an all-reduce from 30 us before its end, which
    ends on all ranks at once, 2.05 ms after one that is not late has begun it."""
    rows: list[tuple[Any, ...]] = []
    events: list[tuple[Any, ...]] = []
    for at, step in enumerate(steps):
        start = step * _STEP_NS + rank * 1000
        rows.append(("step", MAIN, start, start + 3_000_000, -1))
        rows.append(("reduce", MAIN, start + 2000, start + 4000, 2 * at))
        first, second = 2 * at + 1, 2 * at + 2
        begin = step * _STEP_NS + 1_500_000 + late_ns
        events += [
            ("cudaLaunchKernel", "call", MAIN, start + 1000, start + 1500, first),
            ("gemm", "kernel", 7, begin - 1_000_000, begin + 30_000, first),
            ("cudaLaunchKernel", "call", MAIN, start + 2500, start + 3000, second),
            (names, "collective", 9, begin, step * _STEP_NS + 2_050_000 + 1_500_000, second),
        ]
    job = {"id": "j", "rank": rank, "world_size": 2, "boot": boot, "began_unix_ns": 0, "clock": []}
    return with_events(with_host(Tables(metadata=profile_metadata(job=job)), scopes(*rows)), kineto(*events))


def together(*parts: Tables) -> Profile:
    profile = Profile.of(merged([Part(each, f"rank={at}", at) for at, each in enumerate(parts)]))
    assert validate(profile.tables) == []
    return profile


def test_who_is_late_waits_least() -> None:
    profile = together(part(0, 0), part(1, 2_000_000))
    met = profile.ranks.collectives()
    assert met[["number", "rank", "ranks", "last_rank"]].to_numpy().tolist() == [
        [number, rank, 2, 1] for number in range(3) for rank in range(2)
    ]
    assert met["late_ns"].tolist() == [0, 2_000_000] * 3
    assert met["waiting_ns"].tolist() == [2_000_000, 0] * 3
    assert met["transfer_ns"].tolist() == [50_000] * 6
    assert met.attrs["ranks"] == {
        0: {"collective_ns": 3 * 2_050_000, "waiting_ns": 6_000_000},
        1: {"collective_ns": 150_000, "waiting_ns": 0},
    }
    assert (met.attrs["clock_error_ns"], met.attrs["not_measured"]) == (2000, [])


def test_a_rank_whose_recording_began_later_is_counted_from_the_last() -> None:
    profile = together(part(0, 0), part(1, 2_000_000, steps=range(1, 3)))
    met = profile.ranks.collectives()
    assert met["ranks"].tolist() == [1, 2, 2, 2, 2]
    assert met["waiting_ns"].isna().tolist() == [True, False, False, False, False]
    assert met["waiting_ns"].tolist()[1:] == [2_000_000, 0] * 2
    (said,) = met.attrs["not_measured"]
    assert said.startswith("waiting in 1 collectives: ")
    stopped = together(part(0, 0), part(1, 2_000_000, steps=range(2))).ranks.collectives()
    assert stopped["number"].tolist() == [0, 0, 1, 1, 2], "it ended earlier"


def test_who_has_ended_before_another_begins_waits_for_nobody() -> None:
    tables = part(1, 2_000_000)
    moved = {name: tables.events[name] + _STEP_NS // 2 for name in ("start_unix_ns", "end_unix_ns")}
    profile = together(part(0, 0), replace(tables, events=tables.events.assign(**moved)))
    met = profile.ranks.collectives()
    assert met["waiting_ns"].isna().all()
    assert met["late_ns"].tolist() == [0, 7_000_000] * 3
    (said,) = met.attrs["not_measured"]
    assert said.startswith("waiting in 3 collectives: ")


def test_collectives_are_matched_within_a_process_group() -> None:
    """Tensor x data parallel: each rank reduces over its pair of tp, then of dp; at first rank 3 is late."""
    parts = []
    for rank in range(4):
        groups = [
            f"tp 1: ranks {rank // 2 * 2}, {rank // 2 * 2 + 1}",
            f"dp 2: ranks {rank % 2}, {rank % 2 + 2}",
        ]
        late_ns = 1_000_000 if rank == 3 else 0
        events: list[tuple[Any, ...]] = []
        for number, begin, end in ((0, 0, 1_200_000 if rank >= 2 else 200_000), (1, 1_500_000, 1_600_000)):
            call = 10 * (number + 1)
            launched = -500_000 + 1000 * number
            events += [
                ("c10d::allreduce_", "op", MAIN, launched - 100, launched + 600, call + 2),  # of no group
                ("record_param_comms", "op", MAIN, launched, launched + 500, call),
                ("cudaLaunchKernelExC", "call", MAIN, launched + 100, launched + 200, call + 1),
                (REDUCE, "collective", 9, begin + (late_ns if number == 0 else 0), end, call + 1),
            ]
        raw = kineto(*events) | {"group": ["", groups[0], "", "", "", groups[1], "", ""]}
        job = {"id": "j", "rank": rank, "world_size": 4, "boot": "b", "began_unix_ns": 0, "clock": []}
        parts.append(with_events(Tables(metadata=profile_metadata(job=job)), raw))
    profile = together(*parts)
    met = profile.ranks.collectives()
    first = met[met["group"].str.startswith("tp")]
    assert first[["group", "number", "rank", "ranks", "waiting_ns"]].to_numpy().tolist() == [
        ["tp 1: ranks 0, 1", 0, 0, 2, 0],
        ["tp 1: ranks 0, 1", 0, 1, 2, 0],
        ["tp 1: ranks 2, 3", 0, 2, 2, 1_000_000],
        ["tp 1: ranks 2, 3", 0, 3, 2, 0],
    ]
    assert met.loc[met["group"].str.startswith("dp"), "waiting_ns"].tolist() == [0] * 4
    waited = {
        group: [each["waiting_ns"] for each in of.values()] for group, of in met.attrs["groups"].items()
    }
    assert waited["tp 1: ranks 2, 3"] == [1_000_000, 0]
    assert list(waited) == ["dp 2: ranks 0, 2", "dp 2: ranks 1, 3", "tp 1: ranks 0, 1", "tp 1: ranks 2, 3"]
    assert met.attrs["not_measured"] == []
    nameless = [replace(each, events=each.events.drop(columns="group").assign(group="")) for each in parts]
    for each in nameless:
        each.events["group"] = each.events["group"].astype("category")
    taken = together(*nameless).ranks.collectives()
    assert taken["ranks"].tolist() == [4] * 8
    assert "the process group of 2 collectives" in taken.attrs["not_measured"][-1]


def test_sends_and_receives_are_left_out() -> None:
    profile = together(*(part(rank, 0, names="ncclDevKernel_SendRecv") for rank in range(2)))
    collectives = profile.ranks.collectives()
    assert len(collectives) == 0
    (said,) = collectives.attrs["not_measured"]
    assert said.startswith("collectives: ")


@pytest.mark.parametrize("offset_ns", [0, -40_000_000])
def test_hosts_scopes_and_events_are_put_on_one_clock(offset_ns: int) -> None:
    tables, away = part(1, 2_000_000), part(1, 2_000_000, boot="another")
    moments = [{"unix_ns": UNIX_NS + at, "offset_ns": offset_ns, "error_ns": 30_000} for at in (-1000, 10**9)]
    moved = {
        table: getattr(away, table).assign(
            **{name: getattr(away, table)[name] - offset_ns for name in ("start_unix_ns", "end_unix_ns")}
        )
        for table in ("host", "events")
    }
    job = away.metadata["job"] | {"clock": moments}
    away = replace(away, metadata=away.metadata | {"job": job}, **moved)
    near, far = together(part(0, 0), tables), together(part(0, 0), away)
    for table in ("host", "events"):
        for name in ("start_unix_ns", "end_unix_ns"):
            assert getattr(far, table)[name].tolist() == getattr(near, table)[name].tolist()
    assert [each["host_clock_error_ns"] for each in far.metadata["ranks"]] == [0.0, 30_000.0]
    assert any("rank 0's host" in note and "30.0 us" in note for note in far.metadata["notes"])
    assert far.ranks.collectives().attrs["clock_error_ns"] == 32_000
    assert far.ranks.collectives()["waiting_ns"].tolist() == [2_000_000, 0] * 3


def test_clocks_of_which_nothing_is_known() -> None:
    profile = together(part(0, 0), part(1, 2_000_000, boot="another"))
    (note,) = profile.metadata["notes"][1:]
    assert "rank 1" in note
    assert "rank 0" in note
    met = profile.ranks.collectives()
    assert met["waiting_ns"].isna().all()
    (said,) = met.attrs["not_measured"]
    assert said.startswith("waiting: ")


def test_what_cannot_be_answered_is_said() -> None:
    alone = Profile.of(part(0, 0))
    assert alone.ranks.collectives().attrs["not_measured"] == ["waiting: this profile is of one process"]
    nothing = Profile.of(Tables(metadata=profile_metadata()))
    (said,) = nothing.ranks.collectives().attrs["not_measured"]
    assert said.startswith("collectives: ")
    assert "session(events=True)" in said


# Launches by the host's clocks.

HOST_NS = 1_763_830_000_000_000_000


def moment(timer_ns: int, unix_ns: int, error_ns: int = 1000) -> dict[str, int]:
    return {
        "timer_ns": timer_ns, "unix_ns": unix_ns, "perf_counter_ns": unix_ns - HOST_NS, "error_ns": error_ns,
    }  # fmt: skip


def profile(starts: list[int], devices: list[int], clocks: dict[str, Any] | None, **metadata: Any) -> Profile:
    plain = regular_profile(launches=len(starts), ctas=2, warps=1, iterations=2)
    launches = plain.launches.assign(
        start_ns=np.array(starts), end_ns=np.array(starts) + 5000, device=np.array(devices, np.int32),
        ns_uncertainty=16.0,
    )  # fmt: skip
    known = {} if clocks is None else {"host_clock": {"devices": clocks}}
    return Profile(plain.tables.df, launches, profile_metadata(**known, **metadata))


def test_between_two_moments_the_distance_changes_evenly() -> None:
    # The GPU's clock is slow by a millionth: 2 us in 2 s.
    clocks = {"0": [moment(10**9, HOST_NS, 700), moment(3 * 10**9, HOST_NS + 2 * 10**9 + 2000, 900)]}
    table = profile([10**9, 2 * 10**9], [0, 0], clocks).program.host_times()
    assert {name: str(dtype) for name, dtype in table.dtypes.items()} == HOST_TIME_DTYPES
    assert table["start_unix_ns"].tolist() == [HOST_NS, HOST_NS + 10**9 + 1000]
    assert table["start_perf_counter_ns"].tolist() == [0, 10**9 + 1000]
    assert (table["end_unix_ns"] - table["start_unix_ns"]).tolist() == [5000, 5000]
    assert table["error_ns"].tolist() == [716.0, 916.0]
    assert table.attrs["not_measured"] == []


def test_outside_of_them_the_error_grows() -> None:
    clocks = {"0": [moment(10**9, HOST_NS)]}
    table = profile([10**9 - 10**6, 2 * 10**9], [0, 0], clocks).program.host_times()
    assert table["start_unix_ns"].tolist() == [HOST_NS - 10**6, HOST_NS + 10**9]
    assert table["error_ns"].tolist() == pytest.approx([1016 + 100, 1016 + 100_000])


def test_each_device_has_its_own_clock() -> None:
    clocks = {"0": [moment(10**9, HOST_NS)], "1": [moment(5 * 10**9, HOST_NS)]}
    table = profile([10**9 + 100, 5 * 10**9, 7], [0, 1, 2], clocks).program.host_times()
    assert table["start_unix_ns"][:2].tolist() == [HOST_NS + 100, HOST_NS]
    assert table["start_unix_ns"].isna().tolist() == [False, False, True]
    assert np.isnan(table["error_ns"][2])
    (said,) = table.attrs["not_measured"]
    assert said.startswith("host times of 1 of 3 launches: ")


def test_the_emulator_has_none() -> None:
    table = profile([1, 2], [0, 0], None, backend="emulator").program.host_times()
    assert table["start_unix_ns"].isna().all()
    assert "clock of its own" in table.attrs["not_measured"][0]
    empty = Profile().program.host_times()
    assert {name: str(dtype) for name, dtype in empty.dtypes.items()} == HOST_TIME_DTYPES


def test_a_chrome_trace_counts_from_a_moment_of_the_hosts_clock(tmp_path: Path) -> None:
    def later_ns(devices: list[int], clocks: dict[str, Any] | None) -> int:
        """What the trace counts from, less where its first launch began."""
        made = profile([1] * len(devices), devices, clocks)
        made.save(tmp_path / "trace.json")
        assert load(tmp_path / "trace.json").df.equals(made.df)
        base_ns = int(json.loads((tmp_path / "trace.json").read_text())["baseTimeNanoseconds"])
        return base_ns - int(made.launches["start_ns"].min())

    clocks = {"0": [moment(1000, 1_234_000)], "1": [moment(2000, 9_000)]}
    assert later_ns([0, 0], None) == 0
    assert later_ns([0, 0], clocks) == 1_233_000
    assert later_ns([0, 1], clocks) == 0  # two timers
