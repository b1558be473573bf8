"""Spans summed up in plain Python, as launches would that keep sums."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pandas as pd

from profscope.analysis.span_rows import SITE_COLUMNS
from profscope.profiles import Profile
from profscope.schema import spreads_frame, sums_frame

__all__ = ["with_sums"]


def with_sums(profile: Profile, launches: Collection[int]) -> Profile:
    """A profile some of whose launches have kept sums in place of their spans."""
    df = profile.df
    groups = profile.launches.set_index("launch")[["variant", "trial"]]
    rows: list[dict[str, Any]] = []
    known: dict[tuple[Any, ...], int] = {}
    row_of_span: dict[int, int] = {}
    seen: list[set[tuple[int, int, int]]] = []
    for span in df[df["launch"].isin(launches)].itertuples():
        variant, trial = groups.loc[span.launch]
        above = row_of_span.get(span.parent, -1)
        place = {name: getattr(span, name) for name in SITE_COLUMNS}
        key = variant, trial, above, *place.values()
        if key not in known:
            known[key] = len(rows)
            figures = dict.fromkeys(("count", "total_cycles", "total_ns", "longest_cycles", "longest_ns"), 0)
            rows.append({**place, "variant": variant, "trial": trial, "parent": above, **figures})
            seen.append(set())
        row_of_span[span.Index] = at = known[key]
        seen[at].add((span.launch, span.cta, span.warp))
        rows[at]["count"] += 1
        for unit in ("cycles", "ns"):
            duration = getattr(span, f"duration_{unit}")
            rows[at][f"total_{unit}"] += duration
            rows[at][f"longest_{unit}"] = max(rows[at][f"longest_{unit}"], duration)
    for row, warps in zip(rows, seen, strict=True):
        row |= {"warps": len(warps), "launches": len({launch for launch, _, _ in warps})}
        row |= {"grid_count": row["count"], "grid_cycles": row["total_cycles"], "grid_ns": row["total_ns"]}
    sums = sums_frame({name: [row[name] for row in rows] for name in rows[0]} if rows else None)
    balance = profile.balance()
    spreads = spreads_frame(balance[balance["launch"].isin(launches)])
    kept = df[~df["launch"].isin(launches)].reset_index().rename(columns={"index": "old"})
    row = pd.Series(kept.index, kept.pop("old"))
    kept = kept.assign(
        **{name: row.reindex(kept[name]).fillna(-1).astype("int64").to_numpy() for name in ("parent", "wait")}
    )
    keeps = profile.launches["launch"].isin(launches).map({True: "sums", False: "spans"}).astype("str")
    table = profile.launches.assign(keeps=keeps)
    everything = Profile(df[df["launch"].isin(launches)], profile.launches, profile.metadata).balance()
    all_of_them = everything[everything["launch"] == -1]
    spreads = pd.concat([all_of_them, spreads], ignore_index=True) if len(spreads) else spreads
    return Profile(kept, table, profile.metadata, sums, spreads)
