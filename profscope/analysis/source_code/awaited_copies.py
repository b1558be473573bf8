"""Asynchronous copies that a line waits for, and how many steps before they were issued."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from profscope.analysis.texts import count_text
from profscope.schema import Tables

__all__ = ["copies_waited_for"]

_PLACES: Final = ["file", "line", "wait_file", "wait_line"]


def copies_waited_for(tables: Tables) -> dict[tuple[str, int], dict[tuple[str, int], list[str]]]:
    """By kernel and variant, and by the place of a wait, the asynchronous work that ended there, most first:
    "async copy x, line 16, issued 2 steps before (4,096)", steps of its loop, in the middle."""
    df, launches = tables.df, tables.launches
    known = (df["wait"] >= 0).to_numpy() & (df["parent"] >= 0).to_numpy()
    issued = np.flatnonzero(known & (df["kind"] == "async").to_numpy())
    if not len(issued):
        return {}
    op, waited = df["parent"].to_numpy()[issued], df["wait"].to_numpy()[issued]
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
