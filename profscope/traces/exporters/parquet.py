"""`.parquet`: `df` row for row, for SQL engines and data frames; profscope reads it back exactly.

The file (docs/records.md) has the spans. Launches, samples and metadata stand in its own metadata, as
the "profscope" object. It needs pyarrow, profscope's extra "parquet", and compresses by itself.
"""

from collections.abc import Iterator
from concurrent.futures import Executor

from profscope.schema import Tables
from profscope.traces.exporters import Piece
from profscope.traces.parquet.columns import parquet_bytes

__all__ = ["pieces"]


def pieces(tables: Tables, pool: Executor) -> Iterator[Piece]:
    """The file's bytes."""
    return parquet_bytes(tables)
