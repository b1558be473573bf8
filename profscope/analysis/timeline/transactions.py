"""Asynchronous work as one row each: issue, time in flight, cost of its wait."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from profscope.analysis.spans.rows import Ints
from profscope.analysis.texts import count_text
from profscope.schema import Tables

__all__ = ["Ended", "copies_waited_for", "ended_work", "transactions"]


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


_PLACES = ["file", "line", "wait_file", "wait_line"]


def copies_waited_for(tables: Tables) -> dict[tuple[str, int], dict[tuple[str, int], list[str]]]:
    """By kernel and variant, and by the place of a wait, the asynchronous work that ended there, most first:
    "async copy x, line 16, issued 2 steps before (4,096)", steps of its loop, in the middle."""
    df, launches = tables.df, tables.launches
    issued, op, waited = ended_work(df)
    if not len(issued):
        return {}
    variants = launches.drop_duplicates("launch").set_index("launch")["variant"]
    began, ended = df.iloc[issued], df.iloc[waited]
    steps = began["iteration"].to_numpy(), ended["iteration"].to_numpy()
    table = pd.DataFrame(
        {
            "kernel": began["kernel"].array,
            "variant": variants.reindex(began["launch"]).to_numpy(),
            "scope": df["scope"].iloc[op].array,
            "wait": ended["scope"].array,
            "file": began["file"].array,
            "line": began["line"].to_numpy(),
            "wait_file": ended["file"].array,
            "wait_line": ended["line"].to_numpy(),
            "ahead": np.where((steps[0] >= 0) & (steps[1] >= 0), steps[1] - steps[0], np.nan),
            "others": began["warp"].to_numpy() != ended["warp"].to_numpy(),
        }
    )
    groups = table.groupby(["kernel", "variant", "scope", "wait", *_PLACES], sort=False, observed=True)
    found = groups.agg(count=("ahead", "size"), ahead=("ahead", "median"), others=("others", "any"))
    found = found.sort_values("count", ascending=False, kind="stable").reset_index()
    texts: dict[tuple[str, int], dict[tuple[str, int], list[str]]] = {}
    for row in found.to_dict("records"):
        of_kernel = texts.setdefault((row["kernel"], int(row["variant"])), {})
        of_kernel.setdefault((row["wait_file"], int(row["wait_line"])), []).append(_text(row))
    return texts


def _text(row: dict[Any, Any]) -> str:
    ahead = 0 if np.isnan(row["ahead"]) else round(row["ahead"])
    when = f", issued {ahead} step{'s' * (ahead != 1)} before" if ahead else ""
    who = " by other warps" * row["others"]
    return f"{row['scope']}, line {row['line']}{when}{who} ({count_text(row['count'])})"
