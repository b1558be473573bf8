"""bimodal-spans: a span takes either of two lengths, and nothing in between."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from profscope.analysis.cause import NOISE_PCT, Finding, NotMeasured
from profscope.analysis.clock_cost import record_cost
from profscope.analysis.kernel_analysis import KernelAnalysis
from profscope.analysis.span_rows import Ints
from profscope.analysis.two_levels import Levels, error_left_out, levels_of

__all__ = ["causes"]

_KINDS: Final = ("kernel", "loop", "iteration", "op", "scope")
_KNOWN: Final = 0.9  # of the mistakes: from here on something tells the two groups apart
_EACH: Final = 4  # numbers for each value of what is to tell them apart
_STEPS: Final = 5  # the last of so few that odd and even ones say something
_FEW: Final = 8
_SHOWN: Final = 4
_SEVERAL: Final = {"launch": "launches"}


def causes(judged: KernelAnalysis) -> Iterator[Finding | NotMeasured]:
    """The durations of a scope, step, loop or op fall into two clear groups (`levels_of`).

    Lengths that a record's own cost could set apart are none. Warps of a CTA run together, so a span of each
    of them counts as one. Where the groups of a span come from
    those of a span inside of it, the inner one is told. Left out are waits for the copies of first steps,
    since no stage hides them; what is so on some of a few SMs, CTAs or launches, which is chance; and, ops
    apart, what is so by launch, since those may have had other sizes, which nobody records. Gain: what the
    spans of the longer group take beyond the mean of the shorter one, over the time of all warps: as if all
    were short. Confidence: high where something tells the groups apart, medium where it is not known
    what.
    """
    told: list[_Bimodal] = []
    for each in sorted(_bimodal(judged), key=lambda found: -found.depth):
        inside = sum(other.excess for other in told if each.site in other.around)
        if inside < 0.5 * each.excess and not (each.fills_pipeline or each.is_chance or each.is_size):
            told.append(each)
            yield each.finding


def _bimodal(judged: KernelAnalysis) -> Iterator[_Bimodal]:
    spans = judged.spans
    cost = record_cost(judged.tables.metadata)
    least = 0.0 if cost is None else cost.read + cost.row
    own = judged.of_kind(*_KINDS)
    # numpy's stable sort is a radix sort for keys of 16 bits.
    order = np.argsort(spans.site.astype(np.min_scalar_type(len(judged.sites))), kind="stable")
    bounds = np.cumsum(np.bincount(spans.site + 1, minlength=len(judged.sites) + 1))
    for site in range(len(judged.sites)):
        rows = order[bounds[site] : bounds[site + 1]]
        if not len(rows) or not own[rows[0]]:
            continue
        ctas, warps = (1 + np.count_nonzero(np.diff(of[rows])) for of in (spans.cta, spans.warp))
        independent = len(rows) * ctas / warps
        levels = levels_of(spans.duration[rows], independent)
        if levels is None or levels.high - levels.low <= least:
            continue
        bimodal = _Bimodal(judged, site, rows, levels, independent)
        if judged.share_pct(bimodal.excess) >= NOISE_PCT:
            yield bimodal


class _Key(NamedTuple):
    """What tells two groups apart: its name, a sentence on which of it are in the longer one, and how many
    there are of it."""

    name: str
    said: str
    values: int


@dataclass(frozen=True)
class _Bimodal:
    """A site whose spans, `rows` in their order, have two levels."""

    judged: KernelAnalysis
    site: int
    rows: Ints
    levels: Levels
    independent: float

    @cached_property
    def excess(self) -> float:
        """Cycles of the longer group beyond the mean of the shorter one."""
        took = self.judged.spans.duration[self.rows[self.levels.is_high]]
        return float((took - self.levels.low).sum())

    @cached_property
    def around(self) -> set[int]:
        """The sites around it."""
        spans, at, sites = self.judged.spans, self.rows, set()
        while len(at := np.unique(spans.parent[at][spans.parent[at] >= 0])):
            sites |= set(np.unique(spans.site[at]).tolist())
        return sites

    @property
    def depth(self) -> int:
        return len(self.around)

    @cached_property
    def told_apart_by(self) -> _Key:
        """What tells the groups apart; without a name where nothing does."""
        spans, ctas, high = self.judged.spans, self.judged.ctas, self.levels.is_high
        step = spans.iteration[self.rows]
        cta = spans.cta[self.rows]
        keys: dict[str, NDArray[Any]] = {
            "launch": ctas["launch"].to_numpy()[cta],
            "warp": self.judged.tables.df["warp"].to_numpy()[spans.row[self.rows]],
            "SM": ctas["sm"].to_numpy()[cta],
            "CTA": ctas["cta"].to_numpy()[cta],
        }
        if step.min() >= 0:
            keys = {"first": step == 0, **keys, "step": step}
            if step.max() >= _STEPS:
                keys = {"parity": step % 2, **keys}
        for name, key in keys.items():
            values = np.unique(key)
            if len(values) * _EACH <= self.independent and error_left_out(high, key) >= _KNOWN:
                longer = [value for value in values.tolist() if high[key == value].mean() > 0.5]
                return _Key(name, _which(name, longer, len(values)), len(values))
        return _Key("", "", 0)

    @cached_property
    def ran(self) -> str:
        """What only one of the groups has inside."""
        spans, sites = self.judged.spans, self.judged.sites
        position = np.full(len(spans), -1)
        position[self.rows] = np.arange(len(self.rows))
        inside = np.flatnonzero(spans.parent >= 0)
        inside = inside[position[spans.parent[inside]] >= 0]
        for site in np.unique(spans.site[inside]).tolist():
            has = np.zeros(len(self.rows), np.bool_)
            has[position[spans.parent[inside[spans.site[inside] == site]]]] = True
            if error_left_out(self.levels.is_high, has) >= _KNOWN:
                which = "longer" if has[self.levels.is_high].mean() > 0.5 else "shorter"
                return (
                    f"only the {which} ones run {sites['scope'].iloc[site]} (line {self.judged.at(site)[1]})"
                )
        return ""

    @cached_property
    def waited_for(self) -> tuple[int, ...]:
        """Lines of loads and waits inside of it, or right before it, unless the groups do not do the same."""
        spans, sites = self.judged.spans, self.judged.sites
        if self.ran:
            return ()
        inside = np.zeros(len(spans), np.bool_)
        inside[self.rows] = True
        for _ in range(64):  # levels of nesting
            more = inside | ((spans.parent >= 0) & inside[spans.parent])
            if (more == inside).all():
                break
            inside = more
        inside[self.rows[self.rows > 0] - 1] = True
        waits = np.unique(spans.site[inside & self.judged.of_class("load", "wait")])
        return tuple(sites["line"].iloc[waits].tolist())

    @property
    def fills_pipeline(self) -> bool:
        return self.told_apart_by.name == "first" and self.judged.sites["cls"].iloc[self.site] == "wait"

    @property
    def is_chance(self) -> bool:
        """Whether all that speaks for two groups is that few SMs, CTAs or launches are not alike."""
        key = self.told_apart_by
        return key.name in ("launch", "SM", "CTA") and key.values < _FEW

    @property
    def is_size(self) -> bool:
        """Whether launches differ in it as they would if some had more to do than others: it may be a loop of
        their own number of steps, or hold one. An op does not."""
        launch = self.judged.ctas["launch"].to_numpy()[self.judged.spans.cta[self.rows]]
        is_op = self.judged.sites["kind"].iloc[self.site] == "op"
        return not is_op and error_left_out(self.levels.is_high, launch) >= _KNOWN

    @property
    def finding(self) -> Finding:
        file, line = self.judged.at(self.site)
        levels, by = self.levels, self.told_apart_by.said
        high = 100 * float(levels.is_high.mean())
        known = "; ".join(text for text in (by, self.ran) if text)
        return Finding(
            "bimodal-spans",
            file,
            line,
            f"{self.judged.sites['scope'].iloc[self.site]}: {100 - high:.0f} % of {len(self.rows):,} take "
            f"{levels.low:,.0f} cycles, {high:.0f} % {levels.high:,.0f}, and hardly any in between; "
            + (known or "neither launch, SM, CTA, warp nor step tells which"),
            "find out what the longer ones do or wait for: a branch, data that is not in the cache, operands "
            "that some of them share; then make it rarer, or do it once",
            self.judged.share_pct(self.excess),
            "high" if known else "medium",
            also=self.waited_for,
        )


def _which(name: str, longer: list[Any], values: int) -> str:
    """Which launches, SMs, CTAs, warps or steps have the longer spans."""
    if name == "first":
        return "the longer ones are first steps" if longer[0] else "the shorter ones are first steps"
    if name == "parity":
        return f"the longer ones are {'odd' if longer[0] else 'even'} steps, counted from 0"
    listed = ", ".join(map(str, longer[:_SHOWN])) + (", ..." if len(longer) > _SHOWN else "")
    return (
        f"the longer ones are those of {len(longer)} of {values} {_SEVERAL.get(name, f'{name}s')}: {listed}"
    )
