"""The search for better options of one launch: what findings suggest first, then the best ones together."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Final

import pandas as pd
import torch

from profscope.analysis.findings import findings
from profscope.analysis.variants import rows_of
from profscope.compat.edited import swapped
from profscope.device.backend import Backend, select
from profscope.dispatch.running import is_recording
from profscope.errors import CompileError, OptionError, SessionError
from profscope.evidence.sample_tables import numbering
from profscope.experiments.arguments import Arguments, extents
from profscope.experiments.builds import Builds
from profscope.experiments.running import experiments_table, run
from profscope.experiments.timing import Launcher, PairTimer
from profscope.installed import require
from profscope.options import Options
from profscope.profiles import Profile
from profscope.recording.builds import build_of
from profscope.sessions import Session, leave_inherited
from profscope.tuning.explanation import Explanation, tries_table, with_measured
from profscope.tuning.launches import Launch, configurations, options_text
from profscope.tuning.remedies import Chosen, steps_for
from profscope.tuning.trials import AS_LAUNCHED, Base, Trial, Trials, why_failed, why_not_built

__all__ = ["explain", "explained"]

_LAUNCHES: Final = 20  # one recorded, the observed ones (docs/hardware.md), and some more recorded


def explained(
    launch: Launch,
    vary: Mapping[str, Sequence[Any]],
    limit_s: float,
    backend: str,
    contents: Arguments | None = None,
    note: str = "",
) -> Explanation:
    """See `profscope.explain`. contents: of the arguments' memory before each launch; None: those it has now.
    note: of the explanation."""
    leave_inherited()
    if is_recording():
        raise SessionError("explain: a session is open; explain the kernel outside of it")
    with contextlib.ExitStack() as stack:
        machine = stack.enter_context(select(backend))
        arguments = _copied(launch)
        stack.callback(arguments.reset)
        if contents is not None:
            arguments = contents
            arguments.reset()
        timer = PairTimer(machine, arguments.restore)
        trials = Trials(timer, arguments, limit_s)
        if launch.tuner is None:
            base, first = _base(launch, trials)
            recorded = _recorded(launch, arguments, machine)
            recorded = _with_experiments(recorded, launch, launch, base.compiled, timer, limit_s)
            tried = [first, *_search(launch, base, list(recorded.findings["finding"]), vary, trials)]
            subject = first
        else:
            base, best, tried = _configurations(launch, trials)
            subject, chosen = best
            recorded = _recorded(chosen, arguments, machine)
            recorded = _with_experiments(recorded, launch, chosen, chosen(), timer, limit_s)
    return Explanation(
        kernel=recorded.kernel,
        variant=recorded.variant,
        profile=recorded.profile,
        findings=with_measured(recorded.findings, tried, recorded.profile.experiments),
        tries=tries_table(tried, timer.unit, trials.left_out),
        launched=subject.options,
        note=note,
    )


def _copied(launch: Launch) -> Arguments:
    try:
        return Arguments(launch.values)
    except torch.OutOfMemoryError as error:
        text = f"explain: no room for a copy of the arguments of {launch.name}, which it restores"
        raise OptionError(text) from error


@dataclass(frozen=True)
class _Recorded:
    """What a session recorded and observed of a launch. kernel, variant: those of the launch, also if it ran
    bare."""

    profile: Profile
    kernel: str
    variant: int

    @cached_property
    def findings(self) -> pd.DataFrame:
        """Of the launch; hooks may have launched other kernels."""
        return rows_of(findings(self.profile.tables), self.kernel, self.variant).reset_index(drop=True)


def _recorded(launch: Launcher, arguments: Arguments, machine: Backend) -> _Recorded:
    compiled: list[Any] = []
    backend, launches = ("gpu", _LAUNCHES) if machine.emulated is None else ("emulator", 1)
    with Session(Options(backend=backend, evidence=True)) as session:
        for _ in range(launches):
            arguments.restore()
            compiled.append(launch())
    profile, kernel, key = session.profile, compiled[0].name, build_of(compiled[0]).key
    return _Recorded(profile, kernel, numbering(profile.metadata.get("variants") or {})(kernel, key))


def _with_experiments(
    recorded: _Recorded,
    launch: Launch,
    launcher: Launcher,
    compiled: Any,
    timer: PairTimer,
    limit_s: float,
) -> _Recorded:
    """With the experiments in the profile: of a launch and what launches it, which differ if a configuration
    was chosen."""
    with Builds().open() as builds, swapped(compiled, launcher) as in_place:
        results = run(compiled, in_place, extents(compiled, launch.given), timer, builds, limit_s / 2)
    table = experiments_table(results, recorded.kernel, recorded.variant, timer.unit)
    tables = replace(recorded.profile.tables, experiments=table)
    return replace(recorded, profile=Profile.of(tables))


def _base(launch: Launch, trials: Trials) -> tuple[Base, Trial]:
    try:
        return trials.base(AS_LAUNCHED, launch)
    except Exception as error:
        if why := why_not_built(error):
            raise CompileError(f"explain: {launch.name} cannot be built: {why}") from error
        raise


def _search(
    launch: Launch, base: Base, findings: Sequence[str], vary: Mapping[str, Sequence[Any]], trials: Trials
) -> list[Trial]:
    """A trial of each step, and one of the best steps together."""
    metadata = base.compiled.metadata
    registers = int(getattr(base.compiled, "n_regs", 0) or 0)
    chosen = Chosen(metadata.num_warps, metadata.num_stages, getattr(metadata, "maxnreg", None), registers)
    tried: list[Trial] = []
    better: dict[str, tuple[float, Any, tuple[str, ...]]] = {}

    def run(options: dict[str, Any], names: tuple[str, ...]) -> Trial | None:
        changed = launch.changed(options)
        done = trials.run(base, options_text(options), changed, names, partial(launch.has_grid_of, changed))
        if done is not None:
            if "out of bounds" in done.failed and not callable(launch.grid):
                done = replace(
                    done, failed=f"{done.failed}; the grid stays {launch.grid}, as it is no function"
                )
            tried.append(done)
        return done

    for steps in steps_for(findings, chosen, vary):
        last = 0.0
        for value in steps.values:
            if launch.has(steps.option, value):
                continue
            done = run({steps.option: value}, steps.findings)
            saved = None if done is None or not done.is_faster else done.saved_pct
            if saved is not None and saved > max(last, better.get(steps.option, (0.0,))[0]):
                better[steps.option] = saved, value, steps.findings
            if steps.climbs and (saved is None or saved <= last):
                break
            last = saved or 0.0
    if len(better) > 1:
        together = sorted(better.items(), key=lambda each: -each[1][0])
        names = dict.fromkeys(name for _, (_, _, own) in together for name in own)
        run({option: value for option, (_, value, _) in together}, tuple(names))
    return tried


def _configurations(launch: Launch, trials: Trials) -> tuple[Base, tuple[Trial, Launcher], list[Trial]]:
    """A trial of each configuration of the autotuner, against the first that can be launched: that one, the
    fastest, and all."""
    base: Base | None = None
    tried: list[tuple[Trial, Launcher]] = []
    for options, each in configurations(launch):
        if base is not None:
            trial = trials.run(base, options, each)
        else:
            try:
                base, trial = trials.base(options, each)
            except Exception as error:  # noqa: BLE001  a row says why; the next one may be launched
                trial = Trial(options, failed=why_failed(error))
        if trial is not None:
            tried.append((trial, each))
    if base is None:
        first = tried[0][0]
        raise CompileError(
            f"explain: no configuration of {launch.name} can be launched; {first.options}: {first.failed}"
        )
    known = [each for each in tried if each[0].saved_pct is not None]
    as_base = next(each for each in tried if each[0].pairs is not None)
    best = max(known, key=lambda each: each[0].saved_pct or 0.0, default=as_base)
    return base, best, [trial for trial, _ in tried]


def explain(
    kernel: Any,
    *args: Any,
    grid: Any,
    vary: Mapping[str, Sequence[Any]] | None = None,
    limit_s: float = 60.0,
    backend: str = "auto",
    **kwargs: Any,
) -> Explanation:
    """Why a kernel takes its time, and which options make it faster: `print` shows it.

        print(profscope.explain(add_kernel, x, y, n, grid=grid, BLOCK=64, vary={"BLOCK": [128, 256]}))

    kernel, args, grid, kwargs: as at a launch, `kernel[grid](*args, **kwargs)`, with constexprs, num_warps,
    num_stages and maxnreg among the keywords. It is timed bare, recorded and observed
    (`session(evidence=True)`), and its findings choose the options to try: num_warps, num_stages, maxnreg,
    and the constexprs of `vary`, a list of values each; `grid` should then be a function of them. Faster
    options are then combined once. For an autotuned kernel its configurations are tried, and the fastest is
    recorded. limit_s: seconds after which no other try begins. backend: as of a session.

    Times are of bare launches, in interleaved pairs with the launch as it is given. The memory of all tensor
    arguments is restored before each launch and at the end. Memory behind pointers inside tensors is not.

    Returns an `Explanation`: profile, findings, tries. A try that cannot be run is a row of `tries` with the
    reason. On the emulator times are cycles of its cost model.

    Raises OptionError for arguments or names that the kernel does not have, CompileError if the launch
    cannot be built, SessionError inside a session or without the backend.
    """
    require("triton", "profscope.explain()")
    from profscope.tuning.launches import launch_of

    check_limit(limit_s)
    varied = dict(vary or {})
    return explained(launch_of(kernel, grid, args, kwargs, varied), varied, limit_s, backend)


def check_limit(limit_s: object) -> None:
    """Raises OptionError if it is no time."""
    if isinstance(limit_s, bool) or not isinstance(limit_s, int | float) or not limit_s > 0:
        raise OptionError(f"explain: limit_s={limit_s!r} must be a number of seconds above 0")
