"""The launches of a session, in order, and their bytes once they are wanted."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from profscope.compat.programs import Program
from profscope.decoding.areas import has_records, launch_header, split, without_vacant_area
from profscope.decoding.build import ORDINARY, Build, Mark, RawLaunch
from profscope.device.buffers import Buffers, Filling
from profscope.device.sizing import Blocks, needed_bytes
from profscope.errors import RecordError
from profscope.instrument_passes.manifest import Manifest
from profscope.instrument_passes.records import LaunchBits
from profscope.recording.diagnostics import number_of_launches
from profscope.recording.trimming import has_full_ring, ring_need, trimmed

__all__ = ["Launch", "LaunchLog", "Plan", "Route", "fetched"]

# So many launches of a program and grid get rings by guess if none shows what they need, because it faults or
# has nothing to loop over.
_MOST_GUESSES: Final = 4
_MOST_LOOKED_AT: Final = 4096  # of the launches before a drain, for rings that are too short

Bytes = npt.NDArray[np.uint8]


class Plan(NamedTuple):
    """The plan for launches of a kernel with a given grid; it stays once the rings' length is settled.

    guessed: whether the rings' length is a guess, because no launch has shown it yet. zero: bytes to clear
    before a launch, marked by ones, of one program; None for all bytes.
    """

    needed: int  # bytes
    pointer_bits: int
    bits: LaunchBits
    ctas: int
    zero: tuple[Blocks, ...] | None = None
    guessed: bool = False


class Route(NamedTuple):
    """Facts known beforehand of launches of one program and grid, on one stream of one device."""

    place: Any  # Buffers.place
    needed: int
    stream: int
    bits: int
    plan: Plan
    device: int
    turns: Iterator[int]  # what the bits above the address are in each launch

    @staticmethod
    def of(buffers: Buffers, plan: Plan, stream: int, device: int, turns: Iterator[int]) -> Route:
        """With what every launch needs of the plan and the buffers in reach."""
        return Route(buffers.place, plan.needed, stream, plan.pointer_bits, plan, device, turns)


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of an instrumented kernel. ctas: those of the whole grid; guessed: whether its rings may be
    far longer than they need be, and hold anything where nothing was written."""

    index: int
    program: Program
    device: int
    stream: int
    ctas: int
    bits: LaunchBits
    filling: Filling
    offset: int
    size: int
    mark: Mark
    guessed: bool

    @property
    def manifest(self) -> Manifest:
        return self.program.manifest

    @property
    def key(self) -> tuple[int, int]:
        """The key of its program and grid: launches of one key have rings of one length."""
        return self.manifest.digest, self.ctas

    @property
    def is_cold(self) -> bool:
        """See `Filling.is_cold`."""
        return self.filling.is_cold(self.offset)

    def fetch(self) -> Bytes:
        """Its bytes on the host; waits for it. Raises RuntimeError if the device has faulted."""
        return self.filling.fetch(self.offset, self.size)

    def records(self, buffer: Bytes) -> Bytes:
        """Its bytes behind the stamps."""
        return split(buffer, self.manifest, self.ctas)[1]


@dataclass(frozen=True)
class _Trimmed(Filling):
    """The bytes of a launch in place of the filling that they were part of."""

    bytes: Bytes
    cold: bool

    def is_cold(self, offset: int) -> bool:
        return self.cold

    def fetch(self, offset: int, size: int) -> Bytes:
        return self.bytes


_Entry = tuple[Program, Route, Any, int, Mark, int]


class LaunchLog:
    """entries: program, route, filling and the offset in it, mark, host scope; the launch path appends to it.
    None once a launch has been taken away. ring_log2: by manifest digest and CTAs, the length that rings
    need, shown by launches whose own were a guess, or too short; they may be gone when the next one comes.
    """

    def __init__(self) -> None:
        self.entries: list[_Entry | None] = []
        self.ring_log2: dict[tuple[int, int], int] = {}
        self._guesses: Counter[tuple[int, int]] = Counter()  # that showed nothing
        self._first = 0  # all before it are None
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def launches(self) -> list[Launch]:
        """The launches so far, less those taken away."""
        return [self._launch(index, entry) for index, entry in self._standing()]

    def _standing(self) -> Iterator[tuple[int, _Entry]]:
        for index, entry in enumerate(self.entries[self._first :], self._first):
            if entry is not None:
                yield index, entry

    def _launch(self, index: int, entry: _Entry) -> Launch:
        program, route, filling, offset, mark, host = entry
        plan = route.plan
        return Launch(
            index, program, route.device, route.stream, plan.ctas, plan.bits, filling, offset, route.needed,
            mark._replace(host=host), plan.guessed and program.manifest.ring_bytes > 0,
        )  # fmt: skip

    def launches_of(self, digest: int, ctas: int) -> Iterator[Launch]:
        """Those of `launches` of a program and grid."""
        for index, entry in self._standing():
            if entry[0].manifest.digest == digest and entry[1].plan.ctas == ctas:
                yield self._launch(index, entry)

    def newest(self, digest: int, ctas: int) -> Launch | None:
        """The last one of `launches_of`."""
        for index in range(len(self.entries) - 1, self._first - 1, -1):
            entry = self.entries[index]
            if entry is not None and entry[0].manifest.digest == digest and entry[1].plan.ctas == ctas:
                return self._launch(index, entry)
        return None

    def newest_drained(self) -> list[Launch]:
        """The last launch that is on the host of each program and grid, of those of late."""
        found: dict[tuple[int, int], Launch] = {}
        count = len(self.entries)
        for index in range(count - 1, max(self._first, count - _MOST_LOOKED_AT) - 1, -1):
            entry = self.entries[index]
            if entry is not None and entry[0].manifest.ring_bytes and entry[2].drained:
                found.setdefault((id(entry[0]), entry[1].plan.ctas), self._launch(index, entry))
        return list(found.values())

    def programs(self) -> set[tuple[Manifest, int]]:
        """The programs that have run, each with the CTAs of its grids."""
        alike = {(id(entry[0]), entry[1].plan.ctas): entry for entry in self.entries if entry is not None}
        return {(program.manifest, route.plan.ctas) for program, route, *_ in alike.values()}

    def ordinary(self) -> Counter[str]:
        """By kernel, the ordinary launches that are there."""
        with self._lock:
            standing = Counter(id(entry[0]) for _, entry in self._standing() if entry[4] == ORDINARY)
            programs = {id(entry[0]): entry[0] for _, entry in self._standing()}
        counts = Counter[str]()
        for program, count in standing.items():
            counts[programs[program].manifest.kernel] += count
        return counts

    def drain(self) -> None:
        """Bring the launches so far to the host; waits for them. Raises RuntimeError if a device has
        faulted."""
        with self._lock:
            fillings = {id(entry[2]): entry[2] for _, entry in self._standing()}
        for filling in fillings.values():
            filling.fetch(0, 0)

    def drained(self, limit_bytes: int) -> list[Launch]:
        """The oldest launches that are on the host, about `limit_bytes` of them."""
        chosen, size = [], 0
        for index, entry in self._standing():
            if size >= limit_bytes:
                break
            launch = self._launch(index, entry)
            if launch.filling.drained:
                chosen.append(launch)
                size += launch.size
        return chosen

    def forget(self, launches: Sequence[Launch]) -> None:
        """Take launches away; their memory goes with the last that shares it."""
        with self._lock:
            for launch in launches:
                self.entries[launch.index] = None
        while self._first < len(self.entries) and self.entries[self._first] is None:
            self._first += 1

    def fetch(self, launch: Launch) -> Bytes:
        """A launch's bytes on the host; waits for it. Raises RuntimeError if the device has faulted.

        Bytes of a guessed size are trimmed, and kept in place of the larger copy.
        """
        buffer = launch.fetch()[: needed_bytes(launch.manifest, launch.ctas, launch.bits)]
        stamps, records = split(buffer, launch.manifest, launch.ctas)
        if not has_records(records):
            return buffer
        with contextlib.suppress(RecordError):  # the profile will say what is wrong with it
            records = without_vacant_area(records, launch.manifest, launch.ctas)
        if launch.guessed:
            self._learn(launch, records)
            with contextlib.suppress(RecordError):  # the profile will say what is wrong with it
                records = trimmed(records, launch.manifest)
                bits = LaunchBits.decode(int(launch_header(records)["launch_bits"]))
                buffer = np.concatenate([stamps, records])
                self._keep(launch, buffer, bits)
        return buffer[: len(stamps) + len(records)]

    def _learn(self, launch: Launch, records: Bytes) -> None:
        key, (ring_log2, is_shown) = launch.key, ring_need(records, launch.manifest)
        with self._lock:
            self._guesses[key] += not is_shown
            if is_shown or self._guesses[key] >= _MOST_GUESSES:
                self.ring_log2[key] = max(ring_log2, self.ring_log2.get(key, 0))

    def learn_again(self, launch: Launch) -> bool:
        """Whether the launch's rings were too short; later ones get longer rings then."""
        records = launch.records(self.fetch(launch))
        if not has_records(records) or not has_full_ring(records, launch.manifest):
            return False
        needed = ring_need(records, launch.manifest).ring_log2
        with self._lock:
            known = self.ring_log2.get(launch.key)
            if known is None or needed <= known:
                return False
            self.ring_log2[launch.key] = needed
            return True

    def _keep(self, launch: Launch, buffer: Bytes, bits: LaunchBits) -> None:
        with self._lock:
            entry = self.entries[launch.index]
            if entry is not None:
                program, route, _, _, mark, host = entry
                plan = route.plan._replace(needed=len(buffer), bits=bits, zero=None, guessed=False)
                route = route._replace(plan=plan, needed=len(buffer))
                self.entries[launch.index] = (
                    program, route, _Trimmed(buffer, launch.is_cold), 0, mark, host,
                )  # fmt: skip


def fetched(
    log: LaunchLog, launches: Sequence[Launch], kept: Callable[[Build | None], Build | None]
) -> tuple[list[RawLaunch], list[str]]:
    """Launches of a log with their bytes on the host; waits for them. Also notes on losses and their reasons.
    kept: the parts of their builds to keep.
    """
    raw: list[RawLaunch] = []
    notes: list[str] = []
    for launch in launches:
        try:
            buffer = log.fetch(launch)
        except RuntimeError as error:
            why = str(error).splitlines()[0]
            lost = len(launches) - len(raw)
            notes.append(
                f"{number_of_launches(lost)} lost, from launch {launch.index} ({launch.manifest.kernel}) on: "
                f"the device has faulted: {why}"
            )
            break
        name = f"launch {launch.index} ({launch.manifest.kernel})"
        if launch.filling.is_late(launch.offset):
            notes.append(
                f"{name} is lost: a hook or a full queue held it up until its memory had been drained"
            )
            continue
        if not has_records(launch.records(buffer)):
            notes.append(f"{name} wrote nothing: it did not run")
            continue
        where = launch.device, launch.stream, launch.ctas
        mark = launch.mark._replace(cold=True) if launch.is_cold else launch.mark
        raw.append(RawLaunch(launch.index, launch.manifest, *where, buffer, mark, kept(launch.program.build)))
    return raw, notes
