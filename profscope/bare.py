"""Which launches run the bare binary inside a session: all but one in `every`, and an autotuner's trials.

A thread that is to launch bare sees the two settings that enter Triton's cache keys as they were before the
session. So it finds, or compiles, the very binary that runs without one, on every Triton version, while other
threads go on recording. Where only some launches are recorded it is the other way round: only a thread that
is to record sees the session's, so that launches that are left out cost next to nothing.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from triton import knobs
from triton.runtime.autotuner import Autotuner
from triton.runtime.errors import TritonError
from triton.runtime.jit import JITFunction

from profscope.options import Options
from profscope.patches import patched

__all__ = ["BareLaunches"]


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


class _Turns:
    """Of one function: `next()` numbers its launches, over all threads."""

    __slots__ = ("function", "next")

    def __init__(self, function: Any) -> None:
        self.function = function  # kept: it is known by its id, since a JITFunction's hash is slow
        self.next = itertools.count().__next__


Context = Callable[[], contextlib.AbstractContextManager[None]]


class BareLaunches:
    """Made before the compile hook is installed, and installed after it, for the length of a session.

    listen: the collector records what is launched in it; trial: and marks it as a trial. launches: by kernel,
    how many ran while only some are recorded. failures: trials that could not be recorded, one line each.
    """

    def __init__(self, options: Options, listen: Context, trial: Context) -> None:
        self.launches: dict[str, int] = {}
        self.failures: list[str] = []
        self._options = options
        self.listen = listen
        self._trial = trial
        self._thread = _Thread()
        self._lock = threading.Lock()
        self._users = 0  # how many need the knobs to be per thread; that costs every launch a little
        self._outside = [getattr(owner, name) for owner, name in _KNOBS]
        self._knobs: list[_Knob] = []
        self._classes: list[tuple[type, str, Any]] = []
        self._turns: dict[int, _Turns] = {}  # by id

    def matches(self, kernel: str) -> bool:
        """Whether a kernel of this name is to be recorded."""
        return self._options.matches(kernel)

    def take_turn(self, function: Any) -> bool:
        """Whether this launch of a function is the one in `every` that is recorded."""
        turns = self._turns.get(id(function)) or self._turns.setdefault(id(function), _Turns(function))
        return turns.next() % self._options.every == 0

    def count(self, kernel: str) -> None:
        """A kernel of this name has been launched."""
        if self._options.every > 1:
            with self._lock:
                self.launches[kernel] = self.launches.get(kernel, 0) + 1

    @contextlib.contextmanager
    def tuning(self) -> Iterator[None]:
        """What this thread compiles and launches in the body of the with statement is bare."""
        with self._possible(), self._launching(bare=True, trial=True):
            yield

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """What this thread compiles and launches in the body of the with statement is recorded."""
        with self._possible(), self._launching(bare=False, trial=self._thread.trial), self.listen():
            yield

    def describe(self, recorded: Mapping[str, int]) -> tuple[dict[str, Any], list[str]]:
        """The metadata's entry "sampling" where only some launches are recorded, and notes.

        recorded: by kernel, launches that were recorded, or captured into a CUDA graph to be recorded at its
        replays; trials and replays do not count, neither here nor among those that there were.
        """
        if self._options.every == 1:
            return {}, self.failures
        with self._lock:
            seen = {name: count for name, count in self.launches.items() if self._options.matches(name)}
        kernels = {
            name: {"launches": n, "recorded": recorded.get(name, 0)} for name, n in sorted(seen.items())
        }
        notes = [
            f"{name}: {found['recorded']} of {found['launches']} launches were recorded; counts and totals "
            "are of those"
            for name, found in kernels.items()
            if found["recorded"] < found["launches"]
        ]
        return {"sampling": {"every": self._options.every, "kernels": kernels}}, [*notes, *self.failures]

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
                stack.enter_context(patched(JITFunction, "run", self._run))
                for owner, name, outside, value in self._knobs:
                    setattr(owner, name, outside)
                    stack.callback(setattr, owner, name, value)
            yield

    @contextlib.contextmanager
    def _possible(self) -> Iterator[None]:
        """Threads can launch bare, or record, while others do not."""
        with self._lock:
            self._users += 1
            if self._users == 1:
                for owner, name, outside, inside in self._knobs:
                    kind = type(owner)
                    default = kind.__dict__[name]
                    self._classes.append((kind, name, default))
                    setattr(kind, name, _PerThread(name, self._thread, outside, inside, default))
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                while self._classes and not self._users:
                    kind, name, default = self._classes.pop()
                    setattr(kind, name, default)

    @contextlib.contextmanager
    def _launching(self, *, bare: bool | None, trial: bool) -> Iterator[None]:
        thread = self._thread
        before = thread.bare, thread.trial
        thread.bare, thread.trial = bare, trial
        try:
            yield
        finally:
            thread.bare, thread.trial = before

    def _run(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """JITFunction.run that records the first launch of a function and then one in `every`."""
        thread, lock, every = self._thread, self._lock, self._options.every
        turns_of, launches = self._turns.get, self.launches

        def launch(function: JITFunction, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
            if warmup or thread.trial:
                return run(function, *args, grid=grid, warmup=warmup, **kwargs)
            turns = turns_of(id(function)) or self._turns.setdefault(id(function), _Turns(function))
            if turns.next() % every == 0:
                with self.recording():
                    kernel = run(function, *args, grid=grid, warmup=warmup, **kwargs)
            elif thread.bare is None:
                kernel = run(function, *args, grid=grid, warmup=warmup, **kwargs)
            else:  # launched by a hook of a launch that is recorded
                with self._launching(bare=True, trial=False):
                    kernel = run(function, *args, grid=grid, warmup=warmup, **kwargs)
            if kernel is not None:
                name = kernel.name
                with lock:
                    launches[name] = launches.get(name, 0) + 1
            return kernel

        return launch

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
