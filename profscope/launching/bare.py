"""Threads that launch the bare binary inside a session, as an autotuner's trials do, and threads that record.

A thread that is to launch bare sees the two settings that enter Triton's cache keys as they were before the
session. So it finds, or compiles, the very binary that runs without one, on every Triton version, while other
threads go on recording. Where only some launches are recorded it is the other way round: only a thread that
compiles what is to record sees the session's, so that launches that are left out cost next to nothing.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from triton import knobs
from triton.runtime.autotuner import Autotuner

from profscope.options import Options
from profscope.recording.patches import patched

__all__ = ["SETTINGS", "BareLaunches", "Context"]

# What enters Triton's cache keys: by the name of the knob, the group of knobs that it is of.
SETTINGS: Final[dict[str, Any]] = {
    "instrumentation_mode": knobs.compilation,
    "add_stages_inspection_hook": knobs.runtime,
}


class _Thread(threading.local):
    """settings: those of `SETTINGS` where it compiles and launches by settings of its own; None: as all do.
    trial: it is inside an autotuner's benchmark."""

    settings: Mapping[str, Any] | None = None
    trial = False


class _PerThread:
    """In place of a plain attribute of one of Triton's knobs: for threads with settings of their own what
    these say, for the others what stands in the object, as without this."""

    def __init__(self, name: str, thread: _Thread, default: Any) -> None:
        self.name = name
        self.thread = thread
        self.default = default

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        settings = self.thread.settings
        if settings is None:
            return self.default if owner is None else owner.__dict__.get(self.name, self.default)
        return settings[self.name]

    def __set__(self, owner: Any, value: Any) -> None:
        owner.__dict__[self.name] = value

    def __delete__(self, owner: Any) -> None:
        owner.__dict__.pop(self.name, None)


Context = Callable[[], contextlib.AbstractContextManager[None]]


class BareLaunches:
    """Installed after the compile hook, for the length of a session, and again where it goes on.

    outside: says what the settings were before. listen: the collector records what is launched in it. apart:
    one item for each thread that launches otherwise than all do; while there are any the knobs are per
    thread, and that costs every launch a little.
    """

    def __init__(self, options: Options, outside: Callable[[], dict[str, Any]], listen: Context) -> None:
        self.apart: list[int] = []
        self.thread = _Thread()
        self._options = options
        self._listen = listen
        self._lock = threading.Lock()
        self._read_outside = outside
        self._outside: dict[str, Any] = {}
        self._inside: dict[str, Any] = {}
        self._classes: list[tuple[type, str, Any]] = []

    @property
    def here(self) -> bool:
        """Whether this thread launches as if there were no session."""
        return self.thread.settings is self._outside

    @contextlib.contextmanager
    def tuning(self) -> Iterator[None]:
        """What this thread compiles and launches in the body of the with statement is bare."""
        with self._possible(), self._launching(self._outside, trial=True):
            yield

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """What this thread compiles and launches in the body of the with statement is recorded."""
        with self._possible(), self._launching(self._inside, trial=self.thread.trial), self._listen():
            yield

    @contextlib.contextmanager
    def compiling(self, settings: Mapping[str, Any]) -> Iterator[None]:
        """What this thread compiles in the body of the with statement it compiles with these settings."""
        with self._possible(), self._launching(settings, trial=self.thread.trial):
            yield

    @contextlib.contextmanager
    def neutral(self) -> Iterator[None]:
        """What this thread launches in the body of the with statement it launches as all do."""
        with self._launching(None, trial=False):
            yield

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Install for the body of a with statement, around which the compile hook is installed."""
        self._outside = self._read_outside()
        self._inside = {name: getattr(owner, name) for name, owner in SETTINGS.items()}
        with contextlib.ExitStack() as stack:
            stack.enter_context(patched(Autotuner, "_bench", self._bench))
            if self._options.every > 1:  # recording is the exception, so it is what costs
                for name, owner in SETTINGS.items():
                    setattr(owner, name, self._outside[name])
                    stack.callback(setattr, owner, name, self._inside[name])
            yield

    @contextlib.contextmanager
    def _possible(self) -> Iterator[None]:
        """Threads can launch bare, or record, while others do not."""
        with self._lock:
            self.apart.append(threading.get_ident())
            if len(self.apart) == 1:
                for name, owner in SETTINGS.items():
                    kind = type(owner)
                    default = kind.__dict__[name]
                    self._classes.append((kind, name, default))
                    setattr(kind, name, _PerThread(name, self.thread, default))
        try:
            yield
        finally:
            with self._lock:
                self.apart.pop()
                while self._classes and not self.apart:
                    kind, name, default = self._classes.pop()
                    setattr(kind, name, default)

    @contextlib.contextmanager
    def _launching(self, settings: Mapping[str, Any] | None, *, trial: bool) -> Iterator[None]:
        thread = self.thread
        before = thread.settings, thread.trial
        thread.settings, thread.trial = settings, trial
        try:
            yield
        finally:
            thread.settings, thread.trial = before

    def _bench(self, bench: Callable[..., Any]) -> Callable[..., Any]:
        """Autotuner._bench that times the bare binary."""

        def benchmark(tuner: Autotuner, *args: Any, config: Any, **meta: Any) -> Any:
            with self.tuning():
                return bench(tuner, *args, config=config, **meta)

        return benchmark
