"""Write spans, or a table of launches, as Parquet; what else a profile has goes into the file's metadata."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Final

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from profscope.schema import LAUNCH_DTYPES, Tables
from profscope.traces.parquet.checked import Checksums
from profscope.traces.parquet.columns import GROUP_ROWS, described, schema, span_table, write_options
from profscope.traces.profscope_object import object_text

__all__ = ["KEY", "launch_bytes", "parquet_bytes"]

KEY: Final = b"profscope"
"""Of the JSON in the file's metadata."""


class _Sink(io.RawIOBase):
    """Keeps what is written until it is taken."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        self._parts.append(bytes(data))  # type: ignore[call-overload]
        return len(self._parts[-1])

    def take(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)


def parquet_bytes(tables: Tables | None, df: pd.DataFrame) -> Iterator[bytes]:
    """A file of these spans, a row group at a time. tables: what stands in its metadata; None for nothing."""
    columns = schema(df)
    sink, checksums = _Sink(), Checksums()
    with pq.ParquetWriter(sink, columns, **write_options(df)) as writer:
        for begin in range(0, len(df), GROUP_ROWS):
            writer.write_table(span_table(df.iloc[begin : begin + GROUP_ROWS], columns), GROUP_ROWS)
            yield checksums.add(sink.take())
        if tables is not None:
            writer.add_key_value_metadata({KEY: object_text(tables, described(df))})
    yield checksums.end(sink.take())


def launch_bytes(tables: Tables, rows: list[list[int]]) -> bytes:
    """A file with a row for each launch; its metadata have all of a profile but its spans. rows: the launches
    that have spans, and how many."""
    spans = sum(count for _, count in rows)
    launches = tables.launches
    arrays = [
        pa.array(launches[name], from_pandas=dtype == "float64") for name, dtype in LAUNCH_DTYPES.items()
    ]
    about = object_text(tables, described(tables.df) | {"launches": rows, "rows": spans})
    table = pa.table(arrays, names=list(LAUNCH_DTYPES))
    sink = _Sink()
    with pq.ParquetWriter(sink, table.schema, compression="ZSTD", store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({KEY: about})
    return Checksums().end(sink.take())
