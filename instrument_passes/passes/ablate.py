"""ablate: leaves ops out or changes their addresses, to measure their cost."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Final

from profscope.instrument_passes.ablation.groups import group_of
from profscope.instrument_passes.ablation.protected import Protected, why_refused
from profscope.instrument_passes.ablation.rewrite import CONTIGUOUS, OFF, RESIDENT, rewrite
from profscope.instrument_passes.analyses.graph import Graph, Node
from profscope.instrument_passes.errors import PassError
from profscope.instrument_passes.ir import Module
from profscope.instrument_passes.passes import Pass, PassContext, register

__all__ = ["Ablate"]

_HOW: Final = (OFF, CONTIGUOUS, RESIDENT)


@register
@dataclass(frozen=True)
class Ablate(Pass):
    """Leaves ops out, or replaces their addresses, to measure their cost. The results are wrong.

    It changes ops that meet all given conditions, at least one. Ops that decide control flow, addresses,
    masks or barriers are refused.

    ops: names of ops, such as tt.load.

    lines: numbers of source lines.

    numbers: positions among all ops of the module, from 0.

    how: "off"; of loads and stores also "contiguous", the same bytes at neighbouring addresses, and
    "resident", the same few KiB for each CTA.

    memory: for these two, the bytes behind each pointer, by the argument's position: "0:4096;1:65536".
    """

    name: ClassVar[str] = "ablate"
    ops: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    how: str = OFF
    memory: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.how not in _HOW:
            raise ValueError(f"how={self.how} is none of {', '.join(_HOW)}")
        if not (self.ops or self.lines or self.numbers):
            raise ValueError("which ops? choose them by ops=, lines= or numbers=")
        unread = [each for each in self.memory if not re.fullmatch(r"\d+:\d+", each)]
        if unread:
            raise ValueError(f"memory={unread[0]} is not argument:bytes")
        wrong = [each for each in (*self.lines, *self.numbers) if not each.isdecimal()]
        if wrong:
            raise ValueError(f"{wrong[0]!r} is not a number")

    def apply(self, module: Module, context: PassContext) -> None:
        graph = Graph(module)
        if why := why_refused(graph):
            raise PassError(why, module.filename)
        chosen = [node for at, node in enumerate(graph.nodes) if self._is_chosen(at, node)]
        if not chosen:
            wanted = {"ops": self.ops, "lines": self.lines, "numbers": self.numbers}
            asked = " ".join(f"{name}={';'.join(values)}" for name, values in wanted.items() if values)
            raise PassError(f"no op that can be left out is {asked}", module.filename)
        protected = Protected(graph)
        for node in chosen:
            if why := protected.why_not(node):
                raise PassError(f"{node.name}: {why}", module.filename, node.op.line)
        memory = {int(at): int(nbytes) for at, nbytes in (each.split(":") for each in self.memory)}
        rewrite(graph, chosen, self.how, memory)

    def _is_chosen(self, at: int, node: Node) -> bool:
        return (
            bool(group_of(node.op))
            and (not self.ops or node.name in self.ops)
            and (not self.lines or str(node.line) in self.lines)
            and (not self.numbers or str(at) in self.numbers)
        )
