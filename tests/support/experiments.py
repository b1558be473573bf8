"""Rows of `prof.experiments` that nobody measured."""

from __future__ import annotations

import math

import pandas as pd

from profscope.schema import measured_frame

__all__ = ["experiment"]


def experiment(
    op: str,
    how: str,
    saved: tuple[float, float, float] | None = (81.0, 80.0, 82.0),
    *,
    place: tuple[str, int] = ("k.py", 7),
    kernel: str = "k",
    valid: bool = True,
    emulated: bool = False,
) -> pd.DataFrame:
    """One row. saved: with its interval; None if it was not timed."""
    row = {"kernel": kernel, "variant": 0, "file": place[0], "line": place[1], "op": op, "experiment": how}
    row |= dict(zip(("saved_pct", "low_pct", "high_pct"), saved or (math.nan,) * 3, strict=True))
    time = 10.0 if saved else math.nan
    row |= {"time_us": math.nan if emulated else time, "time_kcycles": time if emulated else math.nan}
    row |= {"valid": valid and saved is not None, "why_not": "" if valid and saved else "other spills"}
    return measured_frame("experiments", {name: [value] for name, value in row.items()})
