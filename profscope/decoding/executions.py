"""How often CTAs executed the sites of folded launches: what bytes and flops are counted by."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from instrument_passes.manifest import Section
from profscope.decoding.folding import FoldedProgram

__all__ = ["folded_executions"]

Floats = npt.NDArray[np.float64]


def folded_executions(program: FoldedProgram) -> Floats:
    """Per site, over the whole launches, scaled up to their grids: how often it ran over the warps that run
    it
    together. An op of a pipelined loop does nothing for an iteration that the loop does not have, and such
    executions do not count, where sums can tell."""
    parts, first = [np.zeros(0)], 0
    for section in program.manifest.sections:
        end = first + len(section.spans)
        parts.append(_working(section, program.whole[first:end]) / section.warps)
        first = end
    return np.concatenate(parts)


def _working(section: Section, count: Floats) -> Floats:
    """count: how often each site ran, idle executions included."""
    working = count.copy()
    for site in section.spans:
        if site.stage != "steady":
            continue
        beside = [each.id for each in section.spans if (each.stage, each.loop) == ("steady", site.loop)]
        idle = max(0, site.ahead - site.peeled) * _loops(section, site.parent, count)
        # Those that are switched off, and not only their lanes, are not in the count to begin with.
        working[site.id] = min(count[site.id], max(0.0, count[beside].max() - idle))
    return working


def _loops(section: Section, around: int, count: Sequence[float] | Floats) -> float:
    """How often the loop ran that a site is in; 0 where no span is on it."""
    while around >= 0 and section.spans[around].kind != "loop":
        around = section.spans[around].parent
    return float(count[around]) if around >= 0 else 0.0
