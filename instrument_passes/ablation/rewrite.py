"""One experiment: chosen ops of a module are left out, or get other addresses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from profscope.instrument_passes.ablation.addresses import replace_addresses
from profscope.instrument_passes.ablation.leave_out import Conditions, leave_out
from profscope.instrument_passes.analyses.graph import Graph, Node

__all__ = ["CONTIGUOUS", "OFF", "RESIDENT", "rewrite"]

OFF: Final = "off"
CONTIGUOUS: Final = "contiguous"
RESIDENT: Final = "resident"


def rewrite(graph: Graph, nodes: Iterable[Node], how: str, memory: Mapping[int, int]) -> None:
    """Rewrite the graph's module in place; `protected` has said that these ops may change.

    memory: see `replace_addresses`. Raises PassError if an op cannot be rewritten so.
    """
    conditions = Conditions(graph.module)
    for node in nodes:
        if how == OFF:
            leave_out(node.op, conditions)
        else:
            replace_addresses(graph, node, memory, resident=how == RESIDENT)
