"""Causes that lie in how a kernel goes to memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, cast

import pandas as pd

from profscope.analysis.cause import Finding, Quantity, cited, of_instructions, of_peak, of_samples
from profscope.analysis.diagnosis import thresholds
from profscope.analysis.diagnosis.facts import ATOMICS, LANES, LOADS, KernelFacts, Place
from profscope.analysis.diagnosis.gains import (
    LSU_QUEUES,
    QUEUES,
    Without,
    attainable,
    gain,
    held_by_traffic,
    hidden_gain,
    kept_without,
    left_of_traffic,
)
from profscope.analysis.diagnosis.products import GROWS, tile_of, without_small_tiles
from profscope.analysis.diagnosis.repeated_loads import sizes_of
from profscope.analysis.diagnosis.ttgir_ops import (
    PRODUCTS,
    elements,
    is_divided,
    is_gathered,
    is_in_loop,
    is_rounded,
    scattered_over,
)
from profscope.analysis.diagnosis.witnesses import needs
from profscope.analysis.limits import RESOURCES

__all__ = ["CAUSES", "without_torn_vectors"]

_LOADS: Final = ("LDG", "LDGSTS")
_STORES: Final = ("STG",)
_SECTOR_BYTES: Final = 32
_SHARED_QUEUES: Final = ("short_scoreboard", "mio_throttle", "lg_throttle")


@needs("counts", "samples")
def uncoalesced(facts: KernelFacts) -> Iterator[Finding]:
    """uncoalesced-load, uncoalesced-store, unvectorized-access. Needs counts and counters. Without it each
    access touches the sectors that its bytes need, and L1, L2 and DRAM move as much less.

    Lanes apart from each other touch a sector each: the excess, in bytes a thread, is more than a vector's.
    A thread that takes apart a vector of its own touches the same sectors again and again: at most that much.
    L1 may have these sectors from then on, which only counters tell.
    """
    found: list[tuple[float, Finding]] = []
    apart = {
        (kind, place): here
        for kind, ops in (("load", _LOADS), ("store", _STORES))
        for place, here in _by_place(facts, ops)
        if _is_apart(facts, kind, place, here)
    }
    excess_of = facts.counts["sectors"] - facts.counts["sectors_ideal"]
    of_all = float(excess_of[facts.counts["op"].isin([*_LOADS, *_STORES])].clip(lower=0).sum())
    part = sum(float(excess_of[here.index].sum()) for here in apart.values()) / max(1.0, of_all)
    if part < thresholds.MUCH:
        return  # lanes go where their data says
    ideal_left = _of_ideal(facts)
    left, fewest = (_with_part_gone(each, part) for each in (ideal_left, _by_lookups(ideal_left)))
    every = max(1, int(facts.counts["sectors"].sum()))
    for (kind, place), here in apart.items():
        sectors, ideal = int(here["sectors"].sum()), max(1, int(here["sectors_ideal"].sum()))
        ratio, excess = sectors / ideal, (sectors - ideal) / every
        width, run = int(here["bytes"].min()), facts.run_bytes(place[1])
        executed = int(here["executed"].sum())  # each may touch one more, as a run starts within a sector
        vector = (sectors - executed) * width <= thresholds.VECTOR_BYTES * ideal
        vector &= len(here) >= int(ratio)
        vector &= sectors - ideal <= executed or not run or run > width
        waits = _waits_at(facts, place)
        spared = _spared(facts, waits, kind, excess, 1 - 1 / ratio, left)
        finding = Finding(
            "unvectorized-access" if vector else f"uncoalesced-{kind}", *place,
            cited(
                "{ratio} the sectors that its bytes need: {touched} of 32 bytes instead of {needed}; the "
                "excess is {excess}; {waiting} wait for memory or its queues here",
                ratio=Quantity(ratio, "times"), touched=Quantity(sectors, "sectors"),
                needed=Quantity(ideal, "sectors"), excess=Quantity(100 * excess, "% of all sectors"),
                waiting=of_samples(waits),
            ),
            "vector accesses: an aligned base and a stride or mask that is known to be a multiple of 16"
            if vector else "neighbouring lanes to neighbouring elements: swap axes, pack fields, or go "
            "through shared memory",
            gain(facts, Without(spared, left), most=Without(spared, fewest)), "high",
        )  # fmt: skip
        found.append((excess, finding))
    yield from _worst_first(found)


def _by_place(facts: KernelFacts, ops: tuple[str, ...]) -> Iterator[tuple[Place, pd.DataFrame]]:
    """The instructions that touch sectors, by file and line."""
    rows = facts.counts[facts.counts["op"].isin(ops) & (facts.counts["sectors"] > 0)]
    for place, here in rows[rows["line"] > 0].groupby(["file", "line"], observed=True):
        file, line = cast(Place, place)
        yield (str(file), int(line)), here


def _is_apart(facts: KernelFacts, kind: str, place: Place, here: pd.DataFrame) -> bool:
    """Whether accesses at a line touch far more sectors than their bytes need, and others need not."""
    ratio = float(here["sectors"].sum()) / max(1.0, float(here["sectors_ideal"].sum()))
    if ratio < thresholds.EXCESS:
        return False
    accesses = facts.accesses_at(place[1])
    own = [op for op in accesses if (op.name == "tt.store") is (kind == "store")]
    of_many = [op for op in own if elements(op.operand_types[0]) > 1]
    if of_many and all(map(scattered_over, of_many)):
        return False  # lanes go where their data says
    if "counters" not in facts.known and any(map(is_rounded, own)):
        return False  # near each other, so that L1 has what neighbours have loaded
    is_run = any(map(is_divided, accesses)) or not any(map(is_gathered, accesses))
    run = facts.run_bytes(place[1]) / int(here["bytes"].min())
    return "counters" in facts.known or not is_run or ratio >= thresholds.EXCESS * run


def _worst_first(found: list[tuple[float, Finding]]) -> list[Finding]:
    """Findings that promise the same for all lines: the line with most of the excess is named first, and one
    with next to nothing of it is not."""
    least = thresholds.NOISE_PCT / 100 * max((excess for excess, _ in found), default=0.0)
    return [finding for excess, finding in sorted(found, key=lambda each: -each[0]) if excess >= least]


def _by_lookups(left: Mapping[str, float]) -> dict[str, float]:
    """What stays of L2's use if lookups are what it is busy with: of lines, each of four sectors."""
    return dict(left) | {"l2": left["l2"] / thresholds.LINE_SECTORS}


def _with_part_gone(left: Mapping[str, float], part: float) -> dict[str, float]:
    """What stays if only a part of the excess is gone. Which of it L1 has, and which comes from L2, is known
    for all of it alone."""
    return {name: 1 - part * (1 - each) for name, each in left.items()}


def _waits_at(facts: KernelFacts, place: Place) -> float:
    """The part of the samples that wait for memory or its queues because of accesses at this line."""
    file, line = place
    rows = (facts.samples["blamed_line"] == line) & (facts.samples["blamed_file"].astype("str") == file)
    rows &= facts.samples["stall"].isin(QUEUES)
    return facts.sampled_share(rows)


def _spared(
    facts: KernelFacts, waits: float, kind: str, excess: float, avoidable: float, left: Mapping[str, float]
) -> float:
    """The part of the time that waits for the excess. If a resource binds the kernel and moves the excess,
    all that wait for memory wait for it; if it moves none, nobody does. If none binds, no more than the
    excess keeps memory busy, nor than the waits at this line: the rest is latency, which ideal ones have too.
    But full queues are no latency: then all that wait for memory wait for it, too.
    Without counters a latency stays as it is, and only the queue is shorter."""
    if "counters" not in facts.known:
        return facts.stalled("lg_throttle", by=(f"global {kind}",)) * min(1.0, excess)
    held = held_by_traffic(facts, left)
    if held is not None:
        return held
    busy = max(facts.used.get(name, 0.0) * (1 - part) for name, part in left.items())
    return min(busy, waits * avoidable)


def _of_ideal(facts: KernelFacts) -> dict[str, float]:
    """What part of the use of L1, L2 and DRAM stays if each access touches its ideal sectors."""
    loads, stores = (facts.counts[facts.counts["op"].isin(ops)] for ops in (_LOADS, _STORES))
    left = left_of_traffic(facts, float(loads["sectors_ideal"].sum()), float(stores["sectors_ideal"].sum()))
    copies = loads[loads["op"] == "LDGSTS"]  # which write as narrowly to shared memory
    excess = float((copies["wavefronts"] - copies["wavefronts_ideal"]).clip(lower=0).sum())
    return left | {"shared": 1 - excess / max(1.0, float(facts.counts["wavefronts"].sum()))}


def without_torn_vectors(facts: KernelFacts) -> tuple[float, dict[str, float]]:
    """What index arithmetic costs in memory: an address that is divided may be anywhere, so that a thread
    takes apart the vector that it has. The part of the samples that wait for such accesses, and what part of
    the use of L1, L2 and DRAM stays without them."""
    waits, spared = 0.0, {"LDG": 0.0, "STG": 0.0}
    for name in spared:
        rows = facts.counts[(facts.counts["op"] == name) & (facts.counts["line"] > 0)]
        for place, here in rows.groupby(["file", "line"], observed=True):
            file, line = cast(Place, place)
            sectors, ideal = float(here["sectors"].sum()), float(here["sectors_ideal"].sum())
            is_vector = sectors * int(here["bytes"].min()) <= thresholds.VECTOR_BYTES * ideal
            if sectors > ideal and is_vector and any(map(is_divided, facts.accesses_at(int(line)))):
                waits += _waits_at(facts, (str(file), int(line)))
                spared[name] += sectors - ideal
    if not any(spared.values()):
        return 0.0, {}
    loaded, stored = facts.sectors("LDG", "LDGSTS") - spared["LDG"], facts.sectors("STG") - spared["STG"]
    return waits, left_of_traffic(facts, loaded, stored)


@needs("counters", "counts", "samples")
def narrow(facts: KernelFacts) -> Iterator[Finding]:
    """unvectorized-access. Neighbouring lanes access neighbouring elements, but each in many instructions of
    few bytes. Without it a thread accesses 16 bytes at once: nobody waits for the queue of instructions, and
    L2 looks up lines of four sectors rather than sectors (NVIDIA, Nsight Compute: memory tables)."""
    found: list[tuple[Place, pd.DataFrame]] = []
    for ops in (_LOADS, _STORES):
        rows = facts.counts[facts.counts["op"].isin(ops) & (facts.counts["line"] > 0)]
        for place, here in rows.groupby(["file", "line"], observed=True):
            file, line = cast(Place, place)
            size, each = int(here["bytes"].max()), here["sectors"].sum() / max(1, here["executed"].sum())
            if size < 4 and len(here) * size >= thresholds.VECTOR_BYTES and each <= size:
                found.append(((str(file), int(line)), here))
    sectors = sum(int(here["sectors"].sum()) for _, here in found)
    part = sectors / max(1, int(facts.counts["sectors"].sum()))
    left = dict.fromkeys(("l1", "lsu", "l2"), 1 - part * (1 - 1 / thresholds.LINE_SECTORS))
    held = held_by_traffic(facts, left, part) or 0.0
    for place, here in found:
        if here["sectors"].sum() < thresholds.MUCH * sectors:
            continue
        mine = facts.samples["blamed_line"].eq(place[1]) & facts.samples["stall"].isin(LSU_QUEUES)
        waits = facts.sampled_share(mine)
        yield Finding(
            "unvectorized-access", *place,
            cited(
                "{accesses} of {width} a thread; {waiting} wait for the queue that takes them",
                accesses=Quantity(len(here), "instructions"), waiting=of_samples(waits),
                width=Quantity(int(here["bytes"].max()), "bytes"),
            ),
            "16 bytes a thread: a layout or a block in which each thread has neighbouring elements",
            gain(facts, Without(max(waits, held), left), Without(waits, left)), "medium",
        )  # fmt: skip


@needs("counts", "samples")
def bank_conflict(facts: KernelFacts) -> Iterator[Finding]:
    """bank-conflict. Needs counts and counters. Without it each access to shared memory takes its ideal
    wavefronts, as a layout is that of stores and loads; at the least, only those at the line."""
    rows = facts.counts[
        (facts.counts["wavefronts"] > 0) & facts.counts["op"].isin(["LDS", "STS", "LDSM", "STSM"])
    ]
    every = max(1, int(rows["wavefronts"].sum()))
    rows = rows[rows["line"] > 0]
    reduces = facts.lines_of("tt.reduce")
    waits = facts.stalled(*_SHARED_QUEUES, by=("shared load", "shared store", "matrix load"))
    used = facts.used.get("shared", 0.0)
    is_busy = not facts.emulated and used >= thresholds.BOUND
    found: list[tuple[float, Finding]] = []
    all_excess = float((rows["wavefronts"] - rows["wavefronts_ideal"]).clip(lower=0).sum()) / every
    for place, here in rows.groupby(["file", "line"], observed=True):
        file, line = cast(Place, place)
        taken, ideal = int(here["wavefronts"].sum()), max(1, int(here["wavefronts_ideal"].sum()))
        excess = (taken - ideal) / every
        if taken < thresholds.EXCESS * ideal or int(line) in reduces:
            continue
        scaled = dict.fromkeys(("shared", "l1", "lsu"), 1 - all_excess)
        least = dict.fromkeys(scaled, 1 - excess)
        finding = Finding(
            "bank-conflict", str(file), int(line),
            cited(
                "{ratio} the wavefronts that its bytes need: {taken} instead of {needed}; shared memory is "
                "at {used}, and {waiting} wait for it",
                ratio=Quantity(taken / ideal, "times"), taken=Quantity(taken, "wavefronts"),
                needed=Quantity(ideal, "wavefronts"), used=of_peak(used), waiting=of_samples(waits),
            ),
            "a swizzled or padded layout",
            gain(
                facts, Without(used if is_busy else all_excess * waits, scaled),
                Without(used if is_busy else excess * waits, least),
            ),
            "high",
        )  # fmt: skip
        found.append((excess, finding))
    yield from _worst_first(found)


@needs("counts", "samples")
def register_spills(facts: KernelFacts) -> Iterator[Finding]:
    """Needs counts. Without it loads and stores of local memory, and waiting for them, are gone, and if
    their traffic binds the kernel, waiting for other traffic, too; at the most all other waits. The line is
    that of the largest tensor that a loop carries, if there is one."""
    local = facts.counts["op"].isin(["LDL", "STL"])
    share = facts.executed_share(local)
    if not facts.spills or not share:
        return
    place, _ = facts.most_sampled(local)
    held = facts.carried_line
    place = (facts.place[0], held) if held else place
    waits = facts.stalled("long_scoreboard", "lg_throttle", by=("local load", "local store"))
    left = left_of_traffic(facts, facts.sectors("LDG", "LDGSTS"), facts.sectors("STG"))
    global_bytes = 32 * facts.sectors("LDG", "LDGSTS", "STG")
    kept = global_bytes / max(1.0, global_bytes + facts.local_bytes)
    without = left | dict.fromkeys(("l1", "l2", "lsu"), kept)
    own = max(share, facts.blamed_share(local))
    queued = held_by_traffic(facts, without) or 0.0
    yield Finding(
        "register-spills", *place,
        cited(
            "{spilled} spill; {moving} move them, and {waiting} wait for them",
            spilled=Quantity(facts.spills, "registers"), moving=of_instructions(share),
            waiting=of_samples(waits),
        ),
        "more warps, smaller tiles, or a larger maxnreg",
        gain(facts, Without(max(own, queued), without), Without(own, without), Without(1.0, without)),
        "high",
    )  # fmt: skip


@needs("counts", "samples")
def atomics(facts: KernelFacts) -> Iterator[Finding]:
    """Needs PC samples. If each lane adds where its data says, and the tensor has more sectors than a program
    has lanes, few of them add to the same element, and there is no cause. Without it nobody waits at the
    lines of atomics for them, their queue or other warps, nor for the fences around them, and L2 has less to
    do: an atomic reads its sector and writes it. If queues are full, all wait behind them; so do at the most
    all others."""
    queues = ("long_scoreboard", "lg_throttle", "mio_throttle", "drain")
    waits = facts.stalled(*queues, by=("atomic",)) + facts.stalled("membar")
    rows = facts.counts["op"].isin(ATOMICS) & (facts.counts["sectors"] > 0)
    if facts.emulated and facts.counts.loc[rows, "executed"].sum() <= _single_atomics(facts):
        return  # launches of few CTAs only have little else to do
    if waits > 0 and rows.any() and not _are_scattered(facts, rows):
        place, _ = facts.most_executed(rows)
        here = facts.samples["blamed_line"].isin(facts.counts.loc[rows, "line"].unique())
        here &= facts.samples["stall"].isin([*queues, "short_scoreboard", "barrier"])
        here |= facts.samples["stall"] == "membar"
        held = facts.sampled_share(here)
        kept = 1 - 64 * facts.sectors(*ATOMICS) / facts.l2_bytes
        held = max(held, held_by_traffic(facts, {"l2": kept}) or 0.0)
        yield Finding(
            "atomics", *place,
            cited(
                "{waiting} wait for atomics, the fences around them, or for warps that do",
                waiting=of_samples(max(waits, facts.sampled_share(here))),
            ),
            "add up in registers or shared memory first, then one atomic a CTA; or spread the addresses",
            gain(
                facts, Without(held, {"l2": kept}), Without(waits, {"l2": kept}),
                Without(1.0, {"l2": kept / thresholds.LINE_SECTORS}),
            ),
            "medium",
        )  # fmt: skip


def _single_atomics(facts: KernelFacts) -> int:
    """How many instructions warps execute for atomics of a number, or of an element a lane, each once."""
    single = [op for op in facts.ttgir_ops if op.name.startswith("tt.atomic_") and not is_in_loop(op)]
    small = sum(elements(op.operand_types[0]) <= LANES * facts.warps for op in single)
    return facts.grid * facts.warps * max(1, small)


def _are_scattered(facts: KernelFacts, rows: pd.Series) -> bool:
    """Whether lanes add to elements of their own, as far as the size of the tensor tells."""
    lines, sizes = set(facts.counts.loc[rows, "line"].tolist()), sizes_of(facts.analysis)
    ops = [op for op, line, _ in facts.located_ops if line in lines and op.name.startswith("tt.atomic_")]
    of_data = [
        sum(sizes.get(at, 0) for at in scattered_over(op)) > _SECTOR_BYTES * elements(op.operand_types[0])
        or (facts.emulated and bool(scattered_over(op)))  # whose tensors are as small as its launches
        for op in ops
    ]
    apart = facts.sectors(*ATOMICS) > LANES / 2 * facts.counts.loc[rows, "executed"].sum()
    return bool(ops) and all(of_data) and bool(apart)


@needs("counts", "samples")
def tile_reread(facts: KernelFacts) -> Iterator[Finding]:
    """tile-reread; small-mma if on the emulator, whose products have one width, it is the instructions around
    them that bind. Needs counts, the TTGIR and the bytes of DRAM, which counters tell, or the emulator.
    Without it tiles are as large as those of good products."""
    used = {name: facts.used.get(name, 0.0) / attainable(name) for name in RESOURCES}
    names = ("l2", "dram", *(GROWS if facts.emulated else ()))
    loads = facts.counts["op"].isin(["LDG", "LDGSTS"])
    read = facts.counters.get("dram_read", 0.0)
    asked = 32.0 * facts.sectors("LDG", "LDGSTS")
    larger = without_small_tiles(facts)
    traffic = max(used["l2"], used["dram"])
    busiest = max(used[name] for name in names)
    if (
        "dram_read" not in facts.counters
        or not larger.removed
        or max(facts.used.get(name, 0.0) for name in names) < thresholds.BOUND
        or busiest < used["tensor"]
        or asked < thresholds.REREAD * read
    ):
        return
    place, _ = facts.most_executed(loads)
    tile = tile_of(facts)
    yield Finding(
        "tile-reread" if busiest == traffic else "small-mma", *place,
        cited(
            "tiles of {rows} and {columns}: loads ask for {asked}, {ratio} what comes from DRAM; L2 is at "
            "{l2}, DRAM at {dram}, the tensor cores at {tensor}",
            rows=Quantity(tile.rows, "rows"), columns=Quantity(tile.columns, "columns"),
            asked=Quantity(asked / 1e6, "MB"), ratio=Quantity(asked / max(1.0, read), "times"),
            l2=of_peak(facts.used.get("l2", 0.0)), dram=of_peak(facts.used.get("dram", 0.0)),
            tensor=of_peak(facts.used.get("tensor", 0.0)),
        ),
        "larger tiles, or an order of the grid in which neighbours share rows and columns (grouped order)"
        if busiest == traffic else "larger tiles in M and N, 4 or 8 warps",
        gain(facts, larger), "medium",
    )  # fmt: skip


@needs("samples")
def exposed(facts: KernelFacts) -> Iterator[Finding]:
    """exposed-latency, few-stages. Needs PC samples. Without it nobody waits for these loads, while memory
    moves the same bytes. Loads of lanes that a stride keeps apart are left out: each takes several as long as
    it would, as it touches several times the sectors."""
    few = facts.stages <= thresholds.IN_FLIGHT / 2
    by = LOADS if few else LOADS[:1]  # what is copied some steps ahead, is as early as it can be
    is_copied = facts.has(r"async_copy|async_tma", loop=True)
    apart = _lines_of_strides(facts)
    place, _ = facts.most_stalled("long_scoreboard", by=by, besides=apart)
    of_strides = facts.samples["blamed_line"].isin(apart) & facts.samples["stall"].eq("long_scoreboard")
    waits = facts.stalled("long_scoreboard", by=by) - facts.sampled_share(of_strides)
    unrolled = _unrolled_lines(facts)
    if waits < thresholds.MUCH or place[1] not in facts.lines_in_loops | unrolled:
        return  # no load is earlier than one outside of loops
    pipelined = facts.has(r"dot|mma", loop=place[1] not in unrolled)
    busy = facts.filled * max(facts.used.get("dram", 0.0), facts.used.get("l2", 0.0))
    name = "few-stages" if pipelined and (few or not is_copied) else "exposed-latency"
    yield Finding(
        name, *place,
        cited("{waiting} wait for loads (`long_scoreboard`), while memory is at {memory}",
            waiting=of_samples(waits), memory=of_peak(busy))
        if "l2" in facts.used
        else cited("{waiting} wait for loads (`long_scoreboard`) in a loop", waiting=of_samples(waits)),
        "tl.range in the place of tl.static_range: only its loads have stages" if place[1] in unrolled
        else "more stages (num_stages of 3 or 4)" if name == "few-stages"
        else "load earlier, several at once, or keep more warps on an SM",
        hidden_gain(facts, waits, _copied_by_itself(facts) if name == "few-stages" else {}), "medium",
    )  # fmt: skip


def _lines_of_strides(facts: KernelFacts) -> set[int]:
    """The lines of loads whose lanes a stride, not data, keeps apart."""
    rows = facts.counts[facts.counts["op"].eq("LDG") & (facts.counts["line"] > 0)]
    sums = rows.groupby("line")[["sectors", "sectors_ideal"]].sum()
    apart = sums.index[sums["sectors"] >= thresholds.LINE_SECTORS * sums["sectors_ideal"].clip(lower=1)]
    accesses = {line: facts.accesses_at(line) for line in apart}
    return {line for line, ops in accesses.items() if ops and not any(map(is_gathered, ops))}


def _unrolled_lines(facts: KernelFacts) -> set[int]:
    """The lines that load for a product in each step of a loop that is none in the TTGIR, as of
    `tl.static_range`, which has no stages."""
    outside = [(op, line) for op, line, inside in facts.located_ops if not inside]
    if sum(bool(PRODUCTS.search(op.name)) for op, _ in outside) < thresholds.IN_FLIGHT:
        return set()
    loads = Counter(line for op, line in outside if op.name == "tt.load")
    return {line for line, count in loads.items() if count >= thresholds.IN_FLIGHT} - {0}


def _copied_by_itself(facts: KernelFacts) -> dict[str, float]:
    """What stays if the loads of a loop go to shared memory by themselves: no thread stores them there."""
    if facts.counts.empty:
        return {}
    return kept_without(
        facts, facts.counts["op"].eq("STS") & facts.at(facts.lines_of(r"^tt\.load$", loop=True))
    )


CAUSES: Final = (uncoalesced, narrow, bank_conflict, register_spills, atomics, tile_reread, exposed)
