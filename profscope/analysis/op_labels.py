"""The kind of op of a scope, by the label that its name begins with, and its pipeline stages."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import numpy as np
import pandas as pd

from profscope.analysis.spans.rows import Ints
from profscope.instrument_passes.ops import OPS, SPANNABLE, OpInfo

__all__ = [
    "hides_copies",
    "instructions_of",
    "is_copy_wait",
    "label_of",
    "op_class",
    "stages_of",
    "with_global_bytes",
]

_INFOS = {info.label: info for info in OPS.values() if info.cls in SPANNABLE}

# Ops that move bytes between global memory and a CTA: others move the same bytes once more inside.
_GLOBAL = ("load", "store", "atomic", "async_copy")
_INSIDE = ("local atomic", "cluster store")

_COPY = "async_copy"
_COPY_WAITS = ("async wait", "barrier wait")

_INSTRUCTIONS = {
    "load": frozenset({"global load", "tma"}),
    "store": frozenset({"global store", "tma"}),
    "atomic": frozenset({"atomic"}),
    "async_copy": frozenset({"async copy", "tma"}),
    "mma": frozenset({"mma", "barrier"}),
    "wait": frozenset({"async copy", "barrier", "control", "predicate", "tma"}),
    "barrier": frozenset({"barrier"}),
}
"""The classes of instructions that these ops are made of; a wait for a phase is a loop around a test. Other
ops are made of any."""


def op_info(scope: str) -> OpInfo | None:
    """The row of the op that a span is named after, None for an unknown one."""
    return _INFOS.get(label_of(scope))


def op_class(scope: str) -> str:
    """The class of the op that a span is named after (`load` of "load x latency"), "" for an unknown one."""
    info = op_info(scope)
    return "" if info is None else info.cls


def instructions_of(scope: str) -> frozenset[str] | None:
    """The classes of instructions that an op's span has inside, None if these may be any."""
    return _INSTRUCTIONS.get(op_class(scope))


def with_global_bytes(summary: pd.DataFrame) -> pd.DataFrame:
    """A summary whose `bytes_at_most` are missing if an op moves none to or from global memory."""
    scopes = summary["scope"].astype("str")
    moved = [op_class(scope) in _GLOBAL and label_of(scope) not in _INSIDE for scope in scopes]
    is_global = pd.Series(moved, summary.index, dtype="bool")
    return summary.assign(bytes_at_most=summary["bytes_at_most"].where(is_global))


def hides_copies(scopes: Iterable[str]) -> bool:
    """Whether a kernel with these scopes waits for copies, and none of them is recorded itself."""
    told = set(scopes)
    return any(map(is_copy_wait, told)) and not any(op_class(scope) == _COPY for scope in told)


def is_copy_wait(scope: str) -> bool:
    """Whether a scope is a wait for asynchronous copies."""
    return label_of(scope) in _COPY_WAITS


@lru_cache(maxsize=4096)
def label_of(scope: str) -> str:
    """The longest that the name begins with, "" if none."""
    return max((label for label in _INFOS if f"{scope} ".startswith(f"{label} ")), key=len, default="")


def stages_of(df: pd.DataFrame, site: Ints, count: int) -> list[str]:
    """By site, "steady" or "prologue, steady"; "" if its ops have none. site, count: as `sites` gives."""
    if "stage" not in df.columns or not isinstance(df["stage"].dtype, pd.CategoricalDtype):
        return [""] * count
    names = [str(name) for name in df["stage"].cat.categories]
    codes = df["stage"].cat.codes.to_numpy().astype(np.int64)
    known = np.flatnonzero(codes >= 0)
    each = np.bincount(site[known] * len(names) + codes[known], minlength=count * len(names))
    return [
        ", ".join(name for name, seen in zip(names, own, strict=True) if seen)
        for own in each.reshape(count, len(names))
    ]
