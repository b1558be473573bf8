"""Causes that lie in the launch: how many CTAs there are, how large and how even."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Final

from profscope.analysis.cause import Finding, Quantity, cited, of_peak, of_samples
from profscope.analysis.diagnosis import thresholds
from profscope.analysis.diagnosis.facts import LANES, LOADS, KernelFacts
from profscope.analysis.diagnosis.gains import Without, attainable, gain, hidden_gain, kept_without
from profscope.analysis.diagnosis.ttgir_ops import differs_by_program, element_bytes, elements
from profscope.analysis.diagnosis.witnesses import needs

__all__ = ["CAUSES", "RESULTS"]

_STREAMS: Final = re.compile(r"^tt\.load$|async_copy|descriptor_load")
RESULTS: Final = ("wait", "short_scoreboard", "branch_resolving", "no_instructions")
"""Stalls that are waits for results of instructions."""
_Z: Final = 1.96  # 95 % of a normal distribution are within so many standard deviations


def idle_sms(facts: KernelFacts) -> Iterator[Finding]:
    """Needs the grid. Without it the same work runs on all SMs. The lower bound: as they share L2 and DRAM,
    each reaches `ATTAINABLE` of what one does now. The upper bound: each SM also runs as many CTAs at a time
    as fit. Expected is between the times that would remain, by the part of the SMs that is idle: the larger
    it is, the finer the work is split; of few idle ones, no more than twice their part."""
    part = facts.grid / max(1, facts.sms)
    if 100 * (1 - part) >= thresholds.NOISE_PCT:
        full = part / max(1, facts.room)
        busiest = max((used / attainable(name) for name, used in facts.used.items()), default=0.0)
        expected = max(part * min(1.0, max(full, busiest) / part) ** (1 - part), 2 * part - 1)
        yield Finding(
            "idle-sms", *facts.place,
            cited(
                "{grid} on {device}: {idle} run nothing",
                grid=Quantity(facts.grid, "CTAs"), device=Quantity(facts.sms, "SMs"),
                idle=Quantity(100 * (1 - part), "% of SMs"),
            ),
            "smaller tiles, another axis of the grid, or split the reduction over CTAs",
            gain(
                facts, Without(1 - expected), Without(1 - part / thresholds.ATTAINABLE), Without(1 - full),
                is_exact=True
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
    if the recorded ones are; in a single wave also if their loops' bounds are and places stay empty. SMs that
    have no CTA at all are another finding; CTAs that do alike work and take unlike times are none. On the
    emulator, whose launches are small, programs that return at once would be most of it: those are no
    finding."""
    cycles = facts.cta_cycles
    waves = max(1, math.ceil(facts.waves))
    around = 1e3 * thresholds.LAUNCH_US / facts.counters.get("time", math.inf)
    idle = max(0.0, facts.idle - around - max(0.0, 1 - facts.grid / facts.sms)) if facts.sms else 0.0
    if not cycles.any() or (facts.grid < facts.sms and not idle and not facts.emulated):
        return
    if facts.emulated and len(facts.text_of("tt.return")) > 1:
        return
    if facts.ttgir_ops and not any(map(differs_by_program, facts.ttgir_ops)):
        return
    is_single = waves == 1 and not facts.emulated
    if cycles.std() < thresholds.UNEVEN * cycles.mean() and not (is_single and facts.uneven_loops):
        return
    error = float(cycles.std() / math.sqrt(len(cycles)))
    lost, least, most = (_uneven(cycles.max(), cycles.mean() + each * error, waves) for each in (0, _Z, -_Z))
    lost, least = (idle, min(idle, least)) if facts.idle else (lost, least)
    place, _ = facts.most_stalled("long_scoreboard", "wait", "barrier")
    loops = sorted(facts.uneven_loops) or sorted(facts.lines_of("scf.for|scf.while") - {0})
    yield Finding(
        "load-imbalance", facts.place[0], loops[0] if loops else place[1],
        cited(
            "CTAs take {shortest} to {longest}, {mean} on average ({recorded} were timed)",
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


@needs("counters", "samples")
def low_occupancy(facts: KernelFacts) -> Iterator[Finding]:
    """Needs counters, PC samples and the grid. Without it more warps hide each other's waits for loads or, if
    few wait for that, for the results of instructions. Only if more could be there: the grid has a quarter of
    the CTAs that fit at once, or shared memory, which holds more stages than loads need, limits them. What
    has an element a thread and waits for results of its own is a chain that no smaller block shortens."""
    few = 0 < facts.waves <= 1 / thresholds.IN_FLIGHT and not facts.is_bound
    deep = facts.stages > thresholds.IN_FLIGHT and 0 < facts.room < facts.room_by_registers
    reasons: tuple[str, ...] = ("long_scoreboard",)
    by = LOADS
    if facts.stalled(*reasons, by=by) < thresholds.MUCH:
        reasons, by = RESULTS, ()
        few &= _most_elements(facts) > LANES * facts.warps
    waits = facts.stalled(*reasons, by=by)
    if (few or deep) and waits > thresholds.MUCH and not facts.spills and facts.grid >= facts.sms:
        place, _ = facts.most_stalled(*reasons, by=by)
        yield Finding(
            "low-occupancy", *place,
            cited(
                "{resident} on an SM, of 64: {waiting} wait for {what}, and few other warps hide it",
                resident=Quantity(facts.resident_warps, "warps"), waiting=of_samples(waits),
                what="loads (`long_scoreboard`)" if by else "results of instructions",
            ),
            "more CTAs: smaller blocks, split the loop" if few
            else "fewer stages (num_stages), so that more CTAs fit on an SM",
            hidden_gain(facts, waits, times=thresholds.IN_FLIGHT if few else 2), "medium",
        )  # fmt: skip


@needs("counts", "samples", "ttgir")
def too_many_warps(facts: KernelFacts) -> Iterator[Finding]:
    """Needs counts, PC samples and the TTGIR. What a CTA loads at once and reduces gives each thread no more
    than a vector of 16 bytes, so that warps exchange more than they add up. Without it fewer warps have more
    each: nobody waits for other warps, and shared memory passes no exchange."""
    is_streamed = any(
        inside and _STREAMS.search(op.name) and (op.name != "tt.load" or elements(op.results[0].type))
        for op, _, inside in facts.located_ops
    )
    is_shared_out = _largest(facts, "tt.reduce") <= thresholds.VECTOR_BYTES
    if facts.warps <= thresholds.SCHEDULERS or is_streamed or not is_shared_out:
        return
    waits = facts.stalled("barrier", "short_scoreboard", "mio_throttle")
    left = thresholds.SCHEDULERS / facts.warps
    exchange = facts.at(facts.lines_of("tt.reduce")) & facts.counts["op"].isin(["LDS", "STS", "BAR", "SHFL"])
    kept = dict.fromkeys(set(facts.used) - {"dram", "l2"}, left)
    without = kept_without(facts, exchange)
    kept |= {name: min(left, without[name]) for name in ("l1", "shared", "lsu")}
    removed, memory = max(1 - left, waits), 0.0
    if "counters" not in facts.known:
        removed, memory = waits, facts.used.get("l2", facts.stalled("long_scoreboard", "lg_throttle"))
    if waits > max(thresholds.MUCH, memory):
        yield Finding(
            "too-many-warps", *facts.place,
            cited(
                "{warps} a CTA, whose threads reduce {each} each; {waiting} wait for other warps or the "
                "exchange with them",
                warps=Quantity(facts.warps, "warps"), each=Quantity(_largest(facts, "tt.reduce"), "bytes"),
                waiting=of_samples(waits),
            ),
            "fewer warps (num_warps), so that each has more elements and reductions need less exchange",
            gain(facts, Without(removed, kept), Without(waits, kept)), "medium",
        )  # fmt: skip


@needs("counts", "samples", "ttgir")
def scanned_by_many(facts: KernelFacts) -> Iterator[Finding]:
    """too-many-warps. Needs counts, PC samples and the TTGIR. A scan gives each thread no more than a vector
    of 16 bytes; to that each adds up the sums of all warps. Without it a warp for each scheduler scans."""
    is_shared_out = _largest(facts, "tt.scan") <= thresholds.VECTOR_BYTES
    rows = facts.at(facts.lines_of("tt.scan") - {0}) & ~facts.counts["op"].isin(["LDG", "STG"])
    meets = (rows & facts.counts["op"].eq("BAR")).any()
    if facts.warps <= thresholds.SCHEDULERS or not is_shared_out or not meets or any(too_many_warps(facts)):
        return
    share, again = facts.blamed_share(rows), 1 - thresholds.SCHEDULERS / facts.warps
    if share >= thresholds.MUCH:
        yield Finding(
            "too-many-warps", *facts.place,
            cited(
                "{warps} a CTA, whose threads scan {each} each; {scanning} are at the scan",
                warps=Quantity(facts.warps, "warps"), each=Quantity(_largest(facts, "tt.scan"), "bytes"),
                scanning=of_samples(share),
            ),
            "fewer warps (num_warps), so that each thread scans more elements",
            gain(facts, Without(share * again, kept_without(facts, rows, again))), "medium",
        )  # fmt: skip


def _largest(facts: KernelFacts, combines: str) -> float:
    """Bytes that a thread has of the largest tensor that such ops combine; infinite if there is none."""
    sizes = [
        elements(kind) * element_bytes(kind)
        for op, _, _ in facts.located_ops
        if op.name == combines
        for kind in op.operand_types
    ]
    return max(sizes) / (LANES * facts.warps) if sizes else math.inf


def _most_elements(facts: KernelFacts) -> float:
    """Of a tensor; infinite if the TTGIR is unknown."""
    sizes = [elements(value.type) for op in facts.ttgir_ops for value in op.results]
    return max(sizes) if sizes else math.inf


CAUSES: Final = (idle_sms, tail, load_imbalance, tiny_ctas, low_occupancy, too_many_warps, scanned_by_many)
