"""The spool: a session's raw buffers in a file that only grows, readable whatever happens to its writer.

A file is a row of chunks: a header of CHUNK dtype, then `length` bytes, then zeros up to a multiple of 16:

    session   JSON {"metadata", "notes"} as they stand when it is written; the first chunk, and again later:
              the last one counts
    program   JSON {"number", "manifest", "build"}: one program, its manifest as text, and facts of
              its binary (null if unknown)
    launch    a launch's buffer; its header has the numbers of launch and program
    evidence  JSON: `evidence.tables.Evidence`; the last one counts
    scopes    JSON: the host scopes so far, as `around.host_scopes` gives them; the last one counts
    end       nothing: the session was closed

A chunk counts if it is complete and its checksum is right. A reader skips a damaged one, goes on at the next
intact header, and notes the missing launches.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from profscope.decoding.build import Build, RawLaunch
from profscope.instrument_passes.kept_text import packed
from profscope.instrument_passes.manifest import Manifest
from profscope.instrument_passes.records import align

if TYPE_CHECKING:
    import pandas as pd

    from profscope.evidence.tables import Evidence

__all__ = [
    "CHUNK", "MAGIC", "SUFFIX", "VERSION", "Bytes", "Chunk", "SpoolWriter", "chunk_parts", "chunks",
    "may_hold_launches", "version_of",
]  # fmt: skip

SUFFIX: Final = ".spool"
_NAME: Final = b"PSspool"
VERSION: Final = 6
MAGIC: Final = _NAME + str(VERSION).encode()
CHUNK: Final = np.dtype(
    [
        ("magic", "S8"),
        ("kind", "S8"),
        ("length", "<u8"),
        # Of a launch, as of `RawLaunch`; program: its number. Other chunks have the index of the next launch.
        ("stream", "<i8"),
        ("index", "<i4"),
        ("program", "<i4"),
        ("ctas", "<i4"),
        ("graph", "<i4"),
        ("replay", "<i4"),
        ("device", "<i2"),
        ("cold", "<i2"),
        ("host", "<i4"),
        ("spare", "S12"),  # so that what follows the header is aligned
        ("crc", "<u4"),  # CRC-32 of the bytes, zeros behind them included
        ("header_crc", "<u4"),  # CRC-32 of the header up to here
    ]
)
_ALIGN: Final = 16
_CHECKED: Final = CHUNK.itemsize - 4
_JOINED: Final = 4096  # bytes of a chunk that are written at once with its header
_SEARCHED: Final = 1 << 20  # places looked at together

Bytes = npt.NDArray[np.uint8]


class SpoolWriter:
    """Creates a file in `folder` (made where it is missing) and appends to it; not thread-safe.

    Every chunk is handed to the operating system before the call returns, so that it outlives the process.
    Raises OSError.
    """

    def __init__(self, folder: Path, metadata: dict[str, Any]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{datetime.now(UTC):%Y%m%d-%H%M%S-%f}-{os.getpid()}{SUFFIX}"
        self.path = folder / name
        self._file = self.path.open("xb", buffering=0)
        # By number; told apart as objects, since their hash is slow.
        self._programs: list[tuple[Manifest, Build | None]] = []
        self._numbers: dict[tuple[int, int], int] = {}
        self._next = 0  # launch
        self.session(metadata, [])

    def session(self, metadata: dict[str, Any], notes: Sequence[str]) -> None:
        """State the facts besides the launches."""
        self._write("session", _json({"metadata": metadata, "notes": list(notes)}))

    def launches(self, launches: Iterable[RawLaunch]) -> None:
        """Append launches; their programs where they are new."""
        for each in launches:
            program = self._number(each.manifest, each.build)
            where = {"index": each.index, "device": each.device, "stream": each.stream, "ctas": each.ctas}
            self._write("launch", each.buffer.data, program=program, **where, **each.mark._asdict())
            self._next = max(self._next, each.index + 1)

    def _number(self, manifest: Manifest, build: Build | None) -> int:
        """That of a program, which is written where it is new."""
        identity = id(manifest), id(build)
        if identity not in self._numbers:
            self._numbers[identity] = len(self._programs)
            self._programs.append((manifest, build))
            known = None if build is None else build.to_json()
            program: dict[str, Any] = {"manifest": manifest.to_json(), "build": known}
            if build is not None and build.ttgir:
                program["code"] = {"ttgir": packed(build.ttgir), "ptx": packed(build.ptx)}
            self._write("program", _json({"number": self._numbers[identity], **program}))
        return self._numbers[identity]

    def evidence(self, evidence: Evidence) -> None:
        """State the evidence so far; replaces the previous one."""
        # Here and not above, so that recording takes no time for pandas.
        from profscope.schema import MEASURED_DTYPES
        from profscope.store.packed_table import packed_table

        names = ("counts", "counters", "experiments")
        tables: dict[str, pd.DataFrame] = {name: getattr(evidence, name) for name in names}
        stated: dict[str, Any] = {"about": evidence.about}
        if evidence.samples is not None:
            tables["samples"], stated["sampler"] = evidence.samples
        stated |= {name: packed_table(table, MEASURED_DTYPES[name]) for name, table in tables.items()}
        self._write("evidence", _json(stated))

    def scopes(self, columns: dict[str, Any]) -> None:
        """State the host scopes so far; replaces the previous ones."""
        self._write("scopes", _json(columns))

    def close(self) -> None:
        self._write("end", b"")
        self.give_up()

    def give_up(self) -> None:
        """Close the file as it is, without an end."""
        self._file.close()

    def _write(self, kind: str, data: bytes | memoryview, **fields: int) -> None:
        parts = chunk_parts(kind, data, **{"index": self._next} | fields)
        for part in parts if len(data) > _JOINED else (b"".join(parts),):
            view = memoryview(part)
            while len(view):
                view = view[self._file.write(view) :]


def chunk_parts(
    kind: str, data: bytes | memoryview, **fields: int
) -> tuple[bytes, bytes | memoryview, bytes]:
    """A chunk: its header, what it holds, and zeros. fields: of CHUNK, those of a launch."""
    padding = bytes(-len(data) % _ALIGN)
    header = np.zeros((), CHUNK)
    header["magic"], header["kind"], header["length"] = MAGIC, kind.encode(), len(data)
    for name, value in fields.items():
        header[name] = value
    header["crc"] = zlib.crc32(padding, zlib.crc32(data))
    header["header_crc"] = zlib.crc32(header.tobytes()[:_CHECKED])
    return header.tobytes(), data, padding


def version_of(head: bytes) -> int | None:
    """That of a spool whose first bytes these are; None if they are none of a spool's."""
    digit = head[len(_NAME) : len(MAGIC)]
    return int(digit) if head.startswith(_NAME) and digit.isdigit() else None


class Chunk(NamedTuple):
    """Bytes `begin` to `end` of a spool. header: None if it is damaged; data: what the chunk holds, uint8,
    None if that is damaged."""

    header: Any
    begin: int
    end: int
    data: Bytes | None

    @property
    def kind(self) -> str:
        """ "" if it cannot be told."""
        return "" if self.header is None else self.header["kind"].decode("ascii", "replace")


def chunks(content: Bytes) -> Iterator[Chunk]:
    """The chunks of a file in turn, and the damaged stretches between them.

    content: uint8, all of the file.
    """
    begin = 0
    while begin < len(content):
        chunk = _chunk(content, begin)
        yield chunk
        begin = chunk.end


def may_hold_launches(path: Path) -> bool:
    """Whether a spool has a launch, or a damaged stretch that may have been one. Raises OSError."""
    if not path.stat().st_size:
        return False
    content = np.memmap(path, np.uint8, "r")
    return any(chunk.kind in ("launch", "") for chunk in chunks(content))


def _chunk(content: Bytes, begin: int) -> Chunk:
    header = _header(content, begin)
    if header is None:
        return Chunk(None, begin, _next_header(content, begin + _ALIGN), None)
    first, length = begin + CHUNK.itemsize, int(header["length"])
    end = first + align(length, _ALIGN)
    if end > len(content) or zlib.crc32(content[first:end].data) != header["crc"]:
        return Chunk(header, begin, min(end, len(content)), None)
    return Chunk(header, begin, end, content[first : first + length])


def _header(content: Bytes, at: int) -> Any:
    """The header at a byte; None if there is no whole one."""
    raw = content[at : at + CHUNK.itemsize].tobytes()
    if len(raw) < CHUNK.itemsize or not raw.startswith(MAGIC):
        return None
    header = np.frombuffer(raw, CHUNK)[0]
    return header if header["header_crc"] == zlib.crc32(raw[:_CHECKED]) else None


def _next_header(content: Bytes, at: int) -> int:
    """Where from a byte on the next whole header begins; the end where there is none."""
    words = content[: len(content) // _ALIGN * _ALIGN].view("<u8")[::2]  # headers stand on multiples of 16
    wanted = int.from_bytes(MAGIC, "little")
    for begin in range(at // _ALIGN, len(words), _SEARCHED):
        for place in np.flatnonzero(words[begin : begin + _SEARCHED] == wanted).tolist():
            header_at = (begin + place) * _ALIGN
            if _header(content, header_at) is not None:
                return header_at
    return len(content)


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
