"""Read a spool: every launch that is whole, and a note on every one that is not."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from profscope.decoding.build import Build, Mark, RawLaunch
from profscope.errors import TraceError
from profscope.instrument_passes.errors import IRError, ManifestError
from profscope.instrument_passes.kept_text import unpacked
from profscope.instrument_passes.manifest import Manifest
from profscope.store.chunks import CHUNK, VERSION, Bytes, Chunk, chunks, version_of
from profscope.store.file_checks import ANY_NUMBER, EACH, Needs, Row, misfits, misshapen, most_cells
from profscope.version import __version__

if TYPE_CHECKING:
    from profscope.evidence.tables import Evidence

__all__ = ["Spool", "read"]

_MISUNDERSTOOD = (
    AttributeError, IndexError, IRError, KeyError, ManifestError, RecursionError, TypeError, ValueError,
    zlib.error,
)  # fmt: skip
_FEW = 8  # launches that a note names one by one
_SCOPES = (
    "scope", "source", "thread", "start_unix_ns", "end_unix_ns", "depth", "parent", "metrics",
)  # fmt: skip


_MOST: Final = 1 << 31
_NUMBER: Final = range(_MOST)
_PLACE: Final = range(-1, _MOST)  # -1: none
_OF_LAUNCH: Final = {
    "index": _NUMBER, "program": _NUMBER, "device": _NUMBER, "ctas": _NUMBER,
    "graph": _PLACE, "replay": _PLACE, "cold": range(2), "host": _PLACE,
}  # fmt: skip
_FORMS: Final = {
    "session": Needs({"metadata": {}, "notes": [str]}),
    "program": {"number": _NUMBER, "manifest": str, "build": {}, "code": Needs({"ttgir": str, "ptx": str})},
    "evidence": Needs(
        {
            "counts": {}, "counters": {}, "experiments": {},
            "about": Needs({"configurations": [Row((str, _NUMBER, str))], "notes": [str]}),
        },
        {"samples": {}, "sampler": Needs({"binaries": [{}], "notes": [str]})},
    ),
    "scopes": Needs(
        {
            "scope": [str], "source": [str], "metrics": [{EACH: ANY_NUMBER}],
            "thread": [int], "start_unix_ns": [int], "end_unix_ns": [int],
            "depth": [_NUMBER], "parent": [_PLACE],
        },
    ),
}  # fmt: skip


class Spool(NamedTuple):
    """The contents of a spool. launches: by index, buffers mapped from the file; notes: of the session, and
    on a file that is damaged or has no end. scopes: as for `around.host_tables.with_host`. The last two are
    None if not stated."""

    metadata: dict[str, Any]
    launches: list[RawLaunch]
    notes: list[str]
    scopes: dict[str, Any] | None = None
    evidence: Evidence | None = None


def read(path: Path) -> Spool:
    """Everything that is whole in a spool file, which may still be growing.

    Raises TraceError, in one line, for a file that is no spool, has another version, or names no session.
    """
    size = path.stat().st_size
    content: Bytes = np.asarray(np.memmap(path, np.uint8, "r") if size else np.zeros(0, np.uint8))
    version = version_of(content[: CHUNK.itemsize].tobytes())
    if version not in (None, VERSION):
        raise TraceError(
            f"{path} is a spool of version {version}; this is profscope {__version__}, which reads "
            f"version {VERSION}"
        )
    reader = _Reader(path.name, size)
    for chunk in chunks(content):
        reader.take(chunk)
    if "backend" not in reader.metadata:
        raise TraceError(f"{path} is no spool of profscope, or what it says of its session is damaged")
    launches = [reader.launches[index] for index in sorted(reader.launches)]
    return Spool(reader.metadata, launches, reader.notes(), reader.scopes, reader.evidence)


class _Reader:
    """Takes chunks in their order and keeps what they say."""

    def __init__(self, name: str, size: int) -> None:
        """name, size: of the file, for notes."""
        self.metadata: dict[str, Any] = {}
        self.launches: dict[int, RawLaunch] = {}
        self.evidence: Evidence | None = None
        self.scopes: dict[str, Any] | None = None
        self.ended = False
        self._name, self._size = name, size
        self._stated: list[str] = []  # notes of the session
        self._programs: dict[int, tuple[Manifest, Build | None]] = {}
        self._next = 0  # launch
        self._damaged: list[Chunk] = []
        self._without_program: list[int] = []
        self._strange: list[str] = []

    def take(self, chunk: Chunk) -> None:
        if chunk.header is not None:
            self._next = max(self._next, int(chunk.header["index"]) + (chunk.kind == "launch"))
        if chunk.data is None:
            self._damaged.append(chunk)
            return
        try:
            self._understand(chunk.kind, chunk.header, chunk.data)
        except _MISUNDERSTOOD as error:  # right sum, wrong content
            self._strange.append(
                f"{self._name} has a chunk at byte {chunk.begin} that was written by another profscope or "
                f"by a mistake: {error}"
            )

    def notes(self) -> list[str]:
        """Those of the session, and what is to be said of the file."""
        notes = [*self._stated, *self._strange]
        inside = [chunk for chunk in self._damaged if chunk.end < self._size]
        if inside:
            # No more than fit: a number may be damaged, too.
            most = min(self._next, len(self.launches) + self._size // CHUNK.itemsize)
            lost = {*range(most)} - self.launches.keys() - {*self._without_program}
            what = _missing(sorted(lost)) if lost else "what stood there is missing"
            notes.append(f"{what}: {self._name} is damaged from byte {inside[0].begin} to {inside[-1].end}")
        if len(inside) < len(self._damaged):
            where = f"{self._name} is readable up to byte {self._damaged[-1].begin} of {self._size}"
            notes.append(f"{where}: the chunk there is incomplete")
        if self._without_program:
            notes.append(
                f"{_missing(self._without_program)}: what {self._name} says of the program is damaged"
            )
        if not self.ended:
            notes.append(
                f"{self._name} has no end: what the session had not flushed when it stopped is missing"
            )
        return notes

    def _understand(self, kind: str, header: np.void, data: Bytes) -> None:
        if kind == "launch":
            self._add_launch(header, data)
        elif kind == "end":
            self.ended = True
        elif kind in _FORMS:
            stated = json.loads(data.tobytes())
            wrong = next(_problems(kind, stated), None)
            if wrong is not None:
                raise ValueError(wrong)
            if kind == "session":
                self.metadata, self._stated = stated["metadata"], stated["notes"]
            elif kind == "program":
                self._add_program(stated)
            elif kind == "evidence":
                self._add_evidence(stated)
            else:
                self._add_scopes(stated)

    def _add_launch(self, header: np.void, records: Bytes) -> None:
        numbers = {name: int(header[name]) for name in _OF_LAUNCH}
        for name, possible in _OF_LAUNCH.items():
            if numbers[name] not in possible:
                raise ValueError(f"a launch with a {name} of {numbers[name]}")
        index, number, device, ctas, graph, replay, cold, host = numbers.values()
        if number not in self._programs:
            self._without_program.append(index)
            return
        manifest, build = self._programs[number]
        where = device, int(header["stream"]), ctas
        mark = Mark(graph, replay, bool(cold), host)
        self.launches[index] = RawLaunch(index, manifest, *where, records, mark, build)

    def _add_scopes(self, scopes: dict[str, Any]) -> None:
        if len({len(scopes[name]) for name in _SCOPES}) != 1:
            raise ValueError("host scopes do not all have a value in each column")
        self.scopes = scopes

    def _add_program(self, stated: dict[str, Any]) -> None:
        build = stated.get("build")
        known = None if build is None else Build.from_json(build)
        if known is not None and "code" in stated:
            code = stated["code"]
            known = replace(known, ttgir=unpacked(code["ttgir"]), ptx=unpacked(code["ptx"]))
        self._programs[stated["number"]] = Manifest.from_json(stated["manifest"]), known

    def _add_evidence(self, stated: dict[str, Any]) -> None:
        # Here and not above: who records imports this file, and pandas takes its time.
        from profscope.evidence.tables import Evidence
        from profscope.schema import MEASURED_DTYPES, measured_frame
        from profscope.store.packed_table import unpacked_table

        tables = {
            name: measured_frame(name, unpacked_table(stated[name], dtypes, most_cells(self._size)))
            for name, dtypes in MEASURED_DTYPES.items()
            if name in stated
        }
        samples = (tables["samples"], stated["sampler"]) if "samples" in tables else None
        about = stated["about"]
        self.evidence = Evidence(samples, tables["counts"], tables["counters"], tables["experiments"], about)


def _missing(launches: list[int]) -> str:
    if len(launches) == 1:
        return f"launch {launches[0]} is missing"
    if len(launches) <= _FEW:
        return f"launches {', '.join(map(str, launches))} are missing"
    return f"launches {launches[0]} to {launches[-1]}, {len(launches)} in all, are missing"


def _problems(kind: str, stated: Any) -> Iterator[str]:
    """What is wrong with what a chunk states, in a few words."""
    yield from misfits(stated, _FORMS[kind], kind)
    if kind == "session":
        yield from misshapen(stated["metadata"])
    elif kind == "evidence" and stated.get("sampler") is not None:
        yield from misshapen({"sampler": stated["sampler"]})
