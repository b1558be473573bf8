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
from triton.runtime.jit import JITFunction

from profscope.bare import BareLaunches, Context
from profscope.options import Options
from profscope.patches import patched
from profscope.turns import Turns

__all__ = ["Sampling"]

_TURNS: Final = "_profscope_turns"  # a JITFunction's; its hash is slow, so no table has it for a key


class Sampling:
    """Installed for the length of a session, inside the compile hook; does nothing where all is recorded.

    mode: what tells the session's binaries from others. listen: the collector records what is launched in it.
    """

    def __init__(self, options: Options, bare: BareLaunches, mode: str, listen: Context) -> None:
        self.listen = listen
        self._options = options
        self._bare = bare
        self._mode = mode
        self._lock = threading.Lock()
        self._counted: list[tuple[str, Turns]] = []  # kernel, turns of a function
        self._named: Counter[str] = Counter()  # launches of functions that name each binary for itself
        self._functions: list[JITFunction] = []
        self._installed = False

    def turns(self, kernel: str, left_out: Any, due: Any = None) -> Turns:
        """The turns of a function whose launches are all of one kernel."""
        turns = Turns(self._options.every, left_out, due)
        self._counted.append((kernel, turns))
        return turns

    @property
    def launches(self) -> Counter[str]:
        """By kernel, how many launches began while only some are recorded; not an autotuner's trials."""
        if self._options.every == 1:
            return Counter()
        with self._lock:
            found = self._named.copy()
        for kernel, turns in list(self._counted):
            found[kernel] += turns.launches
        return found

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
            f"{name}: {found['recorded']} of {found['launches']} launches were recorded; counts and totals "
            "are of those"
            for name, found in kernels.items()
            if found["recorded"] < found["launches"]
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
            with patched(JITFunction, "run", self._run), patched(JITFunction, "warmup", self._warmup):
                yield
        finally:
            with self._lock:
                self._installed = False
                for function in self._functions:
                    vars(function).pop(_TURNS, None)

    def _run(self, run: Callable[..., Any]) -> Any:
        """In place of JITFunction.run: a property that is the bound method, but where a launch is due."""

        def record(function: JITFunction, *args: Any, warmup: bool, **kwargs: Any) -> Any:
            turns = vars(function).get(_TURNS)  # None: the session has ended meanwhile
            if warmup or turns is None or not turns.take():
                return run(function, *args, warmup=warmup, **kwargs)
            with self.listen():
                return run(_Instrumented(function, self._mode, self._bare), *args, warmup=warmup, **kwargs)

        def named(launch: Callable[..., Any]) -> Callable[..., Any]:
            """Counts by the name of the binary that was launched."""

            def launch_and_count(function: JITFunction, *args: Any, **kwargs: Any) -> Any:
                kernel = launch(function, *args, **kwargs)
                if kernel is not None:
                    with self._lock:
                        self._named[kernel.name] += 1
                return kernel

            return launch_and_count

        def begin(function: JITFunction) -> Any:
            """The turns of a function that is launched for the first time."""
            name, bare = function.fn.__name__, MethodType(run, function)
            if function._repr is not None:
                every, counted = self._options.every, named(run)
                return Turns(every, MethodType(counted, function), MethodType(named(record), function))
            if self._options.matches(name):
                return self.turns(name, bare, MethodType(record, function))
            return SimpleNamespace(left_out=bare, draw=repeat(bare).__next__)

        def first(function: JITFunction) -> Any:
            with self._lock:
                turns = vars(function).get(_TURNS)  # another thread's, or of the function this is a copy of
                if turns is None or turns.left_out.__self__ is not function:
                    if not self._installed:  # it ends while this thread begins to launch
                        return MethodType(run, function)
                    turns = vars(function)[_TURNS] = begin(function)
                    self._functions.append(function)
            return turns.draw()

        def afresh(function: JITFunction, *args: Any, **kwargs: Any) -> Any:
            with self._bare.neutral():
                return fetch(function)(*args, **kwargs)

        def fetch(function: JITFunction) -> Any:
            if apart:
                if thread.trial:
                    return MethodType(run, function)
                if thread.bare is not None:  # launched by a hook of a compilation that is recorded
                    return MethodType(afresh, function)
            try:
                launch = function._profscope_turns.draw()
            except AttributeError:
                return first(function)
            return launch if launch.__self__ is function else first(function)  # of what this is a copy of

        apart, thread = self._bare.apart, self._bare.thread
        return property(fetch)

    def _warmup(self, warmup: Callable[..., Any]) -> Callable[..., Any]:
        """JITFunction.warmup that is no launch."""

        def warm_up(function: JITFunction, *args: Any, **kwargs: Any) -> Any:
            with self._bare.tuning():
                return warmup(function, *args, **kwargs)

        return warm_up


class _Instrumented:
    """A function as `JITFunction.run` sees it where the launch is recorded: the same, but for its binaries.

    They are kept with the function's other ones, under keys with `mode` at their end. So what would change
    the keys, Triton's knobs, needs to be changed while a binary is compiled only.
    """

    __slots__ = ("_bare", "_function", "_mode")

    def __init__(self, function: JITFunction, mode: str, bare: BareLaunches) -> None:
        self._function = function
        self._mode = mode
        self._bare = bare

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)

    @property
    def device_caches(self) -> _Instrumented:
        return self

    def __getitem__(self, device: int) -> tuple[Any, ...]:
        kernels, *rest = self._function.device_caches[device]
        return _Kernels(kernels, self._mode), *rest

    def _do_compile(
        self, key: str, signature: Any, device: int, constants: Any, options: Any, *others: Any
    ) -> Any:
        with self._bare.recording():
            mode = knobs.compilation.instrumentation_mode
            if options.instrumentation_mode != mode:
                options = replace(options, instrumentation_mode=mode)
            return self._function._do_compile(
                key + self._mode, signature, device, constants, options, *others
            )


class _Kernels:
    """Those of a function's binaries whose keys end with `mode`."""

    __slots__ = ("_kernels", "_mode")

    def __init__(self, kernels: dict[str, Any], mode: str) -> None:
        self._kernels = kernels
        self._mode = mode

    def get(self, key: str, default: Any) -> Any:
        return self._kernels.get(key + self._mode, default)
