"""redundant-load: a loop loads what was loaded before, as the TTGIR tells."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from instrument_passes.ir.model import Block, Op
from profscope.analysis.cause import Finding
from profscope.analysis.diagnosis.facts import KernelFacts
from profscope.analysis.diagnosis.gains import gain_pct, left_of_traffic
from profscope.analysis.diagnosis.witnesses import needs

__all__ = ["CAUSES"]

_LOADS: Final = ("tt.load", "ttg.async_copy_global_to_local")
_CLASSES: Final = ("global load", "async copy")
_LEAST_SECTORS: Final = 0.1  # of all sectors, which the repeated loads must read
_NAMES: Final = re.compile(r"%[\w#:]+")


class _Repeated(NamedTuple):
    """Loads at a line that read again. before: the line that has read it, 0 for an earlier step of the loop.
    share: of the loads at the line."""

    before: int
    share: float


@needs("counts", "samples", "ttgir")
def redundant_load(facts: KernelFacts) -> Iterator[Finding]:
    """Without it the later load is gone, and nobody waits for it. That no store changes the data between is
    not known."""
    found = _repeated(facts)
    every = max(1.0, float(facts.counts["sectors"].sum()))
    loads = facts.counts["op"].isin(["LDG", "LDGSTS"])
    of_loads = facts.samples["blamed_class"].isin(_CLASSES)
    for line, again in found.items():
        sectors = float(facts.counts.loc[loads & facts.at({line}), "sectors"].sum())
        share = again.share * sectors / every
        if share < _LEAST_SECTORS:
            continue
        others, stores = facts.sectors("LDG", "LDGSTS") - sectors, facts.sectors("STG")
        here = of_loads & (facts.samples["blamed_line"] == line)
        waits = again.share * float(facts.samples.loc[here, "samples"].sum()) / facts.sampled
        what = f"line {again.before} has loaded" if again.before else "the step before has loaded"
        yield Finding(
            "redundant-load", facts.place[0], line,
            f"the address is the one that {what}: {100 * share:.0f} % of all sectors are loaded again, and "
            f"{100 * waits:.0f} % of the samples wait for that",
            "keep the data in registers (a block that holds the whole row), merge the passes, or load in "
            "front of the loop",
            gain_pct(facts, waits, left_of_traffic(facts, (1 - again.share) * sectors + others, stores)), "medium",
        )  # fmt: skip


def _repeated(facts: KernelFacts) -> dict[int, _Repeated]:
    """By line, loads whose pointer is computed as an earlier load's, or in the same way in each step."""
    earlier: dict[str, list[tuple[Op, int]]] = {}
    again: dict[int, list[int]] = {}
    loads: Counter[int] = Counter()
    for op, line, _ in facts.located_ops:
        if op.name not in _LOADS or not op.operands or not line:
            continue
        loads[line] += 1
        pointer = op.operands[0]
        alike = earlier.setdefault(_expression(op, pointer), [])
        before = next((at for other, at in alike if _runs_before(other, op)), None)
        if before is not None:
            again.setdefault(line, []).append(before)
        elif any(not _varies(op, pointer, loop) for loop in _loops_around(op)):
            again.setdefault(line, []).append(0)
        alike.append((op, line))
    return {line: _Repeated(before[0], len(before) / loads[line]) for line, before in again.items()}


def _runs_before(earlier: Op, later: Op) -> bool:
    """Whether the earlier op has run whenever the later one does: not in another branch. Loops are taken to
    have a step."""
    block, around = earlier.parent, list(_blocks_around(later))
    while block is not None and block not in around:
        loop = block.parent_op
        block = loop.parent if loop is not None and loop.name == "scf.for" else None
    return block is not None


def _blocks_around(op: Op | None) -> Iterator[Block]:
    while op is not None and op.parent is not None:
        yield op.parent
        op = op.parent_op


def _loops_around(op: Op) -> Iterator[Op]:
    """The innermost one first."""
    parent = op.parent_op
    while parent is not None:
        if parent.name in ("scf.for", "scf.while"):
            yield parent
        parent = parent.parent_op


def _expression(user: Op, name: str) -> str:
    """How a value is computed, in a form that equal computations share. A loop's counter is its bounds; what
    a loop carries, a load or a region gives, is only equal to itself."""
    value = user.resolve(name)
    if value is None:
        return name
    owner = value.owner
    if isinstance(owner, Block):
        loop = owner.parent_op
        if loop is not None and loop.name == "scf.for" and value.index == 0:
            return f"counter({','.join(_expression(loop, each) for each in loop.operands[:3])})"
        return f"{value.name}@{id(owner)}"
    if owner.regions or owner.name in _LOADS:
        return f"{value.name}@{id(owner)}"
    text = _NAMES.sub("%", str(owner).split(" loc(", 1)[0].strip())
    return f"{text}({','.join(_expression(owner, each) for each in owner.operands)})#{value.index}"


def _varies(user: Op, name: str, loop: Op) -> bool:
    """Whether a value may be another one in the next step of the loop; of the counter of a loop inside, whether it
    counts otherwise."""
    value = user.resolve(name)
    if value is None:
        return True
    owner = value.owner
    if isinstance(owner, Block):
        inner = owner.parent_op
        if inner is not None and inner is not loop and inner.name == "scf.for" and value.index == 0:
            return _is_within(inner, loop) and any(_varies(inner, n, loop) for n in inner.operands[:3])
        return _is_within(inner, loop)
    if not _is_within(owner, loop):
        return False
    return bool(owner.regions) or owner.name in _LOADS or any(_varies(owner, n, loop) for n in owner.operands)


def _is_within(op: Op | None, loop: Op) -> bool:
    while op is not None and op is not loop:
        op = op.parent_op
    return op is loop


CAUSES: Final = (redundant_load,)
