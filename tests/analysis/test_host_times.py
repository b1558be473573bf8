"""Launches by the host's clocks, from what was read of both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from profscope.analysis.program.host_times import HOST_TIME_DTYPES
from profscope.profiles import Profile, load
from tests.support.profiles import profile_metadata, regular_profile

UNIX_NS = 1_763_830_000_000_000_000


def moment(timer_ns: int, unix_ns: int, error_ns: int = 1000) -> dict[str, int]:
    return {
        "timer_ns": timer_ns, "unix_ns": unix_ns, "perf_counter_ns": unix_ns - UNIX_NS, "error_ns": error_ns,
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
    clocks = {"0": [moment(10**9, UNIX_NS, 700), moment(3 * 10**9, UNIX_NS + 2 * 10**9 + 2000, 900)]}
    table = profile([10**9, 2 * 10**9], [0, 0], clocks).program.host_times()
    assert {name: str(dtype) for name, dtype in table.dtypes.items()} == HOST_TIME_DTYPES
    assert table["start_unix_ns"].tolist() == [UNIX_NS, UNIX_NS + 10**9 + 1000]
    assert table["start_perf_counter_ns"].tolist() == [0, 10**9 + 1000]
    assert (table["end_unix_ns"] - table["start_unix_ns"]).tolist() == [5000, 5000]
    assert table["error_ns"].tolist() == [716.0, 916.0]
    assert table.attrs["not_measured"] == []


def test_outside_of_them_the_error_grows() -> None:
    clocks = {"0": [moment(10**9, UNIX_NS)]}
    table = profile([10**9 - 10**6, 2 * 10**9], [0, 0], clocks).program.host_times()
    assert table["start_unix_ns"].tolist() == [UNIX_NS - 10**6, UNIX_NS + 10**9]
    assert table["error_ns"].tolist() == pytest.approx([1016 + 100, 1016 + 100_000])


def test_each_device_has_its_own_clock() -> None:
    clocks = {"0": [moment(10**9, UNIX_NS)], "1": [moment(5 * 10**9, UNIX_NS)]}
    table = profile([10**9 + 100, 5 * 10**9, 7], [0, 1, 2], clocks).program.host_times()
    assert table["start_unix_ns"][:2].tolist() == [UNIX_NS + 100, UNIX_NS]
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
