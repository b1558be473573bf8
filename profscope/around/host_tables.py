"""Scopes of the host's code as a table, and which of them is open at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from profscope.schema import HOST_DTYPES, Tables, host_frame

__all__ = ["NONE", "innermost", "with_host"]

Ints = npt.NDArray[np.int64]
NONE = -1
SEVERAL = -2
"""Where several threads have scopes open, and nobody knows which of them is meant."""


def with_host(tables: Tables, columns: Mapping[str, Sequence[Any]] | None) -> Tables:
    """The tables with `host`. columns: as `HostScopes.columns` gives them.

    A launch is in the innermost scope that was open in its thread and context when it was enqueued, as its
    mark says (see `host_scopes.launched_in`); in none if that scope is not among the columns, as at the end
    of a spool whose program was killed.

    Raises KeyError or ValueError for damaged columns.
    """
    names = () if columns is None else columns["scope"]
    scope = tables.launches["host"].to_numpy(np.int64)
    launches = tables.launches.assign(host=np.where(scope < len(names), scope, NONE))
    if columns is None or not len(names):
        return replace(tables, launches=launches)
    rank = int((tables.metadata.get("job") or {}).get("rank", -1))
    own = {name: columns[name] for name in HOST_DTYPES if name != "rank"}
    host = host_frame({**own, "rank": [rank] * len(names), **_metrics(columns["metrics"])})
    return replace(tables, host=host, launches=launches)


def innermost(places: Ints, begin: Ints, end: Ints, thread: Ints) -> Ints:
    """For each place the row whose half-open range it is in and that began last, int64 of shape (places,).

    Rows are in order of beginning. NONE where no range has it, SEVERAL where ranges of several threads do.
    """
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    first, last = np.searchsorted(ordered, begin), np.searchsorted(ordered, end)
    together = np.full(len(places), NONE, np.int64)
    for each in np.unique(thread[first < last]).tolist():
        rows = np.flatnonzero((thread == each) & (first < last))
        low, high = int(first[rows].min()), int(last[rows].max())
        own = np.full(high - low, NONE, np.int64)
        for row, at, to in zip(rows.tolist(), first[rows].tolist(), last[rows].tolist(), strict=True):
            own[at - low : to - low] = row
        there = together[low:high]
        together[low:high] = np.where(own == NONE, there, np.where(there == NONE, own, SEVERAL))
    scope = np.empty(len(places), np.int64)
    scope[order] = together
    return scope


def _metrics(rows: Sequence[Mapping[str, float]]) -> dict[str, npt.NDArray[np.float64]]:
    names = sorted({name for row in rows for name in row})
    if set(names) & HOST_DTYPES.keys():
        raise ValueError("a metric is called like a column")
    return {name: np.array([row.get(name, np.nan) for row in rows], np.float64) for name in names}
