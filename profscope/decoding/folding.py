"""Launches that kept sums, folded: what is kept of them does not grow with their number, but for a row each.

folded = Folded()
folded.add(launches)      # their buffers are not needed any more
folded.programs()
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from instrument_passes.manifest import Manifest
from profscope.decoding.alike import Alike
from profscope.decoding.build import Build
from profscope.decoding.clocks import NO_CLOCKS, Clocks
from profscope.decoding.cta_shapes import KEPT, CtaShape
from profscope.decoding.launch_rows import ROW, LaunchRows
from profscope.decoding.numbers import NumberFigures
from profscope.decoding.raw import Mark
from profscope.decoding.spread import Spread, no_spread, together, united
from profscope.decoding.stack_sums import BY, Layout, StackSums, sum_up
from profscope.decoding.stacks import Stack, stacks
from profscope.decoding.timebase import MAX_RELATIVE_ERROR, slope_errors
from profscope.decoding.unwritten import those_that_wrote
from profscope.errors import RecordError
from profscope.threads import in_order

__all__ = ["NEWEST", "Figures", "Folded", "FoldedProgram", "are_whole"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

NEWEST: Final = 16
"""Launches of a program whose spreads are kept one by one."""


@dataclass(frozen=True)
class Figures:
    """Of each site, arrays of shape (sites,): how often it ran, and for how long.

    cycles: in all; ns: of launches whose own clock is known; untimed_cycles: of the others. Scaled figures
    are such as stand for the whole grid, float64; the others are int64 but for ns.
    """

    count: npt.NDArray[Any]
    cycles: npt.NDArray[Any]
    ns: Floats
    untimed_cycles: npt.NDArray[Any]

    def copy(self) -> Figures:
        return Figures(self.count.copy(), self.cycles.copy(), self.ns.copy(), self.untimed_cycles.copy())

    @staticmethod
    def none(sites: int, dtype: type) -> Figures:
        return Figures(
            np.zeros(sites, dtype), np.zeros(sites, dtype), np.zeros(sites), np.zeros(sites, dtype)
        )

    def add(self, count: npt.NDArray[Any], cycles: npt.NDArray[Any], slope: Floats) -> None:
        """Add launches. count, cycles: shape (sites, L); slope: ns per cycle, NaN where it is not known."""
        known = np.isfinite(slope)
        np.add(self.count, count.sum(axis=1), out=self.count)
        np.add(self.cycles, cycles.sum(axis=1), out=self.cycles)
        np.add(self.ns, cycles @ np.where(known, slope, 0.0), out=self.ns)
        np.add(self.untimed_cycles, (cycles * ~known).sum(axis=1), out=self.untimed_cycles)

    def all_ns(self, slope: float) -> Ints:
        """ns in all; slope: ns per cycle of the launches that do not know their own, NaN if nobody does."""
        return np.rint(self.ns + np.nan_to_num(slope * self.untimed_cycles)).astype(np.int64)


_FIGURES: Final = (
    "warps", "seen", "grid", "whole", "longest", "untimed_longest", "longest_ns", "left_out",
)  # fmt: skip


@dataclass
class FoldedProgram:
    """Launches of one program on one device, an autotuner's trials apart; all that is left of them.

    rows: one for each launch. warps: that ran each section. seen, grid: of the recorded
    CTAs, and scaled up to their grids; whole: `grid.count` of those launches all of whose CTAs ended, where
    the recorded ones speak for the grid. longest: of each site, -1 where it was not kept; longest_ns: of
    launches that know their clock; untimed_longest: of the others. left_out: of each site of asynchronous
    work, warps that do not tell for how long it was in flight. spread: of each place among what BY names,
    over all launches; newest: of some launches, by their index. shapes: of some launches, in their order.
    stacks: how many were added. numbers: of each payload, of the recorded CTAs.
    """

    layout: Layout
    build: Build | None
    trial: bool
    device: int
    index: int  # of the first launch
    rows: LaunchRows = field(default_factory=LaunchRows)

    def __post_init__(self) -> None:
        sites = len(self.layout.sites)
        self.warps: Ints = np.zeros(len(self.manifest.sections), np.int64)
        self.seen, self.grid = Figures.none(sites, np.int64), Figures.none(sites, np.float64)
        self.whole: Floats = np.zeros(sites)
        self.longest: Ints = np.full(sites, -1)
        self.untimed_longest: Ints = np.full(sites, -1)
        self.longest_ns: Floats = np.full(sites, -1.0)
        self.left_out: Ints = np.zeros(sites, np.int64)
        self.spread = no_spread((len(self.layout.places), len(BY)))
        self.newest: list[tuple[int, Spread]] = []
        self.shapes: list[CtaShape] = []
        self.stacks = 0
        self.numbers = NumberFigures.none(len(self.layout.payloads))

    def copy(self) -> FoldedProgram:
        """As it is now."""
        other = FoldedProgram(self.layout, self.build, self.trial, self.device, self.index)
        other.launches = self.rows.whole()
        for name in (*_FIGURES, "newest", "shapes"):
            setattr(other, name, getattr(self, name).copy())
        other.spread, other.numbers = self.spread, self.numbers
        return other

    @property
    def manifest(self) -> Manifest:
        return self.layout.manifest

    @cached_property
    def launches(self) -> npt.NDArray[np.void]:
        """A row each, in order, of dtype ROW; of a copy, to which nothing is added."""
        return self.rows.whole()

    @property
    def wants_shapes(self) -> bool:
        """Of the next stack: once there are enough, of some alone, as each takes 0.1 ms."""
        return len(self.shapes) < KEPT or self.stacks % KEPT == 0

    def add(self, stack: Stack, sums: StackSums) -> None:
        clocks = sums.clocks
        own = slope_errors(clocks.steps, clocks.spread) < MAX_RELATIVE_ERROR * clocks.slope
        slope = np.where(own, clocks.slope, np.nan)
        rows = _rows(stack, slope)
        self.rows.add(rows)
        self.index = min(self.index, int(rows["launch"].min()))
        self.warps += sums.warps.sum(axis=1)
        self.left_out += sums.left_out
        self.numbers = self.numbers.together(sums.numbers)
        scale = _scales(self.manifest, rows)
        self.seen.add(sums.count, sums.cycles, slope)
        self.grid.add(sums.count * scale, sums.cycles * scale, slope)
        self.whole += sums.count @ (scale * are_whole(self.manifest, rows))
        for of_launches, kept in ((own, self.longest_ns), (~own, self.untimed_longest)):
            some = sums.longest[:, of_launches]
            if some.shape[1]:
                ns = some * slope[of_launches] if kept is self.longest_ns else some
                np.maximum(kept, ns.max(axis=1), out=kept)
        np.maximum(self.longest, sums.longest.max(axis=1), out=self.longest)
        self.spread = together(self.spread, united(sums.spreads))
        indices = stack.launches.indices
        newest = np.argsort(indices, kind="stable")[-NEWEST:].tolist()
        self.newest += [
            (int(indices[at]), Spread(*(part[..., at].copy() for part in sums.spreads))) for at in newest
        ]
        self.newest.sort(key=itemgetter(0))
        del self.newest[:-NEWEST]
        self.shapes = sorted([*self.shapes, *sums.shapes])[-KEPT:]
        self.stacks += 1


class Folded:
    """All launches of a session that kept sums. Thread-safe.

    notes: what was lost. lost: kernel -> ordinary launches that had been folded, and are gone.
    """

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.lost: Counter[str] = Counter()
        self._programs: dict[tuple[Any, ...], FoldedProgram] = {}
        self._layouts: dict[int, Layout] = {}
        self._clocks: dict[int, Clocks] = {}
        self._lock = threading.Lock()

    def add(self, launches: Sequence[Alike], pool: Executor) -> None:
        """Fold launches, but for those that wrote nothing; their order does not matter. pool: whose threads
        share the work."""
        launches, notes = those_that_wrote(launches)
        damaged: list[tuple[int, RecordError]] = []
        for group in launches:
            self._layouts.setdefault(id(group.manifest), Layout(group.manifest))
        for stack, sums in in_order(pool, self._summed_up, stacks(launches, damaged)):
            with self._lock:
                self._add(stack, sums)
        notes += [f"launch {index}: {error}" for index, error in sorted(damaged, key=lambda each: each[0])]
        self.notes += notes

    def close(self) -> None:
        """Nothing is added any more."""

    def programs(self) -> list[FoldedProgram]:
        """As they are now, in order of their first launch."""
        with self._lock:
            programs = [program.copy() for program in self._programs.values()]
        return sorted(programs, key=lambda program: program.index)

    def clocks(self, device: int) -> Clocks:
        """What the launches on a device say of its clocks."""
        return self._clocks.get(device, NO_CLOCKS)

    def _summed_up(self, stack: Stack) -> tuple[Stack, StackSums]:
        program = self._programs.get(_key(stack))
        wanted = program is None or program.wants_shapes
        return stack, sum_up(stack, self._layouts[id(stack.manifest)], shapes=wanted)

    def _add(self, stack: Stack, sums: StackSums) -> None:
        them, key = stack.launches, _key(stack)
        if key not in self._programs:
            layout, first = self._layouts[id(them.manifest)], int(them.indices[0])
            self._programs[key] = FoldedProgram(layout, them.build, them.trial, them.device, first)
        so_far = self._clocks.get(them.device, NO_CLOCKS)
        self._clocks[them.device] = so_far.with_launches(sums.clocks)
        self._programs[key].add(stack, sums)


def _key(stack: Stack) -> tuple[Any, ...]:
    """Of its program."""
    them = stack.launches
    return id(them.manifest), id(them.build), them.trial, them.device


def _rows(stack: Stack, slope: Floats) -> npt.NDArray[np.void]:
    launches, ended, (_, _, start, end) = stack.launches, stack.ended, stack.times
    rows = np.zeros(len(launches), ROW)
    some = ended.any(axis=1)
    first = np.where(ended, start, np.iinfo(np.int64).max).min(axis=1, initial=np.iinfo(np.int64).max)
    rows["start_ns"] = np.where(some, first, 0)
    rows["end_ns"] = np.where(ended, end, 0).max(axis=1, initial=0)
    rows["cluster"] = np.where(ended, stack.rank, 0).max(axis=1, initial=0) + 1
    for name in ("chosen", "ended", "wrapped"):
        rows[name] = getattr(stack, name).sum(axis=1)
    rows["refused"], rows["slope"] = stack.refused, slope
    rows["grid_x"], rows["grid_y"] = stack.header["grid_x"], stack.header["grid_y"]
    rows["grid_ctas"], rows["profile_bytes"] = launches.ctas, launches.size
    rows["launch"], rows["stream"] = launches.indices, launches.streams
    for name in ("graph", "replay", "cold"):
        at = Mark._fields.index(name)
        rows[name] = np.fromiter(map(itemgetter(at), launches.marks), rows[name].dtype, len(rows))
    return rows


def _scales(manifest: Manifest, rows: npt.NDArray[np.void]) -> Floats:
    """By launch: for how many CTAs of its grid each recorded one stands (see `span_rows.grid_scales`)."""
    if not manifest.selection.is_sample:
        return np.ones(len(rows))
    scales: Floats = np.maximum(rows["grid_ctas"] / np.maximum(rows["chosen"], 1), 1.0)
    return scales


def are_whole(manifest: Manifest, rows: npt.NDArray[np.void]) -> npt.NDArray[np.bool_]:
    """By launch, as `TimedLaunch.is_whole`."""
    able = not manifest.selection.warps and manifest.selection.is_sample
    whole: npt.NDArray[np.bool_] = (rows["ended"] - rows["wrapped"] == rows["chosen"]) & able
    return whole
