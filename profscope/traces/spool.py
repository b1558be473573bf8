"""The spool: a session's raw buffers in a file that only grows, readable whatever happens to its writer.

A file is a row of chunks: a header of CHUNK dtype, then `length` bytes, then zeros up to a multiple of 16:

    session   JSON: the metadata of the session; the first chunk
    program   JSON: {"manifest", "build"}: a program and what is known of its binary (null if nothing is);
              programs are numbered in order of appearance. Before, it was the manifest alone.
    launches  length of the JSON (u64); JSON, one ROW a launch; their buffers, each on a multiple of 16 bytes
    so far    JSON: {"metadata", "notes"} as they stand when it is written; the last one counts
    end       nothing: the session was closed

A chunk counts if it is there in full and its checksum is right. A reader stops at the first that is not: what
comes before it is a session that ended there.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from instrument_passes.errors import ManifestError
from instrument_passes.manifest import Manifest
from instrument_passes.records import align
from profscope.decoding.build import Build
from profscope.decoding.raw import Mark, RawLaunch
from profscope.errors import TraceError

__all__ = ["CHUNK", "MAGIC", "SUFFIX", "Spool", "SpoolWriter", "find", "is_spool", "read"]

SUFFIX: Final = ".spool"
MAGIC: Final = b"PSspool1"
CHUNK: Final = np.dtype(
    [
        ("magic", "S8"),
        ("kind", "S8"),
        ("length", "<u8"),
        ("crc", "<u4"),  # CRC-32 of the bytes, zeros behind them included
        ("header_crc", "<u4"),  # CRC-32 of the header up to here
    ]
)
# A row of a launches chunk.
ROW: Final = ("index", "program", "device", "stream", "ctas", "mark", "offset", "bytes")
_ALIGN: Final = 16
_CHECKED: Final = CHUNK.itemsize - 4

Bytes = npt.NDArray[np.uint8]


class Spool(NamedTuple):
    """What a spool holds. launches: by index, buffers mapped from the file; notes: those of the session, and
    what is to be said of a file without an end."""

    metadata: dict[str, Any]
    launches: list[RawLaunch]
    notes: list[str]


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
        self._chunk("session", _json(metadata))

    def launches(self, launches: Sequence[RawLaunch]) -> None:
        """Append launches; their programs where they are new."""
        for launch in launches:
            if _identity(launch) not in self._numbers:
                build = None if launch.build is None else launch.build.to_json()
                self._chunk("program", _json({"manifest": launch.manifest.to_json(), "build": build}))
                self._numbers[_identity(launch)] = len(self._programs)
                self._programs.append((launch.manifest, launch.build))
        rows: list[tuple[Any, ...]] = []
        buffers: list[bytes | memoryview] = []
        offset = 0
        for launch in launches:
            program, size = self._numbers[_identity(launch)], launch.buffer.nbytes
            about = launch.index, program, launch.device, launch.stream, launch.ctas, launch.mark
            rows.append((*about, offset, size))
            buffers += [launch.buffer.data, bytes(-size % _ALIGN)]
            offset += align(size, _ALIGN)
        table = _json(rows)
        table += b" " * (-(8 + len(table)) % _ALIGN)
        self._chunk("launches", len(table).to_bytes(8, "little"), table, *buffers)

    def so_far(self, metadata: dict[str, Any], notes: Sequence[str]) -> None:
        """State what is known beside the launches; replaces what was stated before."""
        self._chunk("so far", _json({"metadata": metadata, "notes": list(notes)}))

    def close(self) -> None:
        self._chunk("end")
        self._file.close()

    def _chunk(self, kind: str, *parts: bytes | memoryview) -> None:
        views = [memoryview(part).cast("B") for part in parts if len(part)]
        length = sum(len(view) for view in views)
        views.append(memoryview(bytes(-length % _ALIGN)))
        header = np.zeros((), CHUNK)
        header["magic"], header["kind"] = MAGIC, kind.encode()
        header["length"] = length
        crc = 0
        for view in views:
            crc = zlib.crc32(view, crc)
        header["crc"] = crc
        header["header_crc"] = zlib.crc32(header.tobytes()[:_CHECKED])
        for view in (memoryview(header.tobytes()), *views):
            while len(view):
                view = view[self._file.write(view) :]


def is_spool(path: Path) -> bool:
    """Whether a file begins as a spool does. Raises OSError."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def find(path: Path) -> Path | None:
    """The spool at `path`: the file itself, or the only one in a folder; None if there is no spool at all.

    Raises TraceError for a folder with several.
    """
    if not path.is_dir():
        return path if path.is_file() and is_spool(path) else None
    spools = sorted(path.glob(f"*{SUFFIX}"))
    if len(spools) > 1:
        names = ", ".join(file.name for file in spools[:4]) + (", ..." if len(spools) > 4 else "")
        raise TraceError(f"{path} holds {len(spools)} spools, name one of them: {names}")
    return spools[0] if spools else None


def read(path: Path) -> Spool:
    """Everything that is complete in a spool file, which may still be growing.

    Raises TraceError, in one line, for a file that is no spool or holds not even its first chunk.
    """
    size = path.stat().st_size
    content: Bytes = np.asarray(np.memmap(path, np.uint8, "r") if size else np.zeros(0, np.uint8))
    metadata: dict[str, Any] = {}
    so_far: dict[str, Any] = {"metadata": {}, "notes": []}
    programs: list[tuple[Manifest, Build | None]] = []
    launches: dict[int, RawLaunch] = {}
    kind, at, why = "", 0, ""
    try:
        for kind, body, after in _chunks(content):
            if kind == "session":
                metadata = json.loads(body.tobytes())
            elif kind == "program":
                programs.append(_program(body.tobytes().decode()))
            elif kind == "launches":
                launches |= {launch.index: launch for launch in _launches(body, programs)}
            elif kind == "so far":
                so_far = json.loads(body.tobytes())
            at = after
    except (ValueError, IndexError, TypeError, KeyError, ManifestError) as error:  # right sum, wrong content
        why = f"; it was written by another profscope or by a mistake: {error}"
    if not metadata:
        raise TraceError(f"{path} is no spool of profscope, or stops before its first chunk is complete{why}")
    notes = list(so_far["notes"])
    if at < size:
        notes.append(f"{path.name} is readable up to byte {at} of {size}: the chunk there is incomplete{why}")
    if kind != "end":
        notes.append(f"{path.name} has no end: what the session had not flushed when it stopped is missing")
    return Spool(metadata | so_far["metadata"], [launches[i] for i in sorted(launches)], notes)


def _chunks(content: Bytes) -> Iterator[tuple[str, Bytes, int]]:
    """Kind and bytes of every complete chunk in turn, and where the next one begins."""
    at = 0
    while at + CHUNK.itemsize <= len(content):
        raw = content[at : at + CHUNK.itemsize].tobytes()
        header = np.frombuffer(raw, CHUNK)[0]
        if header["magic"] != MAGIC or header["header_crc"] != zlib.crc32(raw[:_CHECKED]):
            return
        begin = at + CHUNK.itemsize
        end = begin + int(header["length"])
        after = begin + align(int(header["length"]), _ALIGN)
        if after > len(content) or zlib.crc32(content[begin:after].data) != header["crc"]:
            return
        yield header["kind"].decode(), content[begin:end], after
        at = after


def _launches(body: Bytes, programs: Sequence[tuple[Manifest, Build | None]]) -> Iterator[RawLaunch]:
    buffers = 8 + int.from_bytes(body[:8].tobytes(), "little")
    for row in json.loads(body[8:buffers].tobytes()):
        named = dict(zip(ROW, row, strict=True))
        start = buffers + named["offset"]
        manifest, build = programs[named["program"]]
        yield RawLaunch(
            named["index"], manifest, named["device"], named["stream"], named["ctas"],
            body[start : start + named["bytes"]], Mark(*named["mark"]), build,
        )  # fmt: skip


def _identity(launch: RawLaunch) -> tuple[int, int]:
    return id(launch.manifest), id(launch.build)


def _program(text: str) -> tuple[Manifest, Build | None]:
    found = json.loads(text)
    if "build" not in found:  # by a profscope that knew no builds
        return Manifest.from_json(text), None
    build = None if found["build"] is None else Build.from_json(found["build"])
    return Manifest.from_json(found["manifest"]), build


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
