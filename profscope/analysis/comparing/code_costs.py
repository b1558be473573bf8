"""The cost of a difference in the compiled code: the extra time of its line and of the lines that wait for
it.

PC samples of the bare binaries give the time of each line, and the line it waits for. Without samples, the
rows of the comparison give the time, and the code's dependencies the waiting lines. Experiments that left a
line out on both sides take precedence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pandas as pd

from profscope.analysis.comparing.code_facts import (
    DEPTH,
    INSTRUCTIONS,
    OPS,
    RESOURCES,
    CodeFacts,
    Place,
    place_of,
    total_count,
)
from profscope.analysis.comparing.operands import LAUNCH
from profscope.analysis.comparing.pairs import LaunchGroup
from profscope.analysis.comparing.places import Lines
from profscope.analysis.rules.thresholds import FEWEST_SAMPLES
from profscope.analysis.variants import rows_of
from profscope.schema import Tables

__all__ = ["Change", "Costs", "KernelChanges", "rank"]

# Facts of one line, the most telling first. What the launch chose comes before them, whatever it costs.
_ORDER: Final = (
    "calls", "mma", "transposed operand", "fp8 promotion", "asynchronous",
    "iterations ahead", "buffers", "load width", "store width", "load index bits", "store index bits",
    "atomic index bits", "masked", "spill traffic", "operand 0", "operand 1", "load layout", "store layout",
    "atomic layout", "shared layout", "elements a thread",
    "layout conversions", "shared traffic", "left in flight", OPS, DEPTH, INSTRUCTIONS,
)  # fmt: skip
_WEAK: Final = (OPS, DEPTH, INSTRUCTIONS)
"""Mostly they follow from other facts, so these come first."""
_FEW_INSTRUCTIONS: Final = 0.1
"""Of a line's instructions: fewer more or less explain no change of its time."""

_SAMPLED: Final = ("file", "line", "blamed_file", "blamed_line", "samples")

Times = dict[tuple[Place, Place], float]
"""By line of b, and the line whose results are waited for there, the change of their part of a launch."""


@dataclass(frozen=True)
class Change:
    """A fact that differs. line: in b, or in a if it is gone from b; 0 for the whole kernel. change: its cost
    in a launch; percent: of a's launch; None if unknown. basis: source of the time, "samples", "spans" or
    "experiment"; "" if unknown."""

    file: str
    line: int
    fact: str
    a: str
    b: str
    change: float | None = None
    percent: float | None = None
    basis: str = ""
    gone: bool = False

    @property
    def place(self) -> Place:
        """As `Lines.place` has it: a line that is gone is negative."""
        return place_of(self.file, -self.line if self.gone else self.line)


@dataclass(frozen=True)
class KernelChanges:
    """Changes of one pair of configurations. percent: extra time of a launch of b; explained: the part of it,
    in percent of the same launch, at lines whose code differs or that wait for these; None if unknown.
    is_same: whether no fact differs and the PTX has the same instructions with the same operands."""

    compared: tuple[Any, ...]
    changes: list[Change] = field(default_factory=list)
    percent: float | None = None
    explained: float | None = None
    why_not: str = ""
    is_same: bool = False


class Costs:
    """Costs of one pair of configurations. rows: of the comparison."""

    def __init__(
        self,
        rows: pd.DataFrame,
        sides: Sequence[tuple[Tables, LaunchGroup]],
        facts: Sequence[CodeFacts],
        lines: Lines,
    ) -> None:
        launch = rows[rows["kind"] == LAUNCH]
        kernel = str(rows["kernel"].iloc[0])
        self._took = [float(launch[f"self_{side}"].iloc[0]) if len(launch) else np.nan for side in "ab"]
        self._times = _by_samples(kernel, sides, lines, self._took)
        self._basis = "samples" if self._times else "spans"
        self._waiters: dict[Place, set[Place]] = {}
        if not self._times:
            self._times = _by_rows(rows[~rows["kind"].isin([LAUNCH, "async"])], lines, self._took)
            self._waiters = _waiters(facts, lines)
        saved = [_saved(kernel, *side, lines if number == 0 else None) for number, side in enumerate(sides)]
        self._tested = {
            place: saved[1][place] * self._took[1] - saved[0][place] * self._took[0]
            for place in saved[0].keys() & saved[1].keys()
        }

    def ranked(self, compared: tuple[Any, ...], changes: Sequence[Change]) -> KernelChanges:
        """The changes with what each costs, the costliest first."""
        total = self._took[1] - self._took[0]
        if not (self._took[0] > 0 and np.isfinite(total)):
            return KernelChanges(compared, sorted(changes, key=rank))
        costed = sorted((self._costed(each, total) for each in changes), key=rank)
        explained = self._explained(changes, total) if self._times else None
        percent = 100 / self._took[0]
        return KernelChanges(
            compared, costed, total * percent, None if explained is None else explained * percent
        )

    def _costed(self, change: Change, total: float) -> Change:
        basis = self._basis
        if not change.line:
            cost = None if change.fact in RESOURCES else total
        elif change.place in self._tested:
            cost, basis = self._tested[change.place], "experiment"
        else:
            cost = self._time_of({change.place}) if self._times else None
        if cost is None:
            return change
        return replace(change, change=cost, percent=100 * cost / self._took[0], basis=basis)

    def _time_of(self, places: set[Place]) -> float:
        """The change at these lines, and at those that wait for them."""
        waiting = {each for place in places for each in self._waiters.get(place, ())}
        here = places | waiting
        return sum(time for (at, cause), time in self._times.items() if at in here or cause in places)

    def _explained(self, changes: Sequence[Change], total: float) -> float:
        """Of the change of a launch, what is at lines whose code differs, or that wait for such lines."""
        own = {each.place for each in changes if each.line and self._tells(each)}
        cost = sum(self._tested[place] for place in own & self._tested.keys())
        cost += self._time_of(own - self._tested.keys())
        return min(max(cost / total, 0.0), 1.0) * total if total else 0.0

    def _tells(self, change: Change) -> bool:
        """Whether a fact can be why its line takes another time: some instructions more or less cannot."""
        if change.fact != INSTRUCTIONS:
            return True
        before, after = total_count(change.a), total_count(change.b)
        grows = (after - before) * self._time_of({change.place}) > 0
        return grows and abs(after - before) > _FEW_INSTRUCTIONS * max(before, after)


def rank(change: Change) -> tuple[Any, ...]:
    """The key to sort changes by, the costliest first, then the most telling."""
    if not change.line:
        weight = len(_ORDER) + 1 if change.fact in RESOURCES else -1
    else:
        weight = _ORDER.index(change.fact) if change.fact in _ORDER else len(_ORDER)
    cost = 0.0 if change.percent is None else -abs(round(change.percent, 6))
    cost /= 2 if change.fact in _WEAK else 1
    return weight >= 0, cost, weight, change.file, change.line, change.fact


def _by_samples(
    kernel: str, sides: Sequence[tuple[Tables, LaunchGroup]], lines: Lines, took: Sequence[float]
) -> Times:
    """Empty if a side has too few samples."""
    found: Times = {}
    for number, (tables, group) in enumerate(sides):
        own = rows_of(tables.samples, kernel, group.variant)
        own = own[own["binary"] == "bare"]
        all_of_them = float(own["samples"].sum())
        if all_of_them < FEWEST_SAMPLES:
            return {}
        columns = (own[name].tolist() for name in _SAMPLED)
        for file, line, blamed_file, blamed_line, count in zip(*columns, strict=True):
            at, cause = place_of(file, line), place_of(blamed_file, blamed_line)
            key = (at, cause) if number else (lines.place(*at), lines.place(*cause))
            share = took[number] * count / all_of_them
            found[key] = found.get(key, 0.0) + (share if number else -share)
    return found


def _by_rows(rows: pd.DataFrame, lines: Lines, took: Sequence[float]) -> Times:
    """Self times are of all warps, so of each side a line's share of them counts."""
    sums = [float(rows[f"self_{side}"].sum()) for side in "ab"]
    if not all(sums):
        return {}
    found: Times = {}
    columns = (rows[name].tolist() for name in ("file", "line_a", "line_b", "self_a", "self_b"))
    for file, line_a, line_b, self_a, self_b in zip(*columns, strict=True):
        place = place_of(file, line_b) if line_b else lines.place(*place_of(file, line_a))
        change = took[1] * self_b / sums[1] - took[0] * self_a / sums[0]
        found[place, place] = found.get((place, place), 0.0) + change
    return found


def _waiters(facts: Sequence[CodeFacts], lines: Lines) -> dict[Place, set[Place]]:
    """By line of b the lines that wait for it on either side."""
    found: dict[Place, set[Place]] = {}
    for number, of in enumerate(facts):
        for waiting, made in of.waits_for.items():
            for each in made:
                here, there = (at if number else lines.place(*at) for at in (each, waiting))
                found.setdefault(here, set()).add(there)
    return found


def _saved(kernel: str, tables: Tables, group: LaunchGroup, lines: Lines | None) -> dict[Place, float]:
    """By line the part of the time that leaving its ops out saves. lines: of a, to have them in b."""
    own = rows_of(tables.experiments, kernel, group.variant)
    own = own[(own["experiment"] == "off") & own["valid"] & (own["line"] > 0) & own["saved_pct"].notna()]
    saved: dict[Place, float] = {}
    for file, line, part in zip(own["file"], own["line"], own["saved_pct"], strict=True):
        place = place_of(str(file), int(line))
        place = place if lines is None else lines.place(*place)
        saved[place] = max(saved.get(place, 0.0), float(part) / 100)
    return saved
