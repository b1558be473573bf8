"""How near a kernel comes to what its device can do."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from profscope.analysis.kernel_analysis import KernelAnalysis
from profscope.analysis.overhead import bare_times

__all__ = [
    "GLOBAL",
    "Roof",
    "bytes_once",
    "bytes_unknown",
    "copies_unknown",
    "global_bytes",
    "narrowest_bits",
    "roof_of",
]

GLOBAL: Final = ("load", "store", "atomic", "async_copy")
# Of the bandwidth in a data sheet: an add of 64 M elements reaches 0.89 on an H200.
_ATTAINABLE: Final = 0.92
# From here on a launch that was recorded is at the roof: records cost it some percent, and noise is 5.
_AT_ROOF: Final = 0.8
_WAITS: Final = ("async wait", "barrier wait")
_POINTER: Final = re.compile(r"\.load\(\s*([A-Za-z_]\w*)")


@dataclass(frozen=True)
class Roof:
    """left_pct: of the launch's time, what its flops or bytes do not need at the device's peak; 100 where
    nobody knows. text: how near it comes, "" where nobody knows."""

    left_pct: float
    text: str


def roof_of(judged: KernelAnalysis) -> Roof | None:
    """The roof of a kernel's launches; None where the device's peaks are not known, or only some of the CTAs
    were recorded: the time of these is not that of the launch.

    With dots it is the flops at the dense peak of the tensor cores, for the narrowest type that the kernel is
    given pointers to. Without dots it is the bytes of loads and stores at the peak of DRAM, each pointer of
    the source counted once, of which kernels reach 92 % at best; one that reaches 80 % has nothing left. The
    time is that of bare launches where some were timed (`session(baseline=)`) and were faster. Where that is
    more than was possible the data came from a cache, and there is no roof; where nobody knows what copies
    move, there is none either.
    """
    peak = judged.peak
    if peak is None or not judged.whole:
        return None
    bare_ns = bare_times(judged.tables.metadata, judged.kernel, judged.variant).get("bare_ns") or []
    took = min([judged.launch_ns, *([float(np.median(bare_ns))] if bare_ns else [])])
    work = judged.work
    if not took or work.empty:
        return None
    flops, reachable = float(work["flops"].sum()), 1.0
    if flops:
        best = peak.tflop_per_s.get(narrowest_bits(judged), 0.0)
        part = flops / took / 1e3 / best if best else 0.0
        text = (
            f"{100 * part:.0f} % of the peak of the tensor cores "
            f"({flops / took / 1e3:,.0f} of {best:,.0f} TFLOP/s)"
        )
    else:
        if bytes_unknown(judged):
            return None
        moved, reachable = bytes_once(judged), _ATTAINABLE
        part = moved / took / peak.memory_gb_per_s
        text = (
            f"{100 * part:.0f} % of the peak bandwidth of DRAM "
            f"({moved / took:,.0f} of {peak.memory_gb_per_s:,.0f} GB/s)"
        )
    if not 0 < part <= 1:
        return Roof(100.0, "")
    at_roof = not flops and part >= _AT_ROOF
    left = 0.0 if at_roof else 100.0 * max(0.0, 1 - part / reachable)
    return Roof(left, f"{text}, by {peak.source}")


def copies_unknown(judged: KernelAnalysis) -> bool:
    """Whether the kernel copies asynchronously, and the copies were not recorded."""
    waits = judged.sites["scope"].str.startswith(_WAITS).any()
    return bool(waits) and not (judged.work["cls"] == "async_copy").any()


def bytes_unknown(judged: KernelAnalysis) -> bool:
    """Whether nobody says what these copies move: each wait of theirs tells it, where passes could know."""
    if not copies_unknown(judged):
        return False
    scopes = judged.work["scope"]
    waits = scopes.str.startswith(_WAITS) & ~scopes.str.contains("drain", regex=False)
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


def bytes_once(judged: KernelAnalysis) -> float:
    """Bytes of loads and stores of a launch; loads through one pointer of the source count once."""
    work = judged.work
    rows = work.assign(bytes=global_bytes(work))
    total, seen = 0.0, set()
    for _, row in rows.iterrows():
        match = _POINTER.search(judged.lines.get(int(row["line"]), "")) if row["cls"] == "load" else None
        if match and (match[1], row["bytes"]) in seen:
            continue
        if match:
            seen.add((match[1], row["bytes"]))
        total += float(row["bytes"])
    return total
