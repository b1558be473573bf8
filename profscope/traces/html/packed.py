"""Columns of numbers as the text that a page holds, for its script to read back.

Each column is cut into planes of bytes, the lowest bytes first: the planes of high bytes are nearly all
zeros, which deflate makes nothing of. All planes together are deflated (RFC 1951), and base64 is their text.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["pack", "unpack"]

_LEVEL = 5
_KINDS = ("u1", "i1", "u2", "i2", "u4", "i4")


def pack(columns: Mapping[str, NDArray[Any]]) -> tuple[list[list[Any]], str]:
    """The name, dtype and length of each column, in order; and the text.

    Integers take the smallest of 1, 2 and 4 bytes that holds them, and float64 beyond; so do floats.
    """
    index: list[list[Any]] = []
    deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    parts = []
    for name, values in columns.items():
        kind = _kind(values)
        data = np.ascontiguousarray(values, dtype=f"<{kind}")
        planes = data.view(np.uint8).reshape(len(data), data.itemsize).T
        parts.append(deflate.compress(planes.tobytes()))
        index.append([name, kind, len(data)])
    return index, base64.b64encode(b"".join(parts) + deflate.flush()).decode("ascii")


def unpack(index: list[list[Any]], text: str) -> dict[str, NDArray[Any]]:
    """The columns again, as the page's script reads them."""
    data = zlib.decompress(base64.b64decode(text), -zlib.MAX_WBITS)
    columns, at = {}, 0
    for name, kind, count in index:
        size = int(kind[1])
        planes = np.frombuffer(data, np.uint8, count * size, at).reshape(size, count)
        columns[name] = np.ascontiguousarray(planes.T).view(f"<{kind}").reshape(count)
        at += count * size
    return columns


def _kind(values: NDArray[Any]) -> str:
    if values.dtype.kind == "f":
        return "f8"
    least, most = int(values.min(initial=0)), int(values.max(initial=0))
    fitting = (kind for kind in _KINDS if np.iinfo(kind).min <= least and most <= np.iinfo(kind).max)
    return next(fitting, "f8")
