"""What is worked out of a profile to be drawn above its spans, for both formats that Perfetto reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.analysis.spans.rows import SITE_COLUMNS, Floats, counted, grid_scales, scales
from profscope.analysis.summary import works
from profscope.schema import Tables
from profscope.traces.overview import Bars, WarpRuns, drawn_findings, warp_runs
from profscope.traces.tracks import Tracks

__all__ = ["Above", "Counter", "attempted", "drawn_counters", "noted", "steps_of", "worked_out"]

Ints = NDArray[np.int64]
_LEAST_STEPS, _MOST_STEPS = 1 << 10, 1 << 16
_SPANS_A_STEP: Final = 64
"""A counter has at most a step for so many of its kernel's spans: it costs a hundredth of what they cost."""


class Counter(NamedTuple):
    """device, kernel: whose, as `Tracks.table` numbers them; kernel -1: the device's.

    time_ns   when it changes, rising, shape (steps,)
    value     what it is from then on
    said      what a reader should know of it
    """

    device: int
    kernel: int
    name: str
    unit: str
    time_ns: Ints
    value: Floats
    said: str


def drawn_counters(
    tables: Tables, numbered: tuple[Ints, pd.DataFrame], tracks: Tracks, runs: WarpRuns
) -> list[Counter]:
    """Those of each GPU, then of each kernel on it. What is not known has none.

    numbered: what `profscope.analysis.spans.rows.sites` returns of the spans.
    """
    return [*_clocks(tables, tracks, runs), *_warps_and_bytes(tables, numbered, tracks, runs)]


def _clocks(tables: Tables, tracks: Tracks, runs: WarpRuns) -> list[Counter]:
    """By GPU: the clock of each launch, as its CTAs' cycles and nanoseconds say; from its start on."""
    if tables.emulated:
        return []
    launch = tables.df["launch"].to_numpy()[runs.first]
    about = tables.launches.drop_duplicates("launch").set_index("launch")["clock_ghz"]
    seen = pd.DataFrame(
        {"device": tracks.table["device"].to_numpy()[runs.track], "launch": launch, "start": runs.start_ns}
    )
    table = seen.groupby(["device", "launch"], as_index=False)["start"].min()
    table["ghz"] = table["launch"].map(about).to_numpy()
    table = table[table["ghz"] > 0].sort_values(["device", "start"]).drop_duplicates(["device", "start"])
    said = "of each launch, from its start"
    counters = []
    for device in table["device"].unique().tolist():
        mine = table[table["device"] == device]
        changes = mine["start"].to_numpy(), mine["ghz"].to_numpy()
        counters.append(Counter(device, -1, "SM clock", "GHz", *changes, said))
    return counters


def _warps_and_bytes(
    tables: Tables, numbered: tuple[Ints, pd.DataFrame], tracks: Tracks, runs: WarpRuns
) -> list[Counter]:
    df = tables.df
    place = tracks.table[["device", "kernel"]].to_numpy()
    group, of_track = np.unique(place, axis=0, return_inverse=True)
    of_run = of_track.reshape(-1)[runs.track]
    of_row = of_track.reshape(-1)[tracks.track[tracks.run]]
    rows = np.bincount(of_row, minlength=len(group))
    partly = np.isin(tables.df["launch"].to_numpy()[runs.first], _recorded_in_part(tables))
    flying = np.flatnonzero((df["kind"] == "async").to_numpy())
    moved = _bytes(tables, numbered, flying)
    flying, moved = flying[moved > 0], moved[moved > 0]
    start = df["start_ns"].to_numpy()[flying]
    end = start + df["duration_ns"].to_numpy()[flying]
    counters = []
    for number, (device, kernel) in enumerate(group.tolist()):
        if kernel < 0:
            continue
        most = int(np.clip(rows[number] // _SPANS_A_STEP, _LEAST_STEPS, _MOST_STEPS))
        mine = of_run == number
        said = "of the recorded CTAs" if partly[mine].any() else ""
        ones = np.ones(int(mine.sum()))
        counters.append(
            steps_of(
                (device, kernel, "active warps", "warps"),
                (runs.start_ns[mine], runs.end_ns[mine], ones),
                most,
                said,
            )
        )
        mine = of_row[flying] == number
        if mine.any():
            counters.append(
                steps_of(
                    (device, kernel, "bytes in flight", "bytes"),
                    (start[mine], end[mine], moved[mine]),
                    most,
                    said,
                )
            )
    return counters


def steps_of(
    whose: tuple[int, int, str, str], spans: tuple[Ints, Ints, Floats], most: int, said: str
) -> Counter:
    """What is under way at once; where that changes more than `most` times, its mean over equal times."""
    start, end, weight = spans
    time, place = np.unique(np.append(start, end), return_inverse=True)
    value = np.cumsum(np.bincount(place.reshape(-1), np.append(weight, -weight), len(time)))
    value = np.maximum(np.round(value, 3), 0.0)
    if len(time) > most:
        edges = np.linspace(0, int(time[-1] - time[0]), most + 1).astype(np.int64)
        area = np.append(0.0, np.cumsum(value[:-1] * np.diff(time)))
        mean = np.diff(np.interp(edges, time - time[0], area)) / np.diff(edges)
        time, value = time[0] + edges, np.append(np.round(mean, 3), 0.0)
        said = ", ".join([f"mean over {edges[1]:,} ns", *([said] if said else [])])
    changed = np.append(True, value[1:] != value[:-1])
    return Counter(*whose, time[changed], value[changed], said)


def _recorded_in_part(tables: Tables) -> Ints:
    """The launches some of whose CTAs were not to record."""
    launches = tables.launches
    return launches["launch"].to_numpy(np.int64)[grid_scales(launches) > 1]


def _bytes(tables: Tables, numbered: tuple[Ints, pd.DataFrame], flying: Ints) -> Floats:
    """By row of `flying`: the bytes that it has in flight, 0 where that is not known.

    What the op that issued it moved in all launches of its configuration, by the op's types (`work`), shared
    among all that it ever had in flight there.
    """
    moved = np.zeros(len(flying))
    known = _known_bytes(tables)
    if not known or not len(flying):
        return moved
    (site, sites), launches = numbered, tables.launches.drop_duplicates("launch")
    number, groups = pd.factorize(launches["variant"])
    group_of = pd.Series(number, pd.Index(launches["launch"]))
    issued = tables.df["parent"].to_numpy()[flying]
    some = np.flatnonzero((issued >= 0) & (issued < len(tables.df)))
    group = (
        group_of.reindex(tables.df["launch"].to_numpy()[flying[some]]).fillna(-1).to_numpy().astype(np.int64)
    )
    some, group = some[group >= 0], group[group >= 0]
    op, which = np.unique(site[issued[some]] * len(groups) + group, return_inverse=True)
    places = list(sites[list(SITE_COLUMNS)].itertuples(index=False, name=None))
    total = [
        known.get((*places[each // len(groups)], groups[each % len(groups)]), 0.0) for each in op.tolist()
    ]
    scale = scales(tables)
    weight = np.ones(len(some)) if scale is None else scale.of(tables.df["launch"].to_numpy())[flying[some]]
    moved[some] = (total / np.bincount(which.reshape(-1), weight, len(op)))[which.reshape(-1)]
    return moved


def _known_bytes(tables: Tables) -> dict[tuple[Any, ...], float]:
    """By (kernel, scope, kind, file, line, call_path, variant) what its ops moved, of configurations
    of which no launch is missing."""
    launches = tables.launches
    keys = ["kernel", "variant"]
    count = launches.loc[counted(launches), keys].value_counts().to_dict()
    known = {}
    for kernel, about in (tables.metadata.get("kernels") or {}).items():
        for work in works(about):
            variant = work["variant"]
            if work["launches"] == count.get((kernel, variant), -1):
                for row in work["scopes"]:
                    place = (row.get(name, "") for name in ("scope", "kind", "file", "line", "call_path"))
                    known[(kernel, *place, variant)] = float(row["bytes"])
    return {key: value for key, value in known.items() if value > 0}


# What is worked out of a profile to stand beside it in a file: where that fails, it is saved without.
#
# What was recorded cannot be recorded again; what is worked out can be, by a version that is fixed.

T = TypeVar("T")


def attempted(what: str, work: Callable[[], T], otherwise: T, notes: list[str]) -> T:
    """What `work` returns; where it raises `otherwise`, and a note that says so. what: in the plural."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001  whatever it is, what was recorded is to be saved
        notes.append(f"{what} are left out: working them out failed, {type(error).__name__}: {error}")
        return otherwise


def noted(tables: Tables, notes: list[str]) -> Tables:
    """Tables whose metadata has these notes, too, each once."""
    if not notes:
        return tables
    known = [str(note) for note in tables.metadata.get("notes") or ()]
    return replace(tables, metadata={**tables.metadata, "notes": list(dict.fromkeys([*known, *notes]))})


class Above(NamedTuple):
    """tables: the profile, with a note where something could not be worked out."""

    tables: Tables
    runs: WarpRuns
    counters: list[Counter]
    findings: Bars | None


def worked_out(tables: Tables, numbered: tuple[Ints, pd.DataFrame], tracks: Tracks) -> Above | None:
    """None where there are no spans. numbered: as `drawn_counters` takes it."""
    if not len(tables.df):
        return None
    notes: list[str] = []
    runs = warp_runs(tables.df, tracks)
    nothing: list[Counter] = []
    counters = attempted("counters", lambda: drawn_counters(tables, numbered, tracks, runs), nothing, notes)
    told = attempted("findings", lambda: drawn_findings(tables), None, notes)
    return Above(noted(tables, notes), runs, counters, told)
