"""The time of each source line, and its stalls: spans and samples side by side."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, Final

import numpy as np
import pandas as pd

from profscope.analysis.answers import refused_evidence
from profscope.analysis.estimates import FEWEST_SAMPLES, shares_between
from profscope.analysis.kernels.devices import slots_of
from profscope.analysis.line_rows import (
    CONFIGURATION,
    GAP,
    ROW,
    TimeSources,
    call_path_key,
    configurations,
    folded_path,
    placed,
    stall_counts,
    stall_shares,
    stall_text,
    wait_counts,
    wait_text,
    witnesses,
)
from profscope.analysis.op_labels import with_global_bytes
from profscope.analysis.sources import Sources
from profscope.analysis.spans.ctas import launch_durations
from profscope.analysis.spans.launch_sums import errors_of_sums, rows_of_sums
from profscope.analysis.spans.rows import Ints
from profscope.analysis.spans.summing import error_pct, standard_errors, summed_spans
from profscope.analysis.timeline.distances import compared
from profscope.analysis.variants import rows_of
from profscope.errors import OptionError
from profscope.schema import Tables

__all__ = ["LINE_COLUMNS", "line_counts", "lines", "lines_of"]

_DTYPES = {
    "kernel": "str",
    "variant": "int32",
    "file": "str",
    "line": "int32",
    "call_path": "str",
    "source": "str",
    "self_share": "Float64",
    "self_error_pct": "Float64",
    "share_samples": "Float64",
    "share_samples_low": "Float64",
    "share_samples_high": "Float64",
    "samples": "int64",
    "stalls": "str",
    "waits_for": "str",
    "bytes_at_most": "Int64",
    "flops": "Int64",
    "issue_share": "Float64",
    "pipe": "str",
    "pipe_share": "Float64",
    "sectors_over_ideal": "Float64",
    "wavefronts_over_ideal": "Float64",
    "active_threads": "Float64",
    "stall_counts": "object",
    "waits": "object",
    "instructions": "object",
}
_SHARES = ("share_samples", "self_share")
"""In this order they rank lines."""


def lines(tables: Tables, top: int | None = None) -> pd.DataFrame:
    """One row per kernel, variant and source line, with the call path to it: where its time goes, and why.

        prof.lines(kernels="matmul", top=5)    # the five heaviest lines of each configuration of matmul

    kernel: a regular expression that is searched in names. top: so many lines of each kernel and variant.

    The line is the innermost one outside of Triton's own package: ops of `tl.sum` and the like count toward
    the line that calls them. Kernels stand in the order of their launches' time, lines in that of their share
    by samples; where a kernel has too few of them, by spans.

    | column | dtype | |
    |---|---|---|
    | `kernel`, `variant` | str, int32 | as in the summary |
    | `file`, `line`, `call_path` | str, int32, str | the line; "" and 0 for what no line is known of |
    | `source` | str | its text, "" if unknown |
    | `self_share` | Float64 | self time of the spans there, over all warp time of launches with spans |
    | `self_error_pct` | Float64 | standard error of that time in percent, as in the summary |
    | `share_samples` | Float64 | of the samples of the bare binary; missing below 200 of a kernel |
    | `share_samples_low`, `share_samples_high` | Float64 | the interval of 95 % for it (`shares_between`) |
    | `samples` | int64 | how many there were |
    | `stalls` | str | the top reasons why warps did not go on: "long_scoreboard 62 %, wait 11 %" |
    | `waits_for` | str | on what: "long_scoreboard on load x, line 46 (62 %)" |
    | `bytes_at_most`, `flops` | Int64 | as in the summary, of the ops there; bytes of global memory alone |
    | `issue_share` | Float64 | of the warp instructions that the bare kernel issued |
    | `pipe` | str | the pipe that the line keeps busy longest; "" if it uses none |
    | `pipe_share` | Float64 | of the kernel's instructions in that pipe |
    | `sectors_over_ideal` | Float64 | sectors of global memory over the fewest for these bytes |
    | `wavefronts_over_ideal` | Float64 | likewise wavefronts of shared memory |
    | `active_threads` | Float64 | threads of a warp that execute an instruction, of 32 |
    | `stall_counts` | object | a list of [stall, samples], most first |
    | `waits` | object | a list of dicts: stall, on, variable, file, line, samples |
    | `instructions` | object | a dict, how many there are by class, of the binary that was sampled |

    Time between the spans of ops is self time of the loop, iteration or kernel around them, so it stands at
    their line: at the kernel's `def` for the most part. A sample stands at the line of its instruction. So
    `self_share` and `share_samples` of one line are alike only where every op of the kernel has a span;
    `prof.timeline.distances()` compares them over what both can tell.

    The columns from `issue_share` to `active_threads` are of instruction counts (`session(evidence=True)`, or
    the emulator's), and missing without them. Arithmetic counts at its own line. An instruction of PTX counts
    as those that ptxas makes of it.

    Shares are missing (NA) if there is no such witness, and 0 if there is one that saw nothing there.
    Time whose records were overwritten stands at no line, and is in the warp time: so `self_share` is what
    the summary's `share` says of the scopes there.
    Samples, stalls, waits and instructions are of the bare binary.

    attrs["not_measured"]: a list of texts, unknowns with reasons.
    Raises OptionError for a bad `top`.
    """
    if top is not None and (isinstance(top, bool) or not isinstance(top, int) or top < 1):
        raise OptionError(f"top={top!r} is not a number of lines, 1 or more")
    table = lines_of(tables, witnesses(tables), with_errors=True)
    if top is None:
        return table
    return table[table.groupby(CONFIGURATION).cumcount() < top].reset_index(drop=True)


def lines_of(
    tables: Tables, known: TimeSources, apart: pd.DataFrame | None = None, *, with_errors: bool = False
) -> pd.DataFrame:
    """`lines` of tables whose witnesses are known. apart: result of `distances`, if known. with_errors:
    whether `self_error_pct` is known; no view shows it, and it goes through all spans."""
    apart = compared(known) if apart is None else apart
    inside = known.times[known.times["kind"] != GAP]
    counted = placed(tables.counts[tables.counts["executed"] > 0])
    paths = [table[[*ROW, "call_path"]] for table in (inside, known.samples, counted)]
    rows = pd.concat(paths).drop_duplicates(ROW).set_index(ROW)
    rows["self_share"], took = _shares(rows, known.times, "self_time")
    rows["self_error_pct"] = _errors(tables, rows, took) if with_errors else pd.NA
    share, rows["samples"] = _shares(rows, known.samples, "samples")
    enough = rows.groupby(CONFIGURATION)["samples"].transform("sum") >= FEWEST_SAMPLES
    rows["share_samples"] = share.where(enough)
    rows = _with_intervals(rows)
    rows = _ranked(rows, tables, inside)
    columns = {**rows.reset_index(), **_reasons(rows, known.samples, Sources(tables.metadata))}
    columns |= _work(rows, known.summary) | _counts(rows, counted)
    columns |= {"instructions": _instructions(rows, tables.metadata)}
    result = pd.DataFrame({name: pd.Series(columns[name], dtype=dtype) for name, dtype in _DTYPES.items()})
    missing = _not_measured(tables, rows, known.times)
    result.attrs["not_measured"] = [*missing, *apart.attrs["not_measured"]]
    return result


def _shares(rows: pd.DataFrame, table: pd.DataFrame, weight: str) -> tuple[pd.Series, pd.Series]:
    """By row its share of all that the table has of its configuration, missing if that is 0, and its
    weight. What no record covers is at no line, and counts in the whole."""
    if table.empty:
        return pd.Series(pd.NA, rows.index, dtype="Float64"), pd.Series(0, rows.index, dtype="int64")
    own = table[table["kind"] != GAP] if "kind" in table else table
    weights = own.groupby(ROW)[weight].sum().reindex(rows.index, fill_value=0).astype("int64")
    whole = table.groupby(CONFIGURATION)[weight].sum()
    keys = pd.MultiIndex.from_frame(rows.reset_index()[CONFIGURATION])
    total = pd.Series(whole.reindex(keys).to_numpy(), rows.index, dtype="float64")
    return (weights / total.where(total > 0)).astype("Float64"), weights


def _errors(tables: Tables, rows: pd.DataFrame, took: pd.Series[int]) -> pd.Series[float]:
    """By row, the standard error of its self time in percent; took: that time. Missing without spans."""
    if tables.df.empty and tables.sums.empty:
        return pd.Series(pd.NA, rows.index, dtype="Float64")

    def place_of(sites: pd.DataFrame) -> Ints:
        own = placed(sites)
        place = rows.index.get_indexer(pd.MultiIndex.from_frame(own[ROW])).astype(np.int64)
        return np.where(own["kind"] == GAP, -1, place)

    if len(tables.sums):
        row, sites = rows_of_sums(tables)
        errors = errors_of_sums(tables, place_of(sites)[row], len(rows))
    else:
        spans = summed_spans(tables)
        errors = standard_errors(tables, spans, place_of(spans.rows), len(rows))
    known = pd.Series(error_pct(errors, np.asarray(took, np.float64)), rows.index)
    return known.astype("Float64").where(rows["self_share"].notna())


def _with_intervals(rows: pd.DataFrame) -> pd.DataFrame:
    if not rows["samples"].any():
        nothing = pd.Series(pd.NA, rows.index, dtype="Float64")
        return rows.assign(share_samples_low=nothing, share_samples_high=nothing)
    total = rows.groupby(CONFIGURATION)["samples"].transform("sum")
    low, high = shares_between(rows["samples"].to_numpy(), total.clip(lower=1).to_numpy())
    known = rows["share_samples"].notna()
    interval = {"share_samples_low": low, "share_samples_high": high}
    return rows.assign(
        **{
            name: pd.Series(values, rows.index, dtype="Float64").where(known)
            for name, values in interval.items()
        }
    )


def _ranked(rows: pd.DataFrame, tables: Tables, times: pd.DataFrame) -> pd.DataFrame:
    """Kernels by the time of their launches, as everywhere, then of their warps, then by their samples; lines
    by share, and by their place."""
    launches = tables.launches.assign(took=launch_durations(tables))
    of_launches = launches.groupby(CONFIGURATION)["took"].sum()
    of_warps = times.groupby(CONFIGURATION)["self_time"].sum()
    order = rows.reset_index()
    keys = pd.MultiIndex.from_frame(order[CONFIGURATION])
    order["took"] = of_launches.reindex(keys).fillna(0).to_numpy()
    order["time"] = of_warps.reindex(keys).fillna(0).to_numpy()
    order["all"] = order.groupby(CONFIGURATION)["samples"].transform("sum")
    rank = rows[_SHARES[0]]
    for name in _SHARES[1:]:
        of_first = rank.groupby(CONFIGURATION).transform("count") > 0
        rank = rank.where(of_first, rows[name])
    order["rank"] = rank.fillna(0).astype("float64").to_numpy()
    by = ["took", "time", "all", *CONFIGURATION, "rank", "file", "line", "way"]
    ascending = [False, False, False, True, True, False, True, True, True]
    return rows.iloc[order.sort_values(by, ascending=ascending, kind="stable").index]


def _reasons(rows: pd.DataFrame, samples: pd.DataFrame, sources: Sources) -> dict[str, list[Any]]:
    groups = dict(iter(samples.groupby(ROW)))
    columns: dict[str, list[Any]] = {
        name: [] for name in ("source", "stalls", "waits_for", "stall_counts", "waits")
    }
    for key in rows.index:
        own = groups.get(key)
        counts = [] if own is None else stall_counts(own)
        waits = [] if own is None else wait_counts(own, sources)
        columns["source"].append(sources.text(key[2], key[3]))
        columns["stalls"].append(stall_text(stall_shares(counts)))
        columns["waits_for"].append(wait_text(waits, sum(count for _, count in counts)))
        columns["stall_counts"].append(counts)
        columns["waits"].append(waits)
    return columns


def _work(rows: pd.DataFrame, summary: pd.DataFrame) -> dict[str, Any]:
    """bytes_at_most and flops by row, missing if no op there has any."""
    names = ["bytes_at_most", "flops"]
    if summary[names].isna().all(axis=None):
        return dict.fromkeys(names, pd.array([pd.NA] * len(rows), "Int64"))
    table = with_global_bytes(summary)
    table = placed(table[table[names].notna().any(axis=1)])
    by_row = table.groupby(ROW)[names].sum(min_count=1)
    return {name: by_row[name].reindex(rows.index).array for name in names}


def _counts(rows: pd.DataFrame, counted: pd.DataFrame) -> dict[str, Any]:
    """The columns of instruction counts, missing without them."""
    known = line_counts(counted)
    own = {name: known[name].reindex(rows.index) for name in LINE_COLUMNS}
    return {
        name: (column.fillna("") if name == "pipe" else column.astype("Float64")).array
        for name, column in own.items()
    }


def _instructions(rows: pd.DataFrame, metadata: dict[str, Any]) -> list[dict[str, int]]:
    binaries = (metadata.get("sampler") or {}).get("binaries") or []
    chosen = {(entry["kernel"], entry["variant"]): entry["instructions"] for entry in binaries}
    counts: dict[tuple[Any, ...], dict[str, int]] = {}
    for configuration, places in chosen.items():
        for file, line, path, classes in places:
            own = counts.setdefault(
                (*configuration, file, line, call_path_key(folded_path(file, line, path))), {}
            )
            for cls, count in classes.items():
                own[cls] = own.get(cls, 0) + count
    return [counts.get(key, {}) for key in rows.index]


def _not_measured(tables: Tables, rows: pd.DataFrame, spans: pd.DataFrame) -> list[str]:
    texts = []
    has_gaps = bool((spans["kind"] == GAP).any())
    if not len(tables.samples):
        why = refused_evidence(tables.metadata) or (
            "no launch was counted" if tables.emulated else "session(evidence=True) takes some"
        )
        texts.append(f"no samples: {why}")
    for (kernel, variant), group in configurations(rows):
        name = f"{kernel} #{variant}" if variant else str(kernel)
        bare = int(group["samples"].sum())
        if 0 < bare < FEWEST_SAMPLES:
            texts.append(f"{name}: {bare} samples, fewer than {FEWEST_SAMPLES}, rank no lines")
        if group["self_share"].isna().all():
            texts.append(f"{name}: no launch was recorded, so there are samples alone")
        if not has_gaps:
            continue
        own = rows_of(spans, kernel, variant)
        gap = own.loc[own["kind"] == GAP, "self_time"].sum() / max(own["self_time"].sum(), 1)
        if gap > 0:
            texts.append(
                f"{name}: no record covers {100 * gap:.0f} % of its warps' time, which is at no line"
            )
    return texts


# What the instruction counts say of each source line.


LINE_COLUMNS: Final = (
    "issue_share",
    "pipe",
    "pipe_share",
    "sectors_over_ideal",
    "wavefronts_over_ideal",
    "active_threads",
)
_SUMMED: Final = [
    "executed", "threads", "sectors", "sectors_ideal", "wavefronts", "wavefronts_ideal",
]  # fmt: skip
_CYCLES: Final = {"tensor": 32.0, "xu": 2.0, "tma": 2.0, "lsu": 1.0, "fp64": 0.5, "alu": 0.5, "fma": 0.25}
"""About how many cycles a warp instruction keeps its pipe of an SM of Hopper busy; the pipe of a line is the
one that the line keeps busy longest."""
_HALF_PRECISION: Final = "HFMA2.MMA"
_HALF_PRECISION_CYCLES: Final = 0.5
"""Of the tensor pipe, by its counter; the assembler also loads constants that way."""


def line_counts(counts: pd.DataFrame) -> pd.DataFrame:
    """One row for each line of a configuration; the index is ROW of `line_rows`.

    | column | |
    |---|---|
    | `issue_share` | of the warp instructions of the kernel |
    | `pipe` | the pipe that the line keeps busy longest; "" if it uses none |
    | `pipe_share` | of the instructions of the kernel in that pipe |
    | `sectors_over_ideal` | sectors of global memory over the fewest for the same bytes; null if none |
    | `wavefronts_over_ideal` | likewise of shared memory |
    | `active_threads` | threads of a warp that execute an instruction, of 32 |

    counts: the table `counts`, with lines `placed`.
    """
    kernels, pipes = Counter[tuple[str, int]](), Counter[tuple[str, int, str]]()
    lines: dict[Any, Counter[str]] = {}
    cycles: dict[Any, dict[str, float]] = {}
    for *key, opcode, executed in counts[[*ROW, "opcode", "executed"]].itertuples(index=False, name=None):
        own, busy = lines.setdefault(tuple(key), Counter()), cycles.setdefault(tuple(key), {})
        half = opcode.startswith(_HALF_PRECISION)
        for pipe, slots in slots_of(opcode).items():
            own[pipe] += slots * executed
            kernels[key[0], key[1]] += slots * executed
            pipes[key[0], key[1], pipe] += slots * executed
            if pipe and executed:
                each = _HALF_PRECISION_CYCLES if half else _CYCLES[pipe]
                busy[pipe] = busy.get(pipe, 0.0) + each * slots * executed
    sums = counts.groupby(ROW, observed=True)[_SUMMED].sum()
    found: list[dict[str, Any]] = []
    for key, group in zip(sums.index, sums.to_dict("records"), strict=True):
        of_pipe, of_kernel, busy = lines[key], key[:2], cycles[key]
        pipe = max(busy, key=lambda each: busy[each]) if busy else ""
        found.append(
            {
                "issue_share": _ratio(of_pipe.total(), kernels[of_kernel]),
                "pipe": pipe,
                "pipe_share": _ratio(of_pipe[pipe], pipes[(*of_kernel, pipe)]) if pipe else math.nan,
                "sectors_over_ideal": _ratio(group["sectors"], group["sectors_ideal"]),
                "wavefronts_over_ideal": _ratio(group["wavefronts"], group["wavefronts_ideal"]),
                "active_threads": _ratio(group["threads"], group["executed"]),
            }
        )
    return pd.DataFrame(found, columns=[*LINE_COLUMNS], index=sums.index)


def _ratio(part: float, whole: float) -> float:
    return float(part) / float(whole) if whole else math.nan
