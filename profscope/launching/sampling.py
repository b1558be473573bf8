"""Sessions that record one launch in `every`: whose turn it is, and how much the others pay for that.

Most launches of a training job are left out, so theirs is the cost that counts: `JITFunction.run` becomes a
property, which every launch fetches once, and which hands out the method itself to those left out. The one
that is recorded runs the same method on a stand-in for the function, which finds the instrumented binary.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from types import MethodType, SimpleNamespace
from typing import Any, Final

from triton import knobs
from triton.runtime import _async_compile
from triton.runtime.jit import JITFunction

from profscope.launching.bare import BareLaunches
from profscope.launching.turns import Turns
from profscope.options import Options
from profscope.recording.patches import patched

__all__ = ["Sampling"]

# Returns what it is given to call does.
Record = Callable[[Callable[[], Any]], Any]
_TURNS: Final = "_profscope_turns"  # of a JITFunction: an attribute, since its hash is slow


class Sampling:
    """Installed for the length of a session, inside the compile hook; does nothing where all is recorded.

    mode: what tells the session's binaries from others. record: launches, and records that.
    """

    def __init__(self, options: Options, bare: BareLaunches, mode: str, record: Record) -> None:
        self.bare = bare
        self.mode = mode
        self.record = record
        self._options = options
        self._lock = threading.Lock()
        self._counted: list[tuple[str, Turns]] = []  # kernel, turns of a function
        self._named: Counter[str] = Counter()  # launches of functions that name each binary for itself
        self._unmatched: set[str] = set()
        self._functions: list[JITFunction] = []
        self._installed = False
        self._run_bare: Callable[..., Any] = JITFunction.run

    def turns(self, kernel: str, left_out: Any, due: Any = None) -> Turns:
        """The turns of a function whose launches are all of one kernel."""
        turns = Turns(self._options.every, left_out, due)
        self._counted.append((kernel, turns))
        return turns

    def is_due(self, function: JITFunction, kernel: str) -> bool:
        """Whether a launch of the function that begins now, by a binary that someone keeps, is recorded."""
        if self._options.every == 1:
            return True
        with self._lock:
            turns = self._turns_of(function)
            if turns is None:  # the session ends while this thread begins to launch
                return False
            if function._repr is not None:
                self._named[kernel] += 1
        return turns.draw() is not turns.left_out and turns.take()

    @property
    def passed_over(self) -> set[str]:
        """Kernels that were launched and that kernels= leaves out, where only some launches are recorded."""
        return {name for name in {*self._named, *self._unmatched} if not self._options.matches(name)}

    @property
    def launches(self) -> Counter[str]:
        """By kernel, how many launches began while only some are recorded; not an autotuner's trials."""
        if self._options.every == 1:
            return Counter()
        with self._lock:
            launches = self._named.copy()
        for kernel, turns in list(self._counted):
            launches[kernel] += turns.launches
        return launches

    def describe(self, recorded: Mapping[str, int]) -> tuple[dict[str, Any], Sequence[str]]:
        """The metadata's entry "sampling" where only some launches are recorded, and notes.

        recorded: by kernel, launches that were recorded, or captured into a CUDA graph to be recorded at its
        replays; trials and replays do not count, neither here nor among those that there were.
        """
        if self._options.every == 1:
            return {}, []
        kernels = {
            name: {"launches": n, "recorded": recorded.get(name, 0)}
            for name, n in sorted(self.launches.items())
            if n and self._options.matches(name)
        }
        notes = [
            f"{name}: {counts['recorded']} of {counts['launches']} launches were recorded; "
            "counts and totals are of those"
            for name, counts in kernels.items()
            if counts["recorded"] < counts["launches"]
        ]
        return {"sampling": {"every": self._options.every, "kernels": kernels}}, notes

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Install for the body of a with statement."""
        if self._options.every == 1:
            yield
            return
        self._installed = True
        try:
            with contextlib.ExitStack() as stack:
                for name, wrap in (("run", self._run), ("warmup", self._warmup), ("__getstate__", _state)):
                    stack.enter_context(patched(JITFunction, name, wrap))
                yield
        finally:
            with self._lock:
                self._installed = False
                for function in self._functions:
                    delattr(function, _TURNS)
                self._functions.clear()

    def _run(self, run: Callable[..., Any]) -> Any:
        """In place of JITFunction.run: a property that is the bound method, but where a launch is due.

        So a launch counts where `run` is fetched, before it is known whether it warms up or fails.
        """
        apart, thread = self.bare.apart, self.bare.thread
        self._run_bare = run

        def fetch(function: JITFunction) -> Any:
            if apart:
                if thread.trial:
                    return MethodType(run, function)
                if thread.settings is not None:  # launched by a hook of a compilation that is recorded
                    return MethodType(afresh, function)
            try:
                return function._profscope_turns.draw()
            except AttributeError:
                return self._first(function)

        def afresh(function: JITFunction, *args: Any, **kwargs: Any) -> Any:
            with self.bare.neutral():
                return fetch(function)(*args, **kwargs)

        return property(fetch)

    def _first(self, function: JITFunction) -> Any:
        """What to launch with where a function has no turns yet."""
        with self._lock:
            turns = self._turns_of(function)
        return MethodType(self._run_bare, function) if turns is None else turns.draw()

    def _turns_of(self, function: JITFunction) -> Any:
        """Whose turn it is among the launches of a function; None where the session has ended."""
        if not self._installed:
            return None
        if not hasattr(function, _TURNS):
            setattr(function, _TURNS, self._begin(function))
            self._functions.append(function)
        return getattr(function, _TURNS)

    def _begin(self, function: JITFunction) -> Any:
        name, bare = function.fn.__name__, MethodType(self._run_bare, function)
        instrumented = _Instrumented(function, bare, self)
        if function._repr is not None:
            counting = self._counting(bare), self._counting(instrumented.launch)
            instrumented.turns = Turns(self._options.every, *counting)
        elif self._options.matches(name):
            instrumented.turns = self.turns(name, bare, instrumented.launch)
        else:
            self._unmatched.add(name)
            return SimpleNamespace(draw=repeat(bare).__next__)
        return instrumented.turns

    def _counting(self, launch: Callable[..., Any]) -> Callable[..., Any]:
        """Counts by the name of the binary that was launched."""

        def launch_and_count(*args: Any, **kwargs: Any) -> Any:
            kernel = launch(*args, **kwargs)
            if kernel is not None:
                with self._lock:
                    self._named[kernel.name] += 1
            return kernel

        return launch_and_count

    def _warmup(self, warmup: Callable[..., Any]) -> Callable[..., Any]:
        """JITFunction.warmup that is no launch."""

        def warm_up(function: JITFunction, *args: Any, **kwargs: Any) -> Any:
            with self.bare.tuning():
                return warmup(function, *args, **kwargs)

        return warm_up


def _state(state: Callable[..., Any]) -> Callable[..., Any]:
    """What a copy of a function starts with: without turns, which launch the function itself."""

    def state_without_turns(function: JITFunction) -> Any:
        return {name: value for name, value in state(function).items() if name != _TURNS}

    return state_without_turns


class _Instrumented:
    """A function as `JITFunction.run` sees it where the launch is recorded: the same, but for its binaries.

    They are kept with the function's other ones, under keys with `mode` at their end. So what would change
    the keys, Triton's knobs, needs to be changed while a binary is compiled only.
    """

    __slots__ = ("_bare", "_function", "_sampling", "turns")

    turns: Turns

    def __init__(self, function: JITFunction, bare: MethodType, sampling: Sampling) -> None:
        self._function = function
        self._bare = bare
        self._sampling = sampling

    def launch(self, *args: Any, warmup: bool, **kwargs: Any) -> Any:
        """Launch the function, and record it if the turn is still due."""
        if warmup or not self.turns.take():
            return self._bare(*args, warmup=warmup, **kwargs)
        run = self._bare.__func__
        return self._sampling.record(lambda: run(self, *args, warmup=warmup, **kwargs))

    # What JITFunction.run looks at.

    @property
    def debug(self) -> Any:
        return self._function.debug

    @property
    def pre_run_hooks(self) -> Any:
        return self._function.pre_run_hooks

    @property
    def used_global_vals(self) -> Any:
        return self._function.used_global_vals

    @property
    def device_caches(self) -> _Instrumented:
        return self

    def __getitem__(self, device: int) -> tuple[Any, ...]:
        kernels, *rest = self._function.device_caches[device]
        return _Kernels(kernels, self._sampling.mode), *rest

    def _pack_args(self, *args: Any) -> Any:
        return self._function._pack_args(*args)

    def _do_compile(
        self, key: str, signature: Any, device: int, constants: Any, options: Any, *others: Any
    ) -> Any:
        with self._sampling.bare.recording():
            mode = knobs.compilation.instrumentation_mode
            if options.instrumentation_mode != mode:
                options = replace(options, instrumentation_mode=mode)
            key += self._sampling.mode
            at_once = _async_compile.active_mode.set(None)  # another thread would compile a bare one
            try:
                return self._function._do_compile(key, signature, device, constants, options, *others)
            finally:
                _async_compile.active_mode.reset(at_once)


class _Kernels:
    """Those of a function's binaries whose keys end with `mode`."""

    __slots__ = ("_kernels", "_mode")

    def __init__(self, kernels: dict[str, Any], mode: str) -> None:
        self._kernels = kernels
        self._mode = mode

    def get(self, key: str, default: Any) -> Any:
        return self._kernels.get(key + self._mode, default)
