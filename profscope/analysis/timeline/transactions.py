"""Asynchronous work as one row each: when it was issued, how long it was in flight, what its wait cost."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from profscope.analysis.spans.rows import Ints
from profscope.schema import Tables

__all__ = ["Ended", "ended_work", "transactions"]


class Ended(NamedTuple):
    """Rows of a span table, side by side: asynchronous work that a recorded wait ended, the op that issued
    it, and that wait."""

    flight: Ints
    issue: Ints
    wait: Ints


def ended_work(df: pd.DataFrame) -> Ended:
    """In the order of the table."""
    known = (df["wait"] >= 0).to_numpy() & (df["parent"] >= 0).to_numpy()
    flight = np.flatnonzero(known & (df["kind"] == "async").to_numpy())
    return Ended(flight, df["parent"].to_numpy()[flight], df["wait"].to_numpy()[flight])


def transactions(tables: Tables) -> pd.DataFrame:
    """One row per asynchronous operation that a recorded wait ended, in the order of the span table.

    Columns: kernel, launch, cta, sm, warp, file, line, call_path, iteration; scope, of the op that issued it;
    start_ns, when that began; issue_ns, how long that took; in_flight_ns, from there until the wait returned;
    wait and wait_warp, the scope and the warp that waited; waiting_ns, how long its wait took; and
    start_cycle to waiting_cycles likewise. A wait that ended several operations counts with each, so a sum
    over them is not the time lost: that is the sum of the waits' own spans. The index is the async row in
    `df`.
    """
    df = tables.df
    ended, issue, wait = ended_work(df)
    columns: dict[str, Any] = {
        name: df[name].iloc[ended].array
        for name in ("kernel", "launch", "cta", "sm", "warp", "file", "line", "call_path", "iteration")
    }
    columns |= {"scope": df["scope"].iloc[issue].array, "wait": df["scope"].iloc[wait].array}
    columns["wait_warp"] = df["warp"].to_numpy()[wait]
    for start, duration, unit in (
        ("start_ns", "duration_ns", "ns"),
        ("start_cycle", "duration_cycles", "cycles"),
    ):
        length = df[duration].to_numpy()
        columns[start] = df[start].to_numpy()[ended]
        columns |= {f"issue_{unit}": length[issue], f"in_flight_{unit}": length[ended]}
        columns[f"waiting_{unit}"] = length[wait]
    return pd.DataFrame(columns, index=pd.Index(ended))
