"""Host scopes and events in a file: packed columns, times as differences, which pack best."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.schema import EVENT_DTYPES, HOST_DTYPES, Tables, events_frame, host_frame
from profscope.store.packed_table import packed_table, unpacked_table

__all__ = ["packed_around", "unpacked_around"]

_START: Final = "start_unix_ns"
_END: Final = "end_unix_ns"
_METRICS: Final = "metrics"


def packed_around(tables: Tables) -> dict[str, Any]:
    """Entries "host" and "events" of a trace's object, where these have rows; JSON-able."""
    packed: dict[str, Any] = {}
    if len(tables.host):
        packed["host"] = packed_table(_with_steps(tables.host), HOST_DTYPES)
        metrics = {name: _numbers(tables.host[name]) for name in tables.host if name not in HOST_DTYPES}
        packed["host"][_METRICS] = metrics
    if len(tables.events):
        packed["events"] = packed_table(_with_steps(tables.events), EVENT_DTYPES)
    return packed


def unpacked_around(ours: dict[str, Any], most_cells: int) -> dict[str, pd.DataFrame]:
    """The tables that `packed_around` was given, by name.

    Raises KeyError, TypeError, ValueError or zlib.error for damaged data, in memory that `most_cells` bounds.
    """
    tables = {}
    if "host" in ours:
        columns = _with_times(unpacked_table(ours["host"], HOST_DTYPES, most_cells))
        for name, values in ours["host"][_METRICS].items():
            if name in HOST_DTYPES or len(values) != ours["host"]["rows"]:
                raise ValueError(f"metric {name} does not have a value for each scope")
            columns[name] = np.array(values, np.float64)  # missing: None, which is NaN here
        tables["host"] = host_frame(columns)
    if "events" in ours:
        tables["events"] = events_frame(_with_times(unpacked_table(ours["events"], EVENT_DTYPES, most_cells)))
    return tables


def _with_steps(table: pd.DataFrame) -> pd.DataFrame:
    """Starts since the start of the row before, ends since the start; int64 that may wrap."""
    start, end = table[_START].to_numpy(), table[_END].to_numpy()
    steps = start.copy()
    steps[1:] = start[1:] - start[:-1]
    return table.assign(**{_START: steps, _END: end - start})


def _with_times(columns: dict[str, Any]) -> dict[str, Any]:
    start: NDArray[np.int64] = np.cumsum(columns[_START])
    return columns | {_START: start, _END: columns[_END] + start}


def _numbers(values: pd.Series[Any]) -> list[float | str | None]:
    """As JSON, which has no NaN and no infinity: these are null, and texts that numpy reads."""
    return [
        None if np.isnan(value) else value if np.isfinite(value) else str(value) for value in values.tolist()
    ]
