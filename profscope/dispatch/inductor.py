"""The door of torch.compile's launches.

Inductor compiles with `triton.compile`, partly in other processes, chooses configurations by timing them,
and launches from functions of its own, mostly past Triton's launchers. So the door is `CachingAutotuner.run`.
Once a tuner has chosen, it gets a copy that launches the recorded binary, and the launches whose turn it is
go through that one. While a recorded binary is being built aside, launches run bare and are counted; if it
cannot be built, they run bare for good, and the notes name the kernel.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import ModuleType
from typing import Any, Final

from profscope.compat.inductor import (
    MODULE,
    NEEDED,
    TUNER,
    copied,
    is_timed,
    makes_graphs,
    missing_of_tuner,
    precompiled,
    warms_up_a_graph,
)
from profscope.compat.origins import ORIGINS
from profscope.compat.patches import Door, after_import
from profscope.compat.torch_parts import missing_attribute
from profscope.dispatch.build_aside import GIVEN_UP, Build, BuildAside
from profscope.dispatch.configurations import Configuration, Launcher
from profscope.dispatch.dispatcher import Dispatcher
from profscope.recording.diagnostics import number_of_launches, reason

__all__ = ["InductorLaunches"]

_BUILDING: Final = "its binary was being built"
_FOR_CPP: Final = "its binary is written to a file, for C++"
_SHOWN_KERNELS: Final = 3
_CAPTURED: Final = "it was not launched before CUDA graph capture"
_CAPTURED_BUILDING: Final = (
    "a CUDA graph captured it while its binary was being built; with wait=True launches wait for that"
)
_TUNING: Final = "it was still being tuned"
_OF_RUN: Final = ("stream", "benchmark_run")  # arguments of `CachingAutotuner.run` that are not the kernel's


class _Kernel:
    """A tuner's kernel. run: the tuner's own. ask, steady: as that, through `Dispatcher.ask` and through
    `Configuration.steady`; steady is None if there is no recorded binary: `why`. chosen: the launchers of the
    tuner that this is known of. build: what builds the binary aside, and `begun`, for which launcher.
    in_graphs: Inductor may capture it into a CUDA graph."""

    def __init__(self, tuner: Any, run: Launcher, configuration: Configuration) -> None:
        self.tuner = tuner
        self.name: str = tuner.fn.__name__
        self.run = run
        self.configuration = configuration
        self.lock = threading.RLock()
        self.chosen: Any = None
        self.ask: Launcher | None = None
        self.steady: Launcher | None = None
        self.why = ""
        self.begun: Any = None
        self.build: Build | None = None
        self.in_graphs = makes_graphs()


class InductorLaunches:
    """Installed for the length of a session. aside: builds binaries in other processes; None: launches wait
    for theirs. capturing(): as of `RecordedLaunches`; prepare: see `Recorder.prepare`. names: of the kernels
    that were launched."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        capturing: Callable[[], bool],
        prepare: Callable[[], object],
        aside: BuildAside | None = None,
    ) -> None:
        self.left_bare: Counter[tuple[str, str]] = Counter()  # kernel and why -> launches
        self.unknown = ""  # what this torch does not have
        self.names: set[str] = set()
        self._door: Door | None = None
        self._dispatcher = dispatcher
        self._capturing = capturing
        self._prepare = prepare
        self._aside = aside
        self._lock = threading.Lock()
        self._kernels: dict[int, _Kernel] = {}

    @property
    def looks(self) -> int:
        """How many launches came by the door and ran bare, since their kernels had no recorded binary."""
        with self._lock:
            return self.left_bare.total()

    def describe(self) -> tuple[dict[str, Any], list[str]]:
        """See `_described`."""
        with self._lock:
            left_bare = dict(self.left_bare)
        return _described(left_bare, self.unknown)

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """For the body of a with statement, whether Inductor is loaded already or will be."""
        with contextlib.ExitStack() as stack:

            def patch(module: ModuleType) -> None:
                self.unknown = missing_attribute(module, *NEEDED)
                if not self.unknown:
                    self._door = Door(getattr(module, TUNER), "run", self._launcher)
                    stack.enter_context(self._door.installed())

            stack.enter_context(after_import(MODULE, patch))
            stack.enter_context(ORIGINS.watching())
            yield

    def shut(self, *, is_shut: bool) -> None:
        """While shut, known tuners launch as if there were no session."""
        if self._door is not None:
            self._door.shut(is_shut=is_shut)

    def launcher(self, tuner: Any) -> Launcher:
        """The launcher of a tuner, in place of its `run`."""
        run: Launcher = tuner.run if self._door is None else self._door.launcher(tuner)
        return run

    def _launcher(self, tuner: Any, run: Launcher) -> Launcher:
        """What a tuner launches with; what it has, if its kernel is never recorded."""
        dispatcher, thread = self._dispatcher, self._dispatcher.thread
        bare = partial(dispatcher.run_bare, run)
        self.unknown = self.unknown or missing_of_tuner(tuner)
        if self.unknown:
            return bare
        kernel = self._kernel(tuner, run)
        configuration = kernel.configuration
        if not configuration.matches:
            return bare if is_timed(tuner) else run
        numbers = configuration.numbers

        def launch(*args: Any, **kwargs: Any) -> Any:
            if thread.passes or kwargs.get("benchmark_run"):
                return bare(*args, **kwargs)
            drawn = numbers.draw()
            if not drawn:
                steady = kernel.steady
                if steady is None or tuner.launchers is not kernel.chosen:
                    steady = self._steady(kernel, args, kwargs)
                if steady is not None:
                    assert kernel.ask is not None
                    return (kernel.ask if drawn is None else steady)(*args, **kwargs)
            thread.passes = True  # as `run_bare` does, without its call
            try:
                return run(*args, **kwargs)
            finally:
                thread.passes = False

        return launch

    def _kernel(self, tuner: Any, run: Launcher) -> _Kernel:
        with self._lock:
            if id(tuner) not in self._kernels:
                name = tuner.fn.__name__
                self.names.add(name)
                configuration = self._dispatcher.configurations.add(name, matches=not is_timed(tuner))
                self._kernels[id(tuner)] = _Kernel(tuner, run, configuration)
            return self._kernels[id(tuner)]

    def _steady(self, kernel: _Kernel, args: Sequence[Any], kwargs: dict[str, Any]) -> Launcher | None:
        """What a kernel that its tuner has chosen for the first time, or anew, launches its recorded binary
        with; None if it has none. args, kwargs: of `CachingAutotuner.run`."""
        if kernel.tuner.launchers is not kernel.chosen and not self._is_building(kernel):
            self._dispatcher.run_bare(self._choose, kernel, args, kwargs)
        if kernel.steady is None:
            with self._lock:
                self.left_bare[kernel.name, kernel.why] += 1
        return kernel.steady

    def _is_building(self, kernel: _Kernel) -> bool:
        """Whether a kernel's next launch has nothing to ask but whether its binary is there, which it is not.
        Most launches of a session's first seconds are such."""
        build, launchers, aside = kernel.build, kernel.tuner.launchers, self._aside
        if aside is None or build is None or kernel.why != _BUILDING:
            return False
        if len(launchers) != 1 or launchers[0] is not kernel.begun:
            return False
        if (build.answer is not None and aside.may_load()) or self._capturing():
            return False
        return not (kernel.in_graphs and warms_up_a_graph())

    def _choose(self, kernel: _Kernel, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Give a kernel the launchers that stand for the one its tuner has chosen, or say why not."""
        with kernel.lock:
            tuner = kernel.tuner
            if tuner.launchers is kernel.chosen:  # another thread was quicker
                return
            kernel.steady, kernel.why = None, ""
            if self._capturing():
                kernel.why = _CAPTURED if kernel.build is None else _CAPTURED_BUILDING
                return
            if not tuner.launchers:
                tuner.precompile()
            if len(tuner.launchers) > 1:
                own = {name: each for name, each in kwargs.items() if name not in _OF_RUN}
                tuner.autotune_to_one_config(*args, **own)
            meta, (bare,) = tuner.inductor_meta, tuner.launchers
            if meta.get("store_cubin"):
                kernel.why = _FOR_CPP
            elif meta.get("coordinate_descent_tuning") and not getattr(
                bare.config, "found_by_coordesc", False
            ):
                kernel.why = _TUNING
            else:
                kernel.why = self._built(kernel, bare)
            if kernel.why not in (_TUNING, _BUILDING):
                kernel.chosen = tuner.launchers

    def _built(self, kernel: _Kernel, bare: Any) -> str:
        """Give a kernel its launchers; why it has none, "" if it has."""
        aside = self._aside
        if aside is None or warms_up_a_graph():  # the launch is to wait
            return self._build(kernel, bare.config)
        if kernel.begun is not bare or (kernel.build is not None and kernel.build.answer == GIVEN_UP):
            kernel.begun, kernel.build = bare, aside.begin(kernel.tuner, bare.config)
            self._prepare()
        if kernel.build is None:
            return self._build(kernel, bare.config)
        if kernel.build.answer is None or not aside.may_load():
            return _BUILDING
        if kernel.build.answer:
            return kernel.build.answer
        with aside.loading():
            return self._build(kernel, bare.config)

    def _build(self, kernel: _Kernel, config: Any) -> str:
        """Compile a kernel with records, or find it in Triton's cache; Inductor makes its launchers."""
        tuner, configuration, door = kernel.tuner, kernel.configuration, self._dispatcher.door
        try:
            with self._dispatcher.compiler.recording():
                built = precompiled(tuner, config)
            steady = self._dispatcher.adopt(configuration, built.kernel)
            # A launcher keeps what the binary is launched with when it is made.
            door.set(built.kernel, partial(self._dispatcher.ask, configuration))
            kernel.ask = copied(tuner, kernel.run, built.make_launcher())
            door.set(built.kernel, steady)
            kernel.steady = copied(tuner, kernel.run, built.make_launcher())
        except Exception as error:  # noqa: BLE001  whatever it is, the user's launch goes on, bare
            return reason(error)
        return ""


def _described(left_bare: Mapping[tuple[str, str], int], unknown: str) -> tuple[dict[str, Any], list[str]]:
    """Of launches that ran bare although they should not have: the metadata's entry "building", by kernel how
    many did while its binary was being built, and the notes. left_bare: kernel and why -> launches; unknown:
    what this torch does not have."""
    building, for_cpp = (
        {name: count for (name, because), count in sorted(left_bare.items()) if because == why}
        for why in (_BUILDING, _FOR_CPP)
    )
    notes = [f"torch.compile's kernels ran bare, and are in no figure: {unknown}"] * bool(unknown)
    notes += [
        f"{number_of_launches(count)} of {name} by torch.compile ran bare: {why}"
        for (name, why), count in left_bare.items()
        if why not in (_BUILDING, _FOR_CPP)
    ]
    if for_cpp:
        notes.append(f"{_bare(for_cpp)} because they are written to a file, for C++ to launch")
    if not building:
        return {}, notes
    notes.append(f"{_bare(building)} while they were being built; with wait=True launches wait for that")
    return {"building": {"bare_launches": building}}, notes


def _bare(by_kernel: Mapping[str, int]) -> str:
    """By kernel, how many launches ran bare."""
    names = list(by_kernel)
    kernels = ", ".join(names[:_SHOWN_KERNELS]) + ", ..." * (len(names) > _SHOWN_KERNELS)
    launches = number_of_launches(sum(by_kernel.values()))
    return f"{launches} of torch.compile's kernels ({kernels}) ran bare, in no figure,"
