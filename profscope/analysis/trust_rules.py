"""Rules on trust in the spans of a kernel: one rule a function, all in the table RULES.

A rule returns why the facts of one variant ask for care or forbid trust; None if they do neither or are
unknown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from profscope.analysis.spans.rows import grid_ctas
from profscope.analysis.texts import count_text
from profscope.decoding.variants import fused_otherwise
from profscope.instrument_passes.contractions import unlike_text

__all__ = ["CARE", "DISTRUST", "NEAR_RECORDS", "RULES", "Facts", "Reason", "Rule"]

CARE: Final = "trust with care"
DISTRUST: Final = "do not trust"

SLOW: Final = 1.10
"""A kernel that takes this much longer, or the bare one, is another one in part."""
TOO_SLOW: Final = 1.50
"""Where one of the two surely takes this much longer, they are two kernels."""
_TIMED: Final = ("measured", "counters")
"""The bases of a slowdown for which bare launches were timed."""
MUCH_SHORT: Final = 0.10
"""Of warp time, in spans about as short as the cost of recording them."""
NEAR_RECORDS: Final = 4
"""What is about as short as the cost of a record: less than so many of them."""
CLOCK_CHANGE: Final = 0.05
"""Between the 1st and the 99th percentile of the clock's rate within the median launch, or between the 5th
and the 95th of launches: that a GPU at its power limit slows down in a few launches changes no figure."""
UNSURE: Final = 0.10
"""The standard error of a top row's share, as a part of the share, where only some CTAs were recorded."""
FAR: Final = 0.30
"""Between the shares of lines by spans and by samples (total variation, 0 to 1), beyond the noise."""


@dataclass(frozen=True)
class Reason:
    """A reason: the rule's name, the label (CARE or DISTRUST), and a sentence with the figures."""

    rule: str
    label: str
    text: str


@dataclass(frozen=True)
class Facts:
    """The input of rules. launches: the variant's; overhead: its row of
    `overhead`; builds: its entry in the metadata; short: part of the warp time in spans near the cost
    of a record, None if unknown; clock_change: within its median launch, relative, None if launches are
    too short to tell; distances: of its spans from samples, with `distance` and `noise`; scaled:
    whether the recorded CTAs speak for the grid; share_error: the largest standard error of its top rows'
    shares, as a part of the share, None if unknown."""

    launches: pd.DataFrame
    overhead: list[dict[Any, Any]]
    builds: list[dict[str, Any]]
    short: float | None
    clock_change: float | None
    distances: list[dict[Any, Any]]
    scaled: bool
    share_error: float | None
    tool: str
    emulated: bool


def slowdown(facts: Facts) -> Reason | None:
    reasons = []
    for row in facts.overhead:
        low, high = row["slowdown_low"], row["slowdown_high"]
        between = f"{low:.3f} to {high:.3f}, " if low < high else ""
        how = f"{row['slowdown']:.3f} times the bare time ({between}{row['basis']})"
        # Where the interval, which has the layout noise in it, reaches the bare time, it may be none.
        known = row["basis"] in _TIMED
        noise = known and low <= 1
        open_ended = row["basis"] == "estimated" and high > TOO_SLOW
        if open_ended:
            how += "; baseline= measures it"
        if (row["slowdown"] > SLOW and not noise) or open_ended:
            label = DISTRUST if known and low > TOO_SLOW else CARE
            reasons.append(Reason("slowdown", label, f"recorded launches take {how}"))
        if known and high < 1 / SLOW:
            label = DISTRUST if high < 1 / TOO_SLOW else CARE
            why = "the recorded binary is faster: the compiler scheduled it differently"
            reasons.append(Reason("slowdown", label, f"recorded launches take {how}; {why}"))
    return _worst(reasons)


def occupancy(facts: Facts) -> Reason | None:
    """Fewer CTAs at once are no reason for care if launches were seen to take as long as bare ones."""
    reasons = []
    for row in facts.overhead:
        own, bare = row["ctas_per_sm"], row["bare_ctas_per_sm"]
        if pd.isna(own) or pd.isna(bare) or own >= bare:
            continue
        is_half, takes_as_long = 2 * own <= bare, _takes_as_long(row)
        if is_half or not takes_as_long:
            why = f"an SM has room for {count_text(int(own), 'CTA')}, and for {bare} of the bare kernel's"
            why += "; launches take as long" if takes_as_long else ""
            reasons.append(Reason("occupancy", DISTRUST if is_half and not takes_as_long else CARE, why))
    return _worst(reasons)


def _takes_as_long(row: dict[Any, Any]) -> bool:
    """Whether recorded and bare launches were timed, and differ by less than `SLOW`."""
    return row["basis"] in _TIMED and 1 / SLOW < row["slowdown"] < SLOW


def _worst(reasons: list[Reason]) -> Reason | None:
    """Of binaries that keep different things; the first of those that are alike."""
    return max(reasons, key=lambda reason: reason.label == DISTRUST, default=None)


def unroll(facts: Facts) -> Reason | None:
    for row in facts.overhead:
        own, bare = row["instructions"], row["bare_instructions"]
        if not pd.isna(own) and not pd.isna(bare) and own < bare:
            why = f"{own} instructions with records, {bare} without: bare loops are unrolled further"
            return Reason("unroll", CARE, why)
    return None


def spills(facts: Facts) -> Reason | None:
    for row in facts.overhead:
        own, bare = row["spills"], row["bare_spills"]
        if not pd.isna(own) and not pd.isna(bare) and own > bare:
            return Reason("spills", CARE, f"{own} spills with records, {bare} without")
    return None


def short_spans(facts: Facts) -> Reason | None:
    if facts.short is None or facts.short <= MUCH_SHORT:
        return None
    why = f"{facts.short:.0%} of the warp time is in spans that last less than {NEAR_RECORDS} records cost"
    return Reason("short spans", CARE, why)


def samples_disagree(facts: Facts) -> Reason | None:
    for row in facts.distances:
        if row["distance"] > row["noise"] + FAR:
            why = f"spans and samples put {row['distance']:.0%} of the time on different lines"
            why += f" ({row['noise']:.0%} would be noise)"
            return Reason("samples", CARE, why)
    return None


def drops(facts: Facts) -> Reason | None:
    dropped, kept = int(facts.launches["dropped"].sum()), int(facts.launches["records"].sum())
    if not dropped:
        return None
    why = f"{dropped} of {kept + dropped} records were overwritten ({dropped / (kept + dropped):.1%})"
    return Reason("drops", CARE, why)


def unfinished(facts: Facts) -> Reason | None:
    missing, ended = int(facts.launches["unfinished"].sum()), int(facts.launches["ctas"].sum())
    if not missing:
        return None
    why = f"{missing} of {missing + ended} CTAs wrote nothing, or did not come to their end"
    return Reason("unfinished", CARE if ended else DISTRUST, why)


def cold(facts: Facts) -> Reason | None:
    launches = facts.launches
    if facts.emulated or not (launches["records"] > 0).any():
        return None
    if launches["cold"].all():
        return Reason("cold", CARE, "all launches began with colder caches than bare ones do")
    if len(launches) == 1:
        return Reason(
            "cold", CARE, "one launch, the first: caches and clocks were cold, and nothing says by how"
        )
    return None


def clock_changed(facts: Facts) -> Reason | None:
    rates = facts.launches["clock_ghz"].dropna()
    if facts.clock_change is not None and facts.clock_change > CLOCK_CHANGE:
        why = f"the SM clock changes by {facts.clock_change:.0%} within a launch"
        return Reason("clock", CARE, f"{why}: compare cycles rather than ns")
    low, high = np.quantile(rates, (0.05, 0.95)) if len(rates) else (0.0, 0.0)
    if high > low * (1 + CLOCK_CHANGE):
        why = f"the SM clock ran at {low:.3f} to {high:.3f} GHz in different launches"
        return Reason("clock", CARE, f"{why}: compare cycles rather than ns")
    return None


def sampled_ctas(facts: Facts) -> Reason | None:
    launches = facts.launches
    grid = grid_ctas(launches)
    chosen = launches["ctas"] + launches["unfinished"]
    if not (chosen < grid).any() or not (chosen > 0).any():
        return None
    recorded = f"{int(chosen.sum())} of {int(grid.sum())} CTAs were recorded"
    if not facts.scaled:
        return Reason("sampled", CARE, f"{recorded}; totals cover these alone")
    if facts.share_error is None:
        return Reason("sampled", CARE, f"{recorded}; how much CTAs differ is unknown")
    if facts.share_error <= UNSURE:
        return None
    why = f"{recorded}; the share of a top row has a standard error of {facts.share_error:.0%} of itself"
    return Reason("sampled", CARE, why)


def rounding(facts: Facts) -> Reason | None:
    places = fused_otherwise(facts.builds)
    return Reason("rounding", CARE, f"{unlike_text(places)}: compare the outputs") if places else None


def unmeasured(facts: Facts) -> Reason | None:
    if all(row["basis"] != "unknown" for row in facts.overhead) or not (facts.launches["records"] > 0).any():
        return None
    why = "no bare time, and no cost of a record: nothing says what recording cost"
    return Reason("unmeasured", CARE, why)


def foreign(facts: Facts) -> Reason | None:
    if facts.tool == "profscope":
        return None
    name = facts.tool or "an unknown tool"
    return Reason("foreign", CARE, f"recorded by {name}, which does not say what that cost")


class Rule(NamedTuple):
    name: str
    check: Callable[[Facts], Reason | None]


RULES: Final[tuple[Rule, ...]] = (
    Rule("slowdown", slowdown),
    Rule("occupancy", occupancy),
    Rule("unroll", unroll),
    Rule("spills", spills),
    Rule("unfinished", unfinished),
    Rule("samples", samples_disagree),
    Rule("short spans", short_spans),
    Rule("drops", drops),
    Rule("cold", cold),
    Rule("clock", clock_changed),
    Rule("sampled", sampled_ctas),
    Rule("rounding", rounding),
    Rule("unmeasured", unmeasured),
    Rule("foreign", foreign),
)
"""The order in which reasons are given."""
