"""The table of CTAs in a file: what follows from the launches is left out, the rest is small differences."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.analysis.span_rows import OfLaunches
from profscope.schema import CTA_DTYPES, ctas_frame
from profscope.store.packed_table import packed_table, unpacked_table

__all__ = ["packed_ctas", "unpacked_ctas"]

Ints = NDArray[np.int64]
_STORED: Final[Mapping[str, str]] = {
    "launch": "int64",  # less that of the row before
    "cta": "int64",  # likewise
    "sm": "int64",
    "since_ns": "int64",  # from the launch's begin to the CTA's
    "duration_ns": "int64",
    "start_cycle": "int64",  # less that of the row before
    "duration_cycles": "int64",
    "recorded": "int8",
}


def packed_ctas(ctas: pd.DataFrame, launches: pd.DataFrame) -> dict[str, Any]:
    """JSON-able. launches: the table of launches; CTAs of others are left out."""
    ctas = ctas[ctas["launch"].isin(launches["launch"])]
    values = {
        name: ctas[name].to_numpy(np.int64) for name, dtype in CTA_DTYPES.items() if dtype != "category"
    }
    columns = {
        "launch": _differences(values["launch"]),
        "cta": _differences(values["cta"]),
        "sm": values["sm"],
        "since_ns": values["start_ns"] - _begins(launches).of(values["launch"]),
        "duration_ns": values["end_ns"] - values["start_ns"],
        "start_cycle": _differences(values["start_cycle"]),
        "duration_cycles": values["duration_cycles"],
        "recorded": values["recorded"],
    }
    return packed_table(pd.DataFrame(columns), _STORED)


def unpacked_ctas(packed: dict[str, Any], launches: pd.DataFrame, most_cells: int) -> pd.DataFrame:
    """The table that `packed_ctas` was given. launches: the table of launches of the file.

    Raises KeyError, TypeError, ValueError or zlib.error for damaged data, in memory that `most_cells` bounds.
    """
    stored = unpacked_table(packed, _STORED, most_cells)
    launch = np.cumsum(stored["launch"])
    row = OfLaunches(launches, np.arange(len(launches)), -1).of(launch)
    if (row < 0).any():
        raise ValueError(f"CTAs of launch {launch[row < 0][0]}, which is not in its table of launches")
    start_ns = stored["since_ns"] + _begins(launches).of(launch)
    columns = {
        "kernel": pd.Categorical(launches["kernel"]).take(row),
        "variant": launches["variant"].to_numpy()[row],
        "launch": launch,
        "cta": np.cumsum(stored["cta"]),
        "sm": stored["sm"],
        "start_ns": start_ns,
        "end_ns": start_ns + stored["duration_ns"],
        "start_cycle": np.cumsum(stored["start_cycle"]),
        "duration_cycles": stored["duration_cycles"],
        "recorded": stored["recorded"] != 0,
    }
    for name in ("cta", "sm"):
        if len(row) and not 0 <= columns[name].min() <= columns[name].max() < 1 << 31:
            raise ValueError(f"its CTAs have a {name} that is no int32")
    return ctas_frame(columns)


def _begins(launches: pd.DataFrame) -> OfLaunches[np.int64]:
    return OfLaunches(launches, launches["start_ns"].to_numpy(np.int64), 0)


def _differences(values: Ints) -> Ints:
    return np.diff(values, prepend=np.int64(0))
