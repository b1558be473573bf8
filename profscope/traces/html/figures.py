"""Numbers as the page shows them, three digits and a unit; and tables."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import pandas as pd

from profscope.analysis.texts import Markup, count_text, tag, three_digits

__all__ = ["count_text", "duration_text", "number", "percent_text", "table"]


def duration_text(value: float, unit: str) -> str:
    """ "128 ns", "1.86 us"; "3.69 k cycles"."""
    digits, name = three_digits(value, unit)
    return " ".join(filter(None, (digits, name, "cycles" if unit == "cycles" else "")))


def percent_text(share: float) -> str:
    """A share of 0..1 as "41.2 %"."""
    return f"{100 * share:.1f} %"


def number(value: Any, digits: int = 6) -> Any:
    """As JSON has it: an int, a float of so many significant digits, None where it is missing."""
    if value is None or value is pd.NA or not math.isfinite(value):
        return None
    return int(value) if float(value) == int(value) else float(f"{float(value):.{digits}g}")


def table(heads: Iterable[str], rows: Iterable[Markup]) -> Markup:
    """heads: of its columns; rows: "tr" elements."""
    titles = (tag("th", head, scope="col") for head in heads)
    return tag("table", tag("thead", tag("tr", *titles)), tag("tbody", *rows))
