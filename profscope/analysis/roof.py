"""What is known of the bytes that a kernel moves, and of its types."""

from __future__ import annotations

import re
from typing import Final

import pandas as pd

from profscope.analysis.kernel_analysis import KernelAnalysis

__all__ = [
    "GLOBAL",
    "bytes_unknown",
    "copies_unknown",
    "global_bytes",
    "narrowest_bits",
]

GLOBAL: Final = ("load", "store", "atomic", "async_copy")
_WAITS: Final = ("async wait", "barrier wait")


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
