"""Launches tried against the launch that is explained: each checked, compared and timed, within a limit."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from profscope.compat.triton_parts import CompilationError, OutOfResources
from profscope.experiments.arguments import DIFFERENT, Arguments
from profscope.experiments.timing import Launcher, Pairs, PairTimer
from profscope.recording.diagnostics import one_line, reason
from profscope.tuning.remedies import OF_THE_GRID

__all__ = ["AS_LAUNCHED", "Base", "Trial", "Trials", "why_failed", "why_not_built"]

AS_LAUNCHED: Final = "as launched"
"""The options of the launch itself, of a kernel that is not autotuned."""

_MOST_CHARACTERS: Final = 300


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
        """The saving in percent of the base's time; None if that is unknown or the results differ."""
        if self.pairs is None or self.same_results == DIFFERENT:
            return None
        return 100 * (1 - self.pairs.ratio.ratio)

    @property
    def is_faster(self) -> bool:
        """Whether it is faster for sure, with the same results: by the 95 % interval of its pairs."""
        return self.saved_pct is not None and self.pairs is not None and self.pairs.ratio.high < 1


@dataclass(frozen=True)
class Base:
    """The base that trials are compared with: compiled, the kernel that it launches."""

    launch: Launcher
    compiled: Any


class Trials:
    """Runs trials of one kernel. Everything is launched with the same arguments, restored before each launch.
    limit_s: begins now; trials that would begin after it are not run, and are listed in `left_out`."""

    def __init__(self, timer: PairTimer, arguments: Arguments, limit_s: float) -> None:
        self._timer = timer
        self._arguments = arguments
        self._end = time.monotonic() + limit_s
        self.left_out: list[str] = []

    def base(self, options: str, launch: Launcher) -> tuple[Base, Trial]:
        """The launch itself as base, and as a trial: what it differs from itself is noise.

        Raises what a launch raises; the arguments are restored then.
        """
        try:
            compiled = launch()
            self._arguments.keep_result()
            self._arguments.restore()
            launch()
            same = self._arguments.compare()
            return Base(launch, compiled), Trial(options, (), self._timer.pairs(launch, launch), same)
        except Exception:
            self._arguments.reset()
            raise

    def run(
        self,
        base: Base,
        options: str,
        launch: Launcher,
        findings: tuple[str, ...] = (),
        same_grid: Callable[[], bool] = lambda: False,
    ) -> Trial | None:
        """None if the time is over. same_grid: whether the same code would take the same time; it may raise,
        as a grid function does that refuses these options."""
        if time.monotonic() > self._end:
            self.left_out.append(options)
            return None
        self._arguments.restore()
        try:
            is_same_grid = same_grid()
            if is_same_grid:
                findings = tuple(name for name in findings if name not in OF_THE_GRID)
            compiled = launch()
            if is_same_grid and _code(compiled) == _code(base.compiled):
                return Trial(options, findings, failed="the compiler makes the same code")
            same = self._arguments.compare()
            return Trial(options, findings, self._timer.pairs(base.launch, launch), same)
        except Exception as error:  # noqa: BLE001  a row says why; the other trials go on
            self._arguments.compare()  # it may have written what the base does not
            return Trial(options, findings, failed=why_failed(error))
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


def why_failed(error: Exception) -> str:
    """Why a launch failed, as a row says it."""
    return why_not_built(error) or reason(error).removeprefix("explain: ")[:_MOST_CHARACTERS]


def why_not_built(error: Exception) -> str:
    """The error of the compiler, the assembler or the loader for a configuration that it cannot build; "" for
    an error of another kind, like that of a launch."""
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
