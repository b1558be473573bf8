"""tile-reread without a product: programs load the same bytes, and DRAM sends them each time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, cast

from instrument_passes.ir.model import Op
from profscope.analysis.cause import Finding, Quantity, cited, of_peak
from profscope.analysis.diagnosis import thresholds
from profscope.analysis.diagnosis.facts import KernelFacts, Place
from profscope.analysis.diagnosis.gains import Without, gain, left_of_traffic
from profscope.analysis.diagnosis.ttgir_ops import grid_axes
from profscope.analysis.diagnosis.witnesses import needs

__all__ = ["CAUSES"]

_LOADS: Final = ("tt.load", "ttg.async_copy_global_to_local")
_AXES: Final = ("x", "y", "z")
_QUEUES: Final = ("long_scoreboard", "lg_throttle", "barrier")


@needs("counters", "counts", "samples", "ttgir")
def programs_alike(facts: KernelFacts) -> Iterator[Finding]:
    """The address of a load does not depend on an axis of the grid, so that all programs along it load the
    same. DRAM sends several times the bytes that are different: caches lose them before the next program
    comes. Without it DRAM sends each byte once; at the least, L2 sends as much as before."""
    dram, read = facts.used.get("dram", 0.0), facts.counters.get("dram_read", 0.0)
    rows = facts.counts[facts.counts["op"].isin(["LDG", "LDGSTS"]) & (facts.counts["sectors"] > 0)]
    if dram < thresholds.BOUND or rows.empty:
        return
    alike = _programs_by_line(facts)
    asked = rows.groupby(["file", "line"], observed=True)["sectors"].sum()
    different = {place: asked[place] / alike.get(int(cast(Place, place)[1]), 1) for place in asked.index}
    needed = sum(different.values())
    if read < thresholds.REREAD * 32 * needed:
        return
    file, line = max(different, key=lambda place: asked[place] - different[place])
    left = left_of_traffic(facts, needed, facts.sectors("STG"))
    yield Finding(
        "tile-reread", str(file), int(line),
        cited(
            "{programs} load the same here; DRAM sends {read}, {different} are different; it is at {dram}",
            programs=Quantity(alike[int(line)], "programs"), read=Quantity(read / 1e6, "MB"),
            different=Quantity(32 * needed / 1e6, "MB"), dram=of_peak(dram),
        ),
        "a program that does what several do now, or an order of the grid in which those that load the same "
        "run together",
        gain(
            facts, Without(max(dram, facts.stalled(*_QUEUES)), left),
            Without(facts.stalled(*_QUEUES), {"dram": left["dram"]}),
        ),
        "medium",
    )  # fmt: skip


def _programs_by_line(facts: KernelFacts) -> dict[int, int]:
    """By line, how many programs load the same, as their addresses do not depend on all axes of the grid."""
    launch = facts.analysis.launches.iloc[0]
    sides = {axis: int(launch[f"grid_{axis}"]) for axis in _AXES}
    found: dict[int, int] = {}
    for op, line, _ in facts.located_ops:
        if op.name in _LOADS and op.operands:
            programs = 1
            for axis in set(_AXES) - _axes_of(op):
                programs *= sides[axis]
            found[line] = min(found.get(line, programs), programs)
    return found


def _axes_of(load: Op) -> set[str]:
    """The axes of the grid that a load depends on: its operands, and the loops and branches that it is in."""
    around = [load, *load.ancestors()]
    return set().union(*(grid_axes(op, name) for op in around for name in op.operands))


CAUSES: Final = (programs_alike,)
