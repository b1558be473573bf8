"""Decoded launches to the tidy table: one row per span, strings categorical, sorted, parents resolved."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from profscope.decode import DecodedLaunch
from profscope.timebase import TimeBase

__all__ = ["span_table"]

Ints = npt.NDArray[np.int64]


def span_table(launches: Sequence[tuple[int, str, DecodedLaunch, TimeBase]]) -> pd.DataFrame:
    """The span table of Profile.df from (launch index, kernel, decoded launch, time base) tuples."""
    parts = [_launch_columns(*launch) for launch in launches]
    sites = [site for _, _, decoded, _ in launches for site in decoded.sites]
    site_base = np.cumsum([0, *(len(decoded.sites) for _, _, decoded, _ in launches)])
    row_base = np.cumsum([0, *(len(decoded.span) for _, _, decoded, _ in launches)])
    for part, first_site, first_row in zip(parts, site_base, row_base, strict=False):
        part["site"] = part["site"] + first_site
        part["parent"] = np.where(part["parent"] >= 0, part["parent"] + first_row, -1)

    def column(name: str, dtype: str) -> npt.NDArray[np.generic]:
        return np.concatenate([p[name] for p in parts]).astype(dtype) if parts else np.zeros(0, dtype)

    site = column("site", "int64")

    def categories(values: list[str], codes: npt.NDArray[np.generic]) -> pd.Categorical:
        names = sorted(set(values))
        index = {name: i for i, name in enumerate(names)}
        lookup = np.array([index[v] for v in values], np.int32)
        return pd.Categorical.from_codes(
            lookup[codes] if len(values) else codes, categories=pd.Index(names, dtype=str)
        )

    kernels = [kernel for _, kernel, _, _ in launches]
    launch_position = np.repeat(np.arange(len(launches)), [len(p["site"]) for p in parts])
    return pd.DataFrame(
        {
            "kernel": categories(kernels, launch_position),
            "launch": column("launch", "int32"),
            "cta": column("cta", "int32"),
            "sm": column("sm", "int32"),
            "warp": column("warp", "int32"),
            "scope": categories([s.name for s in sites], site),
            "kind": categories([s.kind for s in sites], site),
            "file": categories([s.file for s in sites], site),
            "line": np.array([s.line for s in sites], np.int32)[site],
            "iteration": column("iteration", "int32"),
            "depth": column("depth", "int32"),
            "parent": column("parent", "int64"),
            "start_cycle": column("start_cycle", "int64"),
            "duration_cycles": column("duration_cycles", "int64"),
            "start_ns": column("start_ns", "int64"),
            "duration_ns": column("duration_ns", "int64"),
        },
        copy=False,
    )


def _launch_columns(launch: int, kernel: str, decoded: DecodedLaunch, base: TimeBase) -> dict[str, Ints]:
    order = _order(decoded)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    parent = decoded.parent[order]
    sm, start, end = decoded.sm[order], decoded.start_cycle[order], decoded.end_cycle[order]
    start_ns = base.to_ns(start, sm)
    return {
        "site": decoded.span[order],
        "launch": np.full(len(order), launch, np.int64),
        "cta": decoded.cta[order],
        "sm": sm,
        "warp": decoded.warp[order],
        "iteration": decoded.iteration[order],
        "depth": decoded.depth[order],
        "parent": np.where(parent >= 0, rank[parent], -1),
        "start_cycle": start,
        "duration_cycles": end - start,
        "start_ns": start_ns,
        "duration_ns": base.to_ns(end, sm) - start_ns,
    }


def _order(decoded: DecodedLaunch) -> Ints:
    """Sorts by CTA, warp, start; ties (shared clock reads) by site, which are numbered in program order."""
    if not len(decoded.span):
        return np.zeros(0, np.int64)
    start = decoded.start_cycle - decoded.start_cycle.min()
    bits = [int(a.max()).bit_length() for a in (decoded.cta, decoded.warp, start, decoded.span)]
    if sum(bits) > 63:
        return np.lexsort((decoded.span, start, decoded.warp, decoded.cta))
    key = decoded.cta
    for values, width in zip((decoded.warp, start, decoded.span), bits[1:], strict=True):
        key = (key << width) | values
    return np.argsort(key, kind="stable")
