"""The experiments that a kernel's TTGIR allows: groups of ops, then lines, then the addresses of a line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from profscope.instrument_passes.ablation.addresses import why_fixed
from profscope.instrument_passes.ablation.groups import GROUPS, SCATTERED, group_of
from profscope.instrument_passes.ablation.leave_out import why_stays
from profscope.instrument_passes.ablation.protected import Protected, why_refused
from profscope.instrument_passes.ablation.rewrite import CONTIGUOUS, OFF, RESIDENT, rewrite
from profscope.instrument_passes.analyses.graph import Graph, Node
from profscope.instrument_passes.analyses.places import Places, is_library, variable_of
from profscope.instrument_passes.ir.parser import parse
from profscope.instrument_passes.ops import info_of

__all__ = ["Experiment", "Plan"]
_MOST_REGISTERS: Final = "ttg.maxnreg"


@dataclass(frozen=True)
class Experiment:
    """how: as in the pass `ablate`. numbers: of the ops. group: of these. op: their name in views, "load x"
    or "all global memory". file, line: "" and 0 of a group. depth: of the loops around them. why_not: the
    reason if it cannot be made, else ""."""

    how: str
    numbers: tuple[int, ...]
    group: str
    op: str
    file: str = ""
    line: int = 0
    depth: int = 0
    why_not: str = ""


class Plan:
    """The experiments of one module's text. memory: the addresses behind each of the kernel's pointers, by
    argument. registers: of a thread, the most that experiments may take; 0 if unknown.

    text: the module's, without an experiment. refused: why there is none at all, else "".
    """

    def __init__(self, text: str, memory: Mapping[int, range], registers: int) -> None:
        module = parse(text)
        if registers and module.attr(_MOST_REGISTERS) is None:
            module.set_attr(_MOST_REGISTERS, f"{registers} : i32")
        self.text = str(module)
        self._memory = {at: len(addresses) for at, addresses in memory.items()}
        self._graph = Graph(module)
        alike = _overlapping(memory)
        self.refused = why_refused(self._graph, alike)
        self._protected = Protected(self._graph, alike)
        self._places = Places()
        self.lines = [] if self.refused else list(self._lines())
        self.groups = list(self._groups())

    def addresses(self, line: Experiment) -> list[Experiment]:
        """The experiments with the addresses of a line that can be left out. Stores of all programs to a few
        places would wait for each other, so they are not made resident."""
        names = {self._graph.nodes[number].name for number in line.numbers}
        if any("atomic" in name for name in names):
            return []
        is_store = any("store" in name for name in names)
        return [self._checked(line, how) for how in ((CONTIGUOUS,) if is_store else (CONTIGUOUS, RESIDENT))]

    def together(self, scattered: Sequence[Experiment]) -> Experiment | None:
        """Several lines at neighbouring addresses at once, as who mends one mends the others; None if there
        are not several."""
        if len(scattered) < 2:
            return None
        numbers = tuple(sorted(number for each in scattered for number in each.numbers))
        return Experiment(CONTIGUOUS, numbers, scattered[0].group, SCATTERED)

    def edited(self, experiment: Experiment) -> str:
        """The module's text with the experiment. Raises IRError if it cannot be made."""
        graph = Graph(parse(self.text))
        nodes = [graph.nodes[number] for number in experiment.numbers]
        rewrite(graph, nodes, experiment.how, self._memory)
        return str(graph.module)

    def _lines(self) -> Iterator[Experiment]:
        """Ops of one kind, line and variable are one: a pipelined copy stands before the loop and in it."""
        found: dict[tuple[str, int, str], list[int]] = {}
        for number, node in enumerate(self._graph.nodes):
            if group_of(node.op):
                place = self._places.of(node.op)
                found.setdefault((place.file, place.line, _shown(node)), []).append(number)
        for (file, line, op), numbers in found.items():
            nodes = [self._graph.nodes[number] for number in numbers]
            free, why = _free(
                numbers, [self._protected.why_not(node) or why_stays(node.op) for node in nodes]
            )
            depth = max(len(node.loops) for node in nodes)
            yield Experiment(OFF, free, group_of(nodes[0].op), op, file, line, depth, why)

    def _groups(self) -> Iterator[Experiment]:
        """Those with more than one line."""
        for group, shown in GROUPS.items():
            lines = [each for each in self.lines if each.group == group and not each.why_not]
            if len(lines) > 1:
                numbers = tuple(sorted(number for each in lines for number in each.numbers))
                yield Experiment(OFF, numbers, group, shown)

    def _checked(self, line: Experiment, how: str) -> Experiment:
        nodes = [self._graph.nodes[number] for number in line.numbers]
        resident = how == RESIDENT
        whys = [why_fixed(self._graph, node, self._memory, resident=resident) for node in nodes]
        free, why = _free(line.numbers, whys)
        return replace(line, how=how, numbers=free, why_not=why)


def _overlapping(memory: Mapping[int, range]) -> dict[int, int]:
    """By argument the first of those whose memory overlaps."""
    found: dict[int, int] = {}
    for at, own in memory.items():
        others = [each for each in found if memory[each].start < own.stop and own.start < memory[each].stop]
        joined = {found[each] for each in others}
        found[at] = min(joined, default=at)
        found |= {each: found[at] for each, first in found.items() if first in joined}
    return found


def _free(numbers: Sequence[int], whys: Sequence[str]) -> tuple[tuple[int, ...], str]:
    """The ops that may change, and ""; if none may, all of them and why the first may not."""
    free = tuple(number for number, why in zip(numbers, whys, strict=True) if not why)
    return (free, "") if free else (tuple(numbers), whys[0])


def _shown(node: Node) -> str:
    info = info_of(node.op)
    label = node.name if info is None else info.label
    # An op that was inlined from Triton's own library has the name of a variable there.
    variable = "" if is_library(node.op.loc.file) else variable_of(node.op.loc)
    return f"{label} {variable}".rstrip()
