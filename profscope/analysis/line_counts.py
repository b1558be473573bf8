"""What the instruction counts say of each source line."""

from __future__ import annotations

import math
from typing import Any, Final

import pandas as pd

from profscope.analysis.line_rows import ROW
from profscope.analysis.pipes import pipe_of

__all__ = ["LINE_COLUMNS", "line_counts"]

LINE_COLUMNS: Final = (
    "issue_share",
    "pipe",
    "pipe_share",
    "sectors_over_ideal",
    "wavefronts_over_ideal",
    "active_threads",
)
_CYCLES: Final = {"tensor": 32.0, "xu": 2.0, "tma": 2.0, "lsu": 1.0, "fp64": 0.5, "alu": 0.5, "fma": 0.25}
"""About how many cycles a warp instruction keeps its pipe of an SM of Hopper busy; the pipe of a line is the
one that the line keeps busy longest."""


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
    rows = counts.assign(pipe=counts["opcode"].astype("str").map(pipe_of))
    kernels = rows.groupby(["kernel", "variant"], observed=True)["executed"].sum().to_dict()
    pipes = rows.groupby(["kernel", "variant", "pipe"], observed=True)["executed"].sum().to_dict()
    found: list[dict[str, Any]] = []
    keys: list[Any] = []
    for key, group in rows.groupby(ROW, observed=True):
        keys.append(key)
        executed = int(group["executed"].sum())
        of_pipe = {str(pipe): int(number) for pipe, number in group.groupby("pipe")["executed"].sum().items()}
        busy = {pipe: number * _CYCLES[pipe] for pipe, number in of_pipe.items() if pipe and number}
        pipe = max(busy, key=lambda each: busy[each]) if busy else ""
        of_kernel = key[:2]
        found.append(
            {
                "issue_share": _ratio(executed, kernels[of_kernel]),
                "pipe": pipe,
                "pipe_share": _ratio(of_pipe[pipe], pipes[(*of_kernel, pipe)]) if pipe else math.nan,
                "sectors_over_ideal": _ratio(group["sectors"].sum(), group["sectors_ideal"].sum()),
                "wavefronts_over_ideal": _ratio(group["wavefronts"].sum(), group["wavefronts_ideal"].sum()),
                "active_threads": _ratio(group["threads"].sum(), executed),
            }
        )
    index = pd.MultiIndex.from_tuples(keys, names=ROW)
    return pd.DataFrame(found, columns=[*LINE_COLUMNS], index=index)


def _ratio(part: float, whole: float) -> float:
    return float(part) / float(whole) if whole else math.nan
