"""How near each loop and each line comes to what the device can do."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import pandas as pd

from profscope.analysis.answers import Answer, joined_frame
from profscope.analysis.kernels.kernel_analysis import KernelAnalysis, SkippedKernel, kernel_analyses
from profscope.analysis.op_labels import hides_copies, is_copy_wait
from profscope.analysis.spans.rows import Floats, Ints
from profscope.schema import Tables

__all__ = ["GLOBAL", "copies_unknown", "roof_frame", "roof_rows_of", "roof_table", "rows_of"]

_PLACE: Final = ("scope", "kind", "file", "line", "call_path")
_DTYPES: Final = {
    "kernel": "str",
    "variant": "int32",
    "of": "str",
    "scope": "str",
    "file": "str",
    "line": "int32",
    "bytes": "float64",
    "flops": "float64",
    "ns": "float64",
    "gb_per_s": "float64",
    "tflop_per_s": "float64",
    "flops_per_byte": "float64",
    "bound": "str",
    "peak_pct": "float64",
    "peak": "str",
}


_NO_BYTES: Final = dict.fromkeys(("bytes", "gb_per_s", "flops_per_byte"), np.nan)


def roof_table(tables: Tables) -> pd.DataFrame:
    """One row per kernel and configuration, per loop in it, and per line that moves or computes anything.

    Columns: kernel, variant; of, "kernel", "loop" or "line"; scope, file, line; bytes and flops of a launch,
    to and from global memory and in dots, by the types of ops (upper bounds if lanes are masked off;
    caches may have held them); ns, the time that they are set against: of a kernel its launch, of a loop
    the same part of the launch as warps spent in it, of a line that of the loop around it, or of the kernel,
    so that lines of a loop add up to it; gb_per_s, tflop_per_s; flops_per_byte, missing without bytes.

    bound, "memory" or "tensor cores": the roof that is lower there; peak_pct, how much of it is reached, in
    percent; peak, where the peaks of the device stand: by its name (`devices.py`), or measured. The roof is
    the dense peak of the tensor cores for the narrowest type that the kernel has pointers to, and the
    peak of DRAM. Bytes that types count are held against DRAM only in kernels without dots, whose tiles
    are not read again, and where they are no more than it can move: others come from caches. Without a roof,
    as on the emulator and on devices whose peaks nobody knows, bound is "" and peak_pct is missing. Bytes of
    copies that were not recorded themselves, as at the default level, are those of the waits that end them;
    where these do not tell, bytes of the kernel and of loops are missing.

    Sorted by kernel and time. attrs["not_measured"]: list of str, which kernels have no rows, and why.
    """
    return roof_frame(roof_rows_of(each) for each in kernel_analyses(tables))


def roof_frame(told: Iterable[Answer]) -> pd.DataFrame:
    """The table that `roof_table` returns."""
    return joined_frame(told, _DTYPES)


def roof_rows_of(judged: KernelAnalysis | SkippedKernel) -> Answer:
    """Those of one configuration."""
    if isinstance(judged, SkippedKernel):
        return judged.answer
    if not judged.whole:
        why = "only some of the CTAs were recorded, whose time is not the launch's"
        return Answer([], [f"{judged.kernel}: {why}"])
    if not judged.launch_ns or judged.work.empty:
        return Answer([], [f"{judged.kernel}: nobody says what its ops move and compute"])
    rows, missing = rows_of(judged), []
    if bytes_unknown(judged):
        rows = [row | _NO_BYTES if _has_copies(row) else row for row in rows]
        missing.append(f"{judged.kernel}: bytes of copies, which were not recorded (instrument='heavy' does)")
    if judged.emulated:
        missing.append(f"{judged.kernel}: the emulator has no peaks; rates are those of its cost model")
    elif judged.peak is None:
        missing.append(f"{judged.kernel}: no peaks of its device are known (`profscope doctor --measure`)")
    return Answer(rows, missing)


def _has_copies(row: dict[str, Any]) -> bool:
    """Whether copies may be in a row's bytes: not in a line's own."""
    return bool(row["of"] != "line")


def rows_of(judged: KernelAnalysis) -> list[dict[str, Any]]:
    """The rows of one configuration whose work is known: the kernel's first, then those with most time."""
    moved, computed = _work(judged)
    part = judged.launch_ns / judged.warp_cycles
    took = judged.total(judged.spans.duration) * part
    around = loop_of(judged)
    file, line = judged.place
    kernel: dict[str, Any] = {"of": "kernel", "scope": judged.kernel, "file": file, "line": line}
    kernel |= {"ns": judged.launch_ns, "bytes": float(moved.sum()), "flops": float(computed.sum())}
    rows = []
    for loop in np.unique(around[around >= 0]).tolist():
        inside = around == loop
        rows.append(_row(judged, loop, "loop", moved[inside].sum(), computed[inside].sum(), took[loop]))
    for site in np.flatnonzero(moved + computed > 0).tolist():
        ns = took[around[site]] if around[site] >= 0 else judged.launch_ns
        rows.append(_row(judged, site, "line", moved[site], computed[site], ns))
    rows.sort(key=lambda row: (-row["ns"], row["of"] == "line"))
    told = {"kernel": judged.kernel, "variant": judged.variant}
    has_dots = bool(computed.any())
    return [told | row | _rates(judged, row, has_dots) for row in (kernel, *rows)]


def _work(judged: KernelAnalysis) -> tuple[Floats, Floats]:
    """By site, bytes to and from global memory, and flops, of one launch."""
    work = judged.work
    work = work.assign(bytes=global_bytes(work))
    totals = work.groupby(list(_PLACE))[["bytes", "flops"]].sum()
    keys = list(judged.sites[list(_PLACE)].itertuples(index=False, name=None))
    moved = [totals["bytes"].get(key, 0.0) for key in keys]
    computed = [totals["flops"].get(key, 0.0) for key in keys]
    return np.array(moved, np.float64), np.array(computed, np.float64)


def _row(judged: KernelAnalysis, site: int, of: str, moved: float, flops: float, ns: float) -> dict[str, Any]:
    file, line = judged.at(site)
    place = {"of": of, "scope": judged.sites["scope"].iloc[site], "file": file, "line": line}
    return place | {"bytes": float(moved), "flops": float(flops), "ns": float(ns)}


def _rates(judged: KernelAnalysis, row: dict[str, Any], has_dots: bool) -> dict[str, Any]:
    """What follows from a row's bytes, flops and ns."""
    moved, flops, ns = row["bytes"], row["flops"], max(row["ns"], 1e-9)
    rates: dict[str, Any] = {"gb_per_s": moved / ns, "tflop_per_s": flops / ns / 1e3}
    rates |= {
        "flops_per_byte": flops / moved if moved else np.nan,
        "bound": "",
        "peak_pct": np.nan,
        "peak": "",
    }
    peak = None if judged.emulated else judged.peak
    if peak is None:
        return rates
    best = peak.tflop_per_s.get(narrowest_bits(judged), 0.0)
    of_dots = rates["tflop_per_s"] / best if best else 0.0
    of_memory = rates["gb_per_s"] / peak.memory_gb_per_s
    if of_memory > 1 or has_dots:
        of_memory = 0.0
    if not 0 < max(of_dots, of_memory) <= 1:
        return rates
    bound = "memory" if of_memory >= of_dots else "tensor cores"
    return rates | {"bound": bound, "peak_pct": 100 * max(of_memory, of_dots), "peak": peak.source}


# Which loop an op is in.


def loop_of(judged: KernelAnalysis) -> Ints:
    """By site: that of the innermost loop around it, -1 where there is none."""
    spans, kinds = judged.spans, judged.sites["kind"].to_numpy()
    first = np.full(len(judged.sites), -1)
    # A copy of a pipelined loop starts in front of it as well: one in a step of the loop tells more.
    for rows in (np.arange(len(spans)), np.flatnonzero(spans.iteration >= 0)):
        first[spans.site[rows[::-1]]] = rows[::-1]  # the last one put there stays
    result = np.full(len(judged.sites), -1)
    for site, row in enumerate(first):
        at = spans.parent[row] if row >= 0 else -1
        while at >= 0 and kinds[spans.site[at]] != "loop":
            at = spans.parent[at]
        result[site] = spans.site[at] if at >= 0 else -1
    return result


# What is known of the bytes that a kernel moves, and of its types.


GLOBAL: Final = ("load", "store", "atomic", "async_copy")


def copies_unknown(judged: KernelAnalysis) -> bool:
    """Whether the kernel copies asynchronously, and the copies were not recorded."""
    return hides_copies(judged.sites["scope"])


def bytes_unknown(judged: KernelAnalysis) -> bool:
    """Whether nobody says what these copies move: each wait of theirs tells it, where passes could know."""
    if not copies_unknown(judged):
        return False
    scopes = judged.work["scope"]
    waits = scopes.map(is_copy_wait).astype("bool") & ~scopes.str.contains("drain", regex=False)
    return not waits.any() or not judged.work.loc[waits, "bytes"].all()


def global_bytes(work: pd.DataFrame) -> pd.Series:
    """The bytes that each scope of a kernel's `work` moves to or from global memory, a copy's where it was
    recorded, or else where it was waited for."""
    return work["bytes"].where(work["cls"].isin((*GLOBAL, "wait")), 0.0)


def narrowest_bits(judged: KernelAnalysis) -> int:
    """Bits of the narrowest floating-point type of the kernel's pointers, 16 where nobody says."""
    signature = (judged.configuration.get("signature") or {}).values()
    types = [str(each) for each in signature if re.match(r"\*(fp|bf)|tensordesc<(fp|bf)", str(each))]
    bits = [int(match[1]) for each in types if (match := re.search(r"(?:fp|bf)(\d+)", each))]
    return min(bits, default=16)
