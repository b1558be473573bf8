"""Launches with marks of progress: each gets a number while it is under way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import Any, Final, NamedTuple

from profscope.compat.kernels import Call
from profscope.compat.programs import Program
from profscope.compat.triton_parts import CompiledKernel
from profscope.hangs.board import Board, DeviceBoard, HostBoard
from profscope.hangs.standing import Stands, stands_of, state_of
from profscope.recording.diagnostics import Diagnostics, one_line
from profscope.recording.launch_log import LaunchLog
from profscope.recording.recorded_launches import RecordedLaunches
from profscope.recording.routes import Routes

__all__ = ["Tensor", "WatchedLaunch", "WatchedLaunches"]

_WORD: Final = 1 << 32  # of a counter
_FIRST_ARGUMENT: Final = 2  # behind Triton's enter and exit hooks


class Tensor(NamedTuple):
    """An argument. end: of its storage."""

    name: str
    address: int
    end: int


@dataclass(eq=False)
class WatchedLaunch:
    """index: in the session; number: on its board; variant: of its kernel, by when it was first launched;
    ended_before: what the counter of ended CTAs was before it, None of a launch in a CUDA graph, which runs
    many times; tensors: its arguments. launched_s: as of time.monotonic()."""

    index: int
    number: int
    program: Program
    variant: int
    ctas: int
    stream: int
    device: int
    ended_before: int | None
    launched_s: float
    tensors: tuple[Tensor, ...] = ()
    began_s: float | None = None  # when it was first seen to run; in a CUDA graph, when this replay was
    replays: int = 0  # that have ended, in a CUDA graph
    reported: set[str] = field(default_factory=set)

    @cached_property
    def stands(self) -> Stands:
        """Facts of its program's marks."""
        return stands_of(self.program.manifest)

    def counted(self, counters: Any) -> tuple[int, int]:
        """How many of its CTAs have begun and ended. counters: see `Board.look`."""
        begun, ended = (int(counters[self.number][name]) for name in ("begun", "ended"))
        before = self.ended_before
        if before is None:  # between replays as many have begun as have ended: whole grids
            before = ended // self.ctas * self.ctas
        return (begun - before) % _WORD, (ended - before) % _WORD


class WatchedLaunches(RecordedLaunches):
    """The watched launches of a session with `hang_s=`. Thread-safe.

    boards: by device. under_way: launches that have not been seen to end, in order, by board and number.
    """

    def __init__(self, log: LaunchLog, routes: Routes, diagnostics: Diagnostics, *, cuda: bool) -> None:
        super().__init__(log, routes, diagnostics, cuda=cuda)
        self.boards: dict[int, Board] = {}
        self.under_way: dict[tuple[int, int], WatchedLaunch] = {}
        self.failed: Callable[[WatchedLaunch, BaseException], None] = lambda launch, error: None
        self._cuda = cuda
        self._indices: Iterator[int] = count()
        self._variants: dict[str, dict[int, int]] = {}
        self._ended: dict[tuple[int, int], int] = {}  # CTAs of all launches so far, by device and number

    @property
    def seen(self) -> bool:
        """Whether a launch was given a number."""
        return bool(self.boards)

    def launcher(self, kernel: CompiledKernel, program: Program, call: Call) -> Callable[..., None]:
        """The function that launches a loaded binary on this thread's device, with marks if it has any; see
        `RecordedLaunches`."""
        can_hang = bool(program.manifest.marks)
        names_memory = any(mark.detail == "address" for mark in program.manifest.marks)
        own_function, own_packed = kernel.function, kernel.packed_metadata
        of_cluster, device = kernel.metadata.num_ctas, self.device()
        names = list(getattr(kernel.src, "signature", None) or {})
        variants = self._variants.setdefault(program.manifest.kernel, {})
        variant = variants.setdefault(program.manifest.digest, len(variants))

        def launch(
            x: int, y: int, z: int, stream: int, function: Any, packed: Any, about: Any, *others: Any
        ) -> None:
            if about is not None:
                about.data["function"] = own_function
            watched = None
            if can_hang and isinstance(x * y * z, int) and x * y * z:
                tensors = tuple(_tensors(names, others[_FIRST_ARGUMENT:])) if names_memory else ()
                watched = self._begin(program, variant, x * y * z * of_cluster, stream, device, tensors)
            pointer = None if watched is None else self.boards[device].pointer(watched.number)
            try:
                call(pointer, x, y, z, stream, own_function, own_packed, about, *others)
            except BaseException as error:
                if watched is not None:
                    self.failed(watched, error)
                    self._end(watched, 0)
                raise
            if watched is not None and not self._cuda:
                self._end(watched, watched.ctas)

        return launch

    def look(self, device: int) -> tuple[list[WatchedLaunch], Any, Any]:
        """Launches under way, and a look at the board after they were launched; see `Board.look`. Those that
        have ended by then are under way no more."""
        launches = [each for each in [*self.under_way.values()] if each.device == device]
        board = self.boards[device]
        ended_before = {*board.ended}
        counters, slots = board.look()
        present, found = set(slots["launch"].tolist()), []
        for watched in launches:
            _, ended = watched.counted(counters)
            has_ended = watched.ended_before is not None and ended == watched.ctas
            if has_ended and not (watched.number in present and _alive(watched, slots)):
                self._end(watched, ended)
            else:
                found.append(watched)
        ended_by_now = ended_before | {each.number for each in launches} - {each.number for each in found}
        with self._lock:
            unseen = sorted(board.ended & ended_by_now - present)
            board.ended.difference_update(unseen)
            board.free.extend(unseen)
        return found, counters, slots

    def _end(self, watched: WatchedLaunch, ctas: int) -> None:
        """Its number is free once no slot has it. ctas: that have ended."""
        key = watched.device, watched.number
        with self._lock:
            if self.under_way.pop(key, None) is not None and watched.ended_before is not None:
                if self._cuda:  # the emulator's counters begin at 0 in each launch
                    self._ended[key] = (watched.ended_before + ctas) % _WORD
                self.boards[watched.device].ended.add(watched.number)

    def _begin(
        self, program: Program, variant: int, ctas: int, stream: int, device: int, tensors: tuple[Tensor, ...]
    ) -> WatchedLaunch | None:
        """None if there is no memory, or no number, for a launch."""
        captured = bool(stream) and self.capturing()
        board = self.boards.get(device) or self._open(device)
        if board is None:
            return None
        if not board.free and not captured:
            self.look(device)
        with self._lock:
            if not board.free:
                self._diagnostics.skip("too many launches were under way to watch them all")
                return None
            number = board.free.popleft()
            watched = WatchedLaunch(
                next(self._indices), number, program, variant, ctas, stream, device,
                None if captured else self._ended.get((device, number), 0), time.monotonic(), tensors,
            )  # fmt: skip
            self.under_way[device, number] = watched
        if captured:
            self.captured[program.manifest.kernel] += 1
        return watched

    def _open(self, device: int) -> Board | None:
        with self._lock:
            if device not in self.boards:
                try:
                    self.boards[device] = DeviceBoard(device) if self._cuda else HostBoard()
                except RuntimeError as error:
                    self._diagnostics.skip(f"no memory for marks of progress: {one_line(error)}")
                    return None
            return self.boards[device]


def _alive(watched: WatchedLaunch, slots: Any) -> bool:
    """Whether a warp has not ended: a counter is of the first warps only."""
    alive, _ = state_of(slots[slots["launch"] == watched.number], watched.stands)
    return bool(alive.any())


def _tensors(names: Sequence[str], arguments: Sequence[Any]) -> Iterator[Tensor]:
    for name, value in zip(names, arguments, strict=False):
        if isinstance(value, tuple):
            yield from _tensors([f"{name}[{at}]" for at in range(len(value))], value)
        elif hasattr(value, "untyped_storage"):
            storage = value.untyped_storage()
            yield Tensor(name, value.data_ptr(), storage.data_ptr() + storage.nbytes())
