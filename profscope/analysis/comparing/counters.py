"""How the hardware's counters differ between two profiles."""

from __future__ import annotations

from typing import Any, Final

import pandas as pd

from profscope.analysis.comparing.pairs import Pair
from profscope.schema import Tables

__all__ = ["counter_changes", "counter_text"]

_FLOOR_PCT: Final = 5.0  # between two sessions counters of one binary differ by some percent
_FLOOR_POINTS: Final = 3.0  # of a percentage
_MOST: Final = 4  # that one line names


def counter_changes(pair: Pair, a: Tables, b: Tables) -> list[dict[str, Any]]:
    """The counters of a pair of configurations that differ by more than noise, the greatest change first.

    kernel, variant_a, variant_b, counter, unit; a, b: the values; change: of a percentage b less a in points,
    of all else b over a less 1 in percent, null if a is 0.
    """
    if pair.a is None or pair.b is None:
        return []
    of_a, of_b = (_values(tables, pair.kernel, group.variant) for tables, group in ((a, pair.a), (b, pair.b)))
    rows = []
    for counter in of_a.keys() & of_b.keys():
        (one, unit), (other, _) = of_a[counter], of_b[counter]
        is_points = unit == "%"
        change = other - one if is_points else 100 * (other / one - 1) if one else None
        floor = _FLOOR_POINTS if is_points else _FLOOR_PCT
        if one != other and (change is None or abs(change) >= floor):
            rows.append(
                {
                    "kernel": pair.kernel, "variant_a": pair.a.variant, "variant_b": pair.b.variant,
                    "counter": counter, "unit": unit, "a": one, "b": other, "change": change,
                }
            )  # fmt: skip
    return sorted(rows, key=lambda row: (-abs(row["change"] or 0.0), row["counter"]))


def counter_text(changes: list[dict[str, Any]]) -> str:
    """ "counters: dram_read +40 %, l2_hit_rate 80 to 35 %", of the greatest changes."""
    shown = [_said(row) for row in changes if row["change"] is not None][:_MOST]
    more = f"; {len(changes) - len(shown)} more changed" if len(changes) > len(shown) else ""
    return f"counters: {', '.join(shown)}{more}"


def _said(row: dict[str, Any]) -> str:
    if row["unit"] == "%":
        return f"{row['counter']} {row['a']:.0f} to {row['b']:.0f} %"
    return f"{row['counter']} {row['change']:+.0f} %"


def _values(tables: Tables, kernel: str, variant: int) -> dict[str, tuple[float, str]]:
    """By counter, its value and unit; those without a value are left out."""
    counters = tables.counters
    own = counters[(counters["kernel"] == kernel) & (counters["variant"] == variant)]
    columns = (own[name].tolist() for name in ("counter", "value", "unit"))
    return {
        str(counter): (float(value), str(unit))
        for counter, value, unit in zip(*columns, strict=True)
        if not pd.isna(value)
    }
