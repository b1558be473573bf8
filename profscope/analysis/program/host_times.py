"""Times of launches by the host's clocks."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from profscope.schema import Tables

__all__ = ["HOST_TIME_DTYPES", "host_times", "on_timer", "unix_ns"]

HOST_TIME_DTYPES: Final = {
    "launch": "int32",
    "kernel": "str",
    "device": "int32",
    "start_unix_ns": "Int64",
    "end_unix_ns": "Int64",
    "start_perf_counter_ns": "Int64",
    "end_perf_counter_ns": "Int64",
    "error_ns": "float64",
}
"""The columns of `host_times`, with their pandas dtypes, in order."""

_CLOCKS: Final = ("timer_ns", "perf_counter_ns", "unix_ns", "error_ns")
_DRIFT: Final = 1e-4
"""By so much of the time that has passed the GPU's timer may go wrong against the host's clock where only one
moment of the two is known. A quartz is off by less than 100 millionths."""


def host_times(tables: Tables) -> pd.DataFrame:
    """The times of launches on the host's clocks, comparable with other host events and with launches on the
    host's other GPUs: one row per launch.

        launch  kernel         device  start_unix_ns        ...  error_ns
             0  matmul_kernel       0  1763830000123456789  ...      1264

    start_unix_ns and end_unix_ns are `start_ns` and `end_ns` of `launches` by `time.time_ns()`, the clock of
    torch.profiler; *_perf_counter_ns by `time.perf_counter_ns()`. Other times in ns keep their distance from
    the launch's start: `start_unix_ns + span.start_ns - launch.start_ns`.
    error_ns: the largest error of these times: of the readings of both clocks before and after the launch
    (`metadata["host_clock"]`), plus that of the launch's own times (`ns_uncertainty`). Between readings the
    clocks' distance changes evenly; after a single one, by at most a ten-thousandth of the time since.

    Times are missing, and error_ns is NaN, if both clocks were not read, as on the emulator, in older
    profiles and in other tools' traces: `attrs["not_measured"]` has a text then.
    """
    launches = tables.launches
    columns = {name: launches[name] for name in ("launch", "kernel", "device")}
    times = {name: np.zeros(len(launches), np.int64) for name in HOST_TIME_DTYPES if name.endswith("_ns")}
    error = np.full(len(launches), np.nan)
    device = launches["device"].to_numpy()
    for number in launches["device"].unique().tolist():
        known = _anchors(tables.metadata, number)
        if known is None:
            continue
        mine = (device == number) & np.isfinite(launches["ns_uncertainty"].to_numpy())
        for end in ("start", "end"):
            timer = launches[f"{end}_ns"].to_numpy()[mine]
            for clock in ("unix", "perf_counter"):
                times[f"{end}_{clock}_ns"][mine] = timer + _distance(timer, known, clock)
        own = launches["ns_uncertainty"].to_numpy()[mine]
        error[mine] = own + _error(launches["start_ns"].to_numpy()[mine], known)
    missing = np.isnan(error)
    table = {
        name: pd.array(pd.arrays.IntegerArray(times[name], missing.copy()))
        for name in times
        if name != "error_ns"
    }
    frame = pd.DataFrame({**columns, **table, "error_ns": error})[list(HOST_TIME_DTYPES)]
    frame = frame.astype(HOST_TIME_DTYPES)
    frame.attrs["not_measured"] = []
    if missing.any():
        why = "the emulator has a clock of its own" if tables.emulated else "both clocks were not read"
        frame.attrs["not_measured"] = [f"host times of {missing.sum()} of {len(frame)} launches: {why}"]
    return frame


def unix_ns(tables: Tables, timer_ns: int) -> int | None:
    """A moment of the GPU's timer by the host's clock; None if unknown, or there are several
    GPUs, each with a timer of its own."""
    known = _anchors_of_one(tables)
    if known is None:
        return None
    return timer_ns + int(_distance(np.array([timer_ns]), known, "unix")[0])


def on_timer(tables: Tables, times_unix_ns: Any) -> Any:
    """Moments of the host's clock, int64, by the GPU's timer; None if `unix_ns` is. Unchanged if
    there is no launch."""
    if not len(tables.launches):
        return times_unix_ns
    known = _anchors_of_one(tables)
    if known is None:
        return None
    # The clocks' distance changes by microseconds in a second: a first guess of the moment is good enough.
    guess = times_unix_ns - _distance(known["timer_ns"][:1], known, "unix")[0]
    return times_unix_ns - _distance(guess, known, "unix")


def _anchors_of_one(tables: Tables) -> dict[str, Any] | None:
    """Those of the device of all launches; None if there are several devices."""
    devices = tables.launches["device"].unique().tolist()
    return _anchors(tables.metadata, devices[0]) if len(devices) == 1 else None


def _anchors(metadata: dict[str, Any], device: int) -> dict[str, Any] | None:
    """The moments when a device's clock and the host's were read, in order: by clock an array. None if there
    are none."""
    devices = (metadata.get("host_clock") or {}).get("devices") or {}
    moments = sorted(devices.get(str(device)) or [], key=lambda each: each["timer_ns"])
    if not moments:
        return None
    return {name: np.array([each[name] for each in moments], np.int64) for name in _CLOCKS}


def _distance(timer: Any, known: dict[str, Any], clock: str) -> Any:
    """From the GPU's timer to a clock of the host's, int64."""
    first = known["timer_ns"][0]
    distances = known[f"{clock}_ns"] - known["timer_ns"]
    # Differences only: a float64 does not hold ns since 1970.
    change = np.interp(timer - first, known["timer_ns"] - first, distances - distances[0])
    return distances[0] + np.rint(change).astype(np.int64)


def _error(timer: Any, known: dict[str, Any]) -> Any:
    moments, errors = known["timer_ns"], known["error_ns"]
    after = np.clip(np.searchsorted(moments, timer), 0, len(moments) - 1)
    before = np.clip(after - 1, 0, None)
    error = np.maximum(errors[before], errors[after]).astype(np.float64)
    outside = np.maximum(moments[0] - timer, 0) + np.maximum(timer - moments[-1], 0)
    return error + _DRIFT * outside
