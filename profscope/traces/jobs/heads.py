"""The parts of a job whose spans do not fit into memory: of each what it says beside its spans, read from the
ends of the files alone.

Parts differ in little, so what several say in the same words is read and checked once, and their tables are
read together.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from profscope.errors import TraceError
from profscope.schema import Tables, spans_frame
from profscope.store.file_checks import misshapen
from profscope.traces.jobs.stack import STACKED, Stack
from profscope.traces.parquet_tables import arrow_tables, frame_of, has_sums, stated
from profscope.traces.trace_file import TraceFile

__all__ = ["Head", "read_heads", "span_count", "stack_of"]

_READ: Final = ("launches", "host", "events", "sums")
_OF_ONE: Final = frozenset(("kernels", "sampler", "evidence", "baseline"))
"""Entries of the metadata that are of one rank, as what was measured of its launches is."""


@dataclass(frozen=True)
class Head:
    """What a part says beside its spans: its metadata, and tables as they are in the file. is_summed: whether
    there are no spans that its sums lack."""

    rank: int
    name: str
    metadata: Mapping[str, Any]
    tables: Mapping[str, pa.Table]
    is_summed: bool


def span_count(path: Path) -> int:
    """How many spans a part has that can be read without them; 0 for any other. Raises OSError."""
    try:
        with path.open("rb") as content:
            metadata = pq.read_metadata(content)
    except pa.ArrowException:
        return 0
    return int(metadata.num_rows) if has_sums(metadata.metadata or {}) else 0


def read_heads(folder: Path, paths: Mapping[int, Path]) -> tuple[list[Head], list[str]]:
    """And notes of those that cannot be read, each of which costs itself. paths: by rank."""
    heads, notes, known = [], [], _Metadata()
    for rank, path in paths.items():
        try:
            file = TraceFile(path)
            heads.append(Head(rank, str(path.relative_to(folder)), *_read(file, known)))
        except TraceError as error:
            notes.append(f"rank {rank} is missing: {error}")
    return heads, notes


def _read(file: TraceFile, known: _Metadata) -> tuple[dict[str, Any], dict[str, pa.Table], bool]:
    try:
        with file.path.open("rb") as content:
            footer = pq.read_metadata(content)
        texts = footer.metadata or {}
        metadata = known.of(file, stated(file, texts, _READ).metadata)
        return metadata, arrow_tables(file, texts, _READ), has_sums(texts) or not footer.num_rows
    except TraceError:
        raise
    except (ValueError, KeyError, OSError, RecursionError, zlib.error, pa.ArrowException) as error:
        raise file.damaged(error) from error


class _Metadata:
    """Entries of the metadata of several parts; what is the same is read once."""

    def __init__(self) -> None:
        self._read: dict[tuple[str, bytes], Any] = {}

    def of(self, file: TraceFile, entries: Mapping[str, msgspec.Raw]) -> dict[str, Any]:
        """Raises TraceError for an entry of another form."""
        kept = {name: bytes(text) for name, text in entries.items() if name not in _OF_ONE}
        return {name: self._value(file, name, text) for name, text in kept.items()}

    def _value(self, file: TraceFile, name: str, text: bytes) -> Any:
        if (name, text) not in self._read:
            value = json.loads(text)
            wrong = next(misshapen({name: value}), None)
            if wrong:
                raise TraceError(f"{file} is no trace that can be read: it has {wrong}")
            self._read[name, text] = value
        return self._read[name, text]


def stack_of(heads: Sequence[Head], rank: int, whole: Tables) -> Stack:
    """All of them, in order of rank. whole: of this rank, all that its part has; spans, CTAs and what was
    measured are of it alone."""
    frames = {
        name: frame_of(name, [head.tables[name] for head in heads if name in head.tables]) for name in _READ
    }
    lengths = {name: [len(head.tables.get(name, ())) for head in heads] for name in _READ}
    for name in STACKED:
        if name not in _READ:
            frames[name] = getattr(whole, name)
            lengths[name] = [len(frames[name]) * (head.rank == rank) for head in heads]
    return Stack(
        [head.rank for head in heads],
        [head.name for head in heads],
        [whole.metadata if head.rank == rank else head.metadata for head in heads],
        [whole.df if head.rank == rank else spans_frame() for head in heads],
        frames,
        lengths,
    )
