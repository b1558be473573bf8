"""The table of experiments, and how it is printed."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pandas as pd

from profscope.tuning.experiments.running import Result

__all__ = ["experiments_table", "experiments_text"]

_COLUMNS: Final = (
    "kernel",
    "variant",
    "file",
    "line",
    "op",
    "experiment",
    "saved_pct",
    "low_pct",
    "high_pct",
)
_SHOWN_PCT: Final = 2.0
_LITTLE_PCT: Final = 15.0
_MOST_ROWS: Final = 12
_WIDTH: Final = 100


def experiments_table(results: Sequence[Result], kernel: str, variant: int, unit: str) -> pd.DataFrame:
    """A row for each experiment, in the order in which they were made.

    kernel, variant: of the profile. file, line, op: what was changed, line 0 for a group of ops. experiment:
    "off", "contiguous" or "resident" (docs/experiments.md). saved_pct: of the bare time, low_pct to high_pct
    its 95 % interval, missing if not timed. us: the time of a launch with the experiment; kcycles on the
    emulator. valid: whether nothing else changed. why_not: why it is not valid or was not made, else "".
    """
    rows = [_row(each) for each in results]
    table = pd.DataFrame(rows, columns=[*_COLUMNS[2:], unit, "valid", "why_not"])
    table.insert(0, "variant", variant)
    table.insert(0, "kernel", kernel)
    return table.astype({"line": "int64", "valid": "bool"})


def _row(result: Result) -> tuple[Any, ...]:
    experiment, pairs = result.experiment, result.pairs
    place = (experiment.file, experiment.line, experiment.op, experiment.how)
    if pairs is None:
        return (*place, float("nan"), float("nan"), float("nan"), float("nan"), False, result.why_not)
    ratio = pairs.ratio
    saved = tuple(100 * (1 - each) for each in (ratio.ratio, ratio.high, ratio.low))
    middle = sorted(pairs.second)[len(pairs.second) // 2]
    return (*place, *saved, middle, not result.changed, result.changed)


def experiments_text(table: pd.DataFrame) -> Iterator[str]:
    """What the lines cost, the most first; nothing if there are no experiments."""
    if not len(table):
        return
    timed = table[table["saved_pct"].notna()].sort_values("saved_pct", ascending=False, kind="stable")
    if not len(timed):
        yield f"no experiment: {table['why_not'].mode().iloc[0]}"
        return
    yield "saved without one thing (shares overlap; a repair keeps some of it):"
    shown = timed[timed["saved_pct"].abs() >= _SHOWN_PCT][:_MOST_ROWS]
    for row in shown.to_dict("records"):
        place = f" {row['file'].rpartition('/')[2]}:{row['line']}" if row["line"] else ""
        between = f"({row['low_pct']:.0f} to {row['high_pct']:.0f})"
        told = "" if "kcycles" in table else f"{between:<14}"  # cycles are the same each time
        doubt = "" if row["valid"] else f"  [{row['why_not']}]"
        yield f"{row['saved_pct']:6.1f} %  {told}{row['experiment']:<10}  {row['op']}{place}{doubt}"
    if len(timed) > len(shown):
        yield f"{len(timed) - len(shown)} more save less than {_SHOWN_PCT:.0f} %; all in .experiments"
    yield from textwrap.wrap(_conclusion(timed), _WIDTH)
    reasons = table[table["saved_pct"].isna()]
    for (how, why), rows in reasons.groupby(["experiment", "why_not"], sort=False):
        named = zip(rows["op"], rows["line"], strict=True)
        ops = ", ".join(dict.fromkeys(f"{op} L{line}" if line else op for op, line in named))
        yield textwrap.shorten(f"not {how}: {ops}: {why}", _WIDTH, placeholder=" ...")


def _conclusion(timed: pd.DataFrame) -> str:
    """What the time is bound by, as far as groups tell."""
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
