"""The cost of each line of a kernel, by experiments (`prof.experiments`): in order, and as text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any, Final

import pandas as pd

from profscope.analysis.texts import source_text

__all__ = ["EXPERIMENTS_TITLE", "TEXT_ROWS", "experiments_text", "most_saved_first"]

EXPERIMENTS_TITLE: Final = "saved without one thing (shares overlap; a repair keeps some of it)"
TEXT_ROWS: Final = 12
"""Of one kernel, if nothing else is asked for."""

_SHOWN_PCT: Final = 2.0
_LITTLE_PCT: Final = 15.0
_WIDTH: Final = 100
_INDENT: Final = " " * 10


def most_saved_first(table: pd.DataFrame) -> pd.DataFrame:
    """The rows by saving: valid ones first, rows without a time last."""
    return table.sort_values(["valid", "saved_pct"], ascending=False, kind="stable", na_position="last")


def experiments_text(
    table: pd.DataFrame, most: int = TEXT_ROWS, width: int = _WIDTH, more: str = "all in .experiments"
) -> Iterator[str]:
    """The costs of lines, the largest first; nothing if there are no experiments.

    table: rows of `prof.experiments`, of one configuration. most: rows at most, 0 for all, those that save
    next to nothing, too. more: said of the rest.
    """
    if not len(table):
        return
    timed = most_saved_first(table[table["saved_pct"].notna()])
    if not len(timed):
        yield from textwrap.wrap(f"no experiment: {table['why_not'].mode().iloc[0]}", width)
        return
    yield from textwrap.wrap(f"{EXPERIMENTS_TITLE}:", width)
    telling = timed[timed["saved_pct"].abs() >= _SHOWN_PCT]
    shown = telling[:most] if most else timed
    for row in shown.to_dict("records"):
        yield from textwrap.wrap(_line(row), width, subsequent_indent=_INDENT, break_on_hyphens=False)
    if left := len(timed) - len(shown):
        few = f" save{'s' * (left == 1)} less than {_SHOWN_PCT:.0f} %" * (len(shown) == len(telling))
        yield f"{left} more{few}; {more}"
    yield from textwrap.wrap(_conclusion(timed), width)
    yield from _not_made(table[table["saved_pct"].isna()], width)


def _line(row: Any) -> str:
    """ "  91.0 %  (91 to 91)    contiguous  store k.py:20"."""
    between = f"({row['low_pct']:.0f} to {row['high_pct']:.0f})"
    told = "" if pd.isna(row["time_us"]) else f"{between:<14}"  # cycles are the same each time
    place = f"{row['op']} {source_text(row['file'], row['line'])}".rstrip()
    doubt = "" if row["valid"] else f"  [not valid: {row['why_not']}]"
    return f"{row['saved_pct']:6.1f} %  {told}{row['experiment']:<10}  {place}{doubt}"


def _not_made(table: pd.DataFrame, width: int) -> Iterator[str]:
    """A line for each experiment and reason."""
    for (how, why), rows in table.groupby(["experiment", "why_not"], sort=False):
        named = zip(rows["op"], rows["line"], strict=True)
        ops = ", ".join(dict.fromkeys(f"{op} L{line}" if line else op for op, line in named))
        yield textwrap.shorten(f"not {how}: {ops}: {why}", width, placeholder=" ...")


def _conclusion(timed: pd.DataFrame) -> str:
    """What the time is bound by, as far as groups tell. timed: what saved most first."""
    groups = timed[(timed["line"] == 0) & timed["valid"]]
    off = timed[(timed["experiment"] == "off") & timed["valid"]]
    if not len(off):
        return ""
    most = off.iloc[0]
    if most["saved_pct"] < _LITTLE_PCT:
        return (
            f"Nothing that was left out saves {_LITTLE_PCT:.0f} % or more: the time is in what lies "
            "between, such as address arithmetic, waits and barriers, or different parts overlap."
        )
    if len(groups) and most["line"] == 0:
        lines = off[off["line"] != 0]["saved_pct"]
        if len(lines) and lines.max() < most["saved_pct"] / 2:
            return f"{most['op']} is the limit, no line of it alone."
    return ""
