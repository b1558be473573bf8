"""Estimates of hardware evidence from a kernel's own counts, the times of its CTAs, and experiments.

`use_of`: how busy a launch keeps the resources of a GPU. Instructions and wavefronts say it of the issue
slots, the pipes and shared memory (`limits`). Beyond these:

    tensor    by the types of the dots, against the data sheet
    l1        wavefronts and lines of four sectors, of which an SM passes one in a cycle
    l2        the sectors that loads, stores and atomics touch: an upper bound, as L1 may have had some
    dram      the distinct bytes among these: no more than the tensors have. A lower bound, as DRAM may send
              a byte again; unknown without the sizes of the tensors

If a launch without its accesses to global memory takes as long, neither L2 nor DRAM binds it: the use of each
is then at most twice the saving of that experiment.

`waits_of`: the waits of warps, in place of PC samples. The time saved without an op is the wait for it: it is
at the op's instructions, as samples with their stall. The remaining time goes to issuing instructions, by
executions, as far as issue slots and pipes are used; then to loads in loops that could not be left out
because other loops, addresses or masks depend on them. The rest is unexplained. Shares overlap: together they
are scaled to the whole.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

import numpy as np
import pandas as pd

from profscope.analysis.breakdown import sm_time
from profscope.analysis.evidence_table import (
    ATOMIC_OPS,
    LOAD_OPS,
    LOADED,
    SECTOR_BYTES,
    STORE_OPS,
    EvidenceTable,
    Floats,
    Mask,
)
from profscope.analysis.kernels.devices import peak_of
from profscope.analysis.kernels.kernel_analysis import KernelAnalysis
from profscope.analysis.kernels.roof_rows import roof_rows_of
from profscope.analysis.limits import bare_time
from profscope.analysis.rules import thresholds
from profscope.instrument_passes.ablation.groups import GROUPS

__all__ = ["SAMPLES", "idle_of", "use_of", "waits_of"]

_BITS: Final = 16  # of the operands whose rate stands for all
_OF_SAVED: Final = 2.0


def use_of(
    judged: KernelAnalysis,
    by_counts: Mapping[str, float],
    table: EvidenceTable,
    experiments: pd.DataFrame,
    reach: float,
) -> tuple[dict[str, float], dict[str, float]]:
    """By resource what part of its peak is used, 0 to 1; and counters: time, clock, bytes of DRAM, as
    `prof.counters` has them, empty if they or the peaks of the GPU are not known.

    by_counts: what instructions and wavefronts alone say. table: of the counts. experiments: rows of
    `prof.experiments`. reach: the bytes of all tensors; infinite if they are not known.
    """
    tables, key = judged.tables, (judged.kernel, judged.variant)
    time = bare_time(tables, judged.durations, judged.launches, key)
    peak = peak_of(tables.metadata)
    used = dict(by_counts)
    if time is None or peak is None or not table.total("executed"):
        return used, {}
    clock_ghz = float(judged.launches["clock_ghz"].median())
    seconds = time.cycles / clock_ghz * 1e-9
    load, store, atomic = (SECTOR_BYTES * table.sectors(*ops) for ops in (LOAD_OPS, STORE_OPS, ATOMIC_OPS))
    has_tma = bool(table.of_class("tma").any())
    read, written = min(load, reach), min(store, reach)
    if has_tma:
        read = reach if math.isfinite(reach) else 0.0
        written = 0.0
    passed = load + store + 2 * atomic + table.local_bytes
    lines = table.total("wavefronts") + (load + store) / (SECTOR_BYTES * thresholds.LINE_SECTORS)
    used["l1"] = lines / (time.sms * time.cycles)
    if math.isfinite(reach):  # else the sectors may be the same bytes again and again
        used["dram"] = (read + written) / seconds / (1e9 * peak.memory_gb_per_s)
    if l2_gb_s := _l2_gb_s(tables.metadata):
        used["l2"] = passed / seconds / (1e9 * l2_gb_s)
    if flops := _tflop_per_s(judged):
        used["tensor"] = flops / peak.tflop_per_s[_BITS]
    most = _OF_SAVED * _saved_by_memory(experiments)
    for name in ("dram", "l2"):
        if name in used:
            used[name] = min(used[name], most, 1.0)
    values = {
        "time": 1e9 * seconds, "clock": 1e9 * clock_ghz, "dram_read": read, "dram_write": written,
    }  # fmt: skip
    return {name: min(1.0, value) for name, value in used.items()}, values


def _l2_gb_s(metadata: Mapping[str, object]) -> float:
    """As measured on this GPU; 0 if it was not."""
    device = metadata.get("device")
    peaks = device.get("peaks") if isinstance(device, Mapping) else None
    rate = peaks.get("l2_gb_s") if isinstance(peaks, Mapping) else None
    return float(rate) if isinstance(rate, float) and math.isfinite(rate) else 0.0


def _tflop_per_s(judged: KernelAnalysis) -> float:
    rows = roof_rows_of(judged).rows
    return float(rows[0]["tflop_per_s"]) if rows and rows[0]["flops"] else 0.0


def _saved_by_memory(experiments: pd.DataFrame) -> float:
    """The part of the time that a launch takes less without global memory; infinite if not measured."""
    if not len(experiments):
        return math.inf
    timed = experiments[experiments["valid"] & (experiments["experiment"] == "off")]
    whole = timed[timed["op"] == GROUPS["memory"]]["saved_pct"]
    return max(0.0, float(whole.max()) / 100) if len(whole) else math.inf


SAMPLES: Final = 100_000
"""That the whole time is divided into."""
_LEAST_PCT: Final = 1.0
_EXCHANGED: Final = ("shared load", "shared store", "matrix load", "warp exchange")
_OUTSIDE: Final = ("global load", "global store", "async copy", "tma", "atomic")
_BY_LABEL: Final[tuple[tuple[tuple[str, ...], str, tuple[str, ...]], ...]] = (
    (("load", "async copy", "tma load", "gather"), "long_scoreboard", LOADED),
    (("store", "tma store"), "lg_throttle", ("global store", "tma")),
    (("atomic",), "long_scoreboard", ("atomic",)),
    (("dot", "mma"), "wait", ("mma",)),
    (("reduce", "scan", "convert layout", "local", "fence", "barrier"), "short_scoreboard", _EXCHANGED),
)
"""By how an op's name begins: the stall of those that wait for it, and the classes of its instructions."""
_MATH: Final = "math_pipe_throttle"
_ISSUED: Final = "selected"
_UNEXPLAINED: Final = "unexplained"
_IN_MEMORY: Final = ("load", "store", "atomic", "async copy", "tma", "gather")


def waits_of(table: EvidenceTable, experiments: pd.DataFrame, busy: float) -> EvidenceTable:
    """The table of the counts with what warps wait for; without any, if no experiment is valid.

    experiments: its rows of `prof.experiments`. busy: the part of the time in which its busiest pipe or the
    issue slots are used.
    """
    if not len(experiments) or not len(table):
        return table
    timed = experiments[
        experiments["valid"] & (experiments["experiment"] == "off") & experiments["saved_pct"].notna()
    ]
    if not len(timed):
        return table
    executed, shares = table.amount("executed"), defaultdict[str, Floats](lambda: np.zeros(len(table)))

    def charge(share: float, rows: Mask, stall: str) -> None:
        if share > 0 and executed[rows].any():
            shares[stall] += share * np.where(rows, executed, 0.0) / executed[rows].sum()

    for share, rows, stall in _found(table, timed):
        charge(share, rows, stall)
    left, fixed = max(0.0, 1 - float(sum(map(np.sum, shares.values())))), _fixed_loads(table, experiments)
    charge(min(left, busy), table.all, _ISSUED)
    if fixed.any():
        charge(left - min(left, busy), fixed, "long_scoreboard")
    else:
        charge(left - min(left, busy), table.all, _UNEXPLAINED)
    samples = np.column_stack(list(shares.values()))
    samples *= SAMPLES / samples.sum()
    return replace(table, at=samples, blamed=samples, stalls=tuple(shares))


def _found(table: EvidenceTable, timed: pd.DataFrame) -> Iterator[tuple[float, Mask, str]]:
    """By line and group: the part of the time, the instructions that it waits for, and the stall.

    While one of several accesses is left out, the others may be in its way, or do its part of the waiting: if
    the lines of a group do not add up to what the group saves, those that wait for each other have the rest,
    and if they add up to more, each has less.
    """
    lines = timed[(timed["line"] != 0) & (timed["saved_pct"] >= _LEAST_PCT)]
    in_memory = lines["op"].str.startswith(_IN_MEMORY)
    whole = float(timed.loc[timed["op"] == GROUPS["memory"], "saved_pct"].max())
    told = float(lines.loc[in_memory, "saved_pct"].sum())
    less = whole / told if 0 < whole < told else 1.0
    for row, moves in zip(lines.to_dict("records"), in_memory.tolist(), strict=True):
        share = row["saved_pct"] / 100 * (less if moves else 1.0)
        yield share, *_waited_for(table, row["op"], row["file"], row["line"])
    named = timed[(timed["line"] != 0) & timed["op"].str.startswith("atomic")]
    for row in named.to_dict("records") if whole > told else ():
        rest = (whole - told) / 100 / len(named)
        yield rest, *_waited_for(table, row["op"], row["file"], row["line"])


def _fixed_loads(table: EvidenceTable, experiments: pd.DataFrame) -> Mask:
    """The instructions of loads that could not be left out, in what runs more than once a warp."""
    fixed = experiments[
        experiments["saved_pct"].isna()
        & (experiments["experiment"] == "off")
        & experiments["op"].str.startswith("load")
    ]
    rows = ~table.all
    for row in fixed.to_dict("records"):
        rows |= table.at_lines(row["file"], {row["line"]}) & table.of_class(*LOADED)
    each = table.amount("most_executed")
    once = min(each[each > 0].tolist(), default=math.inf)
    return np.asarray(rows & (each > once), np.bool_)


def _waited_for(table: EvidenceTable, op: str, file: str, line: int) -> tuple[Mask, str]:
    """The instructions of an op, and the stall of those that wait for it: at the barriers of an exchange, if
    it has some."""
    here = table.at_lines(file, {line})
    for labels, stall, classes in _BY_LABEL:
        if op.startswith(labels):
            rows, meetings = here & table.of_class(*classes), here & table.of_class("barrier")
            if classes == _EXCHANGED and meetings.any():
                return meetings, "barrier"
            return (rows if rows.any() else here), stall
    return here & ~table.of_class(*_OUTSIDE), _MATH


def idle_of(ctas: pd.DataFrame, grid: int, sms: int) -> float:
    """The idle part of a launch's time on all SMs, 0 to 1; the mean of several launches. 0 if the times of
    some CTAs, or the number of SMs, are unknown.

    ctas: rows of `prof.ctas`, of one configuration. grid: how many CTAs a launch has. sms: of the device, 0
    if unknown.
    """
    if not sms:
        return 0.0
    known = [_of_launch(own, sms) for _, own in ctas.groupby("launch") if len(own) == grid]
    return sum(known) / len(known) if known else 0.0


def _of_launch(ctas: pd.DataFrame, sms: int) -> float:
    time = sm_time(ctas, sms)
    return 1 - time.busy / time.whole if time.whole > 0 else 0.0
