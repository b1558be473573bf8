"""What a file may claim and what a profile in it may hold, so that no file takes a machine down.

A file of n bytes is read in memory and time proportional to n, whatever it says. Each bound is far above what
any trace has.
"""

__all__ = ["most_cells", "most_content_bytes", "most_parquet_cells"]

SMALL_CONTENT_BYTES = 16 << 20
GZIP_EXPANSION = 100
"""Bytes of content in a byte of gzip. Traces have 5 to 50; deflate can have 1032, of one byte repeated."""

FEW_CELLS = 1 << 24
CELLS_PER_BYTE = 200
"""Values of the span table, which has 17 columns and those of payloads, in a byte of the file. Measured
on synthetic profiles: 8 of a matmul without jitter, 114 of the same op again and again."""

PARQUET_CELLS_PER_BYTE = 20_000
"""The same of Parquet, which repeats cost next to nothing there."""


def most_content_bytes(gzip_bytes: int) -> int:
    """How long the content of the first so many bytes of a gzip file may be."""
    return max(SMALL_CONTENT_BYTES, GZIP_EXPANSION * gzip_bytes)


def most_cells(file_bytes: int) -> int:
    """How many values the span table in a file may have, over all its columns."""
    return max(FEW_CELLS, CELLS_PER_BYTE * file_bytes)


def most_parquet_cells(file_bytes: int) -> int:
    """The same of a Parquet file."""
    return max(FEW_CELLS, PARQUET_CELLS_PER_BYTE * file_bytes)
