"""Runs experiments on a launch, within a time limit: groups, then lines of groups that cost something."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from profscope.compat.edited import build, loaded, options_of
from profscope.compat.triton_parts import CompiledKernel, knobs
from profscope.experiments.builds import Build, Builds, Built
from profscope.experiments.plan import Experiment, Plan
from profscope.experiments.timing import Pairs, PairTimer
from profscope.instrument_passes.ablation.rewrite import CONTIGUOUS, OFF, RESIDENT
from profscope.instrument_passes.errors import IRError
from profscope.recording.builds import resident_ctas
from profscope.recording.diagnostics import reason
from profscope.schema import EXPERIMENT_DTYPES, measured_frame

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["OUT_OF_TIME", "Launch", "Result", "experiments_table", "run"]

Launch = Callable[[CompiledKernel | None], Any]
"""Launches an edited kernel in place of the bare one, with the same arguments; None: the bare one."""

_WORTH_PCT: Final = 5.0
_SLOWEST_RATIO: Final = 10
_FEWEST_REGISTERS, _MOST_REGISTERS = 16, 255  # of a thread
OUT_OF_TIME: Final = "out of time"
_ABOVE_GROUP_PCT: Final = 5.0
_OF_SPILLS: Final = 0.25
_FEW_SPILLS: Final = 8  # bytes, and accesses
_FEW: Final = 0.1  # of the instructions of a kind, which compilers order and share otherwise
_OF_ADDRESSES_AT_MOST: Final = 0.1  # of the instructions
_ENOUGH_S: Final = 0.2  # for the pairs of one experiment
_SAME_INSTRUCTIONS: Final = (
    "global load", "global store", "shared load", "shared store", "local load", "local store", "atomic",
    "async copy", "tma", "mma", "special function", "warp exchange",
)  # fmt: skip
_OF_ADDRESSES: Final = (
    "global load", "global store", "async copy", "special function", "warp exchange", "shared load",
    "shared store",
)  # fmt: skip
"""What other addresses may change: wider accesses, and a division that is no longer needed."""


@dataclass(frozen=True)
class Result:
    """pairs: bare and edited times, None if it was not timed. changed: what else differs from the bare
    kernel, "" if nothing does. why_not: why it was not made, else ""."""

    experiment: Experiment
    pairs: Pairs | None = None
    changed: str = ""
    why_not: str = ""

    @property
    def saved_pct(self) -> float:
        """The saving in percent of the bare time; 0 if not timed."""
        return 0.0 if self.pairs is None else 100 * (1 - self.pairs.ratio.ratio)


def run(
    bare: CompiledKernel,
    launch: Launch,
    memory: dict[int, range],
    timer: PairTimer,
    builds: Builds,
    limit_s: float,
) -> list[Result]:
    """memory: see `Plan`. limit_s: for all of them. Raises what the bare launch raises."""
    end = time.monotonic() + limit_s
    if knobs.compilation.always_compile:
        return [_none("TRITON_ALWAYS_COMPILE is set: what other processes build is not taken")]
    try:
        plan = Plan(bare.asm["ttgir"], memory, _most_registers(bare))
    except IRError as error:
        return [_none(f"its TTGIR cannot be read: {error}")]
    if plan.refused:
        return [_none(plan.refused)]
    return list(_Runner(plan, builds, bare, launch, timer, end).results())


def _compared(part: Result, whole: Result | None) -> Result:
    """What saves more than the same and more left out, has changed something else."""
    if part.pairs is None or part.changed or whole is None or whole.pairs is None or whole.changed:
        return part
    if part.saved_pct <= whole.saved_pct + _ABOVE_GROUP_PCT:
        return part
    return replace(part, changed=f"saves more than to leave out {whole.experiment.op}")


def _none(why: str) -> Result:
    """Of a kernel that no experiment is made with."""
    return Result(Experiment(OFF, (), "", "all experiments", why_not=why), why_not=why)


def _scattered(plan: Plan, memory: Sequence[Result], known: Sequence[Result]) -> list[Experiment]:
    """The experiments with neighbouring addresses that can be made of the other lines."""
    others = [each.experiment for each in memory if each not in known]
    moved = [other for each in others for other in plan.addresses(each)]
    return [each for each in moved if each.how == CONTIGUOUS and not each.why_not]


class _Runner:
    def __init__(
        self,
        plan: Plan,
        builds: Builds,
        bare: CompiledKernel,
        launch: Launch,
        timer: PairTimer,
        end: float,
    ) -> None:
        self._plan = plan
        self._builds = builds
        self._bare = bare
        self._launch = launch
        self._timer = timer
        self._end = end
        self._options = options_of(bare)
        self._unedited = builds.submit(plan.text, self._options)
        self._submitted: dict[Experiment, Build | str] = {}

    def results(self) -> Iterator[Result]:
        plan = self._plan
        lines = sorted(plan.lines, key=lambda each: -each.depth)
        for experiment in (*plan.groups, *lines):
            self._submit(experiment)
        bare = self._timer.once(self._launch_bare)
        groups = [self._measured(each, bare) for each in plan.groups]
        yield from groups
        timed = {each.experiment.group: each for each in groups if each.pairs is not None}
        cheap = {group for group, each in timed.items() if not self._is_worth(each)}
        done = [self._measured(each, bare) for each in lines if each.why_not or each.group not in cheap]
        done = [_compared(each, timed.get(each.experiment.group)) for each in done]
        yield from done
        memory = [each for each in done if each.experiment.group == "memory" and not each.why_not]
        costly = sorted(filter(self._is_worth, memory), key=lambda each: -each.saved_pct)
        more = [(other, each) for each in costly for other in plan.addresses(each.experiment)]
        for experiment, _ in more:
            self._submit(experiment)
        moved = [_compared(self._measured(experiment, bare), line) for experiment, line in more]
        yield from moved
        scattered = [
            each.experiment
            for each in moved
            if each.experiment.how == CONTIGUOUS and self._is_worth(each) and not each.changed
        ]
        # Of lines that share sectors none costs much alone: left out, it leaves them to the others.
        whole = timed.get("memory")
        shared = [] if whole is None or not self._is_worth(whole) else _scattered(plan, memory, costly)
        if (together := plan.together([*scattered, *shared])) is None:
            return
        self._submit(together)
        result = self._measured(together, bare)
        yield result
        if self._is_worth(result):
            for experiment in shared:
                self._submit(experiment)
            yield from (self._measured(each, bare) for each in shared)

    def _is_worth(self, result: Result) -> bool:
        return result.pairs is not None and 100 * (1 - result.pairs.ratio.low) >= _WORTH_PCT

    def _submit(self, experiment: Experiment) -> None:
        if experiment.why_not or experiment in self._submitted:
            return
        try:
            self._submitted[experiment] = self._builds.submit(self._plan.edited(experiment), self._options)
        except IRError as error:
            self._submitted[experiment] = error.message

    def _measured(self, experiment: Experiment, bare: float) -> Result:
        """One experiment: built, checked, timed."""
        if experiment.why_not:
            return Result(experiment, why_not=experiment.why_not)
        begun = self._submitted[experiment]
        if isinstance(begun, str):
            return Result(experiment, why_not=begun)
        if time.monotonic() > self._end:
            return Result(experiment, why_not=OUT_OF_TIME)
        try:
            left = max(0.0, self._end - time.monotonic())
            built, unedited = begun.result(left), self._unedited.result(left)
        except TimeoutError:
            return Result(experiment, why_not=OUT_OF_TIME)
        if failed := built.failed or unedited.failed:
            return Result(experiment, why_not=failed)
        try:
            kernel = loaded(build(built.path, self._options), self._bare)
            pairs = self._timed(kernel, bare)
        except Exception as error:  # noqa: BLE001  a row says why; the others go on
            return Result(experiment, why_not=reason(error))
        if pairs is None:
            return Result(experiment, why_not=f"a launch took more than {_SLOWEST_RATIO} times the bare time")
        return Result(experiment, pairs, self._changed(experiment, kernel, built, unedited))

    def _launch_bare(self) -> Any:
        return self._launch(None)

    def _timed(self, kernel: CompiledKernel, bare: float) -> Pairs | None:
        edited = partial(self._launch, kernel)
        if self._timer.once(edited) > _SLOWEST_RATIO * bare:
            return None
        return self._timer.pairs(self._launch_bare, edited, _ENOUGH_S)

    def _changed(self, experiment: Experiment, kernel: Any, built: Built, unedited: Built) -> str:
        """What else than its ops an experiment changed."""
        was, now = (resident_ctas(each, _registers(each)) for each in (self._bare, kernel))
        if was != now:
            return f"{now} CTAs on an SM instead of {was}"
        spills = [int(getattr(each, "n_spills", 0) or 0) for each in (self._bare, kernel)]
        if abs(spills[1] - spills[0]) > max(_FEW_SPILLS, _OF_SPILLS * spills[0]):
            return f"{spills[1]} bytes spilled instead of {spills[0]}"
        before, after = unedited.instructions or {}, built.instructions or {}
        whole, left = sum(before.values()), sum(after.values())
        if experiment.how == RESIDENT and left < (1 - _OF_ADDRESSES_AT_MOST) * whole:
            return f"{left} instructions instead of {whole}: address arithmetic went, too"
        for kind in sorted({*before, *after}):
            was, now = before.get(kind, 0), after.get(kind, 0)
            if was == now or not kind.startswith(_SAME_INSTRUCTIONS):
                continue
            if experiment.how == OFF and kind.startswith("global store") and now > was:
                continue  # uses of operands that nobody makes
            few = max(_FEW_SPILLS, _OF_SPILLS * was) if kind.startswith("local") else max(1, _FEW * was)
            if abs(now - was) <= few:
                continue
            if experiment.how == OFF or not kind.startswith(_OF_ADDRESSES):
                return f"{now} instead of {was} instructions of {kind}"
        return ""


def _registers(kernel: Any) -> int | None:
    """Of a thread of a loaded kernel; the emulator has none."""
    return getattr(kernel, "n_regs", 0) or None


def _most_registers(kernel: Any) -> int:
    """The most registers of a thread that leave as many CTAs on an SM; 0 if not known."""
    now, registers = resident_ctas(kernel, _registers(kernel)), range(_FEWEST_REGISTERS, _MOST_REGISTERS + 1)
    return max((each for each in registers if resident_ctas(kernel, each) == now), default=0) if now else 0


def experiments_table(results: Sequence[Result], kernel: str, variant: int, unit: str) -> pd.DataFrame:
    """A row for each experiment, in the order in which they were made; the columns of EXPERIMENT_DTYPES.

    unit: of the times, "us" or "kcycles".
    """
    rows = [{"kernel": kernel, "variant": variant, **_row(each, f"time_{unit}")} for each in results]
    return measured_frame(
        "experiments", {name: [row.get(name, math.nan) for row in rows] for name in EXPERIMENT_DTYPES}
    )


def _row(result: Result, time: str) -> dict[str, Any]:
    """time: the column of the time of a launch with the experiment. Without times, columns are missing."""
    experiment, pairs = result.experiment, result.pairs
    row = {name: getattr(experiment, name) for name in ("file", "line", "op")}
    row |= {"experiment": experiment.how, "why_not": result.why_not or result.changed}
    row["valid"] = row["why_not"] == ""
    if pairs is None:
        return row
    ratio = pairs.ratio
    row |= {"saved_pct": 100 * (1 - ratio.ratio), "low_pct": 100 * (1 - ratio.high)}
    row |= {"high_pct": 100 * (1 - ratio.low)}
    return row | {time: sorted(pairs.second)[len(pairs.second) // 2]}
