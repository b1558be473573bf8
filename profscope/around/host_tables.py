"""Scopes of the host's code as a table, and which of them each launch was launched in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from profscope.schema import HOST_DTYPES, Tables, host_frame

__all__ = ["NONE", "innermost", "with_host"]

Ints = npt.NDArray[np.int64]
NONE = -1
SEVERAL = -2
"""Where several threads have scopes open, or launch, and nobody knows which of them is meant."""

_NO_STRETCHES: Final = np.zeros((0, 3), np.int64)


def with_host(tables: Tables, columns: Mapping[str, Sequence[Any]]) -> Tables:
    """The tables with `host`, and with the scope of each launch. columns: as `HostScopes.columns` gives them.

    A launch is in the innermost scope that was open in its thread and context when it was enqueued. Which
    thread launched it is not recorded, but which threads launched at all (`Lanes.scopes_of`), in which scope
    each would have, and when one did so in none: where scopes of several of these were open, or another one
    launched meanwhile in none, it is in none, and a note says so. An operator of autograd's, which another
    thread launches, is in the scope of the thread that waits for it.

    Raises KeyError or ValueError for damaged columns.
    """
    if not len(columns["scope"]):
        return tables
    rank = int((tables.metadata.get("job") or {}).get("rank", -1))
    own = {name: columns[name] for name in HOST_DTYPES if name != "rank"}
    host = host_frame({**own, "rank": [rank] * len(columns["scope"]), **_metrics(columns["metrics"])})
    launch = tables.launches["launch"].to_numpy(np.int64)
    inside = np.array(columns["inside"], np.int64).reshape(-1, 4)
    if inside.size and not 0 <= inside[:, 3].min() <= inside[:, 3].max() < len(host):
        raise ValueError("launches are in a host scope that there is not")
    outside = np.array(columns["outside"], np.int64).reshape(-1, 3)
    stretch = innermost(launch, inside[:, 1], inside[:, 2], inside[:, 0], outside)
    scope = np.where(stretch >= 0, np.append(inside[:, 3], NONE)[stretch], stretch)
    launches = tables.launches.assign(host=np.maximum(scope, NONE))
    notes = list(tables.metadata.get("notes") or ())
    unsure = int((scope == SEVERAL).sum())
    if unsure:
        notes.append(
            f"{unsure:,} {'launch is' if unsure == 1 else 'launches are'} in no host scope: several "
            "threads launched meanwhile, or had scopes open, and which of them it was is not recorded"
        )
    return replace(tables, host=host, launches=launches, metadata={**tables.metadata, "notes": notes})


def innermost(places: Ints, begin: Ints, end: Ints, thread: Ints, outside: Ints = _NO_STRETCHES) -> Ints:
    """For each place the row whose half-open range it is in and that began last, int64 of shape (places,).

    Rows are in order of beginning. NONE where no range has it, SEVERAL where ranges of several threads do, or
    of one while another may be meant. outside, of shape (stretches, 3): a thread, and the half-open range in
    which it may be meant where no range of its own has the place.
    """
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    first, last = np.searchsorted(ordered, begin), np.searchsorted(ordered, end)
    together = np.full(len(places), NONE, np.int64)
    owner = np.full(len(places), NONE, np.int64)
    for each in np.unique(thread[first < last]).tolist():
        rows = np.flatnonzero((thread == each) & (first < last))
        low, high = int(first[rows].min()), int(last[rows].max())
        own = np.full(high - low, NONE, np.int64)
        for row, at, to in zip(rows.tolist(), first[rows].tolist(), last[rows].tolist(), strict=True):
            own[at - low : to - low] = row
        there = together[low:high]
        together[low:high] = np.where(own == NONE, there, np.where(there == NONE, own, SEVERAL))
        owner[low:high] = np.where(own == NONE, owner[low:high], each)
    begins, ends = (np.searchsorted(ordered, outside[:, column]).tolist() for column in (1, 2))
    for number, at, to in zip(outside[:, 0].tolist(), begins, ends, strict=True):
        part = slice(at, to)
        others = (together[part] >= 0) & (owner[part] != number)
        together[part] = np.where(others, SEVERAL, together[part])
    scope = np.empty(len(places), np.int64)
    scope[order] = together
    return scope


def _metrics(rows: Sequence[Mapping[str, float]]) -> dict[str, npt.NDArray[np.float64]]:
    names = sorted({name for row in rows for name in row})
    if set(names) & HOST_DTYPES.keys():
        raise ValueError("a metric is called like a column")
    return {name: np.array([row.get(name, np.nan) for row in rows], np.float64) for name in names}
