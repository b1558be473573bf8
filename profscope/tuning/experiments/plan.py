"""Which experiments a kernel's TTGIR allows: groups of ops, then lines, then the addresses of a line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from profscope.instrument_passes.ablation.addresses import why_fixed
from profscope.instrument_passes.ablation.groups import GROUPS, group_of
from profscope.instrument_passes.ablation.leave_out import why_stays
from profscope.instrument_passes.ablation.protected import Protected, why_refused
from profscope.instrument_passes.analyses.graph import Graph, Node
from profscope.instrument_passes.analyses.opclasses import info_of
from profscope.instrument_passes.analyses.places import Places, is_library, variable_of
from profscope.instrument_passes.ir.parser import parse
from profscope.instrument_passes.passes import PassContext
from profscope.instrument_passes.passes.ablate import CONTIGUOUS, OFF, RESIDENT, Ablate
from profscope.instrument_passes.pipeline import run_pipeline

__all__ = ["Experiment", "Plan"]

_MOST_REGISTERS: Final = "ttg.maxnreg"


@dataclass(frozen=True)
class Experiment:
    """how: as the pass `ablate` has it. numbers: of the ops. group: of these. op: what is shown of them,
    "load x" or "all global memory". file, line: "" and 0 of a group. depth: of the loops around them.
    why_not: why it cannot be made, else ""."""

    how: str
    numbers: tuple[int, ...]
    group: str
    op: str
    file: str = ""
    line: int = 0
    depth: int = 0
    why_not: str = ""


class Plan:
    """Of one module's text. memory: the addresses behind each of the kernel's pointers, by argument.
    registers: of a thread, the most that experiments may take; 0 if unknown.

    refused: why there is none at all, else "".
    """

    def __init__(self, text: str, memory: Mapping[int, range], registers: int) -> None:
        self._text = _with_registers(text, registers)
        self._memory = {at: len(addresses) for at, addresses in memory.items()}
        self._graph = Graph(parse(text))
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

    @property
    def unedited(self) -> str:
        """The module's text without an experiment."""
        return self._text

    def edited(self, experiment: Experiment) -> str:
        """The module's text with the experiment. Raises PassError if it cannot be made."""
        memory = tuple(f"{at}:{nbytes}" for at, nbytes in sorted(self._memory.items()))
        numbers = tuple(map(str, experiment.numbers))
        step = Ablate(numbers=numbers, how=experiment.how, memory=() if experiment.how == OFF else memory)
        module = parse(self._text)
        run_pipeline(module, [step], PassContext())
        return str(module)

    def _lines(self) -> Iterator[Experiment]:
        """Ops of one kind, line and variable are one: a pipelined copy stands before the loop and in it."""
        found: dict[tuple[str, int, str], list[int]] = {}
        for number, node in enumerate(self._graph.nodes):
            if group_of(node.op):
                place = self._places.of(node.op)
                found.setdefault((place.file, place.line, _shown(node)), []).append(number)
        for (file, line, op), numbers in found.items():
            nodes = [self._graph.nodes[number] for number in numbers]
            why = [self._protected.why_not(node) or why_stays(node.op) for node in nodes]
            free = tuple(number for number, reason in zip(numbers, why, strict=True) if not reason)
            yield Experiment(
                OFF, free or tuple(numbers), group_of(nodes[0].op), op, file, line,
                max(len(node.loops) for node in nodes), "" if free else why[0],
            )  # fmt: skip

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
        why = [why_fixed(self._graph, node, self._memory, resident=resident) for node in nodes]
        free = tuple(number for number, reason in zip(line.numbers, why, strict=True) if not reason)
        return Experiment(
            how, free or line.numbers, line.group, line.op, line.file, line.line, line.depth,
            "" if free else why[0],
        )  # fmt: skip


def _overlapping(memory: Mapping[int, range]) -> dict[int, int]:
    """By argument the first of those whose memory overlaps."""
    found: dict[int, int] = {}
    for at, own in memory.items():
        others = [each for each in found if memory[each].start < own.stop and own.start < memory[each].stop]
        joined = {found[each] for each in others}
        found[at] = min(joined, default=at)
        found |= {each: found[at] for each, first in found.items() if first in joined}
    return found


def _with_registers(text: str, registers: int) -> str:
    module = parse(text)
    if registers and module.attr(_MOST_REGISTERS) is None:
        module.set_attr(_MOST_REGISTERS, f"{registers} : i32")
    return str(module)


def _shown(node: Node) -> str:
    info = info_of(node.op)
    label = node.name if info is None else info.label
    # An op that was inlined from Triton's own library has the name of a variable there.
    variable = "" if is_library(node.op.loc.file) else variable_of(node.op.loc)
    return f"{label} {variable}".rstrip()
