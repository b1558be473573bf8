"""What is drawn above the spans of a trace: launches, SMs' parts in them, CTAs, findings, counters.

Without it a viewer shows empty rows until every group is opened. Nothing of it is read back; if it cannot be
worked out, the profile is saved without it: what was recorded cannot be recorded again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.analysis.findings import findings
from profscope.analysis.spans.rows import SITE_COLUMNS, Floats, counted, grid_scales, scales
from profscope.analysis.summary import works
from profscope.analysis.texts import count_text
from profscope.schema import Tables
from profscope.traces.tracks import Tracks, run_starts

__all__ = [
    "FINDING",
    "SUMMARY",
    "Above",
    "Bars",
    "Counter",
    "attempted",
    "group_bars",
    "launch_args",
    "steps_of",
    "worked_out",
]

Ints = NDArray[np.int64]
T = TypeVar("T")
Key = tuple[int, ...]
SUMMARY: Final = "summary"
FINDING: Final = "finding"
"""Categories of what is drawn besides spans."""

_LEVELS: Final = ("device", "kernel", "sm", "slot")
_KERNEL, _SM, _SLOT = 2, 3, 4


class Bars(NamedTuple):
    """What is drawn on a track: in order of time, never two at once."""

    start_ns: Ints
    end_ns: Ints
    name: list[str]
    args: list[dict[str, object]]

    def taken(self, chosen: NDArray[np.bool_]) -> Bars:
        """Those that are chosen, shape (bars,), as they begin, the longest of those first."""
        at = np.flatnonzero(chosen)
        at = at[np.lexsort((-self.end_ns[at], self.start_ns[at]))]
        name, args = [self.name[row] for row in at.tolist()], [self.args[row] for row in at.tolist()]
        return Bars(self.start_ns[at], self.end_ns[at], name, args)


class WarpRuns(NamedTuple):
    """What each warp of each CTA did, from its first record to its last; all of shape (runs,).

    first  its first row
    track  its track, a number of `Tracks.table`
    """

    first: Ints
    start_ns: Ints
    end_ns: Ints
    track: Ints


def warp_runs(df: pd.DataFrame, tracks: Tracks) -> WarpRuns:
    """Those of a span table with rows; what is in flight may outlast them."""
    first = run_starts(df)
    start = df["start_ns"].to_numpy()
    end = start + np.where((df["kind"] == "async").to_numpy(), 0, df["duration_ns"].to_numpy())
    return WarpRuns(
        first, np.minimum.reduceat(start, first), np.maximum.reduceat(end, first), tracks.track[: len(first)]
    )


def group_bars(tables: Tables, tracks: Tracks, runs: WarpRuns) -> dict[Key, Bars]:
    """By group of tracks, whose key begins (device, kernel, SM, slot): launches on GPUs and kernels, each
    launch's CTAs on SMs, and CTAs on slots. What other tools recorded has none."""
    launch, cta = (tables.df[name].to_numpy()[runs.first].astype(np.int64) for name in ("launch", "cta"))
    place = tracks.table[list(_LEVELS)].to_numpy(np.int64)[runs.track].T
    inside = place[_KERNEL - 1] >= 0
    alone = np.ones(len(launch), np.int64)
    of_warps = [each[inside] for each in (*place, launch, cta, runs.start_ns, runs.end_ns, alone)]
    if not len(of_warps[0]):
        return {}
    ctas = _together(of_warps[:6], of_warps[6], of_warps[7], of_warps[8])
    parts = _together([*ctas[:_SM], ctas[4]], ctas[6], ctas[7], np.ones(len(ctas[0]), np.int64))
    whole = _together([*parts[:_KERNEL], parts[_SM]], parts[4], parts[5], parts[6])
    about = tables.launches.drop_duplicates("launch")
    args = {int(row["launch"]): launch_args(row) for row in about.to_dict("records")}
    names = dict(zip(about["launch"].tolist(), about["kernel"].tolist(), strict=True))
    return {
        **_bars(1, [whole[0]], whole[2:], names, args),
        **_bars(_KERNEL, whole[:2], whole[2:], names, args),
        **_bars(_SM, parts[:3], parts[3:], names, args),
        **_bars(_SLOT, ctas[:4], [ctas[4], *ctas[6:8], ctas[5]], names, args),
    }


def _together(keys: Sequence[Ints], start: Ints, end: Ints, count: Ints) -> list[Ints]:
    """Rows of the same keys as one, in the keys' order: keys, least start, greatest end, sum of counts."""
    order = np.lexsort(keys[::-1])
    sorted_keys = np.stack(keys)[:, order]
    first = np.flatnonzero(np.append(True, (np.diff(sorted_keys) != 0).any(axis=0)))
    return [
        *sorted_keys[:, first],
        np.minimum.reduceat(start[order], first),
        np.maximum.reduceat(end[order], first),
        np.add.reduceat(count[order], first),
    ]


def _bars(
    depth: int,
    keys: Sequence[Ints],
    columns: Sequence[Ints],
    names: Mapping[int, str],
    args: Mapping[int, dict[str, object]],
) -> dict[Key, Bars]:
    """Those of all groups of one level; such as overlap are one.

    columns: launch, start, end, and how many CTAs, of a slot which one. names: each launch's kernel.
    """
    order = np.lexsort((columns[2], columns[1], *keys[::-1]))
    drawn: dict[Key, list[_Bar]] = {}
    rows = zip(*(each[order].tolist() for each in columns), strict=True)
    groups = zip(*(each[order].tolist() for each in keys), strict=True)
    for key, (launch, start, end, ctas) in zip(groups, rows, strict=True):
        mine = drawn.setdefault(key, [])
        if mine and start < mine[-1].end_ns:
            mine[-1] = mine[-1].joined(end, ctas)
        else:
            mine.append(_Bar(start, end, launch, ctas))
    return {
        key: Bars(
            np.array([bar.start_ns for bar in mine], np.int64),
            np.array([bar.end_ns for bar in mine], np.int64),
            [bar.name(depth, names) for bar in mine],
            [bar.args(depth, args) for bar in mine],
        )
        for key, mine in drawn.items()
    }


class _Bar(NamedTuple):
    """ctas: how many; on a slot, which one."""

    start_ns: int
    end_ns: int
    launch: int
    ctas: int
    launches: int = 1

    def joined(self, end_ns: int, ctas: int) -> _Bar:
        return self._replace(
            end_ns=max(self.end_ns, end_ns), ctas=self.ctas + ctas, launches=self.launches + 1
        )

    def name(self, depth: int, kernels: Mapping[int, str]) -> str:
        if depth == _SLOT:
            return f"CTA {self.ctas}"
        if self.launches > 1:
            return f"{self.launches} launches"
        return (kernels.get(self.launch, ""), f"launch {self.launch}", count_text(self.ctas, "CTA"))[
            depth - 1
        ]

    def args(self, depth: int, known: Mapping[int, dict[str, object]]) -> dict[str, object]:
        if depth == _SLOT:
            return {"launch": self.launch}
        launch = "launch" if self.launches == 1 else "first_launch"
        more = known.get(self.launch, {}) if depth < _SM and self.launches == 1 else {}
        return {launch: self.launch, "recorded_ctas": self.ctas, **more}


def launch_args(row: Mapping[Any, Any]) -> dict[str, object]:
    """What is said of a launch where it is drawn."""
    grid = " x ".join(str(row[f"grid_{axis}"]) for axis in "xyz")
    known: dict[str, object] = {"grid": grid, "warps": int(row["num_warps"]), "stream": int(row["stream"])}
    if row["variant"]:
        known["variant"] = int(row["variant"])
    if np.isfinite(row["clock_ghz"]):
        known["clock_ghz"] = float(row["clock_ghz"])
    return known


def drawn_findings(tables: Tables) -> Bars | None:
    """Each finding from its kernel's first launch to its last, the largest gain first; None where there are
    none. Unlike other bars they overlap."""
    if not tables.metadata.get("kernels"):  # nobody has told of them what findings rest on
        return None
    told, launches = findings(tables), tables.launches
    start, end, name, args = [], [], [], []
    for row in told.to_dict("records"):
        mine = launches[(launches["kernel"] == row["kernel"]) & (launches["variant"] == row["variant"])]
        mine = mine[mine["end_ns"] > mine["start_ns"]]
        if not len(mine):
            continue
        start.append(int(mine["start_ns"].min()))
        end.append(int(mine["end_ns"].max()))
        place = f" ({PurePath(row['file']).name}:{row['line']})" if row["line"] else ""
        name.append(f"{row['finding']}{place}")
        told_of = ("kernel", "evidence", "advice", "confidence", "basis", "file", "line")
        known = {key: row[key] for key in told_of}
        args.append(
            known | {name: row[name] for name in ("gain_pct", "program_pct") if np.isfinite(row[name])}
        )
    return Bars(np.array(start, np.int64), np.array(end, np.int64), name, args) if start else None


# Counters

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
