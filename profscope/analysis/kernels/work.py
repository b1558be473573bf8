"""Bytes moved and floating-point operations per scope: what an op's types say, times how often it ran.

What ran is in the metadata of each kernel (`decoding.about`). Masks are not known, so bytes include those of
lanes that are masked off: columns of bytes say `at_most`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from profscope.analysis.spans.rows import (
    GROUP_COLUMNS,
    SITE_COLUMNS,
    Flags,
    counted,
    grid_scales,
    group_numbers,
)

__all__ = ["WORK_COLUMNS", "with_work", "works"]

# What `with_work` adds to a summary.
_UNKNOWN: Final[tuple[dict[str, Any], dict[str, Any]]] = (
    {"measures": "", "bytes": 0, "flops": 0},
    {"launches": 0, "ns": 0},
)
WORK_COLUMNS: Final = ("measures", "bytes_at_most", "flops", "gb_per_s_at_most", "tflop_per_s")

# What the metadata have of an op, its column, and that of its rate with the factor from a figure per ns.
_FIGURES: Final = (
    ("bytes", "bytes_at_most", "gb_per_s_at_most", 1.0),
    ("flops", "flops", "tflop_per_s", 1e-3),
)


def with_work(summary: pd.DataFrame, launches: pd.DataFrame, metadata: dict[str, Any]) -> pd.DataFrame:
    """A summary with WORK_COLUMNS, from the launches and metadata of its profile.

    bytes_at_most and flops are missing where the op has none, and where a launch of the variant lost records.
    The rates divide by the time of the variant's whole launches; an emulator's profile has none, nor do
    launches of which only some CTAs were recorded: when the others ended nobody knows.
    """
    known: dict[tuple[Any, ...], tuple[dict[str, Any], dict[str, Any]]] = {}
    for kernel, about in (metadata.get("kernels") or {}).items():
        for work in works(about):
            for row in work["scopes"]:
                place = (row.get(name, "") for name in SITE_COLUMNS[1:])  # older profiles have no call_path
                key = kernel, work["variant"], *place
                known[key] = row, work
    timed = metadata.get("backend") == "gpu"
    number, groups = group_numbers(launches)
    keys = list(zip(*(groups[name].tolist() for name in GROUP_COLUMNS), strict=True))

    def counts(chosen: Flags) -> dict[tuple[Any, ...], int]:
        """By group with any: how many of these launches it has."""
        of_groups = np.bincount(number[chosen], minlength=len(groups)).tolist()
        return {key: of_group for key, of_group in zip(keys, of_groups, strict=True) if of_group}

    count, partial = counts(counted(launches)), counts(grid_scales(launches) > 1)
    columns: dict[str, list[Any]] = {name: [] for name in WORK_COLUMNS}
    named = (*GROUP_COLUMNS, *SITE_COLUMNS[1:])
    for key in zip(*(summary[name].tolist() for name in named), strict=True):
        row, work = known.get(key, _UNKNOWN)
        group = key[: len(GROUP_COLUMNS)]
        whole = work["launches"] == count.get(group, -1)
        known_ns = work["ns"] if timed and not partial.get(group, 0) else 0
        columns["measures"].append(row["measures"])
        for of, name, rate, unit in _FIGURES:
            columns[name].append(row[of] if row[of] and whole else None)
            per_ns = row[of] / known_ns if row[of] and known_ns else np.nan
            columns[rate].append(per_ns * unit)  # bytes per ns are GB/s
    dtypes = {"measures": "str", "bytes_at_most": "Int64", "flops": "Int64"}
    return summary.assign(
        **{
            name: pd.Series(values, summary.index, dtype=dtypes.get(name, "float64"))
            for name, values in columns.items()
        }
    )


def works(about: dict[str, Any]) -> list[dict[str, Any]]:
    """A kernel\'s entries "work"."""
    return about.get("work") or []
