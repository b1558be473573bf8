"""What the hardware would say, worked out from a kernel's own counts, the times of its CTAs and experiments.

`use_of`: how busy a launch keeps the resources of a GPU. Instructions and wavefronts say it of the issue
slots, the pipes and shared memory (`limits`). Beyond these:

    tensor    by the types of the dots, against the data sheet
    l1        wavefronts and lines of four sectors, of which an SM passes one in a cycle
    l2        the sectors that loads, stores and atomics touch: an upper bound, as L1 may have had some
    dram      the different bytes among these: no more than the tensors have. A lower bound, as DRAM may send
              a byte again; unknown if nobody knows how large the tensors are

If a launch without its accesses to global memory takes as long, neither L2 nor DRAM binds it: of each no more
is taken to be used than twice what that experiment saved.

`waits_of`: what warps wait for, as a table in the form of PC samples. What a launch takes less without an op
is the time that waits for it: it stands at the op's instructions, as samples with the stall that such
instructions have. What nothing saved is spent on issuing instructions, by how often each ran, as far as issue
slots and pipes are used; the rest waits for loads in loops that could not be left out, because other loops,
addresses or masks rest on them, if there are any, and is unexplained if there are none. Shares overlap:
together they are scaled to the whole.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

from profscope.analysis.breakdown import sm_time
from profscope.analysis.evidence_table import ATOMIC_OPS, LOAD_OPS, SECTOR_BYTES, STORE_OPS, EvidenceTable
from profscope.analysis.kernels.devices import peak_of
from profscope.analysis.kernels.kernel_analysis import KernelAnalysis
from profscope.analysis.kernels.roof_rows import roof_rows_of
from profscope.analysis.limits import bare_time
from profscope.analysis.rules import thresholds
from profscope.binaries.listing import class_of
from profscope.instrument_passes.ablation.groups import GROUPS
from profscope.schema import samples_frame

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
    if time is None or peak is None or not table.launches:
        return used, {}
    clock_ghz = float(judged.launches["clock_ghz"].median())
    seconds = time.cycles / clock_ghz * 1e-9
    load, store, atomic = (
        SECTOR_BYTES * table.sectors(*ops) / max(1, table.launches)
        for ops in (LOAD_OPS, STORE_OPS, ATOMIC_OPS)
    )
    has_tma = bool(table.of_class("tma").any())
    read, written = min(load, reach), min(store, reach)
    if has_tma:
        read = reach if math.isfinite(reach) else 0.0
        written = 0.0
    passed = load + store + 2 * atomic + table.local_bytes
    lines = table.total("wavefronts") / max(1, table.launches) + (load + store) / (
        SECTOR_BYTES * thresholds.LINE_SECTORS
    )
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
    timed = experiments[experiments["valid"] & (experiments["experiment"] == "off")]
    whole = timed[timed["op"] == GROUPS["memory"]]["saved_pct"]
    return max(0.0, float(whole.max()) / 100) if len(whole) else math.inf


SAMPLES: Final = 100_000
"""That the whole time is divided into."""
_LEAST_PCT: Final = 1.0
_LOADED: Final = ("global load", "async copy", "tma")
_EXCHANGED: Final = ("shared load", "shared store", "matrix load", "warp exchange")
_OUTSIDE: Final = ("global load", "global store", "async copy", "tma", "atomic")
_BY_LABEL: Final[tuple[tuple[tuple[str, ...], str, tuple[str, ...]], ...]] = (
    (("load", "async copy", "tma load", "gather"), "long_scoreboard", _LOADED),
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


def waits_of(counts: pd.DataFrame, experiments: pd.DataFrame, busy: float) -> pd.DataFrame:
    """Rows of `prof.samples`, of one configuration; none without a valid experiment.

    counts, experiments: its rows of these tables. busy: the part of the time in which its busiest pipe or the
    issue slots are used.
    """
    timed = experiments[
        experiments["valid"] & (experiments["experiment"] == "off") & experiments["saved_pct"].notna()
    ]
    if not len(timed) or not len(counts):
        return samples_frame()
    own = _Counted(counts)
    shares: defaultdict[tuple[int, str], float] = defaultdict(float)
    for share, rows, stall in _found(own, timed):
        for pc, part in own.divided(rows, share):
            shares[pc, stall] += part
    left = max(0.0, 1 - sum(shares.values()))
    issued, every, fixed = min(left, busy), np.ones(len(counts), np.bool_), _fixed_loads(own, experiments)
    rest = (fixed, "long_scoreboard") if fixed.any() else (every, _UNEXPLAINED)
    for share, (rows, stall) in ((issued, (every, _ISSUED)), (left - issued, rest)):
        for pc, part in own.divided(rows, share):
            shares[pc, stall] += part
    return own.samples(shares)


def _found(own: _Counted, timed: pd.DataFrame) -> Iterator[tuple[float, Any, str]]:
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
        yield share, *own.waited_for(row["op"], row["file"], row["line"])
    named = timed[(timed["line"] != 0) & timed["op"].str.startswith("atomic")]
    for row in named.to_dict("records") if whole > told else ():
        rest = (whole - told) / 100 / len(named)
        yield rest, *own.waited_for(row["op"], row["file"], row["line"])


def _fixed_loads(own: _Counted, experiments: pd.DataFrame) -> Any:
    """The instructions of loads that could not be left out, in what runs more than once a warp."""
    fixed = experiments[
        experiments["saved_pct"].isna()
        & (experiments["experiment"] == "off")
        & experiments["op"].str.startswith("load")
    ]
    rows = np.zeros(len(own.cls), np.bool_)
    for row in fixed.to_dict("records"):
        rows |= own.at(row["file"], row["line"]) & np.isin(own.cls, _LOADED)
    return rows & (own.executed > own.executed.min(initial=np.inf, where=own.executed > 0))


class _Counted:
    """The instructions of one configuration."""

    def __init__(self, counts: pd.DataFrame) -> None:
        self._counts = counts
        self._pcs = counts["pc"].to_numpy(np.int64)
        self._lines = counts["line"].to_numpy(np.int64)
        self._files = counts["file"].to_numpy(dtype=str)
        self.executed = counts["executed"].to_numpy(np.float64)
        opcodes = counts["opcode"].to_numpy(dtype=str)
        self.cls = np.array([class_of(opcode.partition(".")[0]) for opcode in opcodes], dtype=str)

    def at(self, file: str, line: int) -> Any:
        return (self._lines == line) & (self._files == file)

    def waited_for(self, op: str, file: str, line: int) -> tuple[Any, str]:
        """The instructions of an op, and the stall of those that wait for it: at the barriers of an exchange,
        if it has some."""
        here = self.at(file, line)
        for labels, stall, classes in _BY_LABEL:
            if op.startswith(labels):
                rows = here & np.isin(self.cls, classes)
                meetings = here & (self.cls == "barrier")
                if classes == _EXCHANGED and meetings.any():
                    return meetings, "barrier"
                return (rows if rows.any() else here), stall
        return here & ~np.isin(self.cls, _OUTSIDE), _MATH

    def divided(self, rows: Any, share: float) -> Iterator[tuple[int, float]]:
        """A share, by pc of these instructions."""
        total = float(self.executed[rows].sum())
        if total and share > 0:
            for pc, count in zip(self._pcs[rows].tolist(), self.executed[rows].tolist(), strict=True):
                yield pc, share * count / total

    def samples(self, shares: Mapping[tuple[int, str], float]) -> pd.DataFrame:
        whole = sum(shares.values())
        place = {pc: at for at, pc in enumerate(self._pcs.tolist())}
        at = np.array([place[pc] for pc, _ in shares], np.int64)
        rows = self._counts.iloc[at]
        own = {
            "pc": self._pcs[at], "file": self._files[at], "line": self._lines[at], "class": self.cls[at],
        }  # fmt: skip
        taken = [round(SAMPLES * share / whole) for share in shares.values()]
        return samples_frame(
            own
            | {f"blamed_{name}": values for name, values in own.items()}
            | {
                "kernel": rows["kernel"].astype(str).to_numpy(),
                "variant": rows["variant"].to_numpy(),
                "launch": np.full(len(at), -1),
                "binary": ["bare"] * len(at),
                "call_path": rows["call_path"].astype(str).to_numpy(),
                "stall": [stall for _, stall in shares],
                "samples": taken,
            }
        )


def idle_of(ctas: pd.DataFrame, grid: int, sms: int) -> float:
    """Of a launch's time on all SMs, 0 to 1; of several launches, the mean. 0 if it is not known of all CTAs
    of a launch when they ran, or how many SMs there are.

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
