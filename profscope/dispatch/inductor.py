"""The door of torch.compile's launches.

Inductor compiles with `triton.compile`, partly in other processes, chooses configurations by timing them,
and launches from functions of its own, mostly past Triton's launchers. So the door is `CachingAutotuner.run`.
Once a tuner has chosen, it gets a second launcher, of the recorded binary, and the launches whose turn it is
go through that one. While a recorded binary is being built aside, launches run bare and are counted; if it
cannot be built, they run bare for good, and the notes name the kernel.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from types import ModuleType
from typing import Any, Final

from profscope.compat.after_import import after_import
from profscope.compat.inductor import (
    MODULE,
    NEEDED,
    TUNER,
    is_timed,
    launched_with,
    makes_graphs,
    missing_of_tuner,
    precompiled,
    warms_up_a_graph,
)
from profscope.compat.origins import ORIGINS
from profscope.compat.patches import patched
from profscope.compat.torch_parts import missing_attribute
from profscope.dispatch.build_aside import GIVEN_UP, BuildAside
from profscope.dispatch.configurations import Configuration
from profscope.dispatch.dispatcher import Dispatcher
from profscope.dispatch.left_bare import BUILDING, FOR_CPP, described, reason

__all__ = ["InductorLaunches"]

_CAPTURED: Final = "it was not launched before CUDA graph capture"
_CAPTURED_BUILDING: Final = (
    "a CUDA graph captured it while its binary was being built; with wait=True launches wait for that"
)
_TUNING: Final = "it was still being tuned"
_OF_RUN: Final = ("stream", "benchmark_run")  # arguments of `CachingAutotuner.run` that are not the kernel's


class _Kernel:
    """A tuner's kernel. chosen: the launchers of the tuner for which `own`, the launcher of the recorded
    binary, stands, or for which there is none: `why`. build: what builds it aside, and for which launcher.
    in_graphs: Inductor may capture it into a CUDA graph."""

    def __init__(self, tuner: Any, configuration: Configuration) -> None:
        self.tuner = tuner  # kept: kernels are known by its id
        self.name: str = tuner.fn.__name__
        self.configuration = configuration
        self.lock = threading.RLock()
        self.chosen: Any = None
        self.own: Any = None
        self.why = ""
        self.build: tuple[Any, Future[str] | None] = None, None
        self.in_graphs = makes_graphs()


class InductorLaunches:
    """Installed for the length of a session. aside: builds binaries in other processes; None: launches wait
    for theirs. capturing(): as of `RecordedLaunches`; prepare: what has memory ready for launches."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        capturing: Callable[[], bool],
        prepare: Callable[[], Callable[[], object]],
        aside: BuildAside | None = None,
    ) -> None:
        self.left_bare: Counter[tuple[str, str]] = Counter()  # kernel and why -> launches
        self.unknown = ""  # what this torch does not have
        self._dispatcher = dispatcher
        self._capturing = capturing
        self._prepare_memory = prepare
        self._aside = aside
        self._lock = threading.Lock()
        self._kernels: dict[int, _Kernel] = {}

    @property
    def seen(self) -> bool:
        """Whether any kernel of torch.compile was launched."""
        return bool(self._kernels)

    @property
    def names(self) -> set[str]:
        """Of the kernels that were launched."""
        return {kernel.name for kernel in list(self._kernels.values())}

    def describe(self) -> tuple[dict[str, Any], list[str]]:
        """See `left_bare.described`."""
        with self._lock:
            left_bare = dict(self.left_bare)
        return described(left_bare, self.unknown)

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """For the body of a with statement, whether Inductor is loaded already or will be."""
        with contextlib.ExitStack() as stack:

            def patch(module: ModuleType) -> None:
                self.unknown = missing_attribute(module, *NEEDED)
                if not self.unknown:
                    stack.enter_context(patched(getattr(module, TUNER), "run", self.door))

            stack.enter_context(after_import(MODULE, patch))
            stack.enter_context(ORIGINS.watching())
            yield

    def door(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """CachingAutotuner.run with the door before it."""
        kernels, dispatcher, thread = self._kernels, self._dispatcher, self._dispatcher.thread

        def launch(tuner: Any, *args: Any, **kwargs: Any) -> Any:
            if thread.passes or kwargs.get("benchmark_run"):
                return dispatcher.run_bare(run, tuner, *args, **kwargs)
            kernel = kernels.get(id(tuner)) or self._begin(tuner)
            if kernel is not None and kernel.configuration.matches:
                if tuner.launchers is not kernel.chosen and not self._is_building(kernel):
                    self._choose(kernel, args, kwargs)
                configuration = kernel.configuration
                if kernel.own is None:
                    with self._lock:
                        self.left_bare[kernel.name, kernel.why] += 1
                elif configuration.turns.draw() is None:
                    number = dispatcher.number(configuration)
                    if number is not None:
                        recorded = partial(run, tuner, *args, **kwargs)
                        with kernel.lock:
                            launched = partial(launched_with, tuner, kernel.own, recorded)
                            return dispatcher.launch_as(configuration, number, launched)
            thread.passes = True  # as `run_bare` does, without its call
            try:
                return run(tuner, *args, **kwargs)
            finally:
                thread.passes = False

        return launch

    def _is_building(self, kernel: _Kernel) -> bool:
        """Whether a kernel's next launch has nothing to ask but whether its binary is there, which it is not.
        Most launches of a session's first seconds are such."""
        (begun, build), launchers = kernel.build, kernel.tuner.launchers
        if build is None or kernel.why != BUILDING or len(launchers) != 1 or launchers[0] is not begun:
            return False
        assert self._aside is not None
        if (build.done() and self._aside.may_load()) or self._capturing():
            return False
        return not (kernel.in_graphs and warms_up_a_graph())

    def _begin(self, tuner: Any) -> _Kernel | None:
        """A tuner that is launched for the first time; None for one that is not as it should be."""
        with self._lock:
            self.unknown = self.unknown or missing_of_tuner(tuner)
            if self.unknown:
                return None
            if id(tuner) not in self._kernels:  # another thread may have been quicker
                name = tuner.fn.__name__
                configuration = self._dispatcher.configurations.add(name, matches=not is_timed(tuner))
                self._kernels[id(tuner)] = _Kernel(tuner, configuration)
            return self._kernels[id(tuner)]

    def _choose(self, kernel: _Kernel, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Give a kernel the launcher that stands for the one its tuner has chosen, or say why not. args,
        kwargs: of `CachingAutotuner.run`."""
        with kernel.lock, self._dispatcher.passing():
            tuner = kernel.tuner
            if tuner.launchers is kernel.chosen:  # another thread was launching through `own`, or was quicker
                return
            kernel.own, kernel.why = None, ""
            if self._capturing():
                kernel.why = _CAPTURED if kernel.build[1] is None else _CAPTURED_BUILDING
                return
            if not tuner.launchers:
                tuner.precompile()
            if len(tuner.launchers) > 1:
                own = {name: each for name, each in kwargs.items() if name not in _OF_RUN}
                tuner.autotune_to_one_config(*args, **own)
            meta, (bare,) = tuner.inductor_meta, tuner.launchers
            if meta.get("store_cubin"):
                kernel.why = FOR_CPP
            elif meta.get("coordinate_descent_tuning") and not getattr(
                bare.config, "found_by_coordesc", False
            ):
                kernel.why = _TUNING
                return
            elif not self._built(kernel, bare):
                return
            kernel.chosen = tuner.launchers

    def _built(self, kernel: _Kernel, bare: Any) -> bool:
        """Give a kernel its launcher, or say why it has none; whether that is settled."""
        build = self._build_of(kernel, bare)
        if build is None:
            self._build(kernel, bare.config)
            return True
        assert self._aside is not None
        if not build.done() or not self._aside.may_load():
            kernel.why = BUILDING
            return False
        kernel.why = build.result()
        if not kernel.why:
            with self._aside.loading():
                self._build(kernel, bare.config)
        return True

    def _build_of(self, kernel: _Kernel, bare: Any) -> Future[str] | None:
        """What builds a kernel aside; None if its launch is to wait."""
        if self._aside is None or warms_up_a_graph():
            return None
        begun, build = kernel.build
        given_up = build is not None and build.done() and (build.cancelled() or build.result() == GIVEN_UP)
        if begun is not bare or given_up:  # the session was paused meanwhile
            kernel.build = bare, self._aside.begin(kernel.tuner, bare.config, self._prepare_memory())
        return kernel.build[1]

    def _build(self, kernel: _Kernel, config: Any) -> None:
        """Compile a kernel with records, or find it in Triton's cache; Inductor makes its launcher."""
        try:
            with self._dispatcher.compiler.recording():
                built = precompiled(kernel.tuner, config)
            kernel.configuration.recorded = self._dispatcher.adopt(built.kernel)
            kernel.own = built.make_launcher()
        except Exception as error:  # noqa: BLE001  whatever it is, the user's launch goes on, bare
            kernel.why = reason(error)
