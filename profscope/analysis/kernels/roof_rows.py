"""The use of the device's peaks by kernels, from the types of their ops."""

from __future__ import annotations

import re
from typing import Any, Final

import numpy as np
import pandas as pd

from profscope.analysis.answers import Answer, joined_frame
from profscope.analysis.kernels.kernel_analysis import KernelAnalysis, SkippedKernel, kernel_analyses
from profscope.analysis.op_labels import hides_copies, is_copy_wait
from profscope.schema import Tables

__all__ = ["roof_rows_of", "roof_table"]

_DTYPES: Final = {
    "kernel": "str",
    "variant": "int32",
    "bytes": "float64",
    "flops": "float64",
    "ns": "float64",
    "gb_per_s": "float64",
    "tflop_per_s": "float64",
    "bound": "str",
    "peak_pct": "float64",
}


def roof_table(tables: Tables) -> pd.DataFrame:
    """One row per kernel and configuration.

    Columns: kernel, variant; bytes and flops of a launch, to and from global memory and in dots, by the types
    of ops (upper bounds if lanes are masked off; caches may have held them); ns, of a launch; gb_per_s,
    tflop_per_s.

    bound, "memory" or "tensor cores": the lower roof; peak_pct, its use in percent. The roof is the dense
    peak of the tensor cores for the narrowest type that the kernel has pointers to, and the peak of DRAM.
    Bytes by types are compared with DRAM only in kernels without dots, whose tiles are not read again, and
    only if DRAM can move as many: others come from caches. Without a roof, as on the emulator and on devices
    with unknown peaks, bound is "" and peak_pct is missing. Copies without spans, as at the default level,
    have the bytes of the waits that end them; if these are unknown, bytes are missing.

    attrs["not_measured"]: list of str, kernels without rows, and why.
    """
    return joined_frame(map(roof_rows_of, kernel_analyses(tables)), _DTYPES)


def roof_rows_of(judged: KernelAnalysis | SkippedKernel) -> Answer:
    """Those of one configuration."""
    if isinstance(judged, SkippedKernel):
        return judged.answer
    if not judged.whole:
        why = "only some of the CTAs were recorded, whose time is not the launch's"
        return Answer([], [f"{judged.kernel}: {why}"])
    if not judged.launch_ns or judged.work.empty:
        return Answer([], [f"{judged.kernel}: the bytes and FLOPs of its ops are unknown"])
    row, missing = _row(judged), []
    if bytes_unknown(judged):
        row |= {"bytes": np.nan, "gb_per_s": np.nan}
        missing.append(f"{judged.kernel}: bytes of copies, which were not recorded (instrument='heavy' does)")
    if judged.emulated:
        missing.append(f"{judged.kernel}: the emulator has no peaks; rates are those of its cost model")
    elif judged.peak is None:
        missing.append(f"{judged.kernel}: no peaks of its device are known (`profscope doctor --measure`)")
    return Answer([row], missing)


def _row(judged: KernelAnalysis) -> dict[str, Any]:
    """That of a configuration whose work is known."""
    moved, flops = float(global_bytes(judged.work).sum()), float(judged.work["flops"].sum())
    row: dict[str, Any] = {"kernel": judged.kernel, "variant": judged.variant, "ns": judged.launch_ns}
    row |= {"bytes": moved, "flops": flops, "bound": "", "peak_pct": np.nan}
    row |= {"gb_per_s": moved / judged.launch_ns, "tflop_per_s": flops / judged.launch_ns / 1e3}
    peak = None if judged.emulated else judged.peak
    if peak is None:
        return row
    best = peak.tflop_per_s.get(narrowest_bits(judged), 0.0)
    of_dots = row["tflop_per_s"] / best if best else 0.0
    of_memory = row["gb_per_s"] / peak.memory_gb_per_s
    if of_memory > 1 or flops:
        of_memory = 0.0
    if not 0 < max(of_dots, of_memory) <= 1:
        return row
    bound = "memory" if of_memory >= of_dots else "tensor cores"
    return row | {"bound": bound, "peak_pct": 100 * max(of_memory, of_dots)}


# What is known of the bytes that a kernel moves, and of its types.


_GLOBAL: Final = ("load", "store", "atomic", "async_copy")


def bytes_unknown(judged: KernelAnalysis) -> bool:
    """Whether copies were not recorded and their bytes are unknown: passes could not add them to each of
    their waits."""
    if not hides_copies(judged.sites["scope"]):
        return False
    scopes = judged.work["scope"]
    waits = scopes.map(is_copy_wait).astype("bool") & ~scopes.str.contains("drain", regex=False)
    return not waits.any() or not judged.work.loc[waits, "bytes"].all()


def global_bytes(work: pd.DataFrame) -> pd.Series:
    """The bytes that each scope of a kernel's `work` moves to or from global memory, a copy's where it was
    recorded, or else where it was waited for."""
    return work["bytes"].where(work["cls"].isin((*_GLOBAL, "wait")), 0.0)


def narrowest_bits(judged: KernelAnalysis) -> int:
    """Bits of the narrowest floating-point type of the kernel's pointers, 16 if unknown."""
    signature = (judged.configuration.get("signature") or {}).values()
    types = [str(each) for each in signature if re.match(r"\*(fp|bf)|tensordesc<(fp|bf)", str(each))]
    bits = [int(match[1]) for each in types if (match := re.search(r"(?:fp|bf)(\d+)", each))]
    return min(bits, default=16)
