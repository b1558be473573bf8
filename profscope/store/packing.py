"""Integers as text: zigzag, few bytes each, byte planes, zlib, base64. Exact for any int64."""

import base64
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["pack", "unpack"]

Ints = NDArray[np.int64]
WIDTHS = (1, 2, 4, 8)


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
    """The integers `pack` was given, int64, at most so many.

    Raises KeyError, TypeError, ValueError or zlib.error for damaged data, in memory that `most` bounds.
    """
    count, width = packed["count"], packed["width"]
    if count not in range(most + 1) or width not in WIDTHS:
        raise ValueError(f"a column has {count} values of {width} bytes, in {most} rows")
    inflate = zlib.decompressobj()
    planes = inflate.decompress(base64.b64decode(packed["data"], validate=True), count * width + 1)
    if len(planes) != count * width or not inflate.eof:
        raise ValueError(f"a column does not have its {count} values")
    little = np.ascontiguousarray(np.frombuffer(planes, np.uint8).reshape(width, count).T)
    folded = little.view(f"<u{width}").reshape(count).astype(np.uint64)
    return (folded >> np.uint64(1)).view(np.int64) ^ -(folded & np.uint64(1)).view(np.int64)
