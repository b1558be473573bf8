"""Host scopes and events of several ranks, one upon the other, on the clock of rank 0's host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from profscope.schema import EVENT_DTYPES, Tables, events_frame, host_frame
from profscope.traces.rank_times import OnRank0

__all__ = ["around_together", "numbered_around"]


def numbered_around(tables: Tables, rank: int, launch_offset: int, on_rank_0: OnRank0) -> dict[str, Any]:
    """A part's host scopes and events, with its rank, the numbers that its launches have in the whole, and
    times of rank 0's host."""
    events = tables.events
    launch = events["launch"].to_numpy()
    moved = np.where(launch < 0, launch, launch + launch_offset)
    return {
        "host": _of_rank(tables.host, rank, on_rank_0),
        "events": _of_rank(events.assign(launch=moved), rank, on_rank_0),
    }


def _of_rank(table: pd.DataFrame, rank: int, on_rank_0: OnRank0) -> pd.DataFrame:
    times = {name: on_rank_0(table[name].to_numpy()) for name in ("start_unix_ns", "end_unix_ns")}
    return table.assign(**times, rank=np.full(len(table), rank, np.int32))


def around_together(parts: Sequence[Tables]) -> tuple[pd.DataFrame, pd.DataFrame, list[Tables]]:
    """The parts' host scopes, their events, and the parts with launches that name rows of these."""
    scopes = np.cumsum([0, *(len(part.host) for part in parts)])
    events = np.cumsum([0, *(len(part.events) for part in parts)])
    moved = [
        replace(
            part,
            host=_moved(part.host, parent=first),
            events=_moved(part.events, host=first, parent=first_event),
            launches=_moved(part.launches, host=first),
        )
        for part, first, first_event in zip(parts, scopes.tolist(), events.tolist(), strict=False)
    ]
    host = pd.concat([part.host for part in moved], ignore_index=True)
    columns: dict[str, Any] = {
        name: pd.api.types.union_categoricals([part.events[name] for part in moved])
        if dtype == "category"
        else np.concatenate([part.events[name].to_numpy() for part in moved])
        for name, dtype in EVENT_DTYPES.items()
    }
    return host_frame({str(name): host[name] for name in host}), events_frame(columns), moved


def _moved(table: pd.DataFrame, **offsets: int) -> pd.DataFrame:
    """The table with numbers of rows moved; -1 is none."""
    columns = {name: table[name].to_numpy() for name in offsets}
    return table.assign(
        **{name: np.where(rows < 0, rows, rows + offsets[name]) for name, rows in columns.items()}
    )
