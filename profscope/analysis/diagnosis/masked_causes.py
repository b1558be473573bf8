"""Causes that lie in work whose results are thrown away: masked tiles, lanes and stores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, cast

import pandas as pd

from profscope.analysis.cause import Finding, Gain, Quantity, cited, of_samples
from profscope.analysis.diagnosis import thresholds
from profscope.analysis.diagnosis.dataflow import copies_of_loops
from profscope.analysis.diagnosis.facts import LANES, KernelFacts, Place
from profscope.analysis.diagnosis.gains import Without, gain
from profscope.analysis.diagnosis.launch_causes import RESULTS
from profscope.analysis.diagnosis.masks import (
    discarded_loops,
    discarded_products,
    ends_of_loops,
    masked_loop,
    stores_whole_programs,
)
from profscope.analysis.diagnosis.tensor_causes import MMA
from profscope.analysis.diagnosis.ttgir_ops import (
    FROM_GLOBAL,
    PRODUCTS,
    element_bytes,
    elements,
    line_of,
    loop_around,
)
from profscope.analysis.diagnosis.witnesses import needs
from profscope.instrument_passes.ir.model import Op

__all__ = ["CAUSES"]

_OF_LANES: Final = ("issue", "alu", "fma", "xu", "lsu", "l1", "shared", "tensor")
_MEET: Final = rf"{PRODUCTS.pattern}|tt\.(reduce|scan|gather|atomic_)"  # a lane's result is not its own
_MEMORY_WAITS: Final = ("long_scoreboard", "lg_throttle", "drain")


@needs("ttgir")
def masked_tiles(facts: KernelFacts) -> Iterator[Finding]:
    """masked-work. Without it a loop ends where a mask throws all of its tiles away: half of them, for a
    triangle; for a narrow window, at the most, nearly all. But one program keeps all of its tiles: an SM
    with no other one takes as long as before."""
    found = masked_loop(facts.ttgir_ops)
    if found is None:
        return
    longest = min(1.0, facts.sms / facts.grid) if facts.sms else 0.0
    half = thresholds.TRIANGLE
    expected = half if facts.emulated else min(half, 1 - longest)
    least = 0.0 if facts.emulated or found.by_data else max(0.0, expected - longest)
    said = "all programs take the same steps, and a mask compares positions in each"
    if found.by_data:
        said += " with what was loaded: {half} are expected to be thrown away, which is not measured"
    else:
        said += ": of a triangle {half} are thrown away"
    yield Finding(
        "masked-work", facts.place[0], found.line,
        cited(said, half=Quantity(100 * half, "% of the tiles")),
        "begin and end the loop where the mask does, and mask only the tiles that it crosses",
        _without_part(facts, expected, least, 1.0),
        "low" if found.by_data else "medium",
    )  # fmt: skip


@needs("samples", "ttgir")
def discarded(facts: KernelFacts) -> Iterator[Finding]:
    """masked-work. A loop's results are thrown away by what was loaded before it, or a product by a number
    that was loaded. Without it neither is computed for these. For how many, nobody knows: none at the least,
    all at the most; half are expected, as of a triangle."""
    told = set()
    for computed, line, place, condition in _discarded(facts):
        mine = facts.samples["blamed_line"].isin(computed)
        share = facts.sampled_share(mine)
        if share < thresholds.MUCH:
            continue
        by_line = facts.samples[mine].groupby("blamed_line")["samples"].sum()
        line = line or int(cast(int, by_line.idxmax()))
        if line in told:
            continue  # a kernel of which some CTAs are recorded has each loop twice
        told.add(line)
        half, most = thresholds.TRIANGLE * share, share
        yield Finding(
            "masked-work", facts.place[0], line,
            cited(
                "{computing} are in {where}, and {condition} throws its results away, though it is known "
                "before; how often is not measured",
                computing=of_samples(share), where=place, condition=condition,
            ),
            "leave it out if a whole program or step is not asked for; list what is, and launch programs or "
            "take steps for that",
            _without_part(facts, half, 0.0, most),
            "low",
        )  # fmt: skip


def _without_all(facts: KernelFacts, part: float) -> Without:
    """Without a part of the work, of whatever kind."""
    return Without(part, dict.fromkeys(facts.used, 1 - part))


def _without_part(facts: KernelFacts, expected: float, least: float, most: float) -> Gain:
    """Without that part of the work, of whatever kind. What it takes from a resource is not said where it
    is not known that there is any."""
    found = gain(facts, *(_without_all(facts, part) for part in (expected, least, most)))
    return found if least else found._replace(roof="", left=1.0)


def _discarded(facts: KernelFacts) -> Iterator[tuple[set[int], int, str, str]]:
    """The lines that compute what is thrown away, the line that is named (0: where most samples are), and in
    words, what computes and what decides."""
    for loop, condition in discarded_loops(facts.ttgir_ops):
        lines = {line_of(op) for op in loop.walk()}
        yield lines, 0, "a loop", f"the condition at line {line_of(condition)}"
    seen: set[Op | None] = set()
    for choice in discarded_products(facts.ttgir_ops):
        around = loop_around(choice)
        if around in seen:
            continue  # by another choice
        seen.add(around)
        inside = facts.ttgir_ops if around is None else list(around.walk())
        where = "a kernel with a dot" if around is None else "a loop with a dot"
        yield {line_of(op) for op in inside}, line_of(choice), where, "a number that was loaded"


@needs("counts", "samples")
def masked_lanes(facts: KernelFacts) -> Iterator[Finding]:
    """masked-work. Without it no lane of loads is masked off, nor computes for nobody; as it moves no bytes,
    waits for memory stay, and those for results if a warp has its scheduler for itself. What lanes do in
    loops is for what is loaded there. The line is that of the product in a loop, if there is one: it
    multiplies masked lanes as well. If those of a copy for a product are masked off, all that the step does
    for them is gone."""
    loads = facts.counts[(facts.counts["op"] == "LDG") & (facts.counts["sectors"] > 0)]
    if facts.emulated:  # whose loops have few steps
        loads = loads[~facts.at(ends_of_loops(facts.ttgir_ops))[loads.index]]
    every = facts.counts[facts.counts["op"].isin(["LDG", "LDGSTS"])]
    wide = _lines_of_all_lanes(facts, *FROM_GLOBAL)
    if wide:  # what has fewer elements, all lanes load alike: it tells nothing of theirs
        loads, every = (each[facts.at(wide)[each.index]] for each in (loads, every))
    masked = _masked_by_parts(facts, loads, every)
    in_loops = facts.at(facts.lines_in_loops)
    if not facts.has(_MEET) and not in_loops[every.index].any():
        masked = min(masked, _not_stored(facts))  # each lane stores what it has loaded
    is_alone = 0 < facts.resident_warps <= thresholds.SCHEDULERS
    stays = (*_MEMORY_WAITS, *RESULTS) if is_alone else _MEMORY_WAITS
    removed = masked * (1 - facts.stalled(*stays))
    place = _product(facts) or _most_masked(facts, loads)
    is_inside = facts.executed_share(in_loops) > 1 / 2
    if is_inside and not in_loops[loads.index].any() and not _product(facts):
        place = facts.most("executed", in_loops)  # where lanes work that loads in front have masked off
    said = "{masked} work for loads that are masked off"
    copies = _masked_copies(facts)
    if len(loads) == 0 or copies[1] > masked:
        place, masked = copies
        removed, said = masked, "{masked} of copies of an operand are masked off"
    if masked > 0:
        scaled = dict.fromkeys(_OF_LANES, 1 - masked)
        yield Finding(
            "masked-work", *place,
            cited(said, masked=Quantity(100 * masked, "% of the lanes")),
            "a block that fits the row: the next smaller power of two and a loop, or several rows a program; "
            "end the loop of a tile without rows",
            gain(facts, Without(removed, scaled)), "medium",
        )  # fmt: skip


@needs("counts", "samples", "ttgir")
def masked_points(facts: KernelFacts) -> Iterator[Finding]:
    """masked-work. Only numbers that all lanes use are loaded, and stores mask lanes off. Without it no
    lane computes what nobody stores; waits for memory stay."""
    if any(op.name in FROM_GLOBAL and elements(op.results[0].type) > 1 for op in facts.ttgir_ops):
        return
    stores = facts.counts["op"].eq("STG") & facts.at(_lines_of_all_lanes(facts, "tt.store"))
    masked = _masked(facts.counts[stores], facts) if stores.any() else 0.0
    if masked < thresholds.MUCH:
        return
    yield Finding(
        "masked-work", *facts.most("executed"),
        cited("{masked} compute what stores mask off", masked=Quantity(100 * masked, "% of the lanes")),
        "a block that fits the row: the next smaller power of two and a loop, or rows in one dimension",
        gain(
            facts,
            Without(masked * (1 - facts.stalled(*_MEMORY_WAITS)), dict.fromkeys(_OF_LANES, 1 - masked)),
        ), "medium",
    )  # fmt: skip


@needs("counts", "samples", "ttgir")
def masked_results(facts: KernelFacts) -> Iterator[Finding]:
    """masked-work. Programs mask off all lanes of what they store, but not of what they load. Without it
    nothing is loaded or computed whose result nobody stores. Masks that leave out some lanes are another
    matter: the others may need all that is loaded. The line is that of the product in a loop, else of the
    loads that touch most."""
    if not stores_whole_programs(facts.ttgir_ops, LANES * facts.warps):
        return
    loads = facts.counts["op"].isin(["LDG", "LDGSTS"]) & facts.at(_lines_of_all_lanes(facts, *FROM_GLOBAL))
    stores = facts.counts["op"].eq("STG") & facts.at(_lines_of_all_lanes(facts, "tt.store"))
    loaded, stored = (_masked(facts.counts[rows], facts) for rows in (loads, stores))
    thrown_away = stored - loaded
    if not stores.any() or not loads.any() or thrown_away < thresholds.MUCH:
        return
    yield Finding(
        "masked-work", *(_product(facts) or facts.most("sectors", loads)),
        cited(
            "{stored} are masked off, {loaded} of those that load: the rest is computed for nobody",
            stored=Quantity(100 * stored, "% of the lanes that store"),
            loaded=Quantity(100 * loaded, "%"),
        ),
        "end a program or a step that has nothing to store before it loads; mask loads as stores are",
        gain(facts, _without_all(facts, thrown_away)), "medium",
    )  # fmt: skip


def _masked_by_parts(facts: KernelFacts, *kinds: pd.DataFrame) -> float:
    """The part of the lanes that are masked off in loads, the least of several kinds: in loops, and outside
    of them, by how many instructions are there. A part that loads nothing has what the other one loads."""
    inside = facts.at(facts.lines_in_loops)
    masked = 0.0
    for part in (inside, ~inside):
        mine = (loads[loads.index.isin(part.index[part])] for loads in kinds)
        least = (
            _masked(some if len(some) else every, facts) for some, every in zip(mine, kinds, strict=True)
        )
        masked += facts.executed_share(part) * min(least)
    return masked


def _not_stored(facts: KernelFacts) -> float:
    """The part of the elements that programs compute and stores mask off; 1 if they store a few at most.
    Warps that store nothing may skip the instruction."""
    lines = _lines_of_all_lanes(facts, "tt.store")
    launches = int(facts.counts["launches"].max()) if len(facts.counts) else 0
    types = [op.operand_types[1] for op in facts.ttgir_ops if op.name == "tt.store" and line_of(op) in lines]
    every = facts.grid * launches * sum(elements(each) * element_bytes(each) for each in types)
    rows = facts.counts[facts.counts["op"].eq("STG") & facts.at(lines)]
    stored = float((rows["threads"] * rows["bytes"]).sum())
    return 1 - min(1.0, stored / every) if every else 1.0


def _most_masked(facts: KernelFacts, loads: pd.DataFrame) -> Place:
    lost = (LANES * loads["executed"] - loads["threads"]).groupby(loads["line"]).sum()
    return (facts.place[0], int(cast(int, lost.idxmax()))) if len(lost) and lost.max() > 0 else facts.place


def _product(facts: KernelFacts) -> Place | None:
    """The line of most instructions that multiply tiles in a loop; None if there are none."""
    products = facts.at(facts.lines_of(PRODUCTS.pattern, loop=True) - {0}) & facts.counts["op"].isin(MMA)
    return facts.most_executed(products)[0] if products.any() else None


def _lines_of_all_lanes(facts: KernelFacts, *names: str) -> set[int]:
    """The lines that load or store an element or more of each lane of a CTA."""
    return {
        line
        for op, line, _ in facts.located_ops
        if op.name in names and elements(op.operand_types[0]) >= LANES * facts.warps
    }


def _masked(loads: pd.DataFrame, facts: KernelFacts) -> float:
    """The part of the lanes that are masked off. Of copies, which run in all lanes, those that touch nothing:
    also in the last steps of a pipelined loop."""
    lanes = LANES * loads["executed"]
    copies = loads["op"] == "LDGSTS"
    if facts.emulated and copies.any():
        rest = float(lanes[~copies].sum())
        whole, touched = _emulated_copies(facts, loads[copies])
        working = touched + float(loads.loc[~copies, "threads"].sum())
        return 1 - working / max(1.0, whole + rest)
    touching = (LANES * loads["sectors_ideal"] / loads["bytes"]).clip(upper=lanes)
    used = loads["threads"].where(~copies, touching)
    return 1 - float(used.sum()) / max(1.0, float(lanes.sum()))


def _emulated_copies(facts: KernelFacts, copies: pd.DataFrame) -> tuple[float, float]:
    """Lanes of copies, and those that touch anything. On the emulator loops have few steps, so that the last
    ones matter, which copy nothing; as many copies in front of the loop take their place. How many bytes a
    lane copies is that of the layout: those that are masked off touch fewer."""
    whole = touched = 0.0
    for line, here in copies.groupby("line"):
        width = min(thresholds.VECTOR_BYTES, facts.run_bytes(int(cast(int, line))))
        in_loop = here["executed"] == here["executed"].max()
        lanes = LANES * float(
            here["executed"].sum() if in_loop.all() else here.loc[in_loop, "executed"].sum()
        )
        whole += lanes
        width = max(width, int(here["bytes"].max()))
        touched += min(lanes, LANES * float(here["sectors_ideal"].sum()) / width)
    return whole, touched


def _masked_copies(facts: KernelFacts) -> tuple[Place, float]:
    """The line of the copies from global to shared memory with most lanes masked off, and their share. They
    run, but touch fewer sectors than those of the loop's operand that touches most: a pipelined loop masks
    both in its last steps."""
    copies = facts.counts[facts.counts["op"] == "LDGSTS"]
    copies = copies.assign(whole=copies["executed"] * copies["bytes"])
    most = facts.place, 0.0
    for lines in copies_of_loops(facts.ttgir_ops):
        sums = copies[copies["line"].isin(lines)].groupby("line")[["whole", "sectors_ideal"]].sum()
        moved = sums["sectors_ideal"] / sums["whole"].clip(lower=1)
        if len(moved) and moved.max() > 0:
            place = facts.place[0], int(cast(int, moved.idxmin()))
            most = max(most, (place, 1 - float(moved.min() / moved.max())), key=lambda each: each[1])
    return most


CAUSES: Final = (masked_tiles, discarded, masked_lanes, masked_points, masked_results)
