"""redundant-load: a loop reads from memory what the kernel has read before."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import numpy as np

from profscope.analysis.cause import Finding, NotMeasured
from profscope.analysis.causes.exposed_load import exposed_cycles, loop_of
from profscope.analysis.judged import Judged

__all__ = ["causes"]

_POINTER: Final = re.compile(r"\.load\(\s*(.+)")


def causes(judged: Judged) -> Iterator[Finding | NotMeasured]:
    """Two loads in loops of their own read through the same pointer expression.

    That they read the same is told by the source: the loops have the same header, the loads the same first
    argument, and between them nothing is assigned to the names in it that was not assigned in the same words
    before. Gain: the time of the later loads and of waiting for them, as in exposed-load, over the time of
    all warps; as if they were not there. The line is that of the later load that waits longest. Confidence:
    medium, low where the loads do not move the same bytes in all.
    """
    sites = judged.sites
    here = sites["file"].astype("str") == judged.place[0]
    loads = np.flatnonzero(((sites["cls"] == "load") & (sites["line"] > 0) & here).to_numpy())
    if len(loads) < 2:
        return
    if not judged.lines:
        yield NotMeasured("redundant-load: the profile has no sources")
        return
    waits, _ = exposed_cycles(judged)
    spent = judged.total(waits)
    around = loop_of(judged)
    times = np.bincount(judged.spans.site, minlength=len(sites))
    lines = sites["line"].to_numpy()
    first: dict[tuple[str, str], int] = {}
    again: list[tuple[int, int]] = []
    for site in sorted(loads.tolist(), key=lambda each: int(lines[each])):
        pointer = _pointer(judged.lines.get(int(lines[site]), ""))
        if not pointer or around[site] < 0:
            continue
        loop = judged.lines.get(int(lines[around[site]]), "").strip()
        earlier = first.setdefault((loop, pointer), site)
        if around[earlier] != around[site] and _unchanged(judged.lines, lines[earlier], lines[site], pointer):
            again.append((site, earlier))
    if not again:
        return
    cycles = float(sum(spent[site] for site, _ in again))
    most, earlier = max(again, key=lambda pair: spent[pair[0]])
    file, line = judged.at(most)
    same = all(times[site] == times[before] for site, before in again)
    moved = judged.work
    bytes_again = sum(
        float(
            moved.loc[(moved["line"] == sites["line"].iloc[site]) & (moved["cls"] == "load"), "bytes"].sum()
        )
        for site, _ in again
    )
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


def _unchanged(lines: dict[int, str], earlier: int, later: int, pointer: str) -> bool:
    """Whether from one line to a later one the names in a pointer are only assigned as before."""
    if earlier == later:  # a function that is inlined twice: its arguments may differ
        return False
    names = "|".join(re.escape(name) for name in set(re.findall(r"[A-Za-z_]\w*", pointer)))
    before = {text.strip() for line, text in lines.items() if line < earlier}
    between = (text.strip() for line, text in lines.items() if earlier <= line < later)
    return not any(re.match(rf"({names})\s*[-+*/|&]?=[^=]", text) and text not in before for text in between)


def _pointer(text: str) -> str:
    """The first argument of the load in a line of source, "" where there is none."""
    match = _POINTER.search(text)
    if match is None:
        return ""
    depth = 0
    for at, letter in enumerate(match[1]):
        depth += letter in "(["
        if letter in ")]":
            depth -= 1
        if depth < 0 or (letter == "," and depth == 0):
            return match[1][:at].replace(" ", "")
    return ""
