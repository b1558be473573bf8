"""Threads that launch the bare binary inside a session, as an autotuner's trials do, and threads that record.

A thread that is to launch bare sees the two settings that enter Triton's cache keys as they were before the
session. So it finds, or compiles, the very binary that runs without one, on every Triton version, while other
threads go on recording. Where only some launches are recorded it is the other way round: only a thread that
compiles what is to record sees the session's, so that launches that are left out cost next to nothing.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from triton import knobs
from triton.runtime.autotuner import Autotuner
from triton.runtime.errors import TritonError

from profscope.options import Options
from profscope.recording.patches import patched

__all__ = ["BareLaunches", "Context"]


class _Thread(threading.local):
    """bare: it launches as if there were no session; False: what it launches is recorded; None: as
    all do. trial: it is inside an autotuner's benchmark."""

    bare: bool | None = None
    trial = False


class _PerThread:
    """In place of a plain attribute of one of Triton's knobs: `outside` or `inside` for threads that launch
    bare or record, for the others what stands in the object, as without this."""

    def __init__(self, name: str, thread: _Thread, outside: Any, inside: Any, default: Any) -> None:
        self.name = name
        self.thread = thread
        self.outside = outside
        self.inside = inside
        self.default = default

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        bare = self.thread.bare
        if bare is None:
            return self.default if owner is None else owner.__dict__.get(self.name, self.default)
        return self.outside if bare else self.inside

    def __set__(self, owner: Any, value: Any) -> None:
        owner.__dict__[self.name] = value

    def __delete__(self, owner: Any) -> None:
        owner.__dict__.pop(self.name, None)


class _Knob(NamedTuple):
    owner: Any
    name: str
    outside: Any  # its value outside the session
    inside: Any


_KNOBS: Final = (
    (knobs.compilation, "instrumentation_mode"),
    (knobs.runtime, "add_stages_inspection_hook"),
)


Context = Callable[[], contextlib.AbstractContextManager[None]]


class BareLaunches:
    """Made before the compile hook is installed, and installed after it, for the length of a session.

    listen: the collector records what is launched in it; trial: and marks it as a trial. failures: trials
    that could not be recorded, one line each. apart: one item for each thread that launches otherwise than
    all do; while there are any the knobs are per thread, and that costs every launch a little.
    """

    def __init__(self, options: Options, listen: Context, trial: Context) -> None:
        self.failures: list[str] = []
        self.apart: list[int] = []
        self.thread = _Thread()
        self._options = options
        self._listen = listen
        self._trial = trial
        self._lock = threading.Lock()
        self._outside = [getattr(owner, name) for owner, name in _KNOBS]
        self._knobs: list[_Knob] = []
        self._classes: list[tuple[type, str, Any]] = []

    @contextlib.contextmanager
    def tuning(self) -> Iterator[None]:
        """What this thread compiles and launches in the body of the with statement is bare."""
        with self._possible(), self._launching(bare=True, trial=True):
            yield

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """What this thread compiles and launches in the body of the with statement is recorded."""
        with self._possible(), self._launching(bare=False, trial=self.thread.trial), self._listen():
            yield

    @contextlib.contextmanager
    def neutral(self) -> Iterator[None]:
        """What this thread launches in the body of the with statement it launches as all do."""
        with self._launching(bare=None, trial=False):
            yield

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Install for the body of a with statement, around which the compile hook is installed."""
        inside = [getattr(owner, name) for owner, name in _KNOBS]
        self._knobs = [
            _Knob(owner, name, *values)
            for (owner, name), *values in zip(_KNOBS, self._outside, inside, strict=True)
        ]
        with contextlib.ExitStack() as stack:
            stack.enter_context(patched(Autotuner, "_bench", self._bench))
            if self._options.every > 1:  # recording is the exception, so it is what costs
                for owner, name, outside, value in self._knobs:
                    setattr(owner, name, outside)
                    stack.callback(setattr, owner, name, value)
            yield

    @contextlib.contextmanager
    def _possible(self) -> Iterator[None]:
        """Threads can launch bare, or record, while others do not."""
        with self._lock:
            self.apart.append(threading.get_ident())
            if len(self.apart) == 1:
                for owner, name, outside, inside in self._knobs:
                    kind = type(owner)
                    default = kind.__dict__[name]
                    self._classes.append((kind, name, default))
                    setattr(kind, name, _PerThread(name, self.thread, outside, inside, default))
        try:
            yield
        finally:
            with self._lock:
                self.apart.pop()
                while self._classes and not self.apart:
                    kind, name, default = self._classes.pop()
                    setattr(kind, name, default)

    @contextlib.contextmanager
    def _launching(self, *, bare: bool | None, trial: bool) -> Iterator[None]:
        thread = self.thread
        before = thread.bare, thread.trial
        thread.bare, thread.trial = bare, trial
        try:
            yield
        finally:
            thread.bare, thread.trial = before

    def _bench(self, bench: Callable[..., Any]) -> Callable[..., Any]:
        """Autotuner._bench that times the bare binary; with `trials`, it records one launch after that."""

        def benchmark(tuner: Autotuner, *args: Any, config: Any, **meta: Any) -> Any:
            with self.tuning(), contextlib.ExitStack() as stack:
                if self._options.trials:
                    stack.enter_context(self._also_recorded(tuner, config))
                return bench(tuner, *args, config=config, **meta)

        return benchmark

    @contextlib.contextmanager
    def _also_recorded(self, tuner: Autotuner, config: Any) -> Iterator[None]:
        """The tuner's benchmark function launches once more when it is done, and that is recorded."""
        time = tuner.do_bench

        def time_and_record(launch: Callable[[], Any], **options: Any) -> Any:
            timings = time(launch, **options)
            try:
                with self.recording(), self._trial():
                    launch()
            except TritonError as error:  # not counted against it: it is the records that do not fit
                self.failures.append(f"{tuner.base_fn.__name__}: trial of {config} is not recorded: {error}")
            return timings

        tuner.__dict__["do_bench"] = time_and_record  # a cached property
        try:
            yield
        finally:
            tuner.__dict__["do_bench"] = time
