"""Sums that a kernel can afford: tried before it is built, and built without some where registers are short.

    attention_kernel: no longest durations are kept: with them sums cost 1 of 5 CTAs

A build that keeps sums is assembled while Triton still has the kernel's TTGIR in hand. If registers decide
how many of its CTAs an SM holds, or it spills, the bare kernel is assembled beside it, and where the sums
lose by the comparison, `economy.STEPS` are tried one after the other. What was assembled is not assembled
again: Triton's own stages hand it out.

Where the assembler has moved a clock read, the same is done with reads that it cannot move (`pinned`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from triton import knobs

from instrument_passes.analyses.occupancy import CuLimits, SmLimits
from instrument_passes.economy import STEPS, Demand, Step, afford, loses, loses_less
from instrument_passes.passes import Pass
from instrument_passes.passes.lower_records import LowerRecords
from instrument_passes.sass.clock_reads import moved_clock_reads
from instrument_passes.toolchain import resources_of

__all__ = ["Trials", "affordable", "one_body", "pinned"]

Stage = Callable[[Any, dict[str, Any]], Any]
_LAST: Final = "cubin"


class Trials:
    """Of one compilation. stages: Triton's; from LLVM IR on they are replaced by ones that know of trials."""

    def __init__(self, stages: dict[str, Stage]) -> None:
        self._make = {name: stages[name] for name in ("llir", "ptx", _LAST)}
        self._tried: dict[str, dict[str, Any]] = {}  # by text, what each stage left, and the metadata then
        self._chosen: dict[str, Any] = {}
        for name in self._make:
            stages[name] = self._stage(name)

    def __contains__(self, text: str) -> bool:
        return text in self._tried

    @staticmethod
    def possible(backend: Any) -> bool:
        """Whether a backend of Triton's leaves what can be tried, which the emulator's does not, and nobody
        is about to replace what stages leave."""
        return backend.binary_ext == _LAST and not knobs.compilation.override

    def demand(self, text: str, module: Any, metadata: dict[str, Any]) -> Demand:
        """What a module of this text takes, which is used up. metadata: of the kernel so far."""
        told, left, results = dict(metadata), module, {}
        for name, make in self._make.items():
            left = make(left, told)
            results[name] = left, dict(told)
        self._tried[text] = results
        registers, local_bytes = resources_of(left)
        return Demand(int(told["num_warps"]), registers, int(told["shared"]), local_bytes)

    def clocks_stay(self, text: str) -> bool:
        """Whether all clocks of a module that has been tried are read where it says."""
        left = self._tried[text]
        return not moved_clock_reads(str(left["ptx"][0]), left[_LAST][0])

    def choose(self, text: str) -> None:
        """Triton goes on with a module of this text, which may have been tried."""
        self._chosen = self._tried.pop(text, {})
        self._tried.clear()

    def _stage(self, name: str) -> Stage:
        def stage(module: Any, metadata: dict[str, Any]) -> Any:
            if name not in self._chosen:
                return self._make[name](module, metadata)
            left, told = self._chosen.pop(name)
            metadata.update(told)
            return left

        return stage


def affordable(
    pipeline: Sequence[Pass],
    write: Callable[[Sequence[Pass], tuple[str, ...]], str | None],
    tried: Callable[[str | None], Demand],
    limits: SmLimits | CuLimits | None,
    *,
    all_record: bool,
) -> str | None:
    """The kernel as these passes have it, with fewer sums where all of them cost too much.

    write: the kernel as passes have it, with notes; None: as it is. tried: what a kernel takes; of None, the
    bare one; it is asked about some more than once. all_record: launches begin with records of all their
    CTAs. Then a second body, which they run only later, if at all, is not worth a CTA.
    """
    lowering = next(step for step in pipeline if isinstance(step, LowerRecords))
    first = Step(lowering.keep, lowering.fold)
    everything = write(pipeline, ())
    if everything is None or first not in STEPS:
        return everything
    demand = tried(everything)
    if not _in_doubt(demand, limits):
        return everything
    bare = tried(None)
    lost = loses(bare, demand, limits)
    if not lost:
        return everything
    if lowering.twin and all_record:
        with_one = one_body(pipeline)
        if loses_less(bare, tried(write(with_one, ())), demand, limits):
            return affordable(with_one, write, tried, limits, all_record=all_record)

    def text_of(step: Step, notes: tuple[str, ...] = ()) -> str:
        fewer = replace(lowering, keep=step.keep, fold=step.fold)
        text = write([fewer if each is lowering else each for each in pipeline], notes)
        assert text is not None
        return text

    step, left = afford(first, bare, lambda step: tried(text_of(step)), limits)
    return text_of(step, (_note(first, step, lost, left),))


def pinned(pipeline: Sequence[Pass]) -> list[Pass]:
    """The same passes, with all clock reads pinned."""
    return [replace(each, pinned=True) if isinstance(each, LowerRecords) else each for each in pipeline]


def one_body(pipeline: Sequence[Pass]) -> list[Pass]:
    """The same passes, without a second body for CTAs that do not record."""
    return [replace(each, twin=False) if isinstance(each, LowerRecords) else each for each in pipeline]


def _in_doubt(demand: Demand, limits: SmLimits | CuLimits | None) -> bool:
    """Whether it spills, or registers are what lets no more of its CTAs run."""
    if demand.local_bytes or limits is None:
        return bool(demand.local_bytes)
    fit = [limits.fit(demand.warps, registers, demand.shared_bytes) for registers in (demand.registers, 1)]
    return fit[0] < fit[1]


def _note(first: Step, step: Step, lost: str, left: str) -> str:
    if step == first:
        return f"sums take registers, which costs {lost}; keeping fewer would cost as much"
    fewer = "no longest durations are kept" if step.keep != first.keep else "fewer sums are kept"
    return f"{fewer}: with all of them sums cost {lost}" + (f", as it is {left}" if left else "")
