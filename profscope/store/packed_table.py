"""A table of texts and numbers, small in a file: distinct texts once, and numbers packed."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from profscope.store.packing import pack, unpack

__all__ = ["packed_table", "unpacked_table"]

_TEXTS = ("str", "category")


def packed_table(table: pd.DataFrame, dtypes: Mapping[str, str]) -> dict[str, Any]:
    """JSON-able. dtypes: of the columns, "str", "category", "float64" or those of integers."""
    return {
        "rows": len(table),
        "columns": {name: _packed(table[name], dtype) for name, dtype in dtypes.items()},
    }


def unpacked_table(packed: dict[str, Any], dtypes: Mapping[str, str], most_cells: int) -> dict[str, Any]:
    """The columns that `packed_table` was given, so many values at most.

    Raises KeyError, TypeError, ValueError or zlib.error for damaged data, in memory that `most_cells` bounds.
    """
    rows = packed["rows"]
    if rows not in range(most_cells // len(dtypes) + 1):
        raise ValueError(f"{rows} rows of {len(dtypes)} columns, in a file that can hold {most_cells} values")
    return {name: _unpacked(packed["columns"][name], name, dtype, rows) for name, dtype in dtypes.items()}


def _packed(column: "pd.Series[Any]", dtype: str) -> dict[str, Any]:
    if dtype == "float64":
        return pack(column.to_numpy(np.float64).view(np.int64))
    if dtype not in _TEXTS:
        return pack(column.to_numpy(np.int64))
    if dtype == "category":
        codes, values = column.cat.codes.to_numpy(), column.cat.categories
    else:
        codes, values = pd.factorize(column)
    return {"values": [str(value) for value in values], "codes": pack(codes.astype(np.int64))}


def _unpacked(packed: dict[str, Any], name: str, dtype: str, rows: int) -> Any:
    numbers = unpack(packed["codes"] if dtype in _TEXTS else packed, rows)
    if len(numbers) != rows:
        raise ValueError(f"{name} does not have {rows} values")
    if dtype == "float64":
        return numbers.astype(np.int64).view(np.float64)
    if dtype not in _TEXTS:
        limits = np.iinfo(np.dtype(dtype))
        if rows and not (limits.min <= numbers.min() and numbers.max() <= limits.max):
            raise ValueError(f"{name} has values that are no {dtype}")
        return numbers.astype(dtype)
    values = packed["values"]
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ValueError(f"{name} has values that are no text")
    if rows and not (numbers.min() >= 0 and numbers.max() < len(values)):
        raise ValueError(f"{name} has numbers of no text")
    if dtype == "category":
        # Raises ValueError for a text that stands there twice.
        return pd.Categorical.from_codes(numbers, categories=pd.Index(values, dtype="str"))
    return np.array([*values, ""], object)[numbers]
