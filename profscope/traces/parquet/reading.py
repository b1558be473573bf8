"""Read spans from Parquet: all of them, or the row groups that can have those that are asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from profscope.errors import TraceError
from profscope.schema import SPAN_DTYPES, Tables, spans_frame
from profscope.store.file_checks import most_parquet_cells
from profscope.traces.parquet.columns import KEY, read_columns, selected
from profscope.traces.profscope_object import object_tables
from profscope.traces.trace_file import TraceFile, check_room

__all__ = ["tables_in_file"]

Ints = NDArray[np.int64]
_REFERENCES = ("parent", "wait")
_DAMAGE = (pa.ArrowException, OSError, UnicodeDecodeError)


@contextmanager
def _opened(file: TraceFile, metadata: pq.FileMetaData | None = None) -> Iterator[pq.ParquetFile]:
    """A Parquet file; what is damaged in it becomes a TraceError that names it. metadata: the file's, where
    they are known."""
    try:
        with file.path.open("rb") as content:
            metadata = metadata or pq.read_metadata(content)
            columns = [metadata.schema.column(number) for number in range(metadata.num_columns)]
            texts = [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]
            with pq.ParquetFile(
                content, metadata=metadata, read_dictionary=texts, page_checksum_verification=file.verify
            ) as read:
                yield read
    except TraceError:
        raise
    except _DAMAGE as error:
        raise file.damaged(f"{file.path.name}: {error}") from error


def _stated(file: TraceFile, read: pq.ParquetFile) -> Any:
    """The JSON document in a file's metadata. Raises TraceError where there is none."""
    text = (read.metadata.metadata or {}).get(KEY)
    if text is None:
        raise TraceError(f"{file} is a Parquet file without a profile in it")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise file.damaged(f"its profscope object: {error}") from error


def tables_in_file(file: TraceFile) -> Tables:
    """The profile in one file. Raises TraceError."""
    with _opened(file) as read:

        def spans(tables: Tables, about: Any) -> pd.DataFrame:
            if about["rows"] != read.metadata.num_rows:
                raise ValueError(f"it has {read.metadata.num_rows} rows, not {about['rows']}")
            _check_size(read, file.size)
            wanted = {} if file.only.is_all else {"launch": file.only.launches(tables.launches)}
            if wanted:
                table, rows = _read_rows(read, wanted | file.only.columns())
                if len(rows):
                    file.left_out = about["rows"] - len(rows)
                    return _frame(_columns_of(table, about), rows, about["rows"])
            check_room(str(file), about["rows"], len(about["payloads"]))
            columns = read_columns(lambda name: _parts(file, read, name), about["rows"], about)
            return _frame(columns, None, about["rows"])

        return object_tables(file, _stated(file, read), spans)


def _parts(file: TraceFile, read: pq.ParquetFile, name: str) -> Iterator[pa.Array]:
    """One column of a file that others are read of meanwhile, a row group at a time: so the memory of one
    serves for the next.

    Raises KeyError where the file has no such column, and what `_column` raises.
    """
    if name not in read.schema_arrow.names:
        raise KeyError(name)
    with _opened(file, read.metadata) as own:
        for group in range(read.metadata.num_row_groups):
            yield from _column(own, group, name).chunks


def _check_size(read: pq.ParquetFile, size: int) -> None:
    """Raises ValueError where a file of so many bytes claims more than it can hold."""
    cells = read.metadata.num_rows * read.metadata.num_columns
    if cells > most_parquet_cells(size):
        raise ValueError(f"{cells} values in {size} bytes")


def _read_rows(read: pq.ParquetFile, wanted: Mapping[str, Ints]) -> tuple[pa.Table, Ints]:
    """The rows that have one of the wanted numbers in each of these columns, and which rows these are."""
    names = read.schema_arrow.names
    lengths = [read.metadata.row_group(group).num_rows for group in range(read.metadata.num_row_groups)]
    begins = np.cumsum([0, *lengths])
    parts, rows = [read.schema_arrow.empty_table()], [np.zeros(0, np.int64)]
    for group in selected(read, names, wanted):
        kept = np.ones(lengths[group], np.bool_)
        for name, values in wanted.items():
            kept &= np.isin(_column(read, group, name).to_numpy(), values)
        if not kept.any():  # its least and greatest values did not tell
            continue
        # A column at a time: what is not kept of one is memory for the next.
        columns = [_column(read, group, name).filter(pa.array(kept)) for name in names]
        parts.append(pa.table(columns, schema=read.schema_arrow))
        rows.append(np.flatnonzero(kept) + begins[group])
    return pa.concat_tables(parts), np.concatenate(rows)


def _column(read: pq.ParquetFile, group: int, name: str) -> pa.ChunkedArray:
    """A column of a row group. Raises ValueError where it is not of all rows: readers pass over pages of a
    kind they do not know."""
    column = read.read_row_group(group, columns=[name], use_threads=False).column(name)
    if len(column) != read.metadata.row_group(group).num_rows:
        raise ValueError(f"{name} has {len(column)} values where it should have more")
    return column


def _columns_of(table: pa.Table, about: dict[str, Any]) -> dict[str, Any]:
    """The columns of what was read; see `read_columns`."""
    return read_columns(lambda name: table.column(name).chunks, len(table), about)


def _frame(columns: dict[str, Any], rows: Ints | None, of: int) -> pd.DataFrame:
    """The span table of these rows, of so many, None for all; rows that it names are numbered anew, those
    left out -1."""
    if rows is not None and len(rows) < of:
        for name in _REFERENCES:
            columns[name] = _renumbered(columns[name], rows)
    df = spans_frame(columns)
    for name in (name for name in columns if name not in SPAN_DTYPES):
        df[name] = columns[name]  # df[[...]] would copy all of it
    return df


def _renumbered(references: Ints, rows: Ints) -> Ints:
    at = np.searchsorted(rows, references)
    there = (at < len(rows)) & (references >= 0)
    there[there] = rows[at[there]] == references[there]
    return np.where(there, at, -1)
