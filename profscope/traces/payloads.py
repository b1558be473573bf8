"""What events of all formats call the values that spans carry."""

from typing import Any

import pandas as pd

__all__ = ["payload_name"]

ARGS = ("file", "line", "iter", "cta", "launch")
"""Names that every event's args have; a payload of that name gets a longer one."""


def payload_name(column: "pd.Series[Any]") -> str:
    """What events call a column of values."""
    return f"{column.name} (value)" if column.name in ARGS else str(column.name)
