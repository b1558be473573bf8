"""Launches tried against the launch that is explained: each checked, compared and timed, within a limit."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from profscope.analysis.estimates import Ratio, ratio_of
from profscope.compat.kernels import hold
from profscope.compat.triton_parts import CompilationError, OutOfResources, driver
from profscope.device.backend import Backend
from profscope.errors import CompileError, OptionError, SessionError
from profscope.recording.diagnostics import one_line
from profscope.tuning.launches import DIFFERENT, Arguments, Launcher

__all__ = ["AS_LAUNCHED", "Base", "PairTimer", "Pairs", "Trial", "Trials", "why_not_built"]

AS_LAUNCHED: Final = "as launched"
"""The options of the launch itself, of a kernel that is not autotuned."""

_MOST_CHARACTERS: Final = 200
_UNKNOWN_KEYWORD: Final = "unrecognised"  # in what Triton says of a keyword that is no option


@dataclass(frozen=True)
class Trial:
    """options: what it changes, as text. findings: that suggested it. pairs: with the base, None if it
    failed.
    same_results: as `Arguments.compare`; "" if it failed. failed: why, else ""."""

    options: str
    findings: tuple[str, ...] = ()
    pairs: Pairs | None = None
    same_results: str = ""
    failed: str = ""

    @property
    def saved_pct(self) -> float | None:
        """Of the base's time; None if that is not known or the results are others."""
        if self.pairs is None or self.same_results == DIFFERENT:
            return None
        return 100 * (1 - self.pairs.ratio.ratio)

    @property
    def is_faster(self) -> bool:
        """Whether it is faster for sure, with the same results: by the 95 % interval of its pairs."""
        return self.saved_pct is not None and self.pairs is not None and self.pairs.ratio.high < 1


@dataclass(frozen=True)
class Base:
    """What trials are compared with: compiled, the kernel that it launches."""

    launch: Launcher
    compiled: Any


class Trials:
    """Runs trials of the kernel `name`. Everything is launched with the same arguments, restored
    before each launch. limit_s: begins now; trials that would begin after it are not run, and are listed in
    `left_out`."""

    def __init__(self, name: str, timer: PairTimer, arguments: Arguments, limit_s: float) -> None:
        self._name = name
        self._timer = timer
        self._arguments = arguments
        self._end = time.monotonic() + limit_s
        self.left_out: list[str] = []

    def base(self, options: str, launch: Launcher) -> tuple[Base, Trial]:
        """The launch itself as base, and as a trial: what it differs from itself is noise.

        Raises CompileError if it cannot be built, OptionError for a keyword that is no argument and no
        option, and what a launch raises.
        """
        try:
            compiled = launch()
        except KeyError as error:
            if _UNKNOWN_KEYWORD in str(error):
                raise OptionError(f"explain: {' '.join(str(error.args[0]).split())}") from error
            raise
        except Exception as error:
            if why := why_not_built(error):
                raise CompileError(f"explain: {self._name} cannot be built: {why}") from error
            raise
        self._arguments.keep_result()
        self._arguments.restore()
        launch()
        same = self._arguments.compare()
        return Base(launch, compiled), Trial(options, (), self._timer.pairs(launch, launch), same)

    def run(
        self, base: Base, options: str, launch: Launcher, findings: tuple[str, ...] = (), *, same_grid: bool
    ) -> Trial | None:
        """None if the time is over. same_grid: whether the same code would take the same time."""
        if time.monotonic() > self._end:
            self.left_out.append(options)
            return None
        self._arguments.restore()
        try:
            compiled = launch()
            if same_grid and _code(compiled) == _code(base.compiled):
                return Trial(options, findings, failed="the compiler makes the same code")
            same = self._arguments.compare()
            return Trial(options, findings, self._timer.pairs(base.launch, launch), same)
        except Exception as error:  # noqa: BLE001  a row says why; the other trials go on
            why = why_not_built(error)
            if not why:
                self._arguments.compare()  # it may have written what the base does not
                why = one_line(error, _MOST_CHARACTERS)
            return Trial(options, findings, failed=why)
        finally:
            self._arguments.restore()


def _code(compiled: Any) -> tuple[Any, ...]:
    """What decides how long a binary takes: not the names of its source files, which may be those of an
    earlier compilation if it comes from Triton's cache."""
    code, _, _ = compiled.asm.get("ptx", "").partition(".section")  # from there on for debuggers
    lines = (line.strip() for line in code.splitlines())
    return (
        tuple(line for line in lines if not line.startswith((".file", ".loc", "//"))) or compiled.hash,
        compiled.metadata.shared,
        getattr(compiled.metadata, "maxnreg", None),
    )


_COMPILER: Final = "triton.compiler.compiler"


def why_not_built(error: Exception) -> str:
    """What the compiler, the assembler or the loader says of a configuration that it cannot build; "" for an
    error of another kind, like that of a launch."""
    if isinstance(error, CompilationError):
        return _of_source(error)
    if isinstance(error, OutOfResources) or _arose_in_compiler(error):
        return one_line(error, _MOST_CHARACTERS)
    return ""


def _arose_in_compiler(error: Exception) -> bool:
    """Errors of passes and of ptxas have no class in common, in some versions none but RuntimeError."""
    return any(
        frame.f_code.co_name == "compile" and frame.f_globals.get("__name__") == _COMPILER
        for frame, _ in traceback.walk_tb(error.__traceback__)
    )


def _of_source(error: CompilationError) -> str:
    """The statement it is about and what is wrong with it. Triton's own text quotes the kernel up to there,
    and nests that of each function that was called."""
    inner = error
    while isinstance(inner.__cause__, CompilationError):
        inner = inner.__cause__
    lines = (inner.src or "").splitlines()
    number = getattr(inner.node, "lineno", 0)
    statement = f" at `{lines[number - 1].strip()}`" if 0 < number <= len(lines) else ""
    said = inner.error_message or str(inner.__cause__ or "")
    text = " ".join(f"{statement}{': ' if said else ''}{said}".split())
    return f"{type(inner).__name__}: {text}"[:_MOST_CHARACTERS]


Launch = Callable[[], Any]

_FEWEST_PAIRS: Final = 8
_MOST_PAIRS: Final = 40
_ENOUGH_S: Final = 1.0  # for the pairs of one comparison
_FIRST_HOLD_NS: Final = 200_000
_LONGEST_HOLD_NS: Final = 50_000_000


class Pairs(NamedTuple):
    """first, second: the times of two launches, pair by pair, in the timer's unit."""

    first: tuple[float, ...]
    second: tuple[float, ...]

    @property
    def ratio(self) -> Ratio:
        """Second over first."""
        return ratio_of(self.first, self.second)


class PairTimer:
    """Times launches on a backend. prepare: called before each, such as to restore the arguments.

    On a GPU: microseconds between two events around the launch, behind a cleared L2 cache, as
    `triton.testing.do_bench` clears it; the device is kept busy meanwhile, so that it does not wait for the
    host. On the emulator: thousands of cycles of its cost model, without the launch's overhead; the same each
    time, so one pair is enough.
    """

    def __init__(self, backend: Backend, prepare: Callable[[], None]) -> None:
        self._emulated = backend.emulated
        self._prepare = prepare
        self._hold_ns = _FIRST_HOLD_NS
        self._flush = None if self._emulated else driver.active.get_empty_cache_for_benchmark()

    @property
    def unit(self) -> str:
        """ "us" or "kcycles"."""
        return "us" if self._emulated is None else "kcycles"

    def pairs(self, first: Launch, second: Launch) -> Pairs:
        """Both launched in turn, and who goes first in turn, too. Both have been launched before.

        Raises SessionError if a launch waits for the device itself, so that its time cannot be known.
        """
        least, most = (1, 1) if self._emulated else (_FEWEST_PAIRS, _MOST_PAIRS)
        begun = time.monotonic()
        times: list[tuple[float, float]] = []
        while len(times) < least or (len(times) < most and time.monotonic() - begun < _ENOUGH_S):
            if len(times) % 2:
                late = self.once(second)
                times.append((self.once(first), late))
            else:
                times.append((self.once(first), self.once(second)))
        return Pairs(tuple(one for one, _ in times), tuple(other for _, other in times))

    def once(self, launch: Launch) -> float:
        """The time of one launch."""
        self._prepare()
        if self._emulated is not None:
            before = self._emulated.cycles
            launch()
            model = self._emulated.model
            return (self._emulated.cycles - before - model.cycles(model.launch_overhead_ns)) / 1e3
        while (took := self._between_events(launch)) is None:
            self._hold_ns *= 2
            if self._hold_ns > _LONGEST_HOLD_NS:
                raise SessionError("explain: the launch waits for the GPU, so its time is not known")
            self._prepare()
        return took

    def _between_events(self, launch: Launch) -> float | None:
        """Microseconds; None if the GPU came to the first event before the kernel was launched."""
        event = driver.active.get_device_interface().Event
        start, end = event(enable_timing=True), event(enable_timing=True)
        driver.active.clear_cache(self._flush)
        hold(None, self._hold_ns)
        start.record()
        launch()
        waited = start.query()
        end.record()
        end.synchronize()
        return None if waited else float(start.elapsed_time(end)) * 1e3
