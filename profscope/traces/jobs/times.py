"""Times of several ranks on one axis: each GPU's timer on its host's clock, and that on rank 0's host's.

Host scopes and events are of their host's clock from the start and need the second step alone, so they are
aligned where launches cannot be, as on the emulator.

What is known of both stands in each part's metadata: "host_clock", moments at which the GPU's timer and the
host's clock were read together, and "job", moments at which the host's clock was compared with rank 0's
(`profscope.around.job`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.schema import events_frame, host_frame
from profscope.traces.jobs.stack import Stack, moved_rows

__all__ = ["Aligned", "OnRank0", "aligned", "around_together"]

Ints = NDArray[np.int64]
_DRIFT: Final = 1e-4
"""By so much of the time that has passed two clocks may have gone apart since the last moment that they were
compared at. A quartz is off by less than 100 millionths."""


_COMPARED: Final = ("unix_ns", "offset_ns")  # of a moment of "job"


class OnRank0(NamedTuple):
    """Moments at which a host's clock was compared with that of rank 0's host, and by how much that may be
    off: none where these are the same."""

    read: Ints = np.zeros(0, np.int64)
    ahead_ns: Ints = np.zeros(0, np.int64)
    error_ns: float = 0.0

    def __call__(self, unix_ns: Ints) -> Ints:
        """Times of this host's clock, int64, by that of rank 0's host; their order stays."""
        return unix_ns + _between(unix_ns, self.read, self.ahead_ns) if len(self.read) else unix_ns

    def off_ns(self, unix_ns: Ints) -> float:
        """By how much those may be off."""
        return self.error_ns + _DRIFT * _outside(unix_ns, self.read) if len(self.read) else 0.0


class Aligned(NamedTuple):
    """parts: of each part, ns to add to the times of each launch; hosts: what puts its host's times on the
    clock of rank 0's host; clocks: what its metadata say of both; notes: what a reader must know of them."""

    parts: list[Ints]
    hosts: list[OnRank0]
    clocks: list[dict[str, Any]]
    notes: list[str]


class _Known(NamedTuple):
    """Of each launch: ns to add, and by how much that may be off."""

    shift: Ints
    error_ns: float


def aligned(stack: Stack) -> Aligned:
    """Where not all parts say how, times stay as they are, and a note says so."""
    if len(stack.ranks) == 1:
        return Aligned(_zeros(stack), [OnRank0()], [{}], [])
    known = _on_rank_0(stack)
    hosts, of_hosts, host_notes = _hosts(stack, known)
    shifts, of_launches, notes = _launches(stack, known)
    clocks = [launch | host for launch, host in zip(of_launches, of_hosts, strict=True)]
    return Aligned(shifts, hosts, clocks, [*notes, *host_notes])


def _launches(
    stack: Stack, hosts: Sequence[OnRank0 | None]
) -> tuple[list[Ints], list[dict[str, Any]], list[str]]:
    """What is added to launches' times, what the metadata say of that, and notes."""
    why, ranks = "", stack.ranks
    if any(stack.emulated):
        why = "ranks are emulated, each with a clock of its own: their times cannot be compared"
    known = _on_hosts(stack)
    missing = [
        rank for rank, own, host in zip(ranks, known, hosts, strict=True) if own is None or host is None
    ]
    if missing and not why:
        why = f"times of ranks are those of their GPUs, and not aligned: {_untold(missing, len(ranks))}"
    if why:
        return _zeros(stack), [{"clock": "unknown"}] * len(ranks), [why]
    shifts, errors = [], []
    for start, own, host in zip(stack.column("launches", "start_ns"), known, hosts, strict=True):
        assert own is not None
        assert host is not None
        shifts.append(host(start + own.shift) - start)
        errors.append(own.error_ns + host.off_ns(start + own.shift) if len(start) else 0.0)
    clocks: list[dict[str, Any]] = [{"clock": "aligned", "clock_error_ns": error} for error in errors]
    note = f"times of ranks are on the clock of rank 0's host, each to {max(errors) / 1e3:,.1f} us"
    return shifts, clocks, [note]


def _hosts(
    stack: Stack, hosts: Sequence[OnRank0 | None]
) -> tuple[list[OnRank0], list[dict[str, Any]], list[str]]:
    """The same of host scopes and events."""
    ranks = stack.ranks
    has_any = any(len(stack.frames[name]) for name in ("host", "events"))
    unknown = [rank for rank, host in zip(ranks, hosts, strict=True) if host is None]
    if unknown:
        why = f"host scopes and events are of each host's own clock: {_untold(unknown, len(ranks))}"
        return [OnRank0()] * len(ranks), [{} for _ in ranks], [why] if has_any else []
    known = [host for host in hosts if host is not None]
    times = zip(*(stack.column(name, "start_unix_ns") for name in ("host", "events")), strict=True)
    errors = [own.off_ns(np.concatenate(each)) for each, own in zip(times, known, strict=True)]
    clocks = [{"host_clock_error_ns": error} for error in errors]
    if not has_any or not max(errors):
        return known, clocks, []
    note = f"host scopes and events are on the clock of rank 0's host, each to {max(errors) / 1e3:,.1f} us"
    return known, clocks, [note]


def _untold(ranks: Sequence[int], count: int) -> str:
    """Which of all ranks cannot be put on a clock with the others."""
    if len(ranks) == count:
        return "no part says how its clocks stand to the others'"
    return f"nothing says how the clocks of rank {', '.join(map(str, ranks))} stand to rank 0's"


def _zeros(stack: Stack) -> list[Ints]:
    return [np.zeros(length, np.int64) for length in stack.lengths["launches"]]


def _on_rank_0(stack: Stack) -> list[OnRank0 | None]:
    """Of each part; None where nothing says how its host's clock stands to rank 0's."""
    jobs = [told.get("job") or {} for told in stack.metadata]
    boots = [job.get("boot") for job in jobs]
    reference = next((job.get("boot") for job in jobs if job.get("rank") == 0), None)
    if len(set(boots)) == 1:
        reference = boots[0]
    hosts: list[OnRank0 | None] = []
    for job, boot in zip(jobs, boots, strict=True):
        moments = sorted(job.get("clock") or [], key=lambda each: int(each["unix_ns"]))
        if reference is not None and boot == reference:
            hosts.append(OnRank0())
        elif moments:
            read, ahead = (np.array([each[name] for each in moments], np.int64) for name in _COMPARED)
            hosts.append(OnRank0(read, ahead, max(each["error_ns"] for each in moments)))
        else:
            hosts.append(None)
    return hosts


def _on_hosts(stack: Stack) -> list[_Known | None]:
    columns = (stack.column("launches", name) for name in ("device", "start_ns", "ns_uncertainty"))
    return [_on_host(*each) for each in zip(stack.metadata, *columns, strict=True)]


def _on_host(
    metadata: Mapping[str, Any], device_of: Ints, start: Ints, uncertain: NDArray[np.float64]
) -> _Known | None:
    """From the GPUs' timers to their host's clock, `time.time_ns()`. The arrays are of the launches."""
    devices = (metadata.get("host_clock") or {}).get("devices") or {}
    shift, worst = np.zeros(len(start), np.int64), 0.0
    for device in np.unique(device_of):
        moments = sorted(devices.get(str(device)) or [], key=lambda each: int(each["timer_ns"]))
        if not moments:
            return None
        mine = device_of == device
        times = start[mine]
        read = np.array([each["timer_ns"] for each in moments], np.int64)
        distance = np.array([each["unix_ns"] for each in moments], np.int64) - read
        shift[mine] = _between(times, read, distance)
        error = max(each["error_ns"] for each in moments) + _DRIFT * _outside(times, read)
        worst = max(worst, error + float(uncertain[mine].max()))
    return _Known(shift, worst)


def _between(times: Ints, read: Ints, distances: Ints) -> Ints:
    """The distance of two clocks at these times, which changes evenly between the moments it is known at."""
    # Differences only: a float64 does not hold ns since 1970.
    change = np.interp(times - read[0], read - read[0], distances - distances[0])
    distance: Ints = distances[0] + np.rint(change).astype(np.int64)
    return distance


def _outside(times: Ints, read: Ints) -> float:
    """By how many ns the times lie before the first or after the last of these moments."""
    return float(max(read[0] - times.min(initial=read[0]), times.max(initial=read[-1]) - read[-1], 0))


def around_together(
    stack: Stack, offsets: Sequence[int], hosts: Sequence[OnRank0]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The host scopes and events of all parts, with their ranks, the rows and launches that they name in the
    whole, and times of rank 0's host. offsets: what is added to the numbers of each part's launches."""
    host, events = (_of_ranks(stack, name, hosts) for name in ("host", "events"))
    host["parent"] = moved_rows(host["parent"], stack.by_row("host", stack.begins("host")))
    firsts: dict[str, Sequence[int] | Ints] = {
        "host": stack.begins("host"),
        "parent": stack.begins("events"),
        "launch": offsets,
    }
    for name, first in firsts.items():
        events[name] = moved_rows(events[name], stack.by_row("events", first))
    columns = [{str(name): table[name] for name in table} for table in (host, events)]
    return host_frame(columns[0]), events_frame(columns[1])


def _of_ranks(stack: Stack, name: str, hosts: Sequence[OnRank0]) -> pd.DataFrame:
    times = {
        column: np.concatenate(
            [on_rank_0(own) for own, on_rank_0 in zip(stack.column(name, column), hosts, strict=True)]
        )
        for column in ("start_unix_ns", "end_unix_ns")
    }
    return stack.frames[name].assign(**times, rank=stack.by_row(name, stack.ranks))
