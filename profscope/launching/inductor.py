"""Kernels of torch.compile: compiled and tuned bare, as without a session; a session launches its own.

Inductor compiles with `triton.compile`, partly in other processes, chooses configurations by timing them,
keeps both on disk, and launches from functions of its own, which outlive any session. So nothing that it
compiles is instrumented. Instead each launch through its `CachingAutotuner` is given the session's own
binary of the configuration it has chosen; while that is being built beside the program, launches run bare;
where it cannot be built, they do so for good, and the notes name the kernel. Inductor's static launcher
passes no profile buffer, but refuses binaries that want one: it never launches ours.

Internals of torch 2.11 to 2.15 that this uses: `CachingAutotuner.run`, `._precompile_config`, `.launchers`,
`.precompile`, `.autotune_to_one_config`, `._reload_kernel`, and `make_launcher` of what it compiles.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from types import MethodType, ModuleType
from typing import Any, Final

import torch
import triton
from triton.compiler import CompiledKernel

from instrument_passes.toolchain import triton_version
from profscope.launching.bare import BareLaunches
from profscope.launching.beside import GIVEN_UP, OWN, Answer, Beside, Made
from profscope.launching.left_bare import BUILDING, FOR_CPP, described
from profscope.launching.quick import quick_in_turn, quick_launch, quick_run, run_in_turn
from profscope.launching.sampling import Sampling
from profscope.launching.turns import Turns
from profscope.options import Options
from profscope.recording.after_import import after_import
from profscope.recording.launch_path import LaunchPath
from profscope.recording.messages import one_line
from profscope.recording.origins import ORIGINS
from profscope.recording.patches import patched
from profscope.recording.programs import PROGRAMS
from profscope.recording.unknown_torch import lacking

__all__ = ["InductorLaunches"]

_MODULE: Final = "torch._inductor.runtime.triton_heuristics"
_NAMELESS: Final = "DESCRIPTIVE_NAME"
_TREES: Final = "torch._inductor.cudagraph_trees"
_USED: Final = tuple(
    f"CachingAutotuner.{name}"
    for name in ("run", "_precompile_config", "precompile", "autotune_to_one_config")
)
_USED_OF_A_TUNER: Final = ("fn.__name__", "launchers", "inductor_meta", "filename")
_CAPTURED_BUILDING: Final = (
    "a CUDA graph captured it while its binary was being built; with wait=True launches wait for that"
)


class _Thread(threading.local):
    """recording: this thread builds a binary that records. made: it has been built, and is to be loaded."""

    recording = False
    made: Made | None = None


class _Kernel:
    """A tuner's launcher of ours. bare: the one it stands for; own: None if there is none.

    matches: its launches are to be recorded. build: of which launcher one is being built beside the program,
    and what comes of it.
    """

    def __init__(self, tuner: Any, turns: Turns, matches: bool) -> None:
        self.tuner = tuner  # kept: kernels are known by its id
        self.name: str = tuner.fn.__name__
        self.turns = turns
        self.matches = matches
        self.lock = threading.RLock()
        self.bare: Any = None
        self.own: Any = None
        self.quick: Any = None  # launches without the tuner, see `quick_run`
        self.run: Any = None  # the tuner's own `run`, in place of its class's
        self.in_turn: Any = None  # what that is before the first launch is recorded, where only some are
        self.launchers: Any = None  # of the tuner, for which these stand
        self.why = ""  # there is none
        self.build: tuple[Any, Future[Answer] | None] = None, None

    def is_being_built(self) -> bool:
        """Whether its launches run bare for now, and there is nothing else to find out."""
        build = self.build[1]
        return build is not None and not build.done() and self.tuner.launchers is self.launchers


class InductorLaunches:
    """Installed for the length of a session, inside the compile hook. path: of the launches. beside: builds
    binaries beside the program; None: launches wait for theirs. load_others: loads what launches of a binary
    may launch in its place."""

    def __init__(
        self,
        options: Options,
        bare: BareLaunches,
        sampling: Sampling,
        path: LaunchPath,
        beside: Beside | None = None,
        load_others: Callable[[CompiledKernel, Mapping[str, Made]], None] | None = None,
    ) -> None:
        self.left_bare: Counter[tuple[str, str]] = Counter()  # kernel and why -> launches
        self.unknown = ""  # what this torch does not have
        self._options = options
        self._bare = bare
        self._sampling = sampling
        self._path = path
        self._beside = beside
        self._load_others = load_others
        self._module: Any = None  # of the tuners
        self._bare_run: Any = None  # CachingAutotuner.run, and what stands in its place
        self._any_run: Any = None
        self._open = False
        self._thread = _Thread()
        self._lock = threading.Lock()
        self._kernels: dict[int, _Kernel] = {}

    @property
    def seen(self) -> bool:
        """Whether any kernel of torch.compile was launched."""
        return bool(self._kernels)

    @property
    def passed_over(self) -> set[str]:
        """Kernels that were launched and that kernels= leaves out."""
        return {kernel.name for kernel in list(self._kernels.values()) if not kernel.matches}

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
                self.unknown = lacking(module, "triton", *_USED)
                if self.unknown:
                    return
                tuner, self._module = module.CachingAutotuner, module
                stack.enter_context(patched(tuner, "_precompile_config", self._precompile))
                stack.enter_context(patched(tuner, "run", self._run))
                stack.callback(setattr, module, "triton", module.triton)
                module.triton = _Triton(self._compile)  # type: ignore[attr-defined]
                stack.callback(self._give_back)
                self._open = True
                for kernel in list(self._kernels.values()):  # the session goes on
                    self._take_over(kernel)

            stack.enter_context(after_import(_MODULE, patch))
            stack.enter_context(ORIGINS.watching())
            yield

    def _precompile(self, precompile: Callable[..., Any]) -> Callable[..., Any]:
        def compile_bare(tuner: Any, config: Any, **options: Any) -> Any:
            if self._thread.recording:
                return precompile(tuner, config, **options)
            with self._bare.tuning():  # not instrumented, whatever it is compiled for
                return precompile(tuner, config, **options)

        return compile_bare

    def _compile(self, *args: Any, **options: Any) -> Any:
        if self._thread.made is not None:
            return self._thread.made.load(args[0])
        # Before Triton 3.7 nothing but the options tells binaries apart.
        if self._thread.recording and triton_version() < (3, 7):
            options["options"] = {**options["options"], "instrumentation_mode": self._sampling.mode}
        return triton.compile(*args, **options)

    def _run(self, run: Callable[..., Any]) -> Callable[..., Any]:
        """In place of CachingAutotuner.run. Most launches do not come by here: their tuner has a `run` of its
        own."""

        def launch(tuner: Any, *args: Any, stream: Any, benchmark_run: bool = False, **kwargs: Any) -> Any:
            kernel = kernels.get(id(tuner)) or self._begin(tuner)
            if kernel is None or benchmark_run or not kernel.matches:
                return run(tuner, *args, stream=stream, benchmark_run=benchmark_run, **kwargs)
            if not every_one:
                if kernel.turns.draw() is not None or not kernel.turns.take():
                    return run(tuner, *args, stream=stream, **kwargs)
            elif kernel.is_being_built() and not self._path.capturing():
                with self._lock:
                    self.left_bare[kernel.name, BUILDING] += 1
                return run(tuner, *args, stream=stream, **kwargs)
            return self._record(kernel, *args, stream=stream, **kwargs)

        kernels, every_one = self._kernels, self._options.every == 1
        self._bare_run, self._any_run = run, launch
        return launch

    def _record(self, kernel: _Kernel, *args: Any, stream: Any, **kwargs: Any) -> Any:
        """Launch by the tuner, recorded if that can be."""
        launch = partial(self._bare_run, kernel.tuner, *args, stream=stream, **kwargs)
        with kernel.lock:
            self._prepare(kernel, args, kwargs)
            if kernel.own is not None:
                with self._path.listening():
                    return _launch(kernel.tuner, kernel.own, launch)
            with self._lock:
                self.left_bare[kernel.name, kernel.why] += 1
            return launch()

    def _take_over(self, kernel: _Kernel) -> None:
        """Give a tuner its own `run`, for as long as the session records."""
        with self._lock:
            tuner = kernel.tuner
            if self._open and kernel.run is not None and type(tuner).run is self._any_run:
                vars(tuner)["run"] = kernel.run

    def _give_back(self) -> None:
        with self._lock:
            self._open = False
            for kernel in self._kernels.values():
                vars(kernel.tuner).pop("run", None)

    def _begin(self, tuner: Any) -> _Kernel | None:
        """A tuner that is launched for the first time; None for one that is not as it should be."""
        with self._lock:
            self.unknown = self.unknown or lacking(tuner, *_USED_OF_A_TUNER)
            if self.unknown:
                return None
            if id(tuner) not in self._kernels:  # another thread may have been quicker
                name = tuner.fn.__name__
                turns = self._sampling.turns(name, "left out")
                matches = not _is_timed(tuner) and self._options.matches(name)
                self._kernels[id(tuner)] = _Kernel(tuner, turns, matches)
            kernel = self._kernels[id(tuner)]
        bare = MethodType(self._bare_run, tuner)
        if not kernel.matches:
            kernel.run = bare
        elif self._options.every > 1:
            due = partial(self._record_in_turn, kernel)
            kernel.run = kernel.in_turn = run_in_turn(
                kernel.turns, bare, due, MethodType(self._any_run, tuner)
            )
        self._take_over(kernel)
        return kernel

    def _record_in_turn(self, kernel: _Kernel, *args: Any, stream: Any) -> Any:
        if kernel.quick is not None:
            return kernel.quick(*args, stream=stream)
        return self._record(kernel, *args, stream=stream)

    def _prepare(self, kernel: _Kernel, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Give a kernel the launcher that stands for the one its tuner has chosen."""
        tuner = kernel.tuner
        if len(tuner.launchers) == 1 and tuner.launchers[0] is kernel.bare:
            return
        kernel.own, kernel.quick, kernel.why = None, None, ""
        if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
            began = kernel.build[1] is not None
            kernel.why = _CAPTURED_BUILDING if began else "it was not launched before CUDA graph capture"
            return
        if not tuner.launchers:
            tuner.precompile()
        if len(tuner.launchers) > 1:
            tuner.autotune_to_one_config(*args, **kwargs)
        meta, (bare,) = tuner.inductor_meta, tuner.launchers
        if meta.get("store_cubin"):
            kernel.why = FOR_CPP
        elif meta.get("coordinate_descent_tuning") and not getattr(bare.config, "found_by_coordesc", False):
            kernel.why = "it was still being tuned"
            return
        elif not self._built(kernel, bare):
            return
        kernel.bare, kernel.launchers = bare, tuner.launchers

    def _built(self, kernel: _Kernel, bare: Any) -> bool:
        """Give a kernel its launcher, or say why it has none; whether that is settled."""
        build = self._begun(kernel, bare)
        if build is None:
            self._build(kernel, bare.config)
            return True
        assert self._beside is not None
        if not build.done() or not self._beside.may_load():
            kernel.why, kernel.launchers = BUILDING, kernel.tuner.launchers
            return False
        made = build.result()
        if isinstance(made, str):
            kernel.why = made
        else:
            with self._beside.loading():
                self._build(kernel, bare.config, made)
        return True

    def _begun(self, kernel: _Kernel, bare: Any) -> Future[Answer] | None:
        """What builds a kernel beside the program; None where its launch is to wait."""
        if self._beside is None or _warms_up_a_graph():
            return None
        begun, build = kernel.build
        given_up = build is not None and build.done() and (build.cancelled() or build.result() == GIVEN_UP)
        if begun is not bare or given_up:  # the session was paused meanwhile
            kernel.build = bare, self._beside.begin(kernel.tuner, bare.config, self._path.preparation())
        return kernel.build[1]

    def compiled(self, tuner: Any, config: Any) -> Any:
        """What Inductor makes of a configuration, instrumented. Raises what compiling does."""
        self._thread.recording = True
        try:
            if tuner.fn.fn is None:  # compiled in another process
                tuner.fn = tuner._reload_kernel().fn
            with self._bare.recording():
                return tuner._precompile_config(config)
        finally:
            self._thread.recording = False

    def _build(self, kernel: _Kernel, config: Any, made: Mapping[str, Made] | None = None) -> None:
        """made: what has been built already."""
        self._thread.made = made[OWN] if made else None
        try:
            built = self.compiled(kernel.tuner, config)
            program = PROGRAMS.program(built.kernel)
            if program is None or program.mode != self._sampling.mode:
                kernel.why = "Inductor loaded a binary that does not record"
                return
            with self._bare.recording():
                kernel.own = built.make_launcher()
            if made and self._load_others is not None:
                self._load_others(built.kernel, made)
            if not self._options.samples and not self._options.baseline:
                self._shorten(kernel, built)
        except Exception as error:  # noqa: BLE001  whatever it is, the user's launch goes on, bare
            kernel.why = one_line(error)
        finally:
            self._thread.made = None

    def _shorten(self, kernel: _Kernel, built: Any) -> None:
        """Have launches pass the tuner by, where that can be."""
        if lacking(self._module, "autograd_profiler._is_profiler_enabled"):
            return
        launch = quick_launch(kernel.tuner, built, kernel.own, self._path)
        if launch is None:
            return
        if self._options.every > 1:
            kernel.quick = quick_run(
                self._module, kernel.tuner, launch, self._path, partial(self._record, kernel)
            )
            kernel.run = quick_in_turn(
                self._module,
                kernel.tuner,
                kernel.turns,
                partial(self._record_in_turn, kernel),
                kernel.in_turn,
            )
            self._take_over(kernel)
            return
        long = MethodType(self._any_run, kernel.tuner)
        kernel.run = kernel.quick = quick_run(self._module, kernel.tuner, launch, self._path, long)
        self._take_over(kernel)


def _is_timed(tuner: Any) -> bool:
    """Whether Inductor launches a kernel to choose a fusion or a template: it has no name of its own."""
    if tuner.inductor_meta.get("kernel_name") == _NAMELESS:
        return True
    config: Any = sys.modules.get("torch._inductor.config")
    unique = config is not None and getattr(config.triton, "unique_kernel_names", False)
    return unique and tuner.fn.__name__ == "triton_"


def _warms_up_a_graph() -> bool:
    """Whether Inductor launches for the last time before it captures a CUDA graph."""
    trees: Any = sys.modules.get(_TREES)
    if trees is None or not torch.cuda.is_initialized():
        return False
    if lacking(trees, "get_manager"):
        return True  # it may be: then a launch waits
    manager = trees.get_manager(torch.cuda.current_device(), create_if_none_exists=False)
    return manager is not None and bool(getattr(manager, "in_warmup", True))


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
