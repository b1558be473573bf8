"""Causes that lie in products of matrices, and in how warps meet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, cast

import pandas as pd

from profscope.analysis.cause import Finding, Quantity, cited, of_instructions, of_peak, of_samples
from profscope.analysis.diagnosis import thresholds
from profscope.analysis.diagnosis.dataflow import (
    conversion_lines,
    early_reductions,
    fetch_lines,
    promoted_products,
    unoverlapped_products,
)
from profscope.analysis.diagnosis.facts import CONVERSIONS, LOADS, KernelFacts, Place
from profscope.analysis.diagnosis.gains import Without, gain, hidden_gain, kept_without
from profscope.analysis.diagnosis.products import (
    lines_of_parts,
    split_products,
    summed_products,
    tile_of,
    without_small_tiles,
)
from profscope.analysis.diagnosis.ttgir_ops import line_of
from profscope.analysis.diagnosis.witnesses import needs
from profscope.analysis.kernels.devices import PIPES

__all__ = ["CAUSES", "MMA"]

MMA: Final = ("HMMA", "IMMA", "QMMA", "HGMMA", "IGMMA", "QGMMA", "DMMA")
_WGMMA: Final = ("HGMMA", "IGMMA", "QGMMA")
_PRODUCT_WAITS: Final = (
    "wait",
    "math_pipe_throttle",
    "short_scoreboard",
    "mio_throttle",
    "gmma",
    "warpgroup_arrive",
)
_REDUCE_ONCE: Final = (
    "keep a tensor of partial sums, and reduce once after the loop; if a step needs its result, fewer warps"
)
_REDUCE_IN_A_WARP: Final = "fewer warps (num_warps), or a layout in which one warp has all that is reduced"
_MEETING: Final = ("barrier", "short_scoreboard", "mio_throttle")


@needs("counts", "ttgir")
def no_tensor_cores(facts: KernelFacts) -> Iterator[Finding]:
    """Needs counts and the TTGIR. Without it tensor cores do the products, at a
    tenth of the time or less, and a CTA loads each operand once."""
    if facts.executed_ops(*MMA) > 0:
        return
    dots = facts.lines_of(r"^tt\.dot") - {0}
    summed = summed_products(facts)
    lines = dots or summed.sums
    rows = facts.at(lines) & facts.counts["op"].isin(["FFMA", "FMUL", "FADD", "SHFL", "HFMA2", "HADD2"])
    if not dots:
        rows |= facts.at(summed.casts) & facts.counts["op"].isin(CONVERSIONS)
    share = facts.executed_share(rows)
    if not lines or share < thresholds.MUCH:
        return
    place, _ = facts.most_executed(rows & facts.at(lines))
    fetches = fetch_lines(facts.ttgir_ops)
    rows |= facts.at(lines | fetches) & facts.counts["op"].isin(["LDS", "STS", "BAR"])
    if not dots:  # which each thread loads for itself
        rows |= facts.at(summed.loads) & facts.counts["op"].eq("LDG")
    removed = facts.blamed_share(rows) if "samples" in facts.known else share
    yield Finding(
        "no-tensor-cores", *place,
        cited("a product of matrices by FMA: {fma}, none of the tensor cores", fma=of_instructions(share)),
        "tl.dot with tf32, bf16 or fp16 inputs" if dots else "tl.dot instead of multiply, broadcast and sum",
        gain(facts, Without(removed, kept_without(facts, rows)), most=Without(1.0)), "high",
    )  # fmt: skip


@needs("counters", "counts", "samples")
def small_mma(facts: KernelFacts) -> Iterator[Finding]:
    """Needs counts and counters, compute capability 9.0. Without it wide wgmma reads its operands from shared
    memory, and tiles are as large as those of good products; at the least they stay as they are."""
    wide = facts.counts["op"].isin(_WGMMA)
    sync = facts.counts["op"].isin(MMA) & ~wide
    tensor = facts.used.get("tensor", 0.0)
    if tensor > thresholds.NEAR_ROOF or not (wide.any() or sync.any()) or facts.has("warp_specialize"):
        return
    shapes = (
        facts.counts.loc[wide, "opcode"].astype("str").str.extract(r"\.64x(\d+)x")[0].dropna().astype(int)
    )
    narrow = len(shapes) > 0 and shapes.max() < thresholds.WGMMA_SIDE
    columns: dict[str, Quantity] = {}
    if sync.any() and not wide.any():
        what = "mma.sync instead of wgmma: tiles of 64 rows and 4 or more warps use wgmma"
    elif narrow:
        what = "wgmma of {columns}"
        columns["columns"] = Quantity(int(shapes.max()), "columns")
    else:
        return
    tile = tile_of(facts)
    is_whole = (
        tile.rows < thresholds.WGMMA_SIDE and not tile.more_rows if not narrow else not tile.more_columns
    )
    if tile.rows and is_whole:
        return  # there is no more to multiply
    side = tile.columns if narrow else tile.rows
    if 0 < side < thresholds.WGMMA_SIDE and facts.grid * side < facts.sms * thresholds.WGMMA_SIDE:
        return  # larger tiles would leave SMs without one
    place, _ = facts.most_executed(sync | wide)
    kept = kept_without(facts, facts.counts["op"].isin(["LDS", "LDSM"]))
    waits = facts.stalled(*_PRODUCT_WAITS, by=("mma", "matrix load", "shared load"))
    larger = without_small_tiles(facts)
    both = {name: kept.get(name, 1.0) * larger.kept.get(name, 1.0) for name in {*kept, *larger.kept}}
    yield Finding(
        "small-mma", *place,
        cited(what + "; the tensor pipe is at {tensor}", **columns, tensor=of_peak(tensor)),
        "larger tiles in M and N, 4 or 8 warps",
        gain(facts, Without(max(waits, larger.removed), both), Without(waits, kept)), "medium",
    )  # fmt: skip


@needs("counts", "samples", "ttgir")
def products_in_parts(facts: KernelFacts) -> Iterator[Finding]:
    """small-mma. Products of float32 are added from several of what tensor cores multiply. Without it there
    is one, and no instruction takes operands apart; tensor cores read them from shared memory."""
    split = split_products(facts.ttgir_ops)
    products = facts.counts["op"].isin(MMA)
    located = products & facts.at(set(split))
    if not facts.counts.loc[located, "executed"].sum():
        return
    place, _ = facts.most_executed(located)
    count, were_narrow, _ = split[place[1]]
    theirs = located | (products & facts.counts["line"].eq(0))
    making = facts.at(lines_of_parts(split)) & ~facts.counts["op"].isin([*MMA, "LDG", "LDGSTS"])
    taking_apart = facts.blamed_share(making)
    part = facts.executed_share(theirs) / facts.executed_share(products)
    multiplying = part * facts.sampled_share(facts.samples["blamed_class"].eq("mma"))  # waits are anywhere
    left = 1 / (2 * count if were_narrow else count)  # of two bytes, twice as many at a time
    kept = kept_without(facts, making) | {"tensor": 1 - part * (1 - left)}
    yield Finding(
        "small-mma", *place,
        cited(
            "float32 is taken apart, and {count} take the place of one; {making} take apart, {multiplying} "
            "multiply",
            count=Quantity(count, "products"), making=of_samples(taking_apart),
            multiplying=of_samples(multiplying),
        ),
        "multiply bfloat16 or float16 as they were loaded: the result is the same" if were_narrow
        else 'input_precision="tf32", or operands of two bytes, if 10 bits of each factor are enough',
        gain(facts, Without(taking_apart + (1 - left) * multiplying, kept)),
        "high" if were_narrow else "medium",
    )  # fmt: skip


@needs("counters", "samples", "ttgir")
def partition_starved(facts: KernelFacts) -> Iterator[Finding]:
    """Needs PC samples and the TTGIR. Without it the partition of the tensor cores does not wait for data."""
    if not facts.has("warp_specialize") or facts.used.get("tensor", 0.0) > thresholds.NEAR_ROOF:
        return
    waits = facts.stalled("long_scoreboard", "barrier")
    place, _ = facts.most_stalled("long_scoreboard", "barrier", by=("mma", "tma", "barrier"))
    if place == facts.place:  # of what the compiler has put there for the kernel
        products = sorted(facts.lines_of(r"tt\.dot$|warp_group_dot$", loop=True) - {0})
        place = (place[0], products[0]) if products else place
    yield Finding(
        "partition-starved", *place,
        cited(
            "the tensor pipe is at {tensor}; {waiting} wait for the other partition",
            tensor=of_peak(facts.used.get("tensor", 0.0)), waiting=of_samples(waits),
        ),
        "more buffers between the partitions, or more warps for the slower one",
        hidden_gain(facts, waits), "medium",
    )  # fmt: skip


@needs("counters", "counts", "samples", "ttgir")
def mma_not_overlapped(facts: KernelFacts) -> Iterator[Finding]:
    """mma-not-overlapped; conversions if only these are in the way. Needs counts, PC samples and the TTGIR.
    Without it the next product is issued before this one's result is used, and operands come from shared
    memory as they are: no instruction makes them, but those of a wider type are more bytes. CTAs of an SM
    overlap each other's, too."""
    tensor = facts.used.get("tensor", 0.0)
    found = unoverlapped_products(facts.ttgir_ops)
    if not found or not facts.has("warp_group_dot") or tensor > thresholds.NEAR_ROOF:
        return
    if tensor + max(facts.used.get(pipe, 0.0) for pipe in PIPES) > 1:
        return  # they work at the same time
    lines = {line for each in found for line in each.operand_lines}
    rows = facts.at(lines) & ~facts.counts["op"].isin([*MMA, "LDG", "LDGSTS"])
    waits = facts.stalled(
        "barrier", "gmma", "warpgroup_arrive", "long_scoreboard", "wait", by=("mma", "uniform", "barrier")
    )
    making = facts.blamed_share(rows)
    if waits + making < thresholds.MUCH:
        return
    place = facts.place[0], found[0].line
    by_casts = all(each.by_casts for each in found)
    more = _more_bytes(facts, {line: times for each in found for line, times in each.widened.items()})
    kept = kept_without(facts, rows)
    if by_casts:
        kept |= {name: more * kept.get(name, 1.0) for name in ("dram", "l2", "l1", "shared")}
    place = facts.most_executed(rows)[0] if by_casts and rows.any() else place
    yield Finding(
        "conversions" if by_casts else "mma-not-overlapped", *place,
        cited(
            "each iteration waits for its own dot, with no other dot in flight; the tensor pipe is at "
            "{tensor}, {waiting} wait for dots or for other warps, {making} make operands in registers",
            tensor=of_peak(tensor), waiting=of_samples(waits), making=of_samples(making),
        ),
        "store operands in the type of the dot; convert once, in an earlier kernel" if by_casts
        else "issue the next dot before using this one's result; scale outside the loop",
        gain(facts, Without(waits + making, kept)), "low",
    )  # fmt: skip


def _more_bytes(facts: KernelFacts, widened: dict[int, float]) -> float:
    """How many times as much loads ask for, if those at some lines ask for so many times as much."""
    loads = facts.counts["op"].isin(["LDG", "LDGSTS"])
    sectors = facts.counts[loads].groupby("line")["sectors"].sum()
    times = [widened.get(int(cast(int, line)), 1.0) for line in sectors.index]
    return float((sectors * times).sum() / max(1.0, float(sectors.sum())))


@needs("counters", "counts", "samples", "ttgir")
def promoted(facts: KernelFacts) -> Iterator[Finding]:
    """mma-not-overlapped. The tensor cores add few products of float8, and these sums are added in float32 at
    once (`max_num_imprecise_acc` of `tl.dot`). Without it nobody adds them in a step, nor waits for that."""
    lines = promoted_products(facts.ttgir_ops)
    rows = facts.at(set(lines)) & facts.counts["op"].eq("FADD")
    if not rows.any() or facts.used.get("tensor", 0.0) > thresholds.NEAR_ROOF:
        return
    place, adding = facts.most_sampled(rows)
    waits = facts.stalled("barrier", "gmma", "warpgroup_arrive", "wait", by=("mma", "uniform"))
    if adding >= thresholds.MUCH:
        yield Finding(
            "mma-not-overlapped", *place,
            cited(
                "sums of {products} are added to others in float32 each time: {adding} add them, and "
                "{waiting} wait for dots",
                products=Quantity(lines[place[1]], "products"), adding=of_samples(adding),
                waiting=of_samples(waits),
            ),
            "a larger max_num_imprecise_acc: add in float32 after several steps",
            gain(facts, Without(adding + waits, kept_without(facts, rows)), Without(adding)), "medium",
        )  # fmt: skip


@needs("counts", "samples")
def uneven_warps(facts: KernelFacts) -> Iterator[Finding]:
    """late-warp. A loop ends after different numbers of steps in different lanes, so in different warps too,
    and then warps meet. Without it all come when the mean one does: the time that they wait at barriers is
    gone. The branches of scans and reductions are none of loops: some lanes have nothing to add there."""
    barriers = facts.counts["op"] == "BAR"
    meetings = float(facts.counts.loc[barriers, "executed"].max()) if barriers.any() else 0.0
    branches = facts.counts[facts.counts["op"].isin(["BRA", "BRX"])]
    lanes = branches["threads"] / (32 * branches["executed"].clip(lower=1))
    combines = facts.at(facts.lines_of(r"tt\.(scan|reduce)"))[branches.index]
    uneven = branches[(lanes < 1) & (branches["executed"] > meetings) & ~combines]
    uneven = uneven[uneven["line"] != facts.place[1]]  # of no line: spins on barriers of the hardware
    place, waits = facts.most_at("barrier")
    if not meetings or not len(uneven) or waits < thresholds.MUCH:
        return
    steps = float(uneven["executed"].max()) / meetings
    yield Finding(
        "late-warp", *place,
        cited(
            "the loop at {loop} takes {steps} of a warp on average, depending on its data; {waiting} then "
            "wait for the last warp",
            loop=f"line {int(uneven['line'].iloc[0])}", steps=Quantity(steps, "steps"),
            waiting=of_samples(waits),
        ),
        "give all warps the same work: sort by length, another layout, or fewer barriers",
        gain(facts, Without(waits)), "medium",
    )  # fmt: skip


@needs("counts", "samples", "ttgir")
def serial_reduction(facts: KernelFacts) -> Iterator[Finding]:
    """Needs counts, PC samples and the TTGIR. Without it warps do not meet in each step. What a step only
    adds to a sum stays in registers, and warps meet once: no barrier keeps the loads of later steps from
    being in flight. What the next step needs, a single warp reduces: its lanes exchange values as those of
    each warp did, and nobody waits for shared memory or other warps."""
    if facts.executed_ops(*MMA) > 0:
        return
    once = facts.lines_run_once
    fresh = {line: alone for line, alone in early_reductions(facts.ttgir_ops).items() if line not in once}
    summed = summed_products(facts).sums
    multiplied = summed if summed and any(no_tensor_cores(facts)) else set()
    early = set(fresh) - multiplied
    shared = facts.counts["op"].isin(["LDS", "STS", "BAR"])
    late = next(uneven_warps(facts), None) is not None  # which the barriers wait for
    across = shared & facts.at(facts.lines_of("tt.reduce", loop=True) - {0})
    needed = (
        set(facts.counts.loc[across & facts.counts["op"].eq("LDS"), "line"].tolist())
        - early
        - multiplied
        - once
    )
    by_memory = facts.at(needed) & shared
    are_held = all(fresh.values()) and facts.warps > 1  # loads, by barriers
    loads = _loads_around(facts, early) * are_held * (1 - 1 / thresholds.IN_FLIGHT)
    within = facts.at(early) & (shared | facts.counts["op"].eq("SHFL"))
    lanes = _between_lanes(facts, needed)
    for (place, waits), exchange, in_warps, hidden, advice in (
        (_meeting(facts, early, None), within, 0.0, loads, _REDUCE_ONCE),
        (_meeting(facts, needed, by_memory), by_memory, lanes, lanes, _REDUCE_IN_A_WARP),
    ):
        if waits + in_warps - (facts.stalled("barrier") if late else 0.0) >= thresholds.MUCH:
            kept = kept_without(facts, exchange)
            full = max(facts.used.get(name, 0.0) for name in ("shared", "l1")) >= thresholds.NEAR_ROOF
            full &= not facts.emulated  # which fills one resource of any kernel
            fullest = max(("shared", "l1"), key=lambda name: facts.used.get(name, 0.0))
            held = 1 - kept[fullest] if full else 0.0  # all wait for what fills it
            who = "warps meet" if facts.warps > 1 else "lanes of the warp exchange values"
            said = who + " in each step of the loop: {waiting} wait for that"
            said += ", {exchanging} for exchanges in a warp" if in_warps else ""
            said += "; shared memory is at {busy}" if full else ""
            more = {"exchanging": of_samples(in_warps)} if in_warps else {}
            more |= {"busy": of_peak(facts.used["shared"])} if full else {}
            yield Finding(
                "serial-reduction", *place,
                cited(said, waiting=of_samples(waits), **more),
                advice, gain(facts, Without(max(waits + hidden, held), kept), Without(waits, kept)), "medium",
            )  # fmt: skip


def _between_lanes(facts: KernelFacts, reductions: set[int]) -> float:
    """The part of the samples that wait for exchanges in warps but one, in these reductions."""
    mine = facts.samples["blamed_line"].isin(reductions) & facts.samples["blamed_class"].eq("warp exchange")
    mine &= facts.samples["stall"].isin(_MEETING)
    return (1 - 1 / facts.warps) * facts.sampled_share(mine)


def _loads_around(facts: KernelFacts, reductions: set[int]) -> float:
    """The part of the samples that wait for loads in the loops with these reductions."""
    loops = {
        loop
        for op in facts.ttgir_ops
        if op.name == "tt.reduce" and line_of(op) in reductions
        for loop in op.ancestors()
        if loop.name in ("scf.for", "scf.while")
    }
    mine = facts.samples["blamed_line"].isin({line_of(op) for loop in loops for op in loop.walk()} - {0})
    mine &= facts.samples["stall"].eq("long_scoreboard") & facts.samples["blamed_class"].isin(LOADS)
    return facts.sampled_share(mine)


def _meeting(facts: KernelFacts, lines: set[int], by: pd.Series | None) -> tuple[Place, float]:
    """The line where most samples wait for warps to meet in these reductions, or for these instructions of
    theirs, and the part that all of them are."""
    mine = facts.samples["blamed_line"].isin(lines)
    mine &= facts.samples["blamed_file"].astype("str") == facts.place[0]
    mine &= facts.samples["stall"].isin(_MEETING)
    if by is not None:
        is_theirs = facts.samples["blamed_pc"].isin(facts.counts.loc[by, "pc"].tolist())
        mine &= is_theirs | facts.samples["stall"].eq("barrier")
    found = facts.samples[mine].groupby(["blamed_file", "blamed_line"], observed=True)["samples"].sum()
    if not found.sum():
        return facts.place, 0.0
    file, line = cast(Place, found.idxmax())
    return (str(file), int(line)), float(found.sum()) / facts.sampled


@needs("counts", "samples", "ttgir")
def layout_conversion(facts: KernelFacts) -> Iterator[Finding]:
    """Needs counts and the TTGIR. Without it data stays in the layout that its producer has. If shared memory
    binds the kernel, the waits for its queue are of what fills it, by the part that it puts in."""
    lines = conversion_lines(facts.ttgir_ops)
    rows = facts.counts["op"].isin(["LDS", "STS", "LDSM", "STSM"]) & facts.at(set(lines))
    moves = facts.at(set(lines)) & facts.counts["op"].isin(["LDS", "STS", "LDSM", "STSM", "BAR"])
    share = facts.blamed_share(moves)
    kept = kept_without(facts, rows)
    if max(facts.used.get(name, 0.0) for name in ("shared", "l1", "lsu")) >= thresholds.BOUND:
        share = max(share, (1 - kept["lsu"]) * facts.stalled("short_scoreboard", "mio_throttle"))
    if share < thresholds.MUCH:
        return
    (file, line), _ = facts.most_executed(rows)
    place = file, lines.get(line, line)
    yield Finding(
        "layout-conversion", *place,
        cited(
            "{moving} move tensors from one layout to another through shared memory, again and again; "
            "{sampled} are there",
            moving=of_instructions(facts.executed_share(rows)), sampled=of_samples(share),
        ),
        "an order of ops in which both sides share a layout; transpose once",
        gain(facts, Without(share, kept)), "medium",
    )  # fmt: skip


CAUSES: Final = (
    no_tensor_cores, small_mma, products_in_parts, partition_starved, mma_not_overlapped, promoted,
    uneven_warps, serial_reduction, layout_conversion,
)  # fmt: skip
