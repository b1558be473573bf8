"""Numbers as the page shows them: three digits and a unit."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

__all__ = ["count_text", "duration_text", "number", "percent_text", "place_text"]

_STEPS = {
    "ns": (("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)),
    "cycles": (("cycles", 1.0), ("k cycles", 1e3), ("M cycles", 1e6), ("G cycles", 1e9)),
}


def duration_text(value: float, unit: str) -> str:
    """ "128 ns", "1.86 us"; "3.69 k cycles"."""
    steps = _STEPS[unit]
    name, scale = next(((n, s) for n, s in steps if abs(value) / s < 999.5), steps[-1])
    scaled = value / scale
    decimals = 2 if abs(scaled) < 9.995 else 1 if abs(scaled) < 99.95 else 0
    whole = scale == 1 and scaled == int(scaled)
    return f"{scaled:.{0 if whole else decimals}f} {name}"


def count_text(value: int, one: str = "", many: str = "") -> str:
    """A whole number with commas, and of what: "1 launch", "1,024 launches"."""
    word = (one if value == 1 else many or f"{one}s") if one else ""
    return f"{value:,} {word}".rstrip()


def percent_text(share: float) -> str:
    """A share of 0..1 as "41.2 %"."""
    return f"{100 * share:.1f} %"


def place_text(file: str, line: int) -> str:
    """ "matmul.py:26"; "" where nothing is known."""
    name = file.replace("\\", "/").rsplit("/", 1)[-1]
    return f"{name}:{line}" if name and line else name


def number(value: Any, digits: int = 6) -> Any:
    """As JSON has it: an int, a float of so many significant digits, None where it is missing."""
    if value is None or value is pd.NA or not math.isfinite(value):
        return None
    return int(value) if float(value) == int(value) else float(f"{float(value):.{digits}g}")
