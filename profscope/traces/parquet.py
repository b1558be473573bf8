"""`.parquet`: the span table row for row, texts as texts, so that any engine reads it, and profscope exactly.

The file (docs/records.md) has the spans; all else stands in its own metadata (`parquet_tables`).
"""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from profscope.analysis.spans.launch_sums import launch_sums
from profscope.analysis.spans.summing import summed_spans
from profscope.errors import TraceError
from profscope.schema import PAYLOAD_DTYPES, SPAN_DTYPES, Tables, payload_names, spans_frame, sums_frame
from profscope.store.file_checks import most_parquet_cells
from profscope.threads import worker_pool
from profscope.traces.compact import REFERENCES, categorical, categories, renumbered
from profscope.traces.exporters import Piece
from profscope.traces.parquet_tables import entries, stated, tables_in, text_array
from profscope.traces.profscope_object import DAMAGE
from profscope.traces.trace_file import TraceFile, check_room

__all__ = [
    "CHECKS",
    "GROUP_ROWS",
    "checked_pieces",
    "described",
    "pieces",
    "schema",
    "span_table",
    "tables_in_file",
    "write_options",
]

GROUP_ROWS: Final = 1 << 18
"""Rows of a row group: what is read at least where a part is asked for."""

SELECTED: Final = ("kernel", "launch", "cta", "sm", "warp", "start_ns")
"""Columns by whose least and greatest values row groups are passed over; statistics of others would only take
time."""

ZSTD_LEVEL: Final = 3

_ARROW: Final = {
    "int32": pa.int32(),
    "int64": pa.int64(),
    "category": pa.dictionary(pa.int32(), pa.string()),
    "Int32": pa.int32(),
    "float64": pa.float64(),
}


def described(df: pd.DataFrame) -> dict[str, Any]:
    """Metadata beyond the columns: JSON-able, in the place of `compact.encode`'s columns."""
    return {
        "rows": len(df),
        "categories": {
            name: categories(df[name]) for name, kind in SPAN_DTYPES.items() if kind == "category"
        },
        "payloads": {
            name: {"dtype": str(df[name].dtype)}
            | ({"categories": categories(df[name])} if df[name].dtype == "category" else {})
            for name in payload_names(df)
        },
    }


def schema(df: pd.DataFrame) -> pa.Schema:
    """The Arrow schema of a span table, or of some of its columns.

    Columns that all spans have are said to lack nothing where they do: to look in the file which values are
    missing, to find that none is, would take readers as long as what is there.
    """
    return pa.schema(
        [
            pa.field(str(name), _ARROW[str(dtype)], name not in SPAN_DTYPES or bool(df[name].isna().any()))
            for name, dtype in df.dtypes.items()
        ]
    )


def write_options(df: pd.DataFrame) -> dict[str, Any]:
    """How `pyarrow.parquet.ParquetWriter` is to write a span table."""
    texts = [str(name) for name in df if df[name].dtype == "category"]
    integers = [str(name) for name in df if df[name].dtype in (np.int32, np.int64, pd.Int32Dtype())]
    return {
        "use_dictionary": texts,
        # The bytes of one significance side by side, so that zstd sees what repeats from warp to warp: half
        # as long as DELTA_BINARY_PACKED, and no slower.
        "column_encoding": dict.fromkeys(integers, "BYTE_STREAM_SPLIT"),
        "compression": "ZSTD",
        "compression_level": ZSTD_LEVEL,
        "write_statistics": list(SELECTED),
        "write_page_checksum": True,
        "store_schema": False,
    }


def span_table(df: pd.DataFrame, columns: pa.Schema) -> pa.Table:
    """Rows of a span table."""
    return pa.table([_array(df[field.name], field.type) for field in columns], schema=columns)


def _array(column: pd.Series[Any], kind: pa.DataType) -> pa.Array:
    if not pa.types.is_dictionary(kind):
        return pa.array(column, kind, from_pandas=True)
    return text_array(column)


def read_columns(
    read: Callable[[str], Iterable[pa.Array]], rows: int, about: dict[str, Any]
) -> dict[str, Any]:
    """The columns of a file, by name, each read and made what the table has, side by side in threads.

    read: the parts of a column, in order; no more than one of them is held beside what the table has.
    rows: how many values all parts have. about: what `described` said of all of the file.

    Raises KeyError, TypeError or ValueError where they are not as `about` says, and what `read` raises.
    """
    kinds = {name: (dtype, about["categories"].get(name)) for name, dtype in SPAN_DTYPES.items()}
    for name, payload in about["payloads"].items():
        if name in SPAN_DTYPES or payload["dtype"] not in PAYLOAD_DTYPES:
            raise ValueError(f"a payload {name} of dtype {payload['dtype']}")
        kinds[name] = (payload["dtype"], payload.get("categories"))
    with worker_pool() as pool:
        values = pool.map(lambda name: _values(read(name), rows, name, *kinds[name]), kinds)
        return dict(zip(kinds, values, strict=True))


def _values(parts: Iterable[pa.Array], rows: int, name: str, dtype: str, known: dict[str, Any] | None) -> Any:
    if dtype == "category":
        if known is None:
            raise ValueError(f"{name} has no categories")
        codes = _Codes(name, known)
        return categorical(_filled(parts, rows, name, codes.dtype, codes.of), known)
    if dtype == "Int32":
        missing = np.zeros(rows, np.bool_)
        values = _filled(parts, rows, name, np.dtype(np.int32), partial(_integers, missing, name))
        return pd.arrays.IntegerArray(values, missing)
    return _filled(parts, rows, name, np.dtype(dtype), partial(_plain, name, dtype))


def _filled(
    parts: Iterable[pa.Array],
    rows: int,
    name: str,
    dtype: np.dtype[Any],
    values_of: Callable[[pa.Array, slice], NDArray[Any]],
) -> NDArray[Any]:
    """The values of all parts, put where they belong as they are read: so each is copied once. values_of:
    those of a part, or one for all of it."""
    values, end = np.empty(rows, dtype), 0
    for part in parts:
        place = slice(end, end + len(part))
        if place.stop > rows:
            break
        values[place] = values_of(part, place)
        end = place.stop
    else:
        if end == rows:
            return values
    raise ValueError(f"{name} does not have {rows} values")


def _plain(name: str, dtype: str, part: pa.Array, _: slice) -> NDArray[Any]:
    """Numbers; a float that is missing is NaN."""
    if part.type != _ARROW[dtype]:
        raise ValueError(f"{name} is of type {part.type}")
    if part.null_count and dtype != "float64":
        raise ValueError(f"{name} lacks values")
    return np.asarray(part.to_numpy(zero_copy_only=False))


def _integers(missing: NDArray[np.bool_], name: str, part: pa.Array, place: slice) -> NDArray[Any]:
    """Integers, 0 where one is `missing`, which is noted."""
    if part.type != _ARROW["Int32"]:
        raise ValueError(f"{name} is of type {part.type}")
    if part.null_count:
        missing[place] = part.is_null().to_numpy(zero_copy_only=False)
        part = part.fill_null(0)
    return np.asarray(part.to_numpy())


class _Codes:
    """Codes of the whole file's categories, whatever dictionary each part of it was written with."""

    def __init__(self, name: str, known: dict[str, Any]) -> None:
        self._name = name
        self._place = pd.Index([str(value) for value in known["values"]], dtype=object)
        self.dtype = np.min_scalar_type(-max(1, len(self._place)))  # as pandas has them

    def of(self, part: pa.Array, _: slice) -> NDArray[Any]:
        """-1 where a value is missing; one code where it is that of all."""
        if not pa.types.is_dictionary(part.type):
            raise ValueError(f"{self._name} is of type {part.type}")
        places = self._place.get_indexer(pd.Index(part.dictionary.to_pylist(), dtype=object))
        if len(places) == 1 and places[0] >= 0 and not part.null_count:
            return places.astype(self.dtype)
        indices = part.indices.fill_null(len(places)) if part.null_count else part.indices
        codes = np.append(places, -1).astype(self.dtype)[indices.to_numpy(zero_copy_only=False)]
        if (places < 0).any() and (codes < 0).sum() != part.null_count:
            raise ValueError(f"{self._name} has values that are none of its categories")
        return np.asarray(codes)


def selected(file: pq.ParquetFile, columns: list[str], wanted: Mapping[str, NDArray[np.int64]]) -> list[int]:
    """The row groups that may have rows with these values, of which there are some of each column, sorted.

    columns: those of the file, in order.
    """
    groups = range(file.metadata.num_row_groups)
    return [
        group
        for group in groups
        if all(
            _may_have(file.metadata.row_group(group).column(columns.index(name)).statistics, values)
            for name, values in wanted.items()
        )
    ]


def _may_have(statistics: Any, values: NDArray[np.int64]) -> bool:
    if statistics is None or not statistics.has_min_max:
        return True
    first = int(np.searchsorted(values, statistics.min))
    return first < len(values) and bool(values[first] <= statistics.max)


CHECKS: Final = "checks"
"""In what the object says of the spans: bytes and CRC-32 of each row group. That of the footer stands before
it, where Parquet's readers see nothing."""

_END_BYTES: Final = 8  # the footer's length and a mark end a file


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


def pieces(tables: Tables, pool: Executor) -> Iterator[Piece]:
    """The file, a row group at a time; all but the spans stands in its metadata. The part of a job's rank has
    the sums of its spans, too: of a job that does not fit into memory, no more is read of most ranks."""
    if tables.metadata.get("job"):
        tables = replace(tables, sums=launch_sums(tables, summed_spans(tables)))
    df = tables.df
    columns = schema(df)
    groups = (
        span_table(df.iloc[begin : begin + GROUP_ROWS], columns) for begin in range(0, len(df), GROUP_ROWS)
    )
    about = described(df)
    yield from checked_pieces(
        groups, columns, write_options(df), lambda checks: entries(tables, about | {CHECKS: checks})
    )


def checked_pieces(
    groups: Iterable[pa.Table],
    columns: pa.Schema,
    options: dict[str, Any],
    texts_of: Callable[[list[list[int]]], dict[bytes, bytes]],
) -> Iterator[bytes]:
    """A file of these row groups, whose every byte a checksum covers; those of pages leave out their headers,
    which say how to decode a page.

    texts_of: those of the file's metadata, from the bytes and CRC-32 of each row group.
    """
    sink = _Sink()
    checks = []
    with pq.ParquetWriter(sink, columns, **options) as writer:
        for group in groups:
            writer.write_table(group, len(group))
            piece = sink.take()
            checks.append([len(piece), zlib.crc32(piece)])
            yield piece
        writer.add_key_value_metadata(texts_of(checks))
    end = sink.take()
    footer = len(end) - _END_BYTES - int.from_bytes(end[-_END_BYTES:][:4], "little")
    yield end[:footer] + _crc(end[footer:]) + end[footer:]


Ints = NDArray[np.int64]
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
            with pq.ParquetFile(content, metadata=metadata, read_dictionary=texts) as read:
                yield read
    except TraceError:
        raise
    except _DAMAGE as error:
        raise file.damaged(f"{file.path.name}: {error}") from error


def tables_in_file(file: TraceFile) -> Tables:
    """The profile in one file. Raises TraceError."""
    with _opened(file) as read:
        texts = read.metadata.metadata
        known = stated(file, texts)
        _check_footer(file, read.metadata.serialized_size + _END_BYTES)
        try:
            tables, about = tables_in(file, texts, known), json.loads(bytes(known.spans))
            return replace(tables, df=_spans(file, read, tables, about), sums=sums_frame())
        except TraceError:
            raise
        except KeyError as error:
            raise file.damaged(f"its profscope object has no {error}") from error
        except (*DAMAGE, *_DAMAGE) as error:
            raise file.damaged(error) from error


def _spans(file: TraceFile, read: pq.ParquetFile, tables: Tables, about: dict[str, Any]) -> pd.DataFrame:
    """tables: the others; about: see `described`."""
    if about["rows"] != read.metadata.num_rows:
        raise ValueError(f"it has {read.metadata.num_rows} rows, not {about['rows']}")
    _check_size(read, file.size)
    checks = _Checks(file, about[CHECKS])
    wanted = {} if file.only.is_all else {"launch": file.only.launches(tables.launches)}
    if wanted:
        table, rows = _read_rows(read, wanted | file.only.columns(), checks)
        if len(rows):
            file.left_out = about["rows"] - len(rows)
            return _frame(_columns_of(table, about), rows, about["rows"])
    check_room(str(file), about["rows"], len(about["payloads"]))
    for group in range(read.metadata.num_row_groups):
        checks.check(group)
    columns = read_columns(lambda name: _parts(file, read, name), about["rows"], about)
    return _frame(columns, None, about["rows"])


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


def _crc(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(4, "little")


def _check_footer(file: TraceFile, size: int) -> None:
    """size: in bytes, with what ends the file. Raises TraceError unless the checksum before it is right."""
    with file.path.open("rb") as content:
        content.seek(max(0, file.size - size - 4))
        stated = content.read(4)
        if stated != _crc(content.read()):
            raise file.damaged("its footer does not have the checksum that it states")


class _Checks:
    """The checksums of a file's row groups."""

    def __init__(self, file: TraceFile, stated: list[list[int]]) -> None:
        self._file, self._stated = file, stated
        self._begins = np.cumsum([0, *(size for size, _ in stated)]).tolist()

    def check(self, group: int) -> None:
        """Raises TraceError unless it is as it was written."""
        size, crc = self._stated[group]
        with self._file.path.open("rb") as content:
            content.seek(self._begins[group])
            if zlib.crc32(content.read(size)) != crc:
                raise self._file.damaged(f"its row group {group} does not have the checksum that it states")


def _check_size(read: pq.ParquetFile, size: int) -> None:
    """Raises ValueError where a file of so many bytes claims more than it can hold."""
    cells = read.metadata.num_rows * read.metadata.num_columns
    if cells > most_parquet_cells(size):
        raise ValueError(f"{cells} values in {size} bytes")


def _read_rows(read: pq.ParquetFile, wanted: Mapping[str, Ints], checks: _Checks) -> tuple[pa.Table, Ints]:
    """The rows that have one of the wanted numbers in each of these columns, and which rows these are."""
    names = read.schema_arrow.names
    lengths = [read.metadata.row_group(group).num_rows for group in range(read.metadata.num_row_groups)]
    begins = np.cumsum([0, *lengths])
    parts, rows = [read.schema_arrow.empty_table()], [np.zeros(0, np.int64)]
    for group in selected(read, names, wanted):
        checks.check(group)
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
        for name in REFERENCES:
            columns[name] = renumbered(columns[name], rows)
    df = spans_frame(columns)
    for name in (name for name in columns if name not in SPAN_DTYPES):
        df[name] = columns[name]  # df[[...]] would copy all of it
    return df
