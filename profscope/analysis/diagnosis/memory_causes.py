"""Causes that lie in how a kernel goes to memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, cast

from profscope.analysis.cause import Finding
from profscope.analysis.diagnosis.facts import KernelFacts, Place
from profscope.analysis.diagnosis.gains import gain_pct
from profscope.analysis.diagnosis.witnesses import needs

__all__ = ["CAUSES"]

_LOADS: Final = ("LDG",)
_STORES: Final = ("STG",)
_VECTOR_BYTES: Final = 16  # the widest access of a thread (PTX ISA, ld.global)
_EXCESS: Final = 1.4  # sectors over ideal; an unaligned row has up to 1.25
_BUSY_SHARED: Final = 0.4  # of its peak, below which conflicts are hidden behind other work
_SHARED_WAITS: Final = 0.1  # of the cost model's cycles, which has no such hiding
_SHARED_QUEUES: Final = ("short_scoreboard", "mio_throttle", "lg_throttle")
_QUEUES: Final = (
    "lg_throttle",
    "mio_throttle",
    "long_scoreboard",
    "drain",
    "tex_throttle",
    "short_scoreboard",
)


@needs("counts", "samples")
def uncoalesced(facts: KernelFacts) -> Iterator[Finding]:
    """uncoalesced-load, uncoalesced-store, unvectorized-access. Needs counts and counters. Without it each
    access touches the sectors that its bytes need, and L1, L2 and DRAM move as much less.

    Lanes apart from each other touch a sector each: the excess, in bytes a thread, is more than a vector's.
    A thread that takes apart a vector of its own touches the same sectors again and again: at most that much.
    """
    every = max(1, int(facts.counts["sectors"].sum()))
    waits, located = facts.stalled(*_QUEUES), facts.counts["line"] > 0
    for kind, ops in (("load", _LOADS), ("store", _STORES)):
        rows = facts.counts[facts.counts["op"].isin(ops) & (facts.counts["sectors"] > 0) & located]
        for place, here in rows.groupby(["file", "line"], observed=True):
            file, line = cast(Place, place)
            sectors, ideal = int(here["sectors"].sum()), max(1, int(here["sectors_ideal"].sum()))
            ratio, excess = sectors / ideal, (sectors - ideal) / every
            if ratio < _EXCESS or excess < 0.1:
                continue
            vector = ratio * int(here["bytes"].min()) <= 1.1 * _VECTOR_BYTES and len(here) >= ratio
            yield Finding(
                "unvectorized-access" if vector else f"uncoalesced-{kind}", str(file), int(line),
                f"{ratio:.1f} times the sectors that its bytes need: {sectors:,} of 32 bytes, {ideal:,} "
                f"would do; the others are {100 * excess:.0f} % of all sectors; {100 * waits:.0f} % of the "
                "samples wait for memory or its queues",
                "vector accesses: an aligned base and a stride or mask that is known to be a multiple of 16"
                if vector else "neighbouring lanes to neighbouring elements: swap axes, pack fields, or go "
                "through shared memory",
                gain_pct(facts, _spared(facts, waits, kind, excess), _of_ideal(facts)), "high",
            )  # fmt: skip


def _spared(facts: KernelFacts, waits: float, kind: str, excess: float) -> float:
    """The part of the time that waits for the excess. Where the hardware's caches and DRAM take part, that is
    what waits for memory; on the emulator a latency stays as it is, and only the queue is shorter."""
    if "counters" in facts.known:
        return max(waits, facts.used["l2"])
    return facts.stalled("lg_throttle", by=(f"global {kind}",)) * min(1.0, excess)


def _of_ideal(facts: KernelFacts) -> dict[str, float]:
    """What part of the use of L1, L2 and DRAM stays if each access touches its ideal sectors. L2 and DRAM
    move no more than these then; what caches have spared them already is no gain."""
    loads = facts.counts[facts.counts["op"].isin(_LOADS)]
    stores = facts.counts[facts.counts["op"].isin(_STORES)]
    ideal_load, ideal_store = (32.0 * float(each["sectors_ideal"].sum()) for each in (loads, stores))
    taken_load, taken_store = (32.0 * float(each["sectors"].sum()) for each in (loads, stores))
    missed = taken_load * (1 - min(100.0, max(0.0, facts.counters.get("l1_hit_rate", 0.0))) / 100)
    read, written = facts.counters.get("dram_read", 0.0), facts.counters.get("dram_write", 0.0)
    return {
        "l1": (ideal_load + ideal_store) / max(1.0, taken_load + taken_store),
        "lsu": (ideal_load + ideal_store) / max(1.0, taken_load + taken_store),
        "l2": min(1.0, (min(missed, ideal_load) + ideal_store) / max(1.0, missed + taken_store)),
        "dram": (min(read, ideal_load) + min(written, ideal_store)) / max(1.0, read + written),
    }


@needs("counts", "samples")
def bank_conflict(facts: KernelFacts) -> Iterator[Finding]:
    """bank-conflict. Needs counts and counters. Without it each access to shared memory takes its ideal
    wavefronts."""
    rows = facts.counts[
        (facts.counts["wavefronts"] > 0) & facts.counts["op"].isin(["LDS", "STS", "LDSM", "STSM"])
    ]
    every = max(1, int(rows["wavefronts"].sum()))
    rows = rows[rows["line"] > 0]
    reduces = facts.lines_of("tt.reduce")
    waits = facts.stalled(*_SHARED_QUEUES, by=("shared load", "shared store", "matrix load"))
    used = facts.used.get("shared", 0.0)
    is_busy = used >= _BUSY_SHARED or (facts.emulated and waits >= _SHARED_WAITS)
    for place, here in rows.groupby(["file", "line"], observed=True):
        file, line = cast(Place, place)
        taken, ideal = int(here["wavefronts"].sum()), max(1, int(here["wavefronts_ideal"].sum()))
        excess = (taken - ideal) / every
        if taken < 2 * ideal or excess < 0.3 or not is_busy or int(line) in reduces:
            continue
        scaled = {"shared": 1 - excess, "l1": 1 - excess, "lsu": 1 - excess}
        yield Finding(
            "bank-conflict", str(file), int(line),
            f"{taken / ideal:.1f} times the wavefronts that its bytes need: {taken:,}, {ideal:,} would do; "
            f"shared memory is at {100 * used:.0f} % of its peak, and {100 * waits:.0f} % of the samples "
            "wait for it",
            "a swizzled or padded layout",
            gain_pct(facts, excess * waits if facts.emulated else used, scaled), "high",
        )  # fmt: skip


@needs("counts", "samples")
def register_spills(facts: KernelFacts) -> Iterator[Finding]:
    """Needs counts. Without it loads and stores of local memory, and waiting for them, are gone."""
    local = facts.counts["op"].isin(["LDL", "STL"])
    share = facts.executed_share(local)
    if not facts.spills or share < 0.03:
        return
    place, _ = facts.most_executed(local)
    waits = facts.stalled("long_scoreboard", "lg_throttle", by=("local load", "local store"))
    yield Finding(
        "register-spills", *place,
        f"{facts.spills} registers spill; {100 * share:.0f} % of the instructions move them, and "
        f"{100 * waits:.0f} % of the samples wait for them",
        "more warps, smaller tiles, or a larger maxnreg",
        gain_pct(facts, max(share, waits, 0.3), dict.fromkeys(("l1", "l2", "lsu", "dram"), 1 - share)),
        "high",
    )  # fmt: skip


@needs("counts", "samples")
def atomics(facts: KernelFacts) -> Iterator[Finding]:
    """Needs PC samples. Without it nobody waits for atomics, nor for the fences around them."""
    waits = facts.stalled("long_scoreboard", "lg_throttle", by=("atomic",)) + facts.stalled("membar")
    if waits > 0.1 and facts.counts["op"].isin(["ATOM", "ATOMG", "RED", "REDG"]).any():
        place, _ = facts.most_stalled("long_scoreboard", "lg_throttle", "membar", by=("atomic", "barrier"))
        yield Finding(
            "atomics", *place,
            f"{100 * waits:.0f} % of the samples wait for atomics and the fences around them",
            "add up in registers or shared memory first, then one atomic a CTA; or spread the addresses",
            gain_pct(facts, waits + facts.stalled("barrier")), "medium",
        )  # fmt: skip


@needs("counters", "counts")
def tile_reread(facts: KernelFacts) -> Iterator[Finding]:
    """Needs counters and counts. Without it, L2 and DRAM are at half their use: tiles are twice as large, or
    neighbours in time share what they read."""
    l2, dram, tensor = (facts.used.get(name, 0.0) for name in ("l2", "dram", "tensor"))
    dot = facts.has(r"dot|wgmma|mma")
    read = facts.counters.get("dram_read", 0.0)
    asked = 32.0 * float(facts.counts.loc[facts.counts["op"].isin(["LDG", "LDGSTS"]), "sectors"].sum())
    bound = max(l2, dram)
    if not dot or bound < 0.6 or tensor > bound or asked < 4 * read:
        return
    loads = facts.counts["op"].isin(["LDG", "LDGSTS"])
    place, _ = facts.most_executed(loads)
    yield Finding(
        "tile-reread", *place,
        f"loads ask for {asked / 1e6:,.0f} MB, {asked / max(1.0, read):.0f} times what comes from DRAM; "
        f"L2 is at {100 * l2:.0f} % and DRAM at {100 * dram:.0f} % of the peak, "
        f"the tensor cores at {100 * tensor:.0f} %",
        "larger tiles, or an order of the grid in which neighbours share rows and columns (grouped order)",
        gain_pct(facts, 0.6, {"l2": 0.5, "dram": 0.5, "l1": 0.6, "shared": 0.6, "lsu": 0.6, "issue": 0.6}),
        "medium",
    )  # fmt: skip


@needs("samples")
def exposed(facts: KernelFacts) -> Iterator[Finding]:
    """exposed-latency, few-stages. Needs PC samples. Without it nobody waits for these loads, while memory
    moves the same bytes."""
    by = ("global load", "async copy", "tma")
    waits = facts.stalled("long_scoreboard", by=by)
    if waits < 0.25:
        return
    place, _ = facts.most_stalled("long_scoreboard", by=by)
    if "counters" not in facts.known and place[1] not in facts.lines_in_loops:
        return  # a load outside of loops may wait for memory that is busy, which only counters tell
    pipelined = facts.has(r"dot|mma", loop=True)
    busy = max(facts.used.get("dram", 0.0), facts.used.get("l2", 0.0))
    memory = f"while memory is at {100 * busy:.0f} % of its peak" if "l2" in facts.used else "in a loop"
    is_copied = facts.has(r"async_copy|async_tma", loop=True)  # ahead, as a pipelined loop does
    few = facts.stages <= 2 or (facts.has(r"^tt\.load$", loop=True) and not is_copied)
    name = "few-stages" if pipelined and few else "exposed-latency"
    yield Finding(
        name, *place,
        f"{100 * waits:.0f} % of the samples wait for loads (`long_scoreboard`), " + memory,
        "more stages (num_stages of 3 or 4)" if name == "few-stages"
        else "load earlier, several at once, or keep more warps on an SM",
        gain_pct(facts, 0.8 * waits), "medium",
    )  # fmt: skip


CAUSES: Final = (uncoalesced, bank_conflict, register_spills, atomics, tile_reread, exposed)
