"""Looks at launches under way, again and again, and reports those that do not end."""

from __future__ import annotations

import contextlib
import math
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from profscope.errors import HangError
from profscope.hangs.board import Board
from profscope.hangs.standing import Standing, standing, state_of
from profscope.hangs.telling import Progress, Seen, hang_rows, hang_text, late_text, slow_text
from profscope.hangs.watched_launches import WatchedLaunch, WatchedLaunches
from profscope.instrument_passes.progress import SLOTS
from profscope.threads import daemon

__all__ = ["Watcher"]

_LONGEST_PAUSE_S: Final = 0.5
_STALLED: Final = 0.5  # a launch hangs if nothing has moved for so much of hang_s
_AT_ONCE_S: Final = 1.0  # and when Ctrl-C comes, if nothing has moved for so long


class _Looked:
    """What the last look at a board has seen. state: see `state_of`, with the launch's number; since_s: when
    it last changed, by slot; counts, counted_s: of a number's CTAs, and when these last changed."""

    def __init__(self, now: float) -> None:
        self.state = np.zeros((SLOTS, 4), np.uint32)
        self.since_s = np.full(SLOTS, now)
        self.counts: dict[int, tuple[int, int]] = {}
        self.counted_s: dict[int, float] = {}
        self.slots: Any = None
        self.at_s = now


class Watcher:
    """Watches the launches of a session with `hang_s=`. rows: of `prof.hangs`, one list for each report;
    notes: the reports, a text each. reported: called after each report of a hang; interrupted: called when
    Ctrl-C has come while a launch hangs."""

    def __init__(
        self, launches: WatchedLaunches, hang_s: float, say: Callable[[str], None] | None = None
    ) -> None:
        self.rows: list[dict[str, Any]] = []
        self.notes: list[str] = []
        self.reported: Callable[[], None] = lambda: None
        self.interrupted: Callable[[], None] = lambda: None
        self.launches = launches
        self._hang_s = hang_s
        self._say = say or _to_stderr
        self._looked: dict[int, _Looked] = {}
        self._lock = threading.Lock()
        launches.failed = self._failed

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Watch in the body of a with statement."""
        (reads, writes), process = os.pipe(), os.getpid()
        os.set_blocking(writes, False)
        try:
            with _ctrl_c_told(writes):
                thread = daemon("hangs", self._watch, reads)
                try:
                    yield
                finally:
                    if os.getpid() == process:  # a fork has the pipe, and not the thread
                        with contextlib.suppress(OSError):
                            os.write(writes, b"\0")
                    if thread not in (None, threading.current_thread()):
                        thread.join(2 * _LONGEST_PAUSE_S)
        finally:
            os.close(writes)

    def _watch(self, wake: int) -> None:
        pause_s = min(_LONGEST_PAUSE_S, self._hang_s / 4)
        try:
            while True:
                ready, _, _ = select.select([wake], [], [], pause_s)
                told = os.read(wake, 64) if ready else b""
                if 0 in told:
                    return
                self.look(is_interrupted=signal.SIGINT in told)
        finally:
            os.close(wake)

    def describe(self) -> dict[str, Any]:
        """Entries of the metadata."""
        return {"hangs": [*self.rows], "hang_reports": [*self.notes]}

    @property
    def hanging(self) -> bool:
        """Whether a launch that was reported to hang is still under way."""
        return any("hang" in each.reported for each in [*self.launches.under_way.values()])

    def look(self, *, is_interrupted: bool = False) -> None:
        """At all launches under way; those that hang are reported once. is_interrupted: at once."""
        for device, board in [*self.launches.boards.items()]:
            now = time.monotonic()
            before = self._looked.setdefault(device, _Looked(now))
            try:
                launches, counters, slots = self.launches.look(device)
            except RuntimeError:  # the device has faulted: the program is told
                continue
            looked = self._compared(before, slots, counters, launches, now)
            first_of_stream: dict[int, int] = {}
            for each in launches:
                if each.ended_before is not None:  # one in a CUDA graph runs in another stream's order
                    first_of_stream.setdefault(each.stream, each.index)
                is_first = first_of_stream.get(each.stream) == each.index
                self._judge(each, board, before, looked, is_first=is_first, at_once=is_interrupted)
            self._looked[device] = looked
        if is_interrupted and self.hanging:
            self.interrupted()

    def _compared(
        self, before: _Looked, slots: Any, counters: Any, launches: list[WatchedLaunch], now: float
    ) -> _Looked:
        looked = _Looked(now)
        looked.slots = slots
        numbers = slots["launch"]
        for each in launches:
            own = np.flatnonzero(numbers == each.number)
            if len(own):
                alive, state = state_of(slots[own], each.stands)
                looked.state[own[alive], :3] = state[alive]
                looked.state[own[alive], 3] = each.number
            looked.counts[each.number] = begun, _ = each.counted(counters)
            replays = int(counters[each.number]["ended"]) // each.ctas
            if each.ended_before is None and each.replays != replays:
                each.replays, each.began_s = replays, None
                each.reported.clear()
            if begun or len(own):  # the slots are read after the counters
                each.began_s = each.began_s or now
            same = looked.counts[each.number] == before.counts.get(each.number)
            looked.counted_s[each.number] = before.counted_s.get(each.number, now) if same else now
        changed = (looked.state != before.state).any(axis=1)
        looked.since_s = np.where(changed, now, before.since_s)
        return looked

    def _judge(
        self,
        launch: WatchedLaunch,
        board: Board,
        before: _Looked,
        looked: _Looked,
        *,
        is_first: bool,
        at_once: bool,
    ) -> None:
        now, number = looked.at_s, launch.number
        own = np.flatnonzero(looked.state[:, 3] == number)
        if not len(own):
            if launch.ended_before is None:  # a replay has ended, or none has begun
                launch.began_s = None
                launch.reported.clear()
            waited_s = now - launch.launched_s
            is_late = launch.began_s is None and waited_s >= self._hang_s
            if is_late and is_first and launch.ended_before is not None:
                self._once(launch, "late", lambda: self._tell(late_text(launch, waited_s)))
            return
        assert launch.began_s is not None
        warps = standing(looked.slots, own.tolist(), now - looked.since_s[own], launch.stands)
        seen = Seen(launch, *looked.counts[number], warps, now - launch.began_s, cache(board.read))
        stalled_s = now - max(looked.since_s[own].max(), looked.counted_s[number])
        is_stalled = seen.after_s >= self._hang_s and stalled_s >= _STALLED * self._hang_s
        if is_stalled or (at_once and stalled_s >= _AT_ONCE_S):
            self._once(launch, "hang", lambda: self._hangs(seen))
        elif seen.after_s >= self._hang_s:
            progress = _progress(before, looked, warps)
            self._once(launch, "slow", lambda: self._tell(slow_text(seen, progress)))

    def _failed(self, launch: WatchedLaunch, error: BaseException) -> None:
        """The emulator ends a launch that cannot go on."""
        if not isinstance(error, HangError):
            return
        board = self.launches.boards[launch.device]
        counters, slots = board.look()
        own = np.flatnonzero(slots["launch"] == launch.number)
        alive, _ = state_of(slots[own], launch.stands)
        warps = standing(slots, own[alive].tolist(), np.full(alive.sum(), math.nan), launch.stands)
        counts, after_s = launch.counted(counters), time.monotonic() - launch.launched_s
        why = str(error).partition("\n")[0]
        seen = Seen(launch, *counts, warps, after_s, cache(board.read), why)
        self._once(launch, "hang", lambda: self._hangs(seen))

    def _once(self, launch: WatchedLaunch, what: str, report: Callable[[], None]) -> None:
        with self._lock:
            if what in launch.reported:
                return
            launch.reported.add(what)
        report()

    def _hangs(self, seen: Seen) -> None:
        self.rows += hang_rows(seen)
        self._tell(hang_text(seen))
        self.reported()

    def _tell(self, text: str) -> None:
        self.notes.append(text)
        self._say(text)


def _progress(before: _Looked, looked: _Looked, warps: Sequence[Standing]) -> Progress:
    """Of the warp that has done least of its outermost loop, of those that are in one."""
    in_loops = [each for each in warps if each.mark.loop >= 0]
    least = min(in_loops, key=lambda each: each.outer / (each.iterations or 1), default=None)
    if least is None or before.slots is None:
        return Progress(0.0, 0, 0)
    then = before.slots[least.slot]
    is_same = int(then["cta"]) == least.cta and int(then["launch"]) == int(looked.slots[least.slot]["launch"])
    steps = least.outer - int(then["outer" if least.is_inner else "iteration"]) if is_same else 0
    return Progress(max(0, steps) / (looked.at_s - before.at_s), least.outer, least.iterations)


@contextlib.contextmanager
def _ctrl_c_told(writes: int) -> Iterator[None]:
    """In the body of a with statement SIGINT is also written to a pipe: the main thread may be waiting for
    the kernel that hangs, in C, and never come to Python's handler."""
    try:
        before = signal.set_wakeup_fd(writes, warn_on_full_buffer=False)
    except ValueError:  # not in the main thread, which alone may ask for it
        yield
        return
    if before != -1:  # somebody else's, such as an event loop's
        signal.set_wakeup_fd(before)
        yield
        return
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # a session that ends in another thread, as one of a run may
            latest = signal.set_wakeup_fd(-1)
            if latest != writes:  # an event loop has begun since
                signal.set_wakeup_fd(latest)


def _to_stderr(text: str) -> None:
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):  # nobody reads it any more
            sys.stderr.write(f"profscope: {text}\n")
            sys.stderr.flush()
