"""The overhead of recording: a kernel's binary and time, bare against instrumented."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from profscope.analysis.answers import answer_frame
from profscope.analysis.estimates import LAYOUT_NOISE, ratio_of
from profscope.analysis.spans.asked_once import asked_once
from profscope.analysis.spans.corrections import record_cost
from profscope.analysis.spans.ctas import knows_ends
from profscope.analysis.spans.rows import Floats, ended, not_samples
from profscope.analysis.variants import variant_entry
from profscope.schema import Tables

__all__ = [
    "OVERHEAD_DTYPES",
    "BareTimes",
    "bare_times",
    "budget_line",
    "overhead",
    "timed_entry",
]

_RESOURCES: Final = ("registers", "spills", "shared_bytes", "ctas_per_sm", "instructions")

OVERHEAD_DTYPES: Final = {
    "kernel": "str",
    "variant": "int32",
    "launches": "int64",
    **{f"{prefix}{name}": "Int64" for name in _RESOURCES for prefix in ("", "bare_")},
    "records_per_warp": "float64",
    "instrumented_ns": "float64",
    "bare_ns": "float64",
    "bare_launches": "int64",
    "slowdown": "float64",
    "slowdown_low": "float64",
    "slowdown_high": "float64",
    "basis": "str",
}
"""The columns of `overhead`, with their pandas dtypes, in order."""


class BareTimes(NamedTuple):
    """How long bare launches took, in ns: `bare` of pairs with the `recorded` launches behind them
    ("measured"); a recorded launch of the emulator with and without the instructions of records ("model"); or
    the one of the hardware's counter, with no pairs ("counters"); none ("")."""

    bare: list[float]
    recorded: list[float]
    basis: str


class _Slowdown(NamedTuple):
    """Instrumented time over bare time, and between what it is with 95 % confidence, or by the model."""

    slowdown: float
    low: float
    high: float
    basis: str


# Records keep the assembler from moving loads across them, which no cost of a record says. The worst that was
# measured of any kernel, fla's recurrent gated delta rule on an H200 (docs/benchmarks.md): 76 cycles for each
# record, seven times what it takes by itself. And so much at most, where records stand closer than that.
_KEPT_APART: Final = 7.0
_MOST_KEPT_APART: Final = 2.0
# gpu__time_duration.sum is longer than the time from a launch's first record to its last: by 1.0 us in a
# transpose and by 2.0 in liger's RoPE, whose two binaries are alike (H100 and H200, 2026-11-27).
_OUTSIDE_NS: Final = 2000.0
_UNKNOWN: Final = _Slowdown(np.nan, np.nan, np.nan, "unknown")


def overhead(tables: Tables) -> pd.DataFrame:
    """The overhead of recording: one row per kernel and variant.

    Columns: kernel, variant, launches; registers, spills, shared_bytes, ctas_per_sm and instructions of the
    instrumented binary (a second body, for CTAs that do not record, is not among these), and `bare_*` of the
    bare one, each missing if unknown; records_per_warp; instrumented_ns, the median of the launches: where
    the basis is "measured", of those of pairs, where it is "model", the mean from begin to end, else of all,
    from first recorded time to last; bare_ns, the median of the `bare_launches` of pairs, or the model's
    time; slowdown, slowdown_low, slowdown_high; and basis:

    - "measured": bare launches were timed, and the recorded ones behind them (`session(baseline=)`). slowdown
      is the ratio of their times (`paired.ratio_of`), and the interval is the variation of the pairs. Both
      times include two events, a few microseconds: the ratio of short kernels is too close to 1. That the
      code of the two binaries stands at different places is part of the ratio.
    - "counters": the hardware timed bare launches (`session(evidence=True)`; `gpu__time_duration.sum`), and
      records give the time of other launches, from first record to last. That leaves out the time before the
      first CTA and behind the last one, up to 2 us; the interval includes it, and time outside of the CTAs
      with known times. Launches of less than 2 us are estimated.
    - "model": on the emulator without such pairs. slowdown is the cycles of recorded launches over those that
      they would take without the instructions of records.
    - "estimated": no bare launch was timed. Records may hide under waits, and cost nothing, or stand in a
      warp's way each for as long as one takes (`metadata["clock"]`); where the occupancy fell, a kernel that
      lives from its warps may lose as much. slowdown is the geometric middle of the two. The interval begins
      at the first and ends at the largest cost that was seen, in a kernel whose loads the records kept apart:
      seven times the second, or twice the bare time if that is less; the emulator keeps no loads apart. It is
      widened by LAYOUT_NOISE. It is a model, and no measurement: recorded launches can even be faster.
    - "unknown": neither.

    `attrs["not_measured"]`: a list of texts, missing figures with reasons; `attrs["budget"]`: the time that
    recording added to the whole program (`budget_line`).
    """
    rows: list[dict[str, Any]] = []
    said: list[str] = []
    roots = _roots(tables)
    launches = tables.launches
    for _, of_group in launches.groupby(["kernel", "variant"], sort=False):
        kernel, variant = (of_group[name].iloc[0] for name in ("kernel", "variant"))
        row = _row(tables, roots, str(kernel), int(variant), of_group)
        rows.append(row)
        said += _missing(row, tables)
    frame = answer_frame(rows, OVERHEAD_DTYPES, said)
    frame.attrs["budget"] = budget_line(tables.metadata)
    return frame


def budget_line(metadata: Mapping[str, Any]) -> str:
    """The time that recording added to the program, in percent of its time, by the session's own measure; ""
    without `session(overhead_pct=)`. It excludes first launches, which are always recorded, and
    compilation."""
    budget = metadata.get("budget")
    if not budget or not budget["elapsed_ns"]:
        return ""
    host, gpu, opened = (
        100 * budget[name] / budget["elapsed_ns"] for name in ("host_ns", "gpu_ns", "open_ns")
    )
    return (
        f"recording added about {host + gpu:.2g} % (host {host:.2g} %, GPU {gpu:.2g} %) after first "
        f"launches, overhead_pct={budget['overhead_pct']:g}; launches count in {opened:.3g} % of the time"
    )


def _row(
    tables: Tables, roots: pd.DataFrame, kernel: str, variant: int, launches: pd.DataFrame
) -> dict[str, Any]:
    builds = variant_entry(tables.metadata, kernel, variant).get("builds") or []
    own = _last([each for each in builds if each["build"] != "bare"])
    bare = _last([each for each in builds if each["build"] == "bare"])
    resources = {name: own.get(name) for name in _RESOURCES}
    resources |= {f"bare_{name}": bare.get(name) for name in _RESOURCES}
    if own.get("twin"):
        resources["instructions"] = _without(own.get("instructions"), bare.get("instructions"))
    timed = bare_times(tables, kernel, variant)
    usable = ended(launches)
    warm = usable[~usable["cold"]] if not usable["cold"].all() else usable
    took = (warm["end_ns"] - warm["start_ns"]).to_numpy()
    per_warp, share = _recorded_share(tables, roots, launches)
    if timed.recorded:
        took = np.asarray(timed.recorded)  # by the same events
        slowdown = _Slowdown(*ratio_of(timed.bare, timed.recorded), timed.basis)
    elif _is_told_by_counters(timed, took) and (missed := _missed_share(tables, kernel, usable)) is not None:
        slowdown = _by_counters(float(np.median(took)), missed, timed)
    elif np.isfinite(share):
        slowdown = _estimated(
            share, resources["ctas_per_sm"], resources["bare_ctas_per_sm"], emulated=tables.emulated
        )
    else:
        slowdown = _UNKNOWN
    return {
        "kernel": kernel,
        "variant": variant,
        "launches": len(launches),
        **resources,
        "records_per_warp": per_warp,
        "instrumented_ns": float(np.median(took)) if len(took) else np.nan,
        "bare_ns": float(np.median(timed.bare)) if timed.bare else np.nan,
        "bare_launches": len(timed.recorded) if timed.basis == "measured" else 0,
        "slowdown": slowdown.slowdown,
        "slowdown_low": slowdown.low,
        "slowdown_high": slowdown.high,
        "basis": slowdown.basis,
    }


def _last(builds: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The newest; of several that differ (as after an alignment changed) the others ran before."""
    return builds[-1] if builds else {}


def timed_entry(metadata: dict[str, Any], kernel: str, variant: int) -> dict[str, Any]:
    """A variant's entry in `metadata["baseline"]` (see `dispatch.baseline`); {} if there is none."""
    key = variant_entry(metadata, kernel, variant).get("key")
    entries = ((metadata.get("baseline") or {}).get("kernels") or {}).get(kernel) or []
    return next((each for each in entries if each["key"] == key), {})


def bare_times(tables: Tables, kernel: str, variant: int) -> BareTimes:
    """How long a configuration's bare launches took."""
    timed = timed_entry(tables.metadata, kernel, variant)
    if timed.get("bare_ns"):
        return BareTimes(timed["bare_ns"], timed["instrumented_ns"], timed.get("basis") or "measured")
    counted = _counted(tables).get((kernel, variant))
    return BareTimes([], [], "") if counted is None else BareTimes([counted], [], "counters")


@asked_once
def _counted(tables: Tables) -> dict[tuple[str, int], float]:
    """By kernel and variant, how long the hardware says that a launch took."""
    timed = tables.counters[tables.counters["counter"] == "time"].dropna(subset="value")
    found: dict[tuple[str, int], float] = {}
    for kernel, variant, value in zip(timed["kernel"], timed["variant"], timed["value"], strict=True):
        found.setdefault((str(kernel), int(variant)), float(value))
    return found


@asked_once
def _roots(tables: Tables) -> pd.DataFrame:
    """By launch: the warps that have spans, and the cycles of their outermost ones."""
    df = tables.df
    root = np.flatnonzero((df["depth"] == 0).to_numpy() & (df["kind"] != "async").to_numpy())
    places = np.stack([df[name].to_numpy()[root] for name in ("launch", "cta", "warp")])
    opens = np.ones(len(root), bool)
    opens[1:] = (places[:, 1:] != places[:, :-1]).any(axis=0)
    cycles = df["duration_cycles"].to_numpy()[root]
    return pd.DataFrame({"launch": places[0], "warps": opens, "cycles": cycles}).groupby("launch").sum()


def _recorded_share(tables: Tables, roots: pd.DataFrame, launches: pd.DataFrame) -> tuple[float, float]:
    """Records per warp, and what part of a warp's time they would take if none of them hid; NaN if
    unknown."""
    if tables.metadata.get("part"):
        return np.nan, np.nan  # the records are those of whole launches
    if len(tables.sums):  # spans are of one rank alone
        launches = launches[launches["launch"].isin(roots.index)]
    records = float(launches["records"].sum() + launches["dropped"].sum())
    if not records:
        return np.nan, np.nan
    own = roots[roots.index.isin(launches["launch"])]
    warps, cycles = float(own["warps"].sum()), float(own["cycles"].sum())
    if not warps or not cycles:
        return np.nan, np.nan
    cost = record_cost(tables.metadata)
    return records / warps, np.nan if cost is None else records * cost.each / cycles


def _estimated(share: float, ctas: int | None, bare_ctas: int | None, *, emulated: bool) -> _Slowdown:
    """share: of a warp's time, what its records take by themselves, where none of them hides."""
    alone = apart = 1 / (1 - min(share, 0.9))
    if not emulated:
        apart = max(alone, 1 / (1 - min(_KEPT_APART * share, 1 - 1 / _MOST_KEPT_APART)))
    noise = 1.0 if emulated else 1 + LAYOUT_NOISE  # the emulator has no layout
    fewer = max(1.0, bare_ctas / ctas) if ctas and bare_ctas else 1.0
    return _Slowdown(float(np.sqrt(alone * fewer)), 1 / noise, apart * fewer * noise, "estimated")


def _is_told_by_counters(timed: BareTimes, recorded_ns: Floats) -> bool:
    """A launch that is shorter than what the counter's time has outside of it says nothing of itself."""
    return bool(timed.bare) and len(recorded_ns) > 0 and float(np.median(recorded_ns)) > _OUTSIDE_NS


def _by_counters(recorded_ns: float, missed: float, timed: BareTimes) -> _Slowdown:
    """missed: see `_missed_share`."""
    (bare_ns,) = timed.bare
    most_ns = recorded_ns * (1 + missed) + _OUTSIDE_NS
    noise = 1 + LAYOUT_NOISE
    middle = (recorded_ns + most_ns) / 2 / bare_ns
    return _Slowdown(middle, recorded_ns / bare_ns / noise, most_ns / bare_ns * noise, timed.basis)


def _missed_share(tables: Tables, kernel: str, launches: pd.DataFrame) -> float | None:
    """What part of a launch may lie before the first and behind the last CTA whose times are known: nothing
    if those at the ends of the grid are; of n that are spread over it one n-th at either end; None if they
    are not."""
    if knows_ends(tables, launches):
        return 0.0
    return None if kernel in not_samples(tables.metadata) else 2 / max(1, int(launches["ctas"].min()))


def _without(both: int | None, bare: int | None) -> int | None:
    return None if both is None or bare is None else max(0, both - bare)


def _missing(row: dict[str, Any], tables: Tables) -> list[str]:
    name = f"{row['kernel']} #{row['variant']}"
    said = []
    if row["bare_registers"] is None and row["registers"] is not None:
        said.append(f"{name}: registers of the bare binary: none was loaded in the session")
    if row["basis"] in ("estimated", "unknown"):
        why = "records have no known cost here" if row["basis"] == "unknown" else "slowdown is an estimate"
        if tables.metadata.get("part"):
            why = "the cost of records is known for whole launches only; this is a part of each"
        missing = "no bare launch was timed (session(baseline=))"
        if row["bare_ns"] > 0:
            missing = "the counters' time of a launch of less than 2 us is mostly not the kernel's"
        pairs = int((tables.metadata.get("options") or {}).get("baseline") or 0)
        if pairs:
            missing = f"baseline={pairs} needs more launches to time pairs"
        said.append(f"{name}: bare time: {missing}; {why}")
    return said
