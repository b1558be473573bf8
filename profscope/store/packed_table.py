"""A table of texts and numbers, small in a file: distinct texts once, and numbers packed."""

import base64
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = ["pack", "packed_table", "unpack", "unpack_narrow", "unpacked_table"]

_TEXTS = ("str", "category")


Ints = NDArray[np.int64]
WIDTHS = (1, 2, 4, 8)


def packed_table(table: pd.DataFrame, dtypes: Mapping[str, str]) -> dict[str, Any]:
    """JSON-able. dtypes: of the columns, "str", "category", "float64", "bool" or those of integers."""
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
        least, most = (0, 1) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        if rows and not (least <= numbers.min() and numbers.max() <= most):
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


def pack(values: Ints, *, noisy: bool = False) -> dict[str, Any]:
    """Integers as text: zigzag, the fewest of 1, 2, 4 or 8 bytes each, byte planes, zlib, base64.

    noisy: they have runs but no repeats. Looking for runs alone takes half the time and finds no less.
    """
    folded = ((values << 1) ^ (values >> 63)).view(np.uint64)
    top = int(folded.max(initial=0))
    width = next(width for width in WIDTHS if top < 1 << (8 * width))
    little = folded.astype(f"<u{width}").view(np.uint8).reshape(-1, width)
    planes = np.ascontiguousarray(little.T).tobytes()
    strategy = zlib.Z_RLE if noisy else zlib.Z_DEFAULT_STRATEGY
    deflate = zlib.compressobj(1, zlib.DEFLATED, zlib.MAX_WBITS, zlib.DEF_MEM_LEVEL, strategy)
    return {
        "count": len(values),
        "width": width,
        "data": base64.b64encode(deflate.compress(planes) + deflate.flush()).decode("ascii"),
    }


def unpack(packed: dict[str, Any], most: int) -> Ints:
    """The integers `pack` was given, int64, at most so many. Raises what `unpack_narrow` raises."""
    return unpack_narrow(packed, most).astype(np.int64)


def unpack_narrow(packed: dict[str, Any], most: int) -> NDArray[np.signedinteger[Any]]:
    """As `unpack`, of as many bytes each as they have in the file: to be widened before they are added up.

    Raises KeyError, TypeError, ValueError or zlib.error for damaged data, in memory that `most` bounds.
    """
    count, width = packed["count"], packed["width"]
    if count not in range(most + 1) or width not in WIDTHS:
        raise ValueError(f"a column has {count} values of {width} bytes, in {most} rows")
    inflate = zlib.decompressobj()
    planes = inflate.decompress(base64.b64decode(packed["data"], validate=True), count * width + 1)
    if len(planes) != count * width or not inflate.eof:
        raise ValueError(f"a column does not have its {count} values")
    little = np.empty(count, f"<u{width}")
    for at, plane in enumerate(np.frombuffer(planes, np.uint8).reshape(width, count)):
        little.view(np.uint8)[at::width] = plane
    folded = little.astype(f"u{width}", copy=False)
    half = folded >> 1
    half ^= -(folded & 1)
    return half.view(f"i{width}")
