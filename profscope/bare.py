"""Which launches run the bare binary inside a session: all but one in `every`, and an autotuner's trials.

A thread that is to launch bare sees the two settings that enter Triton's cache keys as they were before the
session. So it finds, or compiles, the very binary that runs without one, on every Triton version, while other
threads go on recording.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from triton import knobs
from triton.runtime.autotuner import Autotuner
from triton.runtime.errors import TritonError
from triton.runtime.jit import JITFunction

from profscope.options import Options
from profscope.patches import patched

__all__ = ["BareLaunches"]


class _Thread(threading.local):
    """bare: it launches as if there were no session. trial: it is inside an autotuner's benchmark."""

    bare = False
    trial = False


class _PerThread:
    """In place of a plain attribute of one of Triton's knobs: `outside` for threads that launch bare, for the
    others what stands in the object, as without this."""

    def __init__(self, name: str, thread: _Thread, outside: Any, default: Any) -> None:
        self.name = name
        self.thread = thread
        self.outside = outside
        self.default = default

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        if self.thread.bare:
            return self.outside
        return self.default if owner is None else owner.__dict__.get(self.name, self.default)

    def __set__(self, owner: Any, value: Any) -> None:
        owner.__dict__[self.name] = value

    def __delete__(self, owner: Any) -> None:
        owner.__dict__.pop(self.name, None)


class BareLaunches:
    """Installed for the length of a session, around the compile hook.

    launches: by kernel, how many ran while only some are recorded. failures: trials that could not be
    recorded, one line each.
    """

    def __init__(
        self, options: Options, trial: Callable[[], contextlib.AbstractContextManager[None]]
    ) -> None:
        self._trial = trial  # marks what is launched in it
        self.launches: dict[str, int] = {}
        self.failures: list[str] = []
        self._options = options
        self._thread = _Thread()
        self._lock = threading.Lock()
        self._users = 0  # how many need the knobs to be per thread; they cost every launch a little
        self._outside: tuple[tuple[Any, str, Any], ...] = ()
        self._classes: list[tuple[type, str, Any]] = []
        self._turns: dict[int, tuple[Any, int]] = {}  # by id: a JITFunction's hash is slow

    def matches(self, kernel: str) -> bool:
        """Whether a kernel of this name is to be recorded."""
        return self._options.matches(kernel)

    def take_turn(self, function: Any) -> bool:
        """Whether this launch of a function is the one in `every` that is recorded."""
        with self._lock:
            _, turn = self._turns.get(id(function), (function, 0))
            self._turns[id(function)] = function, (turn + 1) % self._options.every
        return turn == 0

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

    def describe(self, recorded: Iterable[str]) -> tuple[dict[str, Any], list[str]]:
        """The metadata's entry "sampling" where only some launches are recorded, and notes.

        recorded: the kernels of the recorded launches, trials left out.
        """
        if self._options.every == 1:
            return {}, self.failures
        counts = Counter(recorded)
        with self._lock:
            seen = {name: count for name, count in self.launches.items() if self._options.matches(name)}
        kernels = {name: {"launches": n, "recorded": counts[name]} for name, n in sorted(seen.items())}
        notes = [
            f"{name}: {found['recorded']} of {found['launches']} launches were recorded; counts and totals "
            "are of those"
            for name, found in kernels.items()
            if found["recorded"] < found["launches"]
        ]
        return {"sampling": {"every": self._options.every, "kernels": kernels}}, [*notes, *self.failures]

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Install for the body of a with statement; called before the compile hook is installed."""
        self._outside = tuple(
            (owner, name, getattr(owner, name))
            for owner, name in (
                (knobs.compilation, "instrumentation_mode"),
                (knobs.runtime, "add_stages_inspection_hook"),
            )
        )
        with contextlib.ExitStack() as stack:
            stack.enter_context(patched(Autotuner, "_bench", self._bench))
            if self._options.every > 1:
                stack.enter_context(self._possible())
                stack.enter_context(patched(JITFunction, "run", self._run))
            yield

    @contextlib.contextmanager
    def _possible(self) -> Iterator[None]:
        """Threads can launch bare."""
        with self._lock:
            self._users += 1
            if self._users == 1:
                for owner, name, outside in self._outside:
                    kind = type(owner)
                    default = kind.__dict__[name]
                    self._classes.append((kind, name, default))
                    setattr(kind, name, _PerThread(name, self._thread, outside, default))
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                while self._classes and not self._users:
                    kind, name, default = self._classes.pop()
                    setattr(kind, name, default)

    @contextlib.contextmanager
    def _launching(self, *, bare: bool, trial: bool) -> Iterator[None]:
        thread = self._thread
        before = thread.bare, thread.trial
        thread.bare, thread.trial = bare, trial
        try:
            yield
        finally:
            thread.bare, thread.trial = before

    def _run(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """JITFunction.run that records the first launch of a function and then one in `every`."""
        thread = self._thread

        def launch(function: JITFunction, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
            if warmup or thread.trial:
                return run(function, *args, grid=grid, warmup=warmup, **kwargs)
            before = thread.bare  # of a launch that this one is nested in
            thread.bare = not self.take_turn(function)
            try:
                kernel = run(function, *args, grid=grid, warmup=warmup, **kwargs)
            finally:
                thread.bare = before
            if kernel is not None:
                self.count(kernel.name)
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
                with self._launching(bare=False, trial=True), self._trial():
                    launch()
            except (
                TritonError
            ) as error:  # must not count against the config: it is the records that do not fit
                self.failures.append(f"{tuner.base_fn.__name__}: trial of {config} is not recorded: {error}")
            return timings

        tuner.__dict__["do_bench"] = time_and_record  # a cached property
        try:
            yield
        finally:
            tuner.__dict__["do_bench"] = time
