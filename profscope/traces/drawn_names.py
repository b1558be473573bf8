"""What things are called where they are drawn: a bar has room for a word or two."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pandas as pd

from profscope.analysis.op_labels import label_of
from profscope.traces.tracks import Tracks

__all__ = ["drawn_name", "root_spans", "warp_name"]

_IN_FLIGHT: Final = " in flight"
_VARIABLE: Final = re.compile(r"[^\W\d]\w*")


def drawn_name(scope: str, kind: str) -> str:
    """A scope's name with the variable first, which a narrow bar still shows: "a: async copy"."""
    if kind not in ("op", "async"):
        return scope
    op = scope.removesuffix(_IN_FLIGHT) if kind == "async" else scope
    label = label_of(op)
    variable = op[len(label) + 1 :]
    if not label or not _VARIABLE.fullmatch(variable):
        return scope
    return f"{variable}: {label}{scope[len(op) :]}"


def warp_name(warp: int, root: str, kernel: str) -> str:
    """A warp's; with its partition's, where the span around all that it did is of one."""
    partition = root.removeprefix(kernel).strip() if root.startswith(f"{kernel} ") else ""
    return f"{partition}, warp {warp}" if partition else f"warp {warp}"


def root_spans(df: pd.DataFrame, tracks: Tracks) -> list[tuple[str, str]]:
    """By track: scope and kernel of its first run's first span, which is around all that the warp did."""
    first = np.zeros(len(tracks.table), np.int64)
    first[tracks.track[::-1]] = tracks.first[::-1]
    return list(zip(df["scope"].iloc[first].tolist(), df["kernel"].iloc[first].tolist(), strict=True))
