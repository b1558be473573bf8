"""Causes that lie in the launch: how many CTAs there are, how large and how even."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from profscope.analysis.cause import Finding, Quantity, cited, of_peak, of_samples
from profscope.analysis.diagnosis import thresholds
from profscope.analysis.diagnosis.facts import KernelFacts
from profscope.analysis.diagnosis.gains import Without, gain, hidden_gain
from profscope.analysis.diagnosis.witnesses import needs

__all__ = ["CAUSES"]

_Z: Final = 1.96  # 95 % of a normal distribution are within so many standard deviations


def idle_sms(facts: KernelFacts) -> Iterator[Finding]:
    """Needs the grid. Without it the same work runs on all SMs."""
    if 0 < facts.grid < facts.sms:
        part = facts.grid / facts.sms
        yield Finding(
            "idle-sms", *facts.place,
            cited(
                "{grid} on {device}: {idle} run nothing",
                grid=Quantity(facts.grid, "CTAs"), device=Quantity(facts.sms, "SMs"),
                idle=Quantity(100 * (1 - part), "% of SMs"),
            ),
            "smaller tiles, another axis of the grid, or split the reduction over CTAs",
            gain(
                facts, Without(1 - part), most=Without(1 - part / max(1, facts.room)), is_exact=True
            ),
            "high",
        )  # fmt: skip


def tail(facts: KernelFacts) -> Iterator[Finding]:
    """Needs the grid and what fits on an SM. Without it the last wave is as full as the others: no SM has
    more CTAs than another, and as far as nothing else is busy, no place of an SM is empty."""
    if facts.waves > 1:
        of_sm, of_places = (1 - each / math.ceil(each) for each in (facts.grid / facts.sms, facts.waves))
        idle = 1 - min(1.0, max(facts.used.values(), default=0.0))
        lost = of_sm + max(0.0, of_places - of_sm) * idle
        lost = min(lost, facts.idle) if facts.idle else lost
        yield Finding(
            "tail", *facts.place,
            cited(
                "{grid} fill {waves}, each of {wave}: the last wave leaves {empty} empty",
                grid=Quantity(facts.grid, "CTAs"), waves=Quantity(facts.waves, "waves"),
                wave=Quantity(facts.sms * facts.room, "CTAs"),
                empty=Quantity(100 * of_places, "% of all slots"),
            ),
            "tiles or a grid that fill the last wave, stream-K, or a persistent kernel",
            gain(facts, Without(lost), Without(of_sm), Without(of_places), is_exact=True), "medium",
        )  # fmt: skip


@needs("ctas")
def load_imbalance(facts: KernelFacts) -> Iterator[Finding]:
    """Needs recorded CTAs. Without it each CTA takes the mean time; many waves even it out. CTAs are uneven
    if the recorded ones are; in a single wave also if their loops' bounds are and places stay empty."""
    cycles = facts.cta_cycles
    waves = max(1, math.ceil(facts.waves))
    if not cycles.any() or facts.grid < facts.sms:
        return
    if cycles.std() < thresholds.UNEVEN * cycles.mean() and not (waves == 1 and facts.uneven_loops):
        return
    error = float(cycles.std() / math.sqrt(len(cycles)))
    lost, least, most = (_uneven(cycles.max(), cycles.mean() + each * error, waves) for each in (0, _Z, -_Z))
    lost, least = facts.idle or lost, min(facts.idle or lost, least)
    place, _ = facts.most_stalled("long_scoreboard", "wait", "barrier")
    loops = sorted(facts.uneven_loops) or sorted(facts.lines_of("scf.for|scf.while") - {0})
    yield Finding(
        "load-imbalance", facts.place[0], loops[0] if loops else place[1],
        cited(
            "CTAs take {shortest} to {longest}, {mean} on average ({recorded} were recorded)",
            shortest=Quantity(float(cycles.min()), "cycles"), longest=Quantity(float(cycles.max()), "cycles"),
            mean=Quantity(float(cycles.mean()), "cycles"), recorded=Quantity(len(cycles), "CTAs"),
        ),
        "sort or interleave the work, or fetch the next tile from a counter",
        gain(facts, Without(lost), Without(least), Without(max(lost, most)), is_exact=True), "medium",
    )  # fmt: skip


def _uneven(longest: float, mean: float, waves: int) -> float:
    """What part of the time SMs have nothing to do behind their last CTA, if one takes longest."""
    mean = min(max(mean, 0.0), longest)
    extra = (longest - mean) / waves
    return extra / (mean + extra) if longest else 0.0


@needs("counters")
def tiny_ctas(facts: KernelFacts) -> Iterator[Finding]:
    """Needs counters. Without it fewer CTAs do the same, each more."""
    cycles = (
        facts.counters.get("time", 0.0) * 1e-9 * facts.counters.get("clock", 0.0) * facts.sms / facts.grid
    )
    if 0 < cycles < thresholds.CTA_START_CYCLES and facts.waves > 1:
        yield Finding(
            "tiny-ctas", *facts.place,
            cited(
                "an SM starts a CTA every {interval}, and no resource is above {busiest}: "
                "starting CTAs takes the time",
                interval=Quantity(cycles, "cycles"), busiest=of_peak(max(facts.used.values())),
            ),
            "more elements for each program: a larger block, or a loop over several",
            gain(facts, Without(1.0), is_exact=True), "medium",
        )  # fmt: skip


@needs("samples")
def low_occupancy(facts: KernelFacts) -> Iterator[Finding]:
    """Needs PC samples; warps by the counter, else those that fit. Without it four times the warps hide each
    other's waits."""
    warps = facts.counters.get("occupancy", float(facts.room * facts.warps))
    waits = facts.stalled("long_scoreboard")
    if (
        0 < warps <= thresholds.SCHEDULERS
        and waits > thresholds.MUCH
        and not facts.spills
        and facts.grid >= facts.sms
    ):
        place, _ = facts.most_stalled("long_scoreboard")
        yield Finding(
            "low-occupancy", *place,
            cited(
                "{resident} on an SM, of 64: {waiting} wait for memory (`long_scoreboard`), "
                "and no other warp hides it",
                resident=Quantity(warps, "warps"), waiting=of_samples(waits),
            ),
            "more CTAs (smaller blocks, split the loop) or more warps; fewer registers if they limit it",
            hidden_gain(facts, waits), "medium",
        )  # fmt: skip


@needs("counts", "samples", "ttgir")
def too_many_warps(facts: KernelFacts) -> Iterator[Finding]:
    """Needs counts, PC samples and the TTGIR. A block that is loaded once, not in a loop, is divided among so
    many warps that the reduction is what they do. Without it a warp for each scheduler does all."""
    waits = facts.stalled("barrier", "short_scoreboard", "mio_throttle")
    loads = facts.counts["op"].isin(["LDG", "LDGSTS"])
    warps = facts.grid * facts.warps
    each = float(facts.counts.loc[loads, "executed"].sum()) / warps
    left = thresholds.SCHEDULERS / facts.warps
    kept = dict.fromkeys(set(facts.used) - {"dram", "l2"}, left)
    if (
        facts.warps >= thresholds.MANY_WARPS
        and facts.has("tt.reduce")
        and not facts.has(r"^tt\.load$|async_copy|descriptor_load", loop=True)
        and waits > thresholds.MUCH
    ):
        yield Finding(
            "too-many-warps", *facts.place,
            cited(
                "{warps} a CTA, each of which runs {loads}; {waiting} wait for other warps or the exchange "
                "with them",
                warps=Quantity(facts.warps, "warps"), loads=Quantity(each, "loads"),
                waiting=of_samples(waits),
            ),
            "fewer warps (num_warps), so that each has more elements and reductions need less exchange",
            gain(
                facts, Without(1 - left if "counters" in facts.known else waits, kept), Without(waits, kept)
            ),
            "medium",
        )  # fmt: skip


CAUSES: Final = (idle_sms, tail, load_imbalance, tiny_ctas, low_occupancy, too_many_warps)
