"""redundant-load: a loop reads what another loop, or its own step before, has read."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from profscope.analysis.cause import Finding, NotMeasured
from profscope.analysis.causes.exposed_load import exposed_cycles
from profscope.analysis.kernel_analysis import KernelAnalysis
from profscope.analysis.loops import loop_of
from profscope.analysis.source_loads import SourceLoad, loads_of, unchanged

__all__ = ["causes"]


def causes(judged: KernelAnalysis) -> Iterator[Finding | NotMeasured]:
    """A loop loads what was loaded before: in another loop, or in each of its own steps.

    That it is the same is told by the source. Two loads in loops of their own: the loops have the same
    header, the loads the same first argument, and between them nothing is assigned to the names in the later
    one that was not assigned in the same words before. A load in each step: nothing that its arguments name
    is assigned in the loop. Gain: the time of the later loads and of waiting for them, as in exposed-load,
    over the time of all warps; as if they were not there (of a load in each step: all but the first). The
    line is that of the load that waits longest. Confidence: medium, low where the loads do not move the same
    bytes in all, and for loads in each step, since what stores write between is not known.
    """
    if not judged.of_class("load").any():
        return
    sites = judged.sites
    here = sites["file"].astype("str") == judged.place[0]
    rows = np.flatnonzero(((sites["cls"] == "load") & (sites["line"] > 0) & here).to_numpy())
    around = loop_of(judged)
    rows = rows[around[rows] >= 0]
    if not len(rows):
        return
    if not judged.lines:
        yield NotMeasured("redundant-load: the profile has no sources")
        return
    waits, _ = exposed_cycles(judged)
    spent = judged.total(waits)
    by_line = {load.line: load for load in loads_of(judged.lines)}
    known = {int(site): by_line[line] for site in rows if (line := int(sites["line"].iloc[site])) in by_line}
    yield from _read_twice(judged, known, spent)
    yield from _in_each_step(judged, known, waits)


def _read_twice(judged: KernelAnalysis, known: dict[int, SourceLoad], spent: np.ndarray) -> Iterator[Finding]:
    sites, around = judged.sites, loop_of(judged)
    first: dict[tuple[str, str], int] = {}
    again: list[tuple[int, int]] = []
    for site in sorted(known, key=lambda each: known[each].line):
        load = known[site]
        if load.loop is None:
            continue
        earlier = first.setdefault((load.loop.header, load.pointer), site)
        if around[earlier] != around[site] and unchanged(judged.lines, known[earlier], load):
            again.append((site, earlier))
    if not again:
        return
    cycles = float(sum(spent[site] for site, _ in again))
    most, earlier = max(again, key=lambda pair: spent[pair[0]])
    file, line = judged.at(most)
    times = np.bincount(judged.spans.site, minlength=len(sites))
    same = all(times[site] == times[before] for site, before in again)
    bytes_again = sum(_bytes(judged, site) for site, _ in again)
    yield Finding(
        "redundant-load",
        file,
        line,
        f"{sites['scope'].iloc[most]} reads what line {sites['line'].iloc[earlier]} has read: "
        f"{bytes_again / 1e6:.2f} MB a launch are read again, and {judged.share_pct(cycles):.0f} % of warp "
        "time goes into these loads and waiting for them",
        "keep the data in registers or shared memory (a block that holds the whole row), or merge the "
        "passes: sums and sums of squares (Welford) in one loop",
        judged.share_pct(cycles),
        "medium" if same else "low",
        also=tuple(int(sites["line"].iloc[site]) for site, _ in again),
    )


def _in_each_step(
    judged: KernelAnalysis, known: dict[int, SourceLoad], waits: np.ndarray
) -> Iterator[Finding]:
    spans, sites = judged.spans, judged.sites
    same = [site for site, load in known.items() if load.invariant]
    later = np.where(np.isin(spans.site, same) & (spans.iteration > 0), waits, 0)
    if not later.any():
        return
    most = int(np.argmax(judged.total(later)))
    file, line = judged.at(most)
    pct = judged.share_pct(float(later.sum()))
    yield Finding(
        "redundant-load",
        file,
        line,
        f"{sites['scope'].iloc[most]} reads the same in each step of its loop: nothing in "
        f"{known[most].pointer} changes there; {pct:.0f} % of warp time goes "
        "into such loads behind the first step, and waiting for them",
        "load it once in front of the loop",
        pct,
        "low",
        also=tuple(int(sites["line"].iloc[site]) for site in same),
    )


def _bytes(judged: KernelAnalysis, site: int) -> float:
    """Bytes that the loads at a site's line move in a launch."""
    work = judged.work
    here = (work["line"] == judged.sites["line"].iloc[site]) & (work["cls"] == "load")
    return float(work.loc[here, "bytes"].sum())
