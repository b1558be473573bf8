"""What no trace file can hold, so that it is neither written nor taken from one that says so."""

from collections.abc import Iterator
from dataclasses import fields

import pandas as pd

from profscope.schema import Tables

__all__ = ["misfit"]

LONGEST_NS = (1 << 63) - 1
"""292 years: what int64 can tell apart."""


def misfit(tables: Tables) -> str | None:
    """What no trace file can hold, in a few words: times too far to count with, text that is no Unicode.

    None for tables that fit. Takes about a millisecond a million rows.
    """
    return _far_time(tables) or _odd_text(tables)


def _far_time(tables: Tables) -> str | None:
    starts, durations = (tables.df[name].to_numpy() for name in ("start_ns", "duration_ns"))
    if int(durations.min(initial=0)) < 0:
        return f"a duration_ns of {durations.min()}"
    times = [starts, *(tables.launches[name].to_numpy() for name in ("start_ns", "end_ns"))]
    least = min(int(each.min(initial=0)) for each in times)
    last_end = int(starts.max(initial=0)) + int(durations.max(initial=0))  # or later
    most = max(last_end, *(int(each.max(initial=0)) for each in times))
    if most > LONGEST_NS or most - least > LONGEST_NS:
        return f"times from {least} to {most} ns, more than 292 years"
    return None


def _odd_text(tables: Tables) -> str | None:
    for name, texts in _texts(tables):
        try:
            "".join(text for text in texts if isinstance(text, str)).encode()
        except UnicodeEncodeError:
            return f"a {name} with a lone surrogate, which UTF-8 cannot spell"
    return None


def _texts(tables: Tables) -> Iterator[tuple[str, list[str]]]:
    """The columns of text of all tables, each with its distinct values, or all where there are few rows."""
    for each in fields(Tables):
        table = getattr(tables, each.name)
        if not isinstance(table, pd.DataFrame):
            continue
        for name, dtype in table.dtypes.items():
            if isinstance(dtype, pd.CategoricalDtype):
                yield str(name), list(dtype.categories)
            elif dtype.kind == "O":
                yield str(name), table[name].tolist()
