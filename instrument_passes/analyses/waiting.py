"""Ops that can keep a warp waiting for others, and the ops that end the wait."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from profscope.instrument_passes.analyses.async_roles import barrier_of
from profscope.instrument_passes.analyses.graph import Graph, Node
from profscope.instrument_passes.analyses.places import variable_of
from profscope.instrument_passes.analyses.walk import constant_of
from profscope.instrument_passes.functions import function_name
from profscope.instrument_passes.ir import Module, Op, Value
from profscope.instrument_passes.ops import info_of

__all__ = ["Wait", "arrivals_at", "polls_of", "wait_of"]

# Assembly that branches back or waits.
_WAITS: Final = re.compile(r"\b(?:bra|bar|barrier|wait|try_wait|test_wait|wait_group|bulk|nanosleep)\b")
_ARRIVES: Final = frozenset(
    {
        "ttng.arrive_barrier",
        "ttng.barrier_expect",
        "ttng.async_tma_copy_global_to_local",
        "ttng.async_tma_gather",
        "ttng.async_copy_mbarrier_arrive",
        "ttng.async_shared_store",
        "ttng.tc_gen5_commit",
        "ttng.tc_gen5_mma",
        "ttng.tc_gen5_mma_scaled",
        "ttng.clc_try_cancel",
    }
)
# Classes of ops that a loop may have and still do nothing but wait for what it reads.
_READS: Final = frozenset({"load", "atomic"})
_IDLE: Final = _READS | {
    "scalar", "view", "alloc", "hint", "control", "barrier", "elementwise", "convert", "reduce", "layout",
}  # fmt: skip
_ADDS: Final = re.compile(r"tt\.atomic_rmw f?add\b")
_FOR: Final[Mapping[str, str]] = {
    "ttg.async_wait": "its asynchronous copies",
    "ttng.async_tma_store_wait": "its TMA stores",
    "ttng.warp_group_dot_wait": "its dots",
    "ttng.warp_group_dot": "its dot",
    "ttng.cluster_wait": "the other CTAs of its cluster",
    "ttng.cluster_barrier": "the other CTAs of its cluster",
    "tt.grid_dependency_wait": "the launch before it",
    "ttg.warp_yield": "the other partitions",
    "ttng.clc_try_cancel_sync": "the next tile",
}


class Wait(NamedTuple):
    """waits_for: in words. detail: as of a `ProgressMark`; values: of the detail, and their types."""

    waits_for: str
    detail: str = ""
    values: tuple[Value, ...] = ()


def wait_of(op: Op, awaited: Mapping[Op, str], *, polls: bool) -> Wait | None:
    """The wait of an op; None if it never waits for other warps. awaited: see `places.awaited`; polls:
    whether it is in a loop that waits for what the op reads."""
    info = info_of(op)
    if op.name == "ttng.wait_barrier":
        return _on_barrier(op, awaited.get(op, ""))
    if op.name in _FOR:
        is_issue = op.name == "ttng.warp_group_dot" and (info is None or not info.completes)
        return None if is_issue else Wait(_FOR[op.name])
    if op.name == "tt.call":
        return Wait(f"{function_name(op.symbol or '')}() to return")
    if op.name in ("tt.elementwise_inline_asm", "ttg.inline_asm"):
        return Wait("its assembly") if _WAITS.search(op.first_line) else None
    if info is None:
        return None
    if info.cls in _READS:
        pointer = op.resolve(op.operands[0]) if polls and op.operands else None
        if pointer is None:
            return None
        is_scalar = pointer.type.startswith("!tt.ptr")
        return Wait("memory", "address", (pointer,)) if is_scalar else Wait("memory")
    if info.cls == "barrier" and info.completes:
        return Wait("the other warps of its CTA")
    return Wait(info.label) if info.cls == "wait" else None


def polls_of(module: Module) -> dict[Op, str]:
    """The loops that do nothing but wait for memory that they read, whose iterations are no progress.

    "poll": they read the same places again and again; "walk": the places follow from what they have read, so
    another address is progress, as in a list.
    """
    if not any(op.name == "scf.while" for op in module.walk()):
        return {}
    graph = Graph(module)
    kinds = {node.op: _polls(graph, node) for node in graph.nodes if node.name == "scf.while"}
    return {op: kind for op, kind in kinds.items() if kind}


def _polls(graph: Graph, loop: Node) -> str:
    """ "" if the loop does something, or ends by itself."""
    inside = graph.inside(loop)
    infos = [(node, info_of(node.op)) for node in inside]
    if any(info is None or info.cls not in _IDLE or _counts(node) for node, info in infos):
        return ""
    reads = [node for node, info in infos if info is not None and info.cls in _READS]
    ends = [value for node in graph.ends(loop) for value in node.operands[:1]]
    if not {*reads} & {*graph.backward(ends)}:
        return ""
    carried = {*graph.arguments(loop, 0), *graph.arguments(loop, 1)}
    moving = [node.operands[0] for node in reads if carried & {*graph.behind(node.operands[:1])}]
    if not all(value.type.startswith("!tt.ptr") for value in moving):
        return ""
    return "walk" if moving else "poll"


def _counts(node: Node) -> bool:
    """Whether an op adds to memory, such as to a counter of tiles."""
    op = node.op
    return _ADDS.search(op.first_line) is not None and constant_of(op, op.operands[1]) != 0


def arrivals_at(module: Module) -> Callable[[Op], list[Op]]:
    """By wait on an mbarrier, the ops that arrive there, or start what does."""
    arriving: dict[Op, list[Op]] = {}
    for op in module.walk():
        barrier = barrier_of(op) if op.name in _ARRIVES else None
        if barrier is not None:
            arriving.setdefault(barrier, []).append(op)

    def arrivals(wait: Op) -> list[Op]:
        barrier = barrier_of(wait)
        return [] if barrier is None else arriving.get(barrier, [])

    return arrivals


def _on_barrier(op: Op, tiles: str) -> Wait:
    """With the index in its array of barriers, if the op's own text has one, and the phase. tiles: what is
    copied if the compiler has made the barrier for that."""
    barrier, phase = op.resolve(op.operands[0]), op.resolve(op.operands[1])
    allocation = barrier_of(op)
    name = "" if allocation is None else variable_of(allocation.loc)
    waits_for = f"the mbarrier of {tiles}" if tiles else f"mbarrier {name}".rstrip()
    chosen = None if barrier is None else barrier.owner
    if isinstance(chosen, Op) and chosen.name == "ttg.memdesc_index" and phase is not None:
        index = chosen.resolve(chosen.operands[1])
        if index is not None and index.type == phase.type == "i32":
            return Wait(waits_for, "barrier", (index, phase))
    if phase is not None and phase.type == "i32":
        return Wait(waits_for, "phase", (phase,))
    return Wait(waits_for)
