"""Which kernels and configurations of a profile a report of Nsight Compute is about."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from profscope.errors import TraceError
from profscope.schema import Tables
from profscope.traces.ncu import Measured, read_ncu
from profscope.traces.trace_file import one_line

__all__ = ["with_ncu"]

_WARP = 32
_SHOWN = 5  # names in a text


def with_ncu(tables: Tables, path: str | Path) -> Tables:
    """Tables whose metadata have, as "ncu", what a report measured of their kernels.

    kernels: a list of {"kernel", "variant", "launches", "metrics"}, the metrics means over the launches, by
    name [value, unit]; unmatched: names in the report of which the profile has no kernel, or does not tell
    which of several configurations it is. A kernel is found by its name; where it has several configurations
    by grid and block; where these do not tell, by the order of its launches, if the report has as many as the
    profile. What was added before stays, but for what is measured anew.

    Raises TraceError for a file that is no such report, and where none of its kernels is in the profile.
    """
    launches = read_ncu(path)
    listed = tables.launches[~tables.launches["trial"]]
    found: dict[tuple[str, int], list[Measured]] = {}
    unmatched: dict[str, None] = {}
    for kernel in dict.fromkeys(launch.kernel for launch in launches):
        of_kernel = [launch for launch in launches if launch.kernel == kernel]
        for launch, variant in zip(
            of_kernel, _variants(of_kernel, listed[listed["kernel"] == kernel]), strict=True
        ):
            if variant is None:
                unmatched[kernel] = None
            else:
                found.setdefault((kernel, variant), []).append(launch)
    if not found:
        raise TraceError(
            f"{one_line(path)} has no kernel of this profile: it has {_named(list(unmatched))}; "
            f"the profile has {_named(listed['kernel'].unique().tolist())}"
        )
    before = (tables.metadata.get("ncu") or {}).get("kernels") or []
    kept = [entry for entry in before if (entry["kernel"], entry["variant"]) not in found]
    new = [
        {"kernel": kernel, "variant": variant, "launches": len(of_key), "metrics": _means(of_key)}
        for (kernel, variant), of_key in found.items()
    ]
    return replace(
        tables, metadata={**tables.metadata, "ncu": {"kernels": kept + new, "unmatched": list(unmatched)}}
    )


def _variants(launches: Sequence[Measured], listed: pd.DataFrame) -> list[int | None]:
    """The configuration of each launch of a kernel; None where that cannot be told."""
    known = listed["variant"].unique().tolist()
    if len(known) <= 1:
        return [int(known[0]) if known else None] * len(launches)
    by_size = [_by_size(launch, listed) for launch in launches]
    if None in by_size and len(launches) == len(listed):
        return [int(variant) for variant in listed.sort_values("launch")["variant"]]
    return by_size


def _by_size(launch: Measured, listed: pd.DataFrame) -> int | None:
    rows = listed
    if launch.grid is not None:
        x, y, z = launch.grid
        rows = rows[(rows["grid_x"] * rows["num_ctas"] == x) & (rows["grid_y"] == y) & (rows["grid_z"] == z)]
    if launch.block is not None and (fits := rows["num_warps"] * _WARP == launch.block[0]).any():
        rows = rows[fits]  # warps of partitions come on top, so that none may fit
    variants = rows["variant"].unique().tolist()
    return int(variants[0]) if len(variants) == 1 else None


def _means(launches: Sequence[Measured]) -> dict[str, list[Any]]:
    units = {name: unit for launch in launches for name, (_, unit) in launch.metrics.items()}
    values = {name: [each.metrics[name][0] for each in launches if name in each.metrics] for name in units}
    return {name: [sum(of_name) / len(of_name), units[name]] for name, of_name in values.items()}


def _named(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" * (len(names) > _SHOWN)
    return ", ".join(map(one_line, names[:_SHOWN])) + more if names else "none"
