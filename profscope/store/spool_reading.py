"""Read a spool: every launch that is whole, and a note on every one that is not."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from instrument_passes.errors import IRError, ManifestError
from instrument_passes.kept_text import unpacked
from instrument_passes.manifest import Manifest
from profscope.decoding.build import Build
from profscope.decoding.raw import Mark, RawLaunch
from profscope.errors import TraceError
from profscope.store.chunks import CHUNK, VERSION, Bytes, Chunk, chunks, version_of
from profscope.store.json_form import ANY, ANY_NUMBER, EACH, Needs, Row, misfits
from profscope.store.metadata_form import misshapen
from profscope.version import __version__

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Spool", "malformed", "read"]

_MISUNDERSTOOD = (
    AttributeError, IndexError, IRError, KeyError, ManifestError, RecursionError, TypeError, ValueError,
    zlib.error,
)  # fmt: skip
_FEW = 8  # launches that a note names one by one
_SCOPES = (
    "scope", "source", "thread", "start_unix_ns", "end_unix_ns", "depth", "parent", "metrics",
)  # fmt: skip


_NUMBER: Final = range(1 << 31)
_PLACE: Final = range(-1, 1 << 31)  # -1: none
_FORMS: Final = {
    "session": Needs({"backend": str}),
    "so far": Needs({"metadata": {}, "notes": [str]}),
    "program": {"number": _NUMBER, "manifest": str, "build": {}, "code": Needs({"ttgir": str, "ptx": str})},
    "launch": Needs(
        {
            "index": _NUMBER, "program": _NUMBER, "device": _NUMBER, "stream": int, "ctas": _NUMBER,
            "mark": Row((_PLACE, _PLACE, bool)),
        }
    ),
    "samples": Needs({"table": {}, "sampler": {"binaries": [{}], "notes": [str]}}),
    "evidence": Needs(
        {
            "counts": {}, "counters": {},
            "about": Needs({"configurations": [Row((str, _NUMBER, str))], "notes": [str]}),
        }
    ),
    "scopes": Needs(
        {
            "scope": [str], "source": [str], "metrics": [{EACH: ANY_NUMBER}],
            "thread": [int], "start_unix_ns": [int], "end_unix_ns": [int],
            "depth": [_NUMBER], "parent": [_PLACE],
            "inside": [Row((int, int, int, _NUMBER))], "outside": [Row((int, int, int))],
        },
    ),
}  # fmt: skip


class Spool(NamedTuple):
    """What a spool holds. launches: by index, buffers mapped from the file; notes: those of the session, and
    what is to be said of a file that is damaged or has no end. samples, sampler: as
    `evidence.sample_tables` returned them; None and {} where none were stated. ended: whether the
    session was closed, so that what it stated is of all launches. scopes: as
    `around.host_tables.with_host` takes them; None where none were stated. evidence: counts, counters and
    what is known of them, as `evidence.tables.with_evidence` takes them."""

    metadata: dict[str, Any]
    launches: list[RawLaunch]
    notes: list[str]
    samples: pd.DataFrame | None
    sampler: dict[str, Any]
    ended: bool
    scopes: dict[str, Any] | None = None
    evidence: tuple[pd.DataFrame, pd.DataFrame, dict[str, Any]] | None = None


def read(path: Path) -> Spool:
    """Everything that is whole in a spool file, which may still be growing.

    Raises TraceError, in one line, for a file that is no spool, is one of another version, or does not even
    say of which session.
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
    return Spool(
        reader.metadata,
        launches,
        reader.notes(),
        reader.samples,
        reader.sampler,
        reader.ended,
        reader.scopes,
        reader.evidence,
    )


class _Damage(NamedTuple):
    """A damaged stretch. first: the launch that may have stood there first; sure: whether that one did."""

    begin: int
    end: int
    first: int
    sure: bool


class _Reader:
    """Takes chunks in their order and keeps what they say."""

    def __init__(self, name: str, size: int) -> None:
        """name, size: of the file, for notes."""
        self.metadata: dict[str, Any] = {}
        self.launches: dict[int, RawLaunch] = {}
        self.samples: pd.DataFrame | None = None
        self.sampler: dict[str, Any] = {}
        self.evidence: tuple[pd.DataFrame, pd.DataFrame, dict[str, Any]] | None = None
        self.scopes: dict[str, Any] | None = None
        self._name, self._size = name, size
        self._session: dict[str, Any] = {}
        self._stated: list[str] = []  # notes of the session
        self._programs: dict[int, tuple[Manifest, Build | None]] = {}
        self._announced: dict[str, Any] | None = None  # the launch whose records are to come
        self._last = -1  # the launch announced last
        self._open: list[_Damage] = []  # since then
        self._closed: list[tuple[_Damage, int]] = []  # and the launch announced next
        self._without_program: list[int] = []
        self._strange: list[str] = []
        self.ended = False

    def take(self, chunk: Chunk) -> None:
        try:
            self._understand(chunk)
        except _MISUNDERSTOOD as error:  # right sum, wrong content
            self._strange.append(
                f"{self._name} has a chunk at byte {chunk.begin} that was written by another profscope or "
                f"by a mistake: {error}"
            )

    def notes(self) -> list[str]:
        """Those of the session, and what is to be said of the file."""
        notes = [*self._stated, *self._strange]
        for damage, following in [*self._closed, *((each, each.first + each.sure) for each in self._open)]:
            notes.append(self._damage_note(damage, following))
        if self._without_program:
            notes.append(
                f"{_missing(self._without_program)}: what {self._name} says of the program is damaged"
            )
        if not self.ended:
            notes.append(
                f"{self._name} has no end: what the session had not flushed when it stopped is missing"
            )
        return notes

    def _understand(self, chunk: Chunk) -> None:
        if chunk.kind == "":
            self._skip(chunk)
        elif chunk.kind == "session":
            self._session = _stated(chunk)
            self.metadata = {**self._session}
        elif chunk.kind == "program":
            self._add_program(_stated(chunk))
        elif chunk.kind == "launch":
            self._announce(_stated(chunk))
        elif chunk.kind == "records":
            self._add_records(chunk.data)
        elif chunk.kind == "so far":
            stated = _stated(chunk)
            self.metadata = {**self._session, **stated["metadata"]}
            self._stated = [*stated["notes"]]
        elif chunk.kind == "samples":
            self._add_samples(_stated(chunk))
        elif chunk.kind == "evidence":
            self._add_evidence(_stated(chunk))
        elif chunk.kind == "scopes":
            self._add_scopes(_stated(chunk))
        elif chunk.kind == "end":
            self.ended = True

    def _add_scopes(self, scopes: dict[str, Any]) -> None:
        if len({len(scopes[name]) for name in _SCOPES}) != 1:
            raise ValueError("host scopes do not all have a value in each column")
        self.scopes = scopes

    def _skip(self, chunk: Chunk) -> None:
        row, self._announced = self._announced, None
        sure = row is not None
        self._open.append(_Damage(chunk.begin, chunk.end, self._last if sure else self._last + 1, sure))

    def _add_program(self, stated: dict[str, Any]) -> None:
        build = stated.get("build")
        known = None if build is None else Build.from_json(build)
        if known is not None and "code" in stated:
            code = stated["code"]
            known = replace(known, ttgir=unpacked(code["ttgir"]), ptx=unpacked(code["ptx"]))
        self._programs[stated["number"]] = Manifest.from_json(stated["manifest"]), known

    def _add_samples(self, stated: dict[str, Any]) -> None:
        # Here and not above: who records imports this file, and pandas takes its time.
        from profscope.schema import SAMPLE_DTYPES, samples_frame
        from profscope.store.limits import most_cells
        from profscope.store.packed_table import unpacked_table

        columns = unpacked_table(stated["table"], SAMPLE_DTYPES, most_cells(self._size))
        self.samples, self.sampler = samples_frame(columns), stated["sampler"] | {}

    def _add_evidence(self, stated: dict[str, Any]) -> None:
        from profscope.schema import MEASURED_DTYPES, measured_frame
        from profscope.store.limits import most_cells
        from profscope.store.packed_table import unpacked_table

        counts, counters = (
            measured_frame(name, unpacked_table(stated[name], MEASURED_DTYPES[name], most_cells(self._size)))
            for name in ("counts", "counters")
        )
        self.evidence = counts, counters, stated["about"]

    def _announce(self, row: dict[str, Any]) -> None:
        self._last, self._announced = int(row["index"]), row
        self._closed += [(damage, self._last) for damage in self._open]
        self._open.clear()

    def _add_records(self, records: Bytes) -> None:
        row, self._announced = self._announced, None
        if row is not None:
            self._add_launch(row, records)
        elif self._open:  # what announced them stood in the damage before
            self._last = self._open[-1].first
            self._open[-1] = self._open[-1]._replace(sure=True)

    def _add_launch(self, row: dict[str, Any], records: Bytes) -> None:
        index = int(row["index"])
        if row["program"] not in self._programs:
            self._without_program.append(index)
            return
        device, stream, ctas = (int(row[name]) for name in ("device", "stream", "ctas"))
        manifest, build = self._programs[row["program"]]
        self.launches[index] = RawLaunch(
            index, manifest, device, stream, ctas, records, Mark(*row["mark"]), build
        )

    def _damage_note(self, damage: _Damage, following: int) -> str:
        if damage.end == self._size:
            where = f"{self._name} is readable up to byte {damage.begin} of {self._size}"
            return f"{where}: the chunk there is incomplete"
        # Launches are written in the order of their numbers, but for those that drain late; no more than fit.
        last = min(following, damage.first + (damage.end - damage.begin) // CHUNK.itemsize + 1)
        missing = [index for index in range(damage.first, last) if index not in self.launches]
        what = _missing(missing) if missing else "what stood there is missing"
        return f"{what}: {self._name} is damaged at bytes {damage.begin} to {damage.end}"


def _stated(chunk: Chunk) -> Any:
    """The JSON in a chunk. Raises ValueError where it has another form than such chunks have."""
    stated = json.loads(chunk.data.tobytes())
    wrong = malformed(chunk.kind, stated)
    if wrong is not None:
        raise ValueError(wrong)
    return stated


def _missing(launches: list[int]) -> str:
    if len(launches) == 1:
        return f"launch {launches[0]} is missing"
    if len(launches) <= _FEW:
        return f"launches {', '.join(map(str, launches))} are missing"
    return f"launches {launches[0]} to {launches[-1]}, {len(launches)} in all, are missing"


def malformed(kind: str, stated: Any) -> str | None:
    """What is wrong with what a chunk states, in a few words; None for one that can be read."""
    return next(_problems(kind, stated), None)


def _problems(kind: str, stated: Any) -> Iterator[str]:
    yield from misfits(stated, _FORMS.get(kind, ANY), kind)
    if kind == "session":
        yield from misshapen(stated)
    elif kind == "so far":
        yield from misshapen(stated["metadata"])
    elif kind == "samples":
        yield from misshapen({"sampler": stated["sampler"]})
