"""The rows of `prof.experiments` of what was run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from profscope.experiments.running import Result
from profscope.schema import EXPERIMENT_DTYPES, measured_frame

__all__ = ["experiments_table"]


def experiments_table(results: Sequence[Result], kernel: str, variant: int, unit: str) -> pd.DataFrame:
    """A row for each experiment, in the order in which they were made; the columns of EXPERIMENT_DTYPES.

    unit: of the times, "us" or "kcycles".
    """
    rows = [{"kernel": kernel, "variant": variant, **_row(each, f"time_{unit}")} for each in results]
    return measured_frame(
        "experiments", {name: [row.get(name, math.nan) for row in rows] for name in EXPERIMENT_DTYPES}
    )


def _row(result: Result, time: str) -> dict[str, Any]:
    """time: the column of the time of a launch with the experiment. Without times, columns are missing."""
    experiment, pairs = result.experiment, result.pairs
    row = {name: getattr(experiment, name) for name in ("file", "line", "op")}
    row |= {"experiment": experiment.how, "why_not": result.why_not or result.changed}
    row["valid"] = row["why_not"] == ""
    if pairs is None:
        return row
    ratio = pairs.ratio
    row |= {"saved_pct": 100 * (1 - ratio.ratio), "low_pct": 100 * (1 - ratio.high)}
    row |= {"high_pct": 100 * (1 - ratio.low)}
    return row | {time: sorted(pairs.second)[len(pairs.second) // 2]}
