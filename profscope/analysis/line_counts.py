"""What the instruction counts say of each source line."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, Final

import pandas as pd

from profscope.analysis.line_rows import ROW
from profscope.analysis.pipes import slots_of

__all__ = ["LINE_COLUMNS", "line_counts"]

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
    """One row for each line of a configuration, which ROW of `line_rows` is the index of.

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
