"""Sum a span table up: one row per kernel and scope, with the bytes it moved and the operations it computed.

These are what an op's types say, times how often it ran (`decoding.about`). Masks are not known, so bytes
include those of lanes that are masked off: columns of bytes say `at_most`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.analysis.overhead import timed_entry
from profscope.analysis.spans.asked_once import asked_once
from profscope.analysis.spans.corrections import are_corrected
from profscope.analysis.spans.launch_sums import errors_of_sums, figures_of_sums, rows_of_sums
from profscope.analysis.spans.rows import (
    GROUP_COLUMNS,
    SITE_COLUMNS,
    Flags,
    Floats,
    Ints,
    counted,
    grid_scales,
    group_numbers,
    scales,
)
from profscope.analysis.spans.summing import (
    UNITS,
    SummedSpans,
    by_row,
    error_pct,
    standard_errors,
    summed_spans,
    sums_of,
)
from profscope.analysis.variants import with_model
from profscope.schema import Tables
from profscope.threads import worker_pool

__all__ = ["summary", "summary_of", "summary_without_percentiles", "with_work", "works"]

PERCENTILES = {"p50": 0.50, "p90": 0.90, "p99": 0.99}

_COUNTED = 4
"""Durations are counted, not sorted, where the longest is less than so many times their number."""

_FEW = 1 << 16
"""Durations that are put in order sooner than threads for them begin."""

# What rows are made with and do not show: how much of their time is all of a warp's time, and the error.
_BESIDE = ["root", "error"]
_MISSING = [f"{name}_{unit}" for unit in UNITS for name in (*PERCENTILES, "max")]


def summary(tables: Tables) -> pd.DataFrame:
    """One row per kernel, configuration and scope, heaviest first and within a configuration by self time.

    Columns: kernel, variant (see metadata["variants"]), scope, kind, file, line, count; then for ns and for
    cycles total, self, mean, p50, p90, p99 and max (`total_ns`, ..., `max_cycles`); share; sampled;
    self_error_pct; launches and launches_seen; those of `with_work`; those of `with_model`, without
    a value for kernels that are not torch.compile's.
    Percentiles are nearest-rank: durations that were seen.
    `share` is the self time over the total warp time of the kernel's variant (the sum of its depth-0 spans),
    0..1; by ns, on the emulator by cycles. Durations are the corrected ones of `prof.df`, without the cost of
    records, or raw if that cost is unknown: `attrs["durations"]` is "corrected" or "raw".
    If a launch recorded only some of its CTAs, counts, totals and self times are scaled up to its whole
    grid: estimates then, and `sampled`, the part of the variant's CTAs that was recorded, is less than 1.
    `self_error_pct` is the standard error of the self time in percent: the spread of CTAs, if only some
    recorded, and the shift by records, up to one record a span. Missing (NaN) if unknown, as for a list of
    CTAs, and for a self time of 0.
    If the spans of a job's ranks do not fit into memory, figures are of all ranks all the same, without
    percentiles.
    If the recorded CTAs do not represent the grid, figures are sums over these CTAs alone. CTAs that did not
    finish (`launches["unfinished"]`) are in no figure.

    attrs["emulated"]: whether cycles come from the emulator's cost model.
    """
    return summary_of(tables, summed_spans(tables))


@asked_once
def summary_without_percentiles(tables: Tables) -> pd.DataFrame:
    """`summary` with percentiles and maxima missing: to sort single durations takes longer than all the
    rest."""
    return summary_of(tables, summed_spans(tables), ordered=False)


@asked_once
def _figures(tables: Tables) -> dict[str, Ints]:
    return sums_of(summed_spans(tables), scales(tables), tables.unit)


def summary_of(tables: Tables, spans: SummedSpans, *, ordered: bool = True) -> pd.DataFrame:
    """`summary` of sums that are made already. ordered: whether to sort single durations, which takes longer
    than all the rest; else percentiles and maxima are missing."""
    table = with_work(_summed(tables, spans, ordered), tables.launches, tables.metadata)
    table = with_model(table, tables.metadata)
    table.attrs |= {"durations": "corrected" if are_corrected(tables) else "raw", "emulated": tables.emulated}
    return table


def _summed(tables: Tables, spans: SummedSpans, ordered: bool) -> pd.DataFrame:
    """The columns that spans give."""
    table = _of_sums(tables) if len(tables.sums) else _of_spans(tables, spans, ordered)
    own = f"self_{tables.unit}"
    table["share"] = table[own] / _warp_time(table)
    table = _with_groups(table, tables)
    weight = table.groupby(list(GROUP_COLUMNS), observed=True)[own].transform("sum")
    ranked = table.assign(weight=weight).sort_values(
        ["weight", *GROUP_COLUMNS, own, f"total_{tables.unit}"],
        ascending=[False, True, True, False, False],
        kind="stable",
    )
    return ranked.drop(columns=["weight", *_BESIDE]).reset_index(drop=True)


def _of_spans(tables: Tables, spans: SummedSpans, ordered: bool) -> pd.DataFrame:
    """The rows of the spans, and _BESIDE."""
    figures = _figures(tables)
    durations = by_row(spans, figures["seen"]) if ordered else {}
    known = {unit: _percentiles(values) for unit, values in durations.items()}
    table = _with_figures(spans.rows, figures, known)
    errors = standard_errors(tables, spans, np.arange(len(table)), len(table))
    return _with_errors(table, figures, errors, tables.unit)


def _of_sums(tables: Tables) -> pd.DataFrame:
    """The same of the sums of all ranks, which know no percentiles."""
    row, rows = rows_of_sums(tables)
    figures = figures_of_sums(tables, row, len(rows))
    known = {unit: {"max": figures[f"max_{unit}"]} for unit in UNITS}
    table = _with_figures(rows, figures, known)
    return _with_errors(table, figures, errors_of_sums(tables, row, len(rows)), tables.unit)


def _with_figures(
    rows: pd.DataFrame, figures: dict[str, Ints], known: Mapping[str, Mapping[str, Ints]]
) -> pd.DataFrame:
    """known: by unit, percentiles and maxima, as far as they are known."""
    table = rows.assign(count=figures["count"])
    for unit in UNITS:
        table[f"total_{unit}"] = figures[f"total_{unit}"]
        table[f"self_{unit}"] = figures[f"self_{unit}"]
        table[f"mean_{unit}"] = figures[f"seen_{unit}"] / figures["seen"]
        for name in (*PERCENTILES, "max"):
            table[f"{name}_{unit}"] = known.get(unit, {}).get(name, pd.NA)
    missing = [name for name in _MISSING if table[name].dtype == object]
    return table.astype(dict.fromkeys(missing, "Int64"))


def _with_errors(table: pd.DataFrame, figures: dict[str, Ints], errors: Floats, unit: str) -> pd.DataFrame:
    own = figures[f"self_{unit}"].astype(np.float64)
    return table.assign(root=figures["root"], error=error_pct(errors, own))


def _with_groups(table: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    """sampled: CTAs recorded over all, those apart that did not come to their end. launches: of the row's
    configuration, that its figures are of; launches_seen: see `_launches_seen`. None are scaled up to it."""
    launches = tables.launches
    recorded = launches["ctas"].to_numpy().astype(np.float64)
    number, groups = group_numbers(launches)

    def added(of_launches: Flags | Floats) -> Floats:
        """By group; behind them that of rows of no launch."""
        return np.append(np.bincount(number, of_launches, len(groups)), 0.0)

    keys = list(zip(*(groups[name].tolist() for name in GROUP_COLUMNS), strict=True))
    place = {key: at for at, key in enumerate(keys)}
    rows = zip(*(table[name].tolist() for name in GROUP_COLUMNS), strict=True)
    at = np.array([place.get(key, -1) for key in rows], np.int64)
    grid = added(recorded * grid_scales(launches))
    sampled = np.divide(added(recorded), grid, out=np.ones(len(grid)), where=grid > 0)
    listed = np.bincount(number, minlength=len(groups)).tolist()
    seen = np.array([*_launches_seen(keys, listed, tables), 0], np.int64)
    return table.assign(
        sampled=sampled[at],
        self_error_pct=table["error"],
        launches=added(counted(launches))[at].astype(np.int64),
        launches_seen=seen[at],
    )


def _launches_seen(groups: list[tuple[str, int]], listed: list[int], tables: Tables) -> list[int]:
    """By group: the launches that there were, those included that no CTA finished. listed: in the table.

    Where `session(every=...)` left some of a kernel out, their configuration is unknown: then
    it is the count of the kernel. Replays of graphs are never left out. Those that ran bare to be
    timed (`session(baseline=...)`) count.
    """
    launches = tables.launches
    replays = launches.loc[launches["graph"] >= 0, "kernel"].value_counts()
    seen = []
    for (kernel, variant), count in zip(groups, listed, strict=True):
        turns: Any = ((tables.metadata.get("sampling") or {}).get("kernels") or {}).get(kernel)
        left_out = turns is not None and turns["recorded"] < turns["launches"]
        if left_out:
            seen.append(turns["launches"] + int(replays.get(kernel, 0)))
            continue
        timed = timed_entry(tables.metadata, kernel, variant)
        seen.append(count + int(timed.get("unrecorded") or 0))
    return seen


def _percentiles(parts: list[NDArray[np.integer]]) -> dict[str, Ints]:
    """PERCENTILES and "max" of some durations each; those may be put in order."""
    result = {name: np.zeros(len(parts), np.int64) for name in (*PERCENTILES, "max")}

    def look(at: int) -> None:
        ranks = [int(np.ceil(fraction * len(parts[at]))) - 1 for fraction in PERCENTILES.values()]
        values = _of_ranks(parts[at], [*ranks, len(parts[at]) - 1])
        for name, value in zip(result, values, strict=True):
            result[name][at] = value

    if sum(map(len, parts)) < _FEW:  # where threads would only cost their beginning
        for at in range(len(parts)):
            look(at)
        return result
    with worker_pool() as pool:
        for _ in pool.map(look, range(len(parts))):
            pass
    return result


def _of_ranks(values: NDArray[np.integer], ranks: list[int]) -> NDArray[np.integer]:
    """The values with these ranks, from 0. values: one at least; they may be put in order."""
    if values.min() >= 0 and values.max() < _COUNTED * len(values):  # then counting takes a tenth of sorting
        return np.searchsorted(np.cumsum(np.bincount(values)), ranks, "right")
    values.sort()
    found: NDArray[np.integer] = values[ranks]
    return found


def _warp_time(table: pd.DataFrame) -> Floats:
    """By row of the summary, the warp time of its group: the sum of the depth-0 spans."""
    total = table.groupby(list(GROUP_COLUMNS), observed=True, sort=False)["root"].transform("sum")
    time = total.to_numpy().astype(np.float64)
    return np.where(time > 0, time, np.nan)


# What `with_work` adds to a summary.
_UNKNOWN: Final[tuple[dict[str, Any], dict[str, Any]]] = (
    {"measures": "", "bytes": 0, "flops": 0},
    {"launches": 0, "ns": 0},
)
WORK_COLUMNS: Final = ("measures", "bytes_at_most", "flops", "gb_per_s_at_most", "tflop_per_s")

# What the metadata have of an op, its column, and that of its rate with the factor from a figure per ns.
_FIGURES: Final = (
    ("bytes", "bytes_at_most", "gb_per_s_at_most", 1.0),
    ("flops", "flops", "tflop_per_s", 1e-3),
)


def with_work(summary: pd.DataFrame, launches: pd.DataFrame, metadata: dict[str, Any]) -> pd.DataFrame:
    """A summary with WORK_COLUMNS, from the launches and metadata of its profile.

    bytes_at_most and flops are missing where the op has none, and where a launch of the variant lost records.
    The rates divide by the time of the variant's whole launches; an emulator's profile has none, nor do
    launches of which only some CTAs were recorded: the ends of the others are unknown.
    """
    known: dict[tuple[Any, ...], tuple[dict[str, Any], dict[str, Any]]] = {}
    for kernel, about in (metadata.get("kernels") or {}).items():
        for work in works(about):
            for row in work["scopes"]:
                place = (row.get(name, "") for name in SITE_COLUMNS[1:])  # older profiles have no call_path
                key = kernel, work["variant"], *place
                known[key] = row, work
    timed = metadata.get("backend") == "gpu"
    number, groups = group_numbers(launches)
    keys = list(zip(*(groups[name].tolist() for name in GROUP_COLUMNS), strict=True))

    def counts(chosen: Flags) -> dict[tuple[Any, ...], int]:
        """By group with any: how many of these launches it has."""
        of_groups = np.bincount(number[chosen], minlength=len(groups)).tolist()
        return {key: of_group for key, of_group in zip(keys, of_groups, strict=True) if of_group}

    count, partial = counts(counted(launches)), counts(grid_scales(launches) > 1)
    columns: dict[str, list[Any]] = {name: [] for name in WORK_COLUMNS}
    named = (*GROUP_COLUMNS, *SITE_COLUMNS[1:])
    for key in zip(*(summary[name].tolist() for name in named), strict=True):
        row, work = known.get(key, _UNKNOWN)
        group = key[: len(GROUP_COLUMNS)]
        whole = work["launches"] == count.get(group, -1)
        known_ns = work["ns"] if timed and not partial.get(group, 0) else 0
        columns["measures"].append(row["measures"])
        for of, name, rate, unit in _FIGURES:
            columns[name].append(row[of] if row[of] and whole else None)
            per_ns = row[of] / known_ns if row[of] and known_ns else np.nan
            columns[rate].append(per_ns * unit)  # bytes per ns are GB/s
    dtypes = {"measures": "str", "bytes_at_most": "Int64", "flops": "Int64"}
    return summary.assign(
        **{
            name: pd.Series(values, summary.index, dtype=dtypes.get(name, "float64"))
            for name, values in columns.items()
        }
    )


def works(about: dict[str, Any]) -> list[dict[str, Any]]:
    """A kernel's entries "work"."""
    return about.get("work") or []
