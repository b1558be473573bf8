"""Bytes that several programs load. tile-reread: DRAM sends them each time. redundant-load: all of the
programs reduce or multiply them to the same result."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, cast

from profscope.analysis.cause import Finding, Quantity, cited, of_peak, of_samples
from profscope.analysis.diagnosis import thresholds
from profscope.analysis.diagnosis.dataflow import ELEMENTWISE, MOVES, Uses
from profscope.analysis.diagnosis.facts import ATOMICS, KernelFacts, Place
from profscope.analysis.diagnosis.gains import Without, gain, held_by_traffic, kept_without, left_of_traffic
from profscope.analysis.diagnosis.repeated_loads import Read, read_by_line, repeated_loads, sides_of_grid
from profscope.analysis.diagnosis.ttgir_ops import (
    AXES,
    FROM_GLOBAL,
    PRODUCTS,
    buffer_of,
    copies_into,
    grid_axes,
    is_in_loop,
    is_looked_up,
    line_of,
)
from profscope.analysis.diagnosis.witnesses import needs
from profscope.instrument_passes.ir.model import Op

__all__ = ["CAUSES"]

_UNKNOWN: Final = Read(frozenset(), math.inf)
_UNCOUNTED: Final = ("UTMALDG", "UBLKCP")  # whose sectors no instruction count has
_READ: Final = "ttg.local_load"
_ELSEWHERE: Final = re.compile(rf"{PRODUCTS.pattern}|descriptor|tt\.atomic_|inline_asm")
_BOUNDS: Final = 3  # operands of a loop, in front of what it carries
_QUEUES: Final = ("long_scoreboard", "lg_throttle", "barrier")


@needs("counters", "counts", "samples", "ttgir")
def sent_again(facts: KernelFacts) -> Iterator[Finding]:
    """tile-reread. DRAM sends the same bytes several times: caches lose them before the next program comes.
    Kernels with TMA are left out, as its copies are not counted. A load has no more distinct bytes than its
    tensor; if its address does not depend on an axis of the grid, no more than one program along that axis.
    Without the cause DRAM sends each byte once, and fills L2 once. If one program can do what several do, it
    also asks L2 once; for a product, whose tiles registers limit, that is the upper bound. The lower bound:
    L2 stays as busy as it is."""
    dram, read = facts.used.get("dram", 0.0), facts.counters.get("dram_read", 0.0)
    rows = facts.counts[facts.counts["op"].isin(["LDG", "LDGSTS"]) & (facts.counts["sectors"] > 0)]
    if dram < thresholds.BOUND or rows.empty or facts.executed_ops(*_UNCOUNTED):
        return
    by_line = rows.groupby(["file", "line"], observed=True)
    asked, touched = by_line["sectors"].sum(), by_line[["sectors", "sectors_ideal"]].sum().min(axis=1)
    programs, reads = _programs_by_line(facts), read_by_line(facts)
    lines = {place: int(cast(Place, place)[1]) for place in asked.index}
    different = {
        place: min(touched[place] / programs.get(line, 1), reads.get(line, _UNKNOWN).size / 32)
        for place, line in lines.items()
    }

    def distinct(places: Iterable[object]) -> float:
        """Sectors: those of lines that read from the same tensors are among these tensors'."""
        of_tensors: Counter[Read] = Counter()
        for place in places:
            of_tensors[reads.get(lines[place], _UNKNOWN)] += different[place]
        return sum(min(sectors, read.size / 32) for read, sectors in of_tensors.items())

    needed = distinct(lines)
    repeated = repeated_loads(facts)  # which have a finding of their own
    shared = [
        place
        for place, line in lines.items()
        if different[place] < touched[place] and line not in repeated
        and not any(map(is_looked_up, facts.accesses_at(line)))
    ]  # fmt: skip
    others = 32 * facts.sectors(*ATOMICS) + facts.local_bytes
    again = read - 32 * needed - others
    moved = read + facts.counters.get("dram_write", 0.0)
    if not shared or again < max(thresholds.MUCH * read, thresholds.NOISE_PCT / 100 * moved):
        return
    if again > 32 * sum(asked[shared]):  # other loads' bytes are among those
        return
    file, line = max(shared, key=lambda place: touched[place] - different[place])
    left = left_of_traffic(facts, needed, facts.sectors("STG"))
    filled = left | {"l2": (facts.l2_bytes + 32 * needed) / (facts.l2_bytes + read)}
    is_limit = min(1.0, dram / thresholds.ATTAINABLE_DRAM)  # for what part of the time
    held = (1 - left["dram"]) * max(is_limit, facts.stalled(*_QUEUES))
    yield Finding(
        "tile-reread", str(file), int(line),
        cited(
            "DRAM sends {read}, of which {different} are distinct; DRAM is at {dram}; most repeats come from "
            "this line",
            read=Quantity(read / 1e6, "MB"), different=Quantity(32 * needed / 1e6, "MB"), dram=of_peak(dram),
        ),
        "a program that does what several do now, or an order of the grid in which those that load the same "
        "run together",
        gain(
            facts, Without(held, filled if facts.has(PRODUCTS.pattern) else left),
            Without(facts.stalled(*_QUEUES), {"dram": left["dram"]}), Without(held, left),
        ),
        "medium",
    )  # fmt: skip


@needs("counts", "samples", "ttgir")
def reduced_alike(facts: KernelFacts) -> Iterator[Finding]:
    """redundant-load. In a loop all programs along an axis of the grid load the same and only reduce it, with
    others that are the same. Without it one program does so, and stores the result, which is smaller."""
    told: set[int] = set()
    for load, line, programs, lines in _reduced_alike(facts):
        again = 1 - 1 / programs
        rows = facts.at(lines)
        share = again * facts.blamed_share(rows)
        if load in told or not share:
            continue  # a kernel of which some CTAs are recorded has each loop twice
        told.add(load)
        sectors = float(facts.counts.loc[facts.at({load}), "sectors"].sum())
        left = left_of_traffic(
            facts, max(0.0, facts.sectors("LDG", "LDGSTS") - again * sectors), facts.sectors("STG")
        )
        yield Finding(
            "redundant-load", facts.place[0], load,
            cited(
                "{programs} load this only to reduce it at {where}, each to the same result: {sampled} are "
                "there",
                programs=Quantity(programs, "programs"), where=f"line {line}", sampled=of_samples(share),
            ),
            "reduce once, in an earlier kernel, and load the result",
            gain(facts, Without(share, left | kept_without(facts, rows, again))), "medium",
        )  # fmt: skip


def _reduced_alike(facts: KernelFacts) -> Iterator[tuple[int, int, int, set[int]]]:
    """Of loads in loops that all programs along an axis only reduce: their line, that of the reduction, how
    many programs these are, and the lines of all that is done for it."""
    ops = facts.ttgir_ops
    uses, sides = Uses(ops), sides_of_grid(facts)
    for op, line, is_inside in facts.located_ops:
        if not is_inside or not line or op.name not in (FROM_GLOBAL[0], _READ):
            continue
        loads = [op] if op.name == FROM_GLOBAL[0] else copies_into(buffer_of(op, op.operands[0]), ops)
        axes = set(AXES).difference(*(_axes_of(each) for each in loads))
        if not loads or all(sides[axis] == 1 for axis in axes):
            continue
        made = _only_reduced(op, uses)
        if made is None or (op.name == _READ and not _is_only_reader(op, uses)):
            continue
        others = [(each, name) for each in made for name in each.operands]
        axes -= set().union(*(_axes_of_value(*other, ops) for other in others))
        programs = math.prod(sides[axis] for axis in axes)
        reductions = [each for each in made if each.name == "tt.reduce"]
        if programs > 1:
            lines = {line, *map(line_of, made), *map(line_of, loads)} - {0}
            yield line_of(loads[0]), line_of(reductions[0]), programs, lines


@needs("counts", "samples", "ttgir")
def multiplied_alike(facts: KernelFacts) -> Iterator[Finding]:
    """redundant-load. All programs along an axis of the grid multiply the same two matrices. Without it one
    program does so, and stores the product: what the others load for nothing else is gone, too."""
    found = list(_multiplied_alike(facts))
    loaded = facts.counts["op"].isin(["LDG", "LDGSTS"])
    for programs in sorted({each for each, _, _ in found}):
        products = {line for each, line, _ in found if each == programs}
        loads = set().union(*(lines for each, _, lines in found if each == programs))
        again = 1 - 1 / programs
        here, rows = facts.at(loads) & loaded, facts.at(products | loads)
        sectors = again * float(facts.counts.loc[here, "sectors"].sum())
        if not sectors:
            continue
        left = left_of_traffic(facts, facts.sectors("LDG", "LDGSTS") - sectors, facts.sectors("STG"))
        share = again * facts.blamed_share(rows)
        without = Without(
            max(share, held_by_traffic(facts, left, 1 - left["l1"]) or 0.0),
            left | kept_without(facts, rows, again),
        )
        yield Finding(
            "redundant-load", *facts.most("sectors", here),
            cited(
                "{programs} load this only to multiply it at {where}, each to the same product: {sampled} "
                "are there",
                programs=Quantity(programs, "programs"), where=f"line {min(products)}",
                sampled=of_samples(share),
            ),
            "give a program more along that axis of the grid; or multiply once, in an earlier kernel, and "
            "load the product",
            gain(facts, without, Without(0.0)), "medium",
        )  # fmt: skip


def _multiplied_alike(facts: KernelFacts) -> Iterator[tuple[int, int, set[int]]]:
    """Of products that all programs along an axis compute: how many programs these are, the line, and those
    of loads that are for these products only."""
    ops, sides = facts.ttgir_ops, sides_of_grid(facts)
    alike: dict[Op, tuple[int, set[Op]]] = {}
    others: set[Op] = set()
    for op in ops:
        if not PRODUCTS.search(op.name):
            continue
        loads, axes = _made_of(op, ops)
        axes |= set().union(*map(_axes_of, loads))
        programs = math.prod(sides[axis] for axis in set(AXES) - axes)
        if loads and programs > 1:
            alike[op] = programs, loads
        else:
            others |= loads
    for op, (programs, loads) in alike.items():
        if line_of(op):
            yield programs, line_of(op), {line_of(load) for load in loads - others} - {0}


def _made_of(product: Op, ops: list[Op]) -> tuple[set[Op], set[str]]:
    """The loads that the operands of a product come from, changed or not, and the axes of the grid that
    changes depend on; all, if one is another product, or comes from elsewhere."""
    loads: set[Op] = set()
    axes: set[str] = set()
    left, seen = [(product, name) for name in product.operands[:2]], set()
    while left:
        user, name = left.pop()
        value = user.resolve(name)
        if value is None or not isinstance(value.owner, Op):
            axes |= set(AXES)
            continue
        op = value.owner
        if id(op) in seen:
            continue
        seen.add(id(op))
        if op.name == FROM_GLOBAL[0]:
            loads.add(op)
        elif (buffer := buffer_of(user, name)) is not None:
            loads |= set(copies_into(buffer, ops))
        elif _ELSEWHERE.search(op.name) or op.regions:
            axes |= set(AXES)
        else:
            axes |= grid_axes(user, name) if not op.operands else set()
            left += [(op, each) for each in op.operands]
    return loads, axes


def _only_reduced(load: Op, uses: Uses) -> list[Op] | None:
    """The ops that use a value, element by element, up to the reductions in the loop; None if others do."""
    found: list[Op] = []
    left = [load]
    while left:
        for user in uses.of(left.pop()):
            if user in found:
                continue
            is_reduction = user.name == "tt.reduce" and is_in_loop(user)
            if not is_reduction and not ELEMENTWISE.match(user.name) and not MOVES.match(user.name):
                return None
            found.append(user)
            if not is_reduction:
                left.append(user)
    return found if any(each.name == "tt.reduce" for each in found) else None


def _is_only_reader(read: Op, uses: Uses) -> bool:
    """Whether nothing else, such as a product, reads the buffer."""
    buffer = buffer_of(read, read.operands[0])
    left = [] if buffer is None else [buffer]
    while left:
        for user in uses.of(left.pop()):
            if MOVES.match(user.name):
                left.append(user)
            elif user is not read and user.name not in (FROM_GLOBAL[1], "ttg.local_dealloc"):
                return False
    return True


def _axes_of_value(user: Op, name: str, ops: list[Op]) -> set[str]:
    """The axes of the grid that a value depends on, also if it comes by shared memory."""
    found = grid_axes(user, name)
    left, seen = [(user, name)], set()
    while left:
        op, asked = left.pop()
        value = op.resolve(asked)
        if value is None or id(value.owner) in seen:
            continue
        seen.add(id(value.owner))
        if not isinstance(value.owner, Op):
            found |= set(AXES) if value.index or "memdesc" in value.type else set()
        elif value.owner.name == _READ:
            mine = copies_into(buffer_of(value.owner, value.owner.operands[0]), ops)
            found |= set().union(*map(_axes_of, mine)) if mine else set(AXES)
        elif value.owner.regions:
            found |= set(AXES)
        else:
            left += [(value.owner, each) for each in value.owner.operands]
    return found


def _programs_by_line(facts: KernelFacts) -> dict[int, int]:
    """By line, how many programs load the same, as their addresses do not depend on all axes of the grid."""
    sides = sides_of_grid(facts)
    found: dict[int, int] = {}
    for op, line, _ in facts.located_ops:
        if op.name in FROM_GLOBAL and op.operands:
            programs = 1
            for axis in set(AXES) - _axes_of(op):
                programs *= sides[axis]
            found[line] = min(found.get(line, programs), programs)
    return found


def _axes_of(load: Op) -> set[str]:
    """The axes of the grid that a load depends on: where it loads from, whether it does, and the bounds and
    conditions of the loops and branches that it is in."""
    mine = [
        name
        for name, kind in zip(load.operands, load.operand_types, strict=True)
        if "memdesc" not in kind  # where to
    ]
    around = [
        (op, name)
        for op in load.ancestors()
        for name in (op.operands[:_BOUNDS] if op.name == "scf.for" else op.operands)
    ]
    return set().union(*(grid_axes(*read) for read in [*((load, name) for name in mine), *around]))


CAUSES: Final = (sent_again, reduced_alike, multiplied_alike)
