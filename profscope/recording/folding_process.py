"""Launches that kept sums, folded in processes of their own: in this one, numpy's many small steps would take
the interpreter from the threads that launch.

    Aside.add -> [about the launches, where their buffers are] -> stdin of a process, which folds
              -> "done" -> None on its stdout, once it has
    Aside.programs -> "state" -> what it has folded, on its stdout

All launches of a program go to one process. Buffers are in memory that the processes map (see `HostPages`);
where they are not, they go the same way as what is said of them. A message is its length, a pickle, and
behind some pickles as many bytes as they say.
"""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import pickle
import subprocess
import sys
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from instrument_passes.manifest import Manifest
from profscope.decoding.alike import Alike
from profscope.decoding.build import Build
from profscope.decoding.clocks import Clocks
from profscope.decoding.folding import Folded, FoldedProgram
from profscope.decoding.raw import ORDINARY, Mark
from profscope.decoding.stack_sums import Layout
from profscope.recording.host_pages import HostPages
from profscope.recording.journal import number_of_launches
from profscope.recording.patience import PATIENCE_S, Patience
from profscope.recording.processes import begun, ended, write
from profscope.threads import WorkerPool

__all__ = ["FOLDING_THREADS", "Aside", "main"]

FOLDING_THREADS: Final = min(4, max(1, (os.cpu_count() or 2) // 2))
_PROCESSES: Final = min(3, max(1, (os.cpu_count() or 2) // 4))
_BATCH_BYTES: Final = 16 << 20
_PIPE_BYTES: Final = 1 << 20
_SET_PIPE_SIZE: Final = 1031  # fcntl's F_SETPIPE_SZ, of Linux
_ENDING_S: Final = 10.0
_DIED: Final = "has died"
_STOPPED: Final = f"did nothing for {PATIENCE_S:g} s, and was killed"

_GONE_ERRORS: Final = (OSError, EOFError, pickle.UnpicklingError)

_Source = tuple[int, int]  # ids of a manifest and a build
_Mapped = tuple[int, npt.NDArray[np.int64]]  # an area, and where in it launches begin


class Aside(Folded):
    """As `Folded`. The processes begin with the first launches; where there can be none, or one is gone, this
    one folds what it would have. One that has stopped, and does nothing, is killed. pages: where launches may
    be."""

    def __init__(self, processes: int = _PROCESSES, pages: HostPages | None = None) -> None:
        super().__init__()
        self._helpers = [_Helper(pages) for _ in range(processes)]
        self._helper_of: dict[_Source, _Helper] = {}

    def add(self, launches: Sequence[Alike], pool: Executor) -> None:
        shares: dict[_Helper, list[Alike]] = defaultdict(list)
        for group in sorted(launches, key=_bytes_of, reverse=True):  # so that they get equal shares
            helper = self._helper(group)
            helper.bytes += _bytes_of(group)
            shares[helper].append(group)
        left = [*pool.map(_Helper.send, shares, shares.values())]
        self._take_losses()
        super().add([group for groups in left for group in groups], pool)

    def programs(self) -> list[FoldedProgram]:
        self._refresh()
        return super().programs()

    def clocks(self, device: int) -> Clocks:
        self._refresh()
        known = [super().clocks(device), *(helper.clocks.get(device) for helper in self._helpers)]
        clocks = [each for each in known if each is not None]
        return Clocks(
            math.gcd(*(each.step for each in clocks)),
            sum(each.spread for each in clocks),
            sum(each.slopes for each in clocks),
        )

    def close(self) -> None:
        """End the processes; what they have folded is here."""
        self._refresh()
        for helper in self._helpers:
            helper.close()

    def _helper(self, group: Alike) -> _Helper:
        """Who folds launches of this program; the one that has had least takes a new one."""
        source = id(group.manifest), id(group.build)
        if source not in self._helper_of:
            self._helper_of[source] = min(self._helpers, key=lambda each: each.bytes)
        return self._helper_of[source]

    def _refresh(self) -> None:
        """Know what the processes have folded."""
        for helper in self._helpers:
            programs = helper.state()
            with self._lock:
                for program in programs:
                    layout = self._layouts.setdefault(id(program.manifest), program.layout)
                    program.layout = layout
                    self._programs[id(program.manifest), id(program.build), program.trial, program.device] = (
                        program
                    )
        self._take_losses()

    def _take_losses(self) -> None:
        """Know what is gone with a process."""
        for helper in self._helpers:
            notes, lost = helper.take_losses()
            with self._lock:
                self.notes += notes
                self.lost += lost


class _Helper:
    """A process that folds. bytes: that it was given, or should have been; clocks: by device, what its
    launches said of the clocks when it was last asked. Thread-safe."""

    def __init__(self, pages: HostPages | None) -> None:
        self.bytes = 0
        self.clocks: dict[int, Clocks] = {}
        self._notes: list[str] = []
        self._lost: Counter[str] = Counter()
        self._told = 0  # of the process's notes
        self._pipe = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._pid = os.getpid()
        self._begun = False
        self._pages = pages
        self._areas = 0  # of the pages, that it has mapped
        self._news: list[
            tuple[str, int, int]
        ] = []  # kernel, launches, ordinary ones: that nobody was told of
        self._patience: Patience | None = None
        self._numbers: dict[_Source, int] = {}
        self._sources: list[tuple[Manifest, Build | None]] = []  # by number; kept, so that ids stay theirs

    def send(self, launches: Sequence[Alike]) -> Sequence[Alike]:
        """Have it fold launches, and wait until it has; those that it has not."""
        with self._pipe:
            self._begin()
            if self._process is None:
                return launches
            try:
                for group in launches:
                    self._send(group)
                self._asked("done")
            except _GONE_ERRORS as error:
                self._lose(error)
                return launches
            self._news += [
                (group.manifest.kernel, len(group), group.marks.count(ORDINARY)) for group in launches
            ]
        return ()

    def state(self) -> list[FoldedProgram]:
        """All that it has folded, where there is something new."""
        with self._pipe:
            if self._process is None or not self._news or os.getpid() != self._pid:
                return []
            try:
                programs, self.clocks, notes = self._asked("state")
            except _GONE_ERRORS as error:
                self._lose(error)
                return []
            self._news.clear()
            self._notes += notes[self._told :]
            self._told = len(notes)
        for program in programs:
            manifest, program.build = self._sources[program.build]  # its number
            program.layout = Layout(manifest)
        return programs  # type: ignore[no-any-return]

    def take_losses(self) -> tuple[list[str], Counter[str]]:
        """Notes on what was lost since one asked, and how many ordinary launches of which kernels."""
        with self._pipe:
            notes, self._notes = self._notes, []
            lost, self._lost = self._lost, Counter()
        return notes, lost

    def close(self) -> None:
        with self._pipe:
            process, self._process = self._process, None
        if process is not None and os.getpid() == self._pid:
            _end(process)

    def _begin(self) -> None:
        if self._begun or not sys.executable:
            return
        self._begun = True
        areas = [] if self._pages is None else self._pages.files
        with contextlib.suppress(OSError):
            self._process = begun(f"{__name__}:main", [file for file, _ in areas])
            _widen(self._process.stdin)
            self._patience = Patience(self._process)
            self._tell("areas", areas)
            self._areas = len(areas)

    def _tell(self, *message: Any, buffers: npt.NDArray[np.uint8] | None = None) -> None:
        assert self._process is not None
        assert self._patience is not None
        _write(self._process.stdin, message, buffers, self._patience.for_room)

    def _asked(self, what: str) -> Any:
        """Its answer."""
        self._tell(what)
        assert self._process is not None
        assert self._patience is not None
        return _read(self._process.stdout, self._patience.for_answer)

    def _send(self, group: Alike) -> None:
        source = id(group.manifest), id(group.build)
        if source not in self._numbers:
            self._numbers[source] = len(self._sources)
            self._sources.append((group.manifest, group.build))
            self._tell("program", group.manifest.to_json())
        mapped = self._mapped(group)
        for part in [group] if mapped else group.parts(_BATCH_BYTES):
            ordinary = part.marks.count(ORDINARY) == len(part)
            marks = None if ordinary else [tuple(mark) for mark in part.marks]
            about = part.device, part.ctas, part.size, part.indices, part.streams, marks, mapped
            buffers = None if mapped else part.buffers()
            self._tell("launches", self._numbers[source], *about, buffers=buffers)

    def _mapped(self, group: Alike) -> list[_Mapped] | None:
        """Where launches are, in areas that the process has mapped, too; None where they are elsewhere."""
        if self._pages is None:
            return None
        places = [self._pages.place_of(memory) for memory, _ in group.memory]
        found = [
            (place[0], offsets + place[1])
            for place, (_, offsets) in zip(places, group.memory, strict=True)
            if place is not None and place[0] < self._areas
        ]
        return found if len(found) == len(places) else None

    def _lose(self, error: Exception) -> None:
        """The process has died, or has stopped."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()  # one that has stopped ends in no other way
            ended(process, _ENDING_S)
        why = _STOPPED if isinstance(error, TimeoutError) else _DIED
        held = Counter[str]()
        for kernel, launches, ordinary in self._news:
            held[kernel] += launches
            self._lost[kernel] += ordinary
        self._news.clear()
        self._notes += [
            f"{number_of_launches(count)} of {kernel} that kept sums missing: the process that folded them "
            f"{why}"
            for kernel, count in sorted(held.items())
        ]


def _bytes_of(group: Alike) -> int:
    return len(group) * group.size


def main() -> None:
    """The process: folds what comes in, until nothing does."""
    folded, manifests, areas = Folded(), list[Manifest](), list[npt.NDArray[np.uint8]]()
    pipe, answers = open(0, "rb", 0, closefd=False), open(1, "wb", 0, closefd=False)  # noqa: SIM115
    pool, folder = WorkerPool(FOLDING_THREADS, "profscope-fold"), WorkerPool(1, "profscope-folder")
    ahead: deque[Future[None]] = deque()
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            kind, *about = _read(pipe)
            if kind == "areas":
                areas += [_area(*area) for area in about[0]]
            elif kind == "program":
                manifests.append(Manifest.from_json(about[0]))
            elif kind == "launches":
                ahead.append(folder.submit(folded.add, [_received(pipe, manifests, areas, *about)], pool))
            while len(ahead) > (kind == "launches"):  # one is folded while the next is read
                ahead.popleft().result()
            if kind == "end":
                return
            if kind == "done":
                _write(answers, None)
            if kind == "state":
                _write(answers, ([*folded._programs.values()], folded._clocks, folded.notes))


def _area(file: int, size: int) -> npt.NDArray[np.uint8]:
    """Memory that another process writes."""
    return np.frombuffer(mmap.mmap(file, size, prot=mmap.PROT_READ), np.uint8)


def _received(
    pipe: Any, manifests: Sequence[Manifest], areas: Sequence[npt.NDArray[np.uint8]], number: int,
    device: int, ctas: int, size: int, indices: npt.NDArray[np.int64], streams: npt.NDArray[np.int64],
    marks: Any, mapped: Sequence[_Mapped] | None,
) -> Alike:  # fmt: skip
    if mapped is None:
        buffers = np.empty(size * len(indices), np.uint8)
        _fill(pipe, buffers.data)
        memory = [(buffers, np.arange(len(indices)) * size)]
    else:
        memory = [(areas[area], offsets) for area, offsets in mapped]
    kept = [ORDINARY] * len(indices) if marks is None else [Mark(*mark) for mark in marks]
    build: Any = number
    return Alike(
        manifests[number], build, device, ctas, size, indices, streams, kept, memory
    )  # fmt: skip


def _write(
    pipe: Any,
    message: Any,
    buffers: npt.NDArray[np.uint8] | None = None,
    ready: Callable[[], object] | None = None,
) -> None:
    content = pickle.dumps(message, protocol=5)
    more = [] if buffers is None else [buffers.reshape(-1).data]
    write(pipe, len(content).to_bytes(8, "little") + content, *more, ready=ready)


def _read(pipe: Any, ready: Callable[[], object] | None = None) -> Any:
    """A message. ready: waits until there is more of it."""
    length = bytearray(8)
    _fill(pipe, memoryview(length), ready)
    content = bytearray(int.from_bytes(length, "little"))
    _fill(pipe, memoryview(content), ready)
    return pickle.loads(content)


def _fill(pipe: Any, view: memoryview, ready: Callable[[], object] | None = None) -> None:
    while len(view):
        if ready is not None:
            ready()
        count = pipe.readinto(view)
        if not count:
            raise EOFError
        view = view[count:]


def _widen(pipe: Any) -> None:
    """Fewer changes between the two processes; best effort."""
    with contextlib.suppress(ImportError, OSError):
        import fcntl

        fcntl.fcntl(pipe, _SET_PIPE_SIZE, _PIPE_BYTES)


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(OSError):  # it has answered all, so there is room
        _write(process.stdin, ("end",))  # to close its input is not enough: a forked child may have it, too
    ended(process, _ENDING_S)
