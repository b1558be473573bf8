"""Kernels of torch.compile: compiled and tuned bare, as without a session; a session launches its own.

Inductor compiles with `triton.compile`, partly in other processes, chooses configurations by timing them,
keeps both on disk, and launches from functions of its own, which outlive any session. So nothing that it
compiles is instrumented. Instead each launch through its `CachingAutotuner` is given the session's own
binary of the configuration it has chosen; where that cannot be built, the launch runs bare and the notes name
it. Its static launcher passes no profile buffer, but refuses binaries that want one: it never launches ours.

Internals of torch 2.11 to 2.13 that this uses: `CachingAutotuner.run`, `._precompile_config`, `.launchers`,
`.precompile`, `.autotune_to_one_config`, `._reload_kernel`, and `make_launcher` of what it compiles.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import ModuleType
from typing import Any, Final

import torch
import triton

from instrument_passes.toolchain import triton_version
from profscope.launching.bare import BareLaunches
from profscope.launching.quick import quick_launch
from profscope.launching.sampling import Sampling
from profscope.launching.turns import Turns
from profscope.options import Options
from profscope.recording.after_import import after_import
from profscope.recording.journal import number_of_launches
from profscope.recording.launch_path import LaunchPath
from profscope.recording.patches import patched
from profscope.recording.programs import PROGRAMS

__all__ = ["InductorLaunches"]

_MODULE: Final = "torch._inductor.runtime.triton_heuristics"


class _Thread(threading.local):
    """recording: this thread builds a binary that records."""

    recording = False


class _Kernel:
    """A tuner's launcher of ours. bare: the one it stands for; own: None if there is none.

    matches: its launches are to be recorded.
    """

    def __init__(self, tuner: Any, turns: Turns, matches: bool) -> None:
        self.tuner = tuner  # kept: kernels are known by its id
        self.name: str = tuner.fn.__name__
        self.turns = turns
        self.matches = matches
        self.lock = threading.RLock()
        self.bare: Any = None
        self.own: Any = None
        self.quick: Any = None  # launches `own` without the tuner, see `quick_launch`
        self.launchers: Any = None  # of the tuner, for which these stand
        self.why = ""  # there is none

    def launches_quickly(self, args: tuple[Any, ...], stream: Any, kwargs: dict[str, Any]) -> bool:
        """Launch without the tuner, and return whether that could be."""
        quick = self.quick
        return (
            quick is not None
            and not kwargs
            and self.tuner.launchers is self.launchers
            and quick(args, stream)
        )  # fmt: skip


class InductorLaunches:
    """Installed for the length of a session, inside the compile hook. path: of the launches."""

    def __init__(
        self, options: Options, bare: BareLaunches, sampling: Sampling, path: LaunchPath
    ) -> None:  # fmt: skip
        self.left_bare: Counter[tuple[str, str]] = Counter()  # kernel and why -> launches
        self._options = options
        self._bare = bare
        self._sampling = sampling
        self._path = path
        self._module: Any = None  # of the tuners
        self._thread = _Thread()
        self._lock = threading.Lock()
        self._kernels: dict[int, _Kernel] = {}

    @property
    def passed_over(self) -> set[str]:
        """Kernels that were launched and that kernels= leaves out."""
        return {kernel.name for kernel in list(self._kernels.values()) if not kernel.matches}

    def notes(self) -> list[str]:
        """One line for each kernel with launches that ran bare although they should not have."""
        with self._lock:
            return [
                f"{number_of_launches(count)} of {name} by torch.compile ran bare: {why}"
                for (name, why), count in self.left_bare.items()
            ]

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """For the body of a with statement, whether Inductor is loaded already or will be."""
        with contextlib.ExitStack() as stack:

            def patch(module: ModuleType) -> None:
                tuner, self._module = module.CachingAutotuner, module
                stack.enter_context(patched(tuner, "_precompile_config", self._precompile))
                stack.enter_context(patched(tuner, "run", self._run))
                if triton_version() < (3, 7):  # where nothing but the options tells binaries apart
                    stack.callback(setattr, module, "triton", module.triton)
                    module.triton = _Triton(self._compile)  # type: ignore[attr-defined]

            stack.enter_context(after_import(_MODULE, patch))
            yield

    def _precompile(self, precompile: Callable[..., Any]) -> Callable[..., Any]:
        def compile_bare(tuner: Any, config: Any) -> Any:
            if self._thread.recording:
                return precompile(tuner, config)
            with self._bare.tuning():  # not instrumented, whatever it is compiled for
                return precompile(tuner, config)

        return compile_bare

    def _compile(self, *args: Any, **options: Any) -> Any:
        if self._thread.recording:
            options["options"] = {**options["options"], "instrumentation_mode": self._sampling.mode}
        return triton.compile(*args, **options)

    def _run(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def launch(tuner: Any, *args: Any, stream: Any, benchmark_run: bool = False, **kwargs: Any) -> Any:
            kernel = kernels.get(id(tuner)) or self._begin(tuner)
            if benchmark_run or not kernel.matches:
                return run(tuner, *args, stream=stream, benchmark_run=benchmark_run, **kwargs)
            if every_one and kernel.launches_quickly(args, stream, kwargs):
                return None
            with kernel.lock:
                if every_one or (kernel.turns.draw() is None and kernel.turns.take()):
                    if kernel.launches_quickly(args, stream, kwargs):
                        return None
                    self._prepare(kernel, args, kwargs)
                    if kernel.own is not None:
                        launching = partial(run, tuner, *args, stream=stream, **kwargs)
                        with self._path.listening():
                            return _launch(tuner, kernel.own, launching)
                    with self._lock:
                        self.left_bare[kernel.name, kernel.why] += 1
                return run(tuner, *args, stream=stream, **kwargs)

        kernels, every_one = self._kernels, self._options.every == 1
        return launch

    def _begin(self, tuner: Any) -> _Kernel:
        with self._lock:
            if id(tuner) not in self._kernels:  # another thread may have been quicker
                name = tuner.fn.__name__
                turns = self._sampling.turns(name, "left out")
                self._kernels[id(tuner)] = _Kernel(tuner, turns, self._options.matches(name))
            return self._kernels[id(tuner)]

    def _prepare(self, kernel: _Kernel, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Give a kernel the launcher that stands for the one its tuner has chosen."""
        tuner = kernel.tuner
        if len(tuner.launchers) == 1 and tuner.launchers[0] is kernel.bare:
            return
        kernel.own, kernel.quick, kernel.why = None, None, ""
        if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
            kernel.why = "it was not launched before CUDA graph capture"
            return
        if not tuner.launchers:
            tuner.precompile()
        if len(tuner.launchers) > 1:
            tuner.autotune_to_one_config(*args, **kwargs)
        meta, (bare,) = tuner.inductor_meta, tuner.launchers
        if meta.get("store_cubin"):
            kernel.why = "its binary is written to a file, for C++"
        elif meta.get("coordinate_descent_tuning") and not getattr(bare.config, "found_by_coordesc", False):
            kernel.why = "it was still being tuned"
            return
        else:
            self._build(kernel, bare.config)
        kernel.bare, kernel.launchers = bare, tuner.launchers

    def _build(self, kernel: _Kernel, config: Any) -> None:
        tuner = kernel.tuner
        self._thread.recording = True
        try:
            if tuner.fn.fn is None:  # compiled in another process
                tuner.fn = tuner._reload_kernel().fn
            with self._bare.recording():
                built = tuner._precompile_config(config)
                if PROGRAMS.program(built.kernel) is None:
                    kernel.why = "Inductor loaded a binary that does not record"
                else:
                    kernel.own = built.make_launcher()
                    if not self._options.samples and not self._options.baseline:
                        kernel.quick = quick_launch(self._module, tuner, built, self._path)
        except Exception as error:  # noqa: BLE001  whatever it is, the user's launch goes on, bare
            kernel.why = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        finally:
            self._thread.recording = False


def _launch(tuner: Any, launcher: Any, run: Callable[[], Any]) -> Any:
    """What `run` returns while the tuner launches through this launcher; what it had comes back."""
    launchers, cached = tuner.launchers, vars(tuner).get("_cached_launcher")  # the latter since torch 2.12
    tuner.launchers = [launcher]
    if cached is not None:
        tuner._cached_launcher = launcher
    try:
        return run()
    finally:
        tuner.launchers = launchers
        if "_cached_launcher" in vars(tuner):
            tuner._cached_launcher = cached


class _Triton:
    """The module `triton` with another `compile`."""

    def __init__(self, compile: Callable[..., Any]) -> None:
        self.compile = compile

    def __getattr__(self, name: str) -> Any:
        return getattr(triton, name)
