"""All but the spans of a Parquet trace: texts in the file's own metadata, so that they are read alone.

profscope          JSON: schema, version, metadata, and what the span table is made of
profscope.digest   JSON: the SHA-256 of each of the other texts, so that some can be read alone
profscope.ctas     JSON: the table of CTAs
profscope.<name>   each other table that has rows: an Arrow IPC stream, zlib, base64
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa

from profscope.errors import TraceError
from profscope.schema import (
    EVENT_DTYPES,
    HOST_DTYPES,
    LAUNCH_DTYPES,
    MEASURED_DTYPES,
    SUM_DTYPES,
    Tables,
    events_frame,
    host_frame,
    launches_frame,
    measured_frame,
    sums_frame,
)
from profscope.store.file_checks import most_cells, most_content_bytes
from profscope.traces.chrome.text import json_text
from profscope.traces.profscope_object import SCHEMA, check_schema, packed_ctas, unpacked_ctas
from profscope.traces.trace_file import TraceFile
from profscope.version import __version__

__all__ = [
    "KEY",
    "Stated",
    "arrow_tables",
    "entries",
    "frame_of",
    "has_sums",
    "stated",
    "tables_in",
    "text_array",
]

KEY: Final = b"profscope"
_DIGEST, _CTAS = KEY + b".digest", KEY + b".ctas"

_TABLES: Final[Mapping[str, Mapping[str, str]]] = {
    "launches": LAUNCH_DTYPES,
    "host": HOST_DTYPES,
    "events": EVENT_DTYPES,
    "sums": SUM_DTYPES,
    **MEASURED_DTYPES,
}
_FRAMES: Final[Mapping[str, Callable[[Mapping[str, Any] | None], pd.DataFrame]]] = {
    "launches": launches_frame,
    "host": host_frame,
    "events": events_frame,
    "sums": sums_frame,
}
_ARROW: Final = {
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float64": pa.float64(),
    "bool": pa.bool_(),
    "str": pa.string(),
    "category": pa.dictionary(pa.int32(), pa.string()),
}


class Stated(msgspec.Struct):
    """What the JSON of a file says. metadata and spans: as JSON, which ranks of a job mostly share."""

    schema: int
    version: str
    metadata: dict[str, msgspec.Raw]
    spans: msgspec.Raw


def entries(tables: Tables, spans: dict[str, Any]) -> dict[bytes, bytes]:
    """Of the file's metadata. spans: how the span table is read again."""
    metadata = json.loads(json.dumps(tables.metadata))  # as it will be read: 1 as a key is "1" then
    ours = {"schema": SCHEMA, "version": __version__, "metadata": metadata, "spans": spans}
    texts = {KEY: json_text(ours).encode()}
    if len(tables.ctas):
        texts[_CTAS] = json_text(packed_ctas(tables.ctas, tables.launches)).encode()
    for name, dtypes in _TABLES.items():
        if len(getattr(tables, name)):
            texts[KEY + b"." + name.encode()] = _packed(getattr(tables, name), dtypes)
    digests = {name.decode(): _digest(text) for name, text in texts.items()}
    return {**texts, _DIGEST: json_text(digests).encode()}


def _packed(table: pd.DataFrame, dtypes: Mapping[str, str]) -> bytes:
    kinds = dict(dtypes) | {str(name): "float64" for name in table if name not in dtypes}  # metrics of scopes
    arrays = {name: _array(table[name], kind) for name, kind in kinds.items()}
    sink = pa.BufferOutputStream()
    together = pa.table(arrays)
    with pa.ipc.new_stream(sink, together.schema) as writer:
        writer.write_table(together)
    return base64.b64encode(zlib.compress(sink.getvalue(), 1))


def _array(column: pd.Series[Any], kind: str) -> pa.Array:
    if kind == "category":
        return text_array(column)
    return pa.array(column.tolist() if kind == "str" else column.to_numpy(), _ARROW[kind])


def text_array(column: pd.Series[Any]) -> pa.DictionaryArray:
    """A column of categories, missing ones as null."""
    codes = column.cat.codes.to_numpy().astype(np.int32)
    texts = pa.array([str(value) for value in column.cat.categories], pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), texts)


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def has_sums(texts: Mapping[bytes, bytes]) -> bool:
    """Whether a file has the sums of its spans."""
    return KEY + b".sums" in texts


def stated(
    file: TraceFile, texts: Mapping[bytes, bytes] | None, names: Collection[str] | None = None
) -> Stated:
    """What is stated in a file whose metadata has these texts. names: tables that are to be read; None: all.

    Raises TraceError for one that is damaged, of another schema or of another tool.
    """
    ours = {name: text for name, text in (texts or {}).items() if name == KEY or name.startswith(KEY + b".")}
    if KEY not in ours:
        raise TraceError(f"{file} is a Parquet file without a profile in it")
    told = ours.pop(_DIGEST, None)
    if told is None:
        raise file.damaged("its digest is missing")
    wanted = ours.keys() if names is None else {KEY, *(KEY + b"." + name.encode() for name in names)}
    digests = {name.decode(): _digest(ours[name]) for name in wanted & ours.keys()}
    if not _states(told, digests, {name.decode(errors="replace") for name in ours}):
        raise file.damaged("its data do not have the digest it states")
    try:
        known = _decoded(ours[KEY])
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError, msgspec.DecodeError) as error:
        raise file.damaged(f"its profscope object: {error}") from error
    check_schema(file, {"schema": known.schema, "version": known.version})
    return known


def _states(told: bytes, digests: Mapping[str, str], names: Collection[str]) -> bool:
    """Whether a text with digests has these, and names no other texts than there are."""
    try:
        known = msgspec.json.decode(told, type=dict[str, str])
    except msgspec.DecodeError:
        return False
    return known.keys() == {*names} and digests.items() <= known.items()


def _decoded(text: bytes) -> Stated:
    try:
        return msgspec.json.decode(text, type=Stated)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:  # a lone surrogate, perhaps: the json module takes it
        ours = json.loads(text)
        metadata = {name: msgspec.Raw(json.dumps(value).encode()) for name, value in ours["metadata"].items()}
        spans = msgspec.Raw(json.dumps(ours["spans"]).encode())
        return Stated(ours["schema"], ours["version"], metadata, spans)


def arrow_tables(
    file: TraceFile, texts: Mapping[bytes, bytes], names: Iterable[str] = tuple(_TABLES)
) -> dict[str, pa.Table]:
    """Those of these tables that have rows, by name.

    Raises ValueError, KeyError, zlib.error or ArrowException for damaged ones, in memory that the size of the
    file bounds.
    """
    most = most_content_bytes(file.size)
    found = {}
    for name in names:
        text = texts.get(KEY + b"." + name.encode())
        if text is None:
            continue
        inflate = zlib.decompressobj()
        content = inflate.decompress(base64.b64decode(text, validate=True), most)
        if not inflate.eof:
            raise ValueError(f"its {name} expand to more than {most} bytes, or are cut off")
        with pa.ipc.open_stream(content) as stream:
            found[name] = stream.read_all()
        _check(name, found[name])
    return found


def _check(name: str, table: pa.Table) -> None:
    """Raises ValueError for a table that does not follow the schema."""
    others = set(table.column_names) - set(_TABLES[name])
    kinds = {each: _ARROW[dtype] for each, dtype in _TABLES[name].items()}
    if name == "host":
        kinds |= dict.fromkeys(others, pa.float64())
    elif others:
        raise ValueError(f"its {name} have a column {min(others)}")
    for each, kind in kinds.items():
        column = table.column(each)
        if column.type != kind:
            raise ValueError(f"its {name} have a {each} that is no {kind}")
        if column.null_count:
            raise ValueError(f"its {name} lack values in {each}")
    table.validate(full=True)


def frame_of(name: str, tables: Sequence[pa.Table]) -> pd.DataFrame:
    """Tables of this name one upon the other, as Tables has it."""
    if not tables:
        return _empty(name)
    table = pa.concat_tables(tables, promote_options="default").unify_dictionaries().combine_chunks()
    columns = {each: _column(table.column(each)) for each in table.column_names}
    return measured_frame(name, columns) if name in MEASURED_DTYPES else _FRAMES[name](columns)


def _empty(name: str) -> pd.DataFrame:
    return measured_frame(name) if name in MEASURED_DTYPES else _FRAMES[name](None)


def _column(column: pa.ChunkedArray) -> Any:
    if pa.types.is_dictionary(column.type):
        array = column.chunk(0)
        values = pd.Index(array.dictionary.to_pylist(), dtype="str")
        return pd.Categorical.from_codes(array.indices.to_numpy(), categories=values)
    if pa.types.is_string(column.type):
        return column.to_pylist()
    return column.to_numpy()


def tables_in(file: TraceFile, texts: Mapping[bytes, bytes], known: Stated) -> Tables:
    """All but the spans. Raises what `arrow_tables` raises, and TypeError."""
    found = arrow_tables(file, texts)
    frames = {name: frame_of(name, [found[name]] if name in found else []) for name in _TABLES}
    if _CTAS in texts:
        packed = json.loads(texts[_CTAS])
        frames["ctas"] = unpacked_ctas(packed, frames["launches"], most_cells(file.size))
    metadata = {name: json.loads(bytes(value)) for name, value in known.metadata.items()}
    return Tables(metadata=metadata, **frames)
