"""Launches tried against the launch that is explained: each checked, compared and timed, within a limit."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Final

from profscope.errors import CompileError, OptionError
from profscope.recording.diagnostics import one_line
from profscope.tuning.arguments import DIFFERENT, Arguments
from profscope.tuning.failures import why_not_built
from profscope.tuning.launches import Launcher
from profscope.tuning.timing import Pairs, PairTimer

__all__ = ["AS_LAUNCHED", "Base", "Trial", "Trials"]

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
