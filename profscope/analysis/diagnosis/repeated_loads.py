"""redundant-load: a kernel loads what it has loaded before, as the TTGIR tells, or the tensors' bytes."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Final, NamedTuple

from profscope.analysis.cause import Finding, Quantity, cited, of_peak, of_samples
from profscope.analysis.diagnosis import thresholds
from profscope.analysis.diagnosis.facts import LANES, KernelFacts
from profscope.analysis.diagnosis.gains import (
    Without,
    gain,
    held_by_traffic,
    kept_without,
    left_of_traffic,
    missed_by_l1,
)
from profscope.analysis.diagnosis.ttgir_ops import (
    AXES,
    FROM_GLOBAL,
    LOOPS,
    PRODUCTS,
    arguments_of,
    elements,
    grid_axes,
    is_gathered,
    line_of,
    loop_around,
)
from profscope.analysis.diagnosis.witnesses import needs
from profscope.analysis.kernels.kernel_analysis import KernelAnalysis
from profscope.instrument_passes.ir.model import Block, Op, Value

__all__ = ["CAUSES", "Read", "read_by_line", "repeated_loads", "sides_of_grid", "sizes_of"]

_OF_L1: Final = ("l1", "lsu")
_QUEUES: Final = ("lg_throttle", "long_scoreboard", "mio_throttle", "not_selected", "selected", "wait")
_UNKNOWN: Final = -1  # an argument that is none
_CLASSES: Final = ("global load", "async copy")
_ONE_ARGUMENT: Final = re.compile(r"\*?\w+")  # a type: neither a tuple's nor a descriptor's
_NAMES: Final = re.compile(r"%[\w#:]+")
_CHANGES: Final = re.compile(r"tt\.(store|atomic_)")


class _Repeated(NamedTuple):
    """Loads at a line that read again. before: the line that has read it, 0 for an earlier step of the loop.
    share: of the loads at the line."""

    before: int
    share: float


@needs("counts", "samples", "ttgir")
def redundant_load(facts: KernelFacts) -> Iterator[Finding]:
    """Without it the later load is gone, and nobody waits for it, nor, if its traffic binds the kernel, for
    other loads behind it. What the kernel itself stores there between, it has in registers, too."""
    found = repeated_loads(facts)
    every = max(1.0, float(facts.counts["sectors"].sum()))
    loads = facts.counts["op"].isin(["LDG", "LDGSTS"])
    of_loads = facts.samples["blamed_class"].isin(_CLASSES)
    for line, again in found.items():
        sectors = float(facts.counts.loc[loads & facts.at({line}), "sectors"].sum())
        if not sectors or (not again.before and line in facts.lines_run_once):
            continue
        share = again.share * sectors / every
        others, stores = facts.sectors("LDG", "LDGSTS") - sectors, facts.sectors("STG")
        here = of_loads & (facts.samples["blamed_line"] == line)
        waits = again.share * facts.sampled_share(here)
        queue = facts.stalled("long_scoreboard", "lg_throttle") if waits else 0.0
        what = f"line {again.before} has loaded" if again.before else "the step before has loaded"
        what += ", and the kernel may have stored there since" * _is_stored_to(facts, line, again.before)
        left = left_of_traffic(facts, (1 - again.share) * sectors + others, stores)
        yield Finding(
            "redundant-load", facts.place[0], line,
            cited(
                "the address is the one that {what}: {repeated} are loaded again, and {waiting} wait "
                "for that",
                what=what, repeated=Quantity(100 * share, "% of all sectors"), waiting=of_samples(waits),
            ),
            "keep the data in registers (a block that holds the whole row), merge the passes, or load in "
            "front of the loop",
            gain(facts, Without(max(waits, held_by_traffic(facts, left, 1 - left["l1"]) or 0.0), left),
                Without(waits, left), Without(max(waits, queue), left)), "medium",
        )  # fmt: skip


def _is_stored_to(facts: KernelFacts, line: int, before: int) -> bool:
    """Whether the kernel stores by an argument of a load between it and the line before; 0: in its loop."""
    ops = facts.ttgir_ops
    mine = [at for at, op in enumerate(ops) if line_of(op) == line and op.name in FROM_GLOBAL]
    arguments = {each for at in mine for each in arguments_of(ops[at])}
    first = min((at for at, op in enumerate(ops) if line_of(op) == before), default=0)
    around = {loop_around(ops[at]) for at in mine} - {None}
    return any(
        _CHANGES.match(op.name)
        and arguments & arguments_of(op)
        and (first < at < max(mine) if before else not around.isdisjoint(op.ancestors()))
        for at, op in enumerate(ops)
    )


@needs("counters", "counts", "samples", "ttgir")
def overlapping_loads(facts: KernelFacts) -> Iterator[Finding]:
    """Loads ask for several times the bytes of their tensor, L1 has them, and nothing is busier than L1 and
    its queue. Without it each byte is loaded once; at the least, as often as tuned kernels read operands; so
    it is expected where all programs load the same there, and none loads a byte twice. Gathers are left out:
    how much of them overlaps is unknown."""
    l1 = max(facts.used.get(name, 0.0) for name in _OF_L1)
    others = max(facts.used.get(name, 0.0) for name in ("dram", "l2", "issue", "tensor"))
    rows = facts.counts[facts.counts["op"].eq("LDG") & (facts.counts["sectors"] > 0)]
    if l1 < thresholds.BOUND or l1 <= others or rows.empty or facts.has(PRODUCTS.pattern):
        return
    of_a_launch = rows[["sectors", "sectors_ideal"]].div(rows["launches"], axis=0)
    touched = of_a_launch.groupby(rows["line"]).sum().min(axis=1) * 32.0
    repeated = repeated_loads(facts)
    tensors = {line: read.size for line, read in read_by_line(facts).items()}
    again = {
        line: touched[line] - tensors[line]
        for line in touched.index.intersection(list(tensors))
        if touched[line] >= thresholds.REREAD * tensors[line]
        and line not in repeated
        and not any(map(is_gathered, facts.accesses_at(line)))
    }
    share = sum(again.values()) / float(touched.sum())
    here = facts.at(set(again)) & facts.counts["op"].eq("LDG")
    if min(share, 1 - kept_without(facts, here, share)["l1"]) < thresholds.MUCH:
        return
    line = max(again, key=lambda each: again[each])
    queued = facts.stalled(*_QUEUES)
    most, least = (
        Without(part * queued, kept_without(facts, here, part))
        for part in (share, share * (1 - 1 / thresholds.REREAD))
    )
    is_shared = _is_alike(facts, line) and touched[line] <= tensors[line] * facts.grid
    yield Finding(
        "redundant-load", facts.place[0], line,
        cited(
            "loads at this line request {asked} from {bytes} of tensors; of L1 and LSU one is at {used}",
            asked=Quantity(touched[line] / 1e6, "MB"), bytes=Quantity(tensors[line] / 1e6, "MB"),
            used=of_peak(l1),
        ),
        "a program that does what several do now, with what they all load" if is_shared
        else "keep in registers what the next step, or the neighbouring element, needs again",
        gain(facts, least if is_shared else most, least, most), "medium",
    )  # fmt: skip


@needs("counters", "counts", "samples", "ttgir")
def neighbours(facts: KernelFacts) -> Iterator[Finding]:
    """tile-reread. Nothing is busier than L2, and what L1 does not have of a tensor is several times its
    bytes, which several loads ask for: points whose neighbours other programs load, too. Without it programs
    have tiles in which most neighbours are, and L2 sends each byte once; at the least, as often as tuned
    kernels read operands. Products are another matter, and so are gathers: how much of them overlaps is
    unknown."""
    l2 = facts.used.get("l2", 0.0)
    others = max(facts.used.get(name, 0.0) for name in ("dram", "issue", "tensor", *_OF_L1))
    rows = facts.counts[facts.counts["op"].eq("LDG") & (facts.counts["sectors"] > 0)]
    if l2 < max(thresholds.BOUND, others) or rows.empty or facts.has(PRODUCTS.pattern):
        return
    missed = missed_by_l1(facts)
    touched = (32.0 * rows["sectors_ideal"] / rows["launches"]).groupby(rows["line"]).sum()
    stores = facts.counts[facts.counts["op"].eq("STG")]
    loaded, stored = (32.0 * float((each["sectors"] / each["launches"]).sum()) for each in (rows, stores))
    moved = missed * loaded + stored  # by L2
    repeated = repeated_loads(facts)
    of_tensors: dict[Read, list[int]] = {}
    for line, read in read_by_line(facts).items():
        loads = facts.accesses_at(line)
        is_plain = line not in repeated and not any(map(is_gathered, loads))
        if line in touched.index and is_plain and not any(_is_common(facts, load) for load in loads):
            of_tensors.setdefault(read, []).append(line)
    again = {
        read: missed * float(touched[lines].sum()) - read.size
        for read, lines in of_tensors.items()
        if sum(len(facts.accesses_at(line)) for line in lines) >= thresholds.REREAD
    }
    again = {read: more for read, more in again.items() if more >= (thresholds.REREAD - 1) * read.size}
    if sum(again.values()) < thresholds.MUCH * moved:
        return
    read = max(again, key=lambda each: again[each])
    line = max(of_tensors[read], key=lambda each: float(touched[each]))
    left, least = (
        {"l2": max(0.0, 1 - (sum(again.values()) - more) / moved)}
        for more in (0.0, (thresholds.REREAD - 1) * sum(each.size for each in again))
    )
    yield Finding(
        "tile-reread", facts.place[0], line,
        cited(
            "loads ask L2 for {asked} of a tensor of {bytes}, as neighbours are those of other programs, "
            "too; L2 is at {l2}",
            asked=Quantity((again[read] + read.size) / 1e6, "MB"), bytes=Quantity(read.size / 1e6, "MB"),
            l2=of_peak(l2),
        ),
        "tiles of several rows and columns for each program, so that it loads most neighbours itself",
        gain(facts, Without(1 - left["l2"], left), Without(1 - least["l2"], least)), "medium",
    )  # fmt: skip


def _is_common(facts: KernelFacts, load: Op) -> bool:
    """Whether other warps or programs load all of the same, not neighbours only: there are fewer elements
    than the CTA has lanes, or an axis of the grid does not matter."""
    few = bool(load.results) and elements(load.results[0].type) < LANES * facts.warps
    axes = {axis for axis, programs in sides_of_grid(facts).items() if programs > 1}
    return few or bool(axes - grid_axes(load, load.operands[0]))


def sides_of_grid(facts: KernelFacts) -> dict[str, int]:
    """How many programs there are along each axis of the grid."""
    launch = facts.analysis.launches.iloc[0]
    return {axis: int(launch[f"grid_{axis}"]) for axis in AXES}


def _is_alike(facts: KernelFacts, line: int) -> bool:
    """Whether all programs load the same there."""
    return not any(grid_axes(op, op.operands[0]) for op in facts.accesses_at(line))


class Read(NamedTuple):
    """What loads read from. arguments: positions of the kernel's arguments. size: the bytes of these tensors;
    infinite if one of them is not known, or has none: then what is loaded is not in it."""

    arguments: frozenset[int]
    size: float


def read_by_line(facts: KernelFacts) -> dict[int, Read]:
    """By line, what its loads read from."""
    found: dict[int, set[int]] = {}
    for op, line, _ in facts.located_ops:
        if op.name in FROM_GLOBAL and op.operands:
            found.setdefault(line, set()).update(arguments_of(op) or {_UNKNOWN})
    sizes = sizes_of(facts.analysis)
    return {
        line: Read(frozenset(of), sum(sizes.get(at) or math.inf for at in of)) for line, of in found.items()
    }


def sizes_of(judged: KernelAnalysis) -> dict[int, int]:
    """By the position of an argument of the kernel, the bytes of its tensor, {} if not known. Tuples and
    descriptors are several arguments each: those behind one are unknown."""
    told = (judged.tables.metadata.get("hardware") or {}).get("tensors") or ()
    of = judged.kernel, judged.configuration.get("key")
    sizes: Mapping[str, int] = next(
        (each["bytes"] for each in told if (each["kernel"], each["key"]) == of), {}
    )
    kinds = judged.configuration.get("signature") or {}
    given = [(name, str(kind)) for name, kind in kinds.items() if kind != "constexpr"]
    alone = takewhile(lambda each: _ONE_ARGUMENT.fullmatch(each[1]), given)
    return {at: sizes[name] for at, (name, _) in enumerate(alone) if name in sizes}


def repeated_loads(facts: KernelFacts) -> dict[int, _Repeated]:
    """By line, loads whose pointer is computed as an earlier load's, or in the same way in each step. Of a
    line with a load in a loop only those in loops count: the others load for its first steps."""
    earlier: dict[int, list[tuple[Op, int]]] = {}
    again: dict[int, list[int]] = {}
    loads: Counter[int] = Counter()
    expressions = _Expressions()
    located = [each for each in facts.located_ops if each[0].name in FROM_GLOBAL and each[0].operands]
    in_loops = {line for _, line, is_inside in located if is_inside}
    for op, line, is_inside in located:
        counts = line > 0 and (is_inside or line not in in_loops)
        loads[line] += counts
        pointer = op.operands[0]
        alike = earlier.setdefault(expressions.number(op, pointer), [])
        before = next((at for other, at in alike if _runs_before(other, op)), None)
        if counts and before is not None:
            again.setdefault(line, []).append(before)
        elif counts and any(not _varies(op, pointer, each) for each in op.ancestors() if each.name in LOOPS):
            again.setdefault(line, []).append(0)
        alike.append((op, line))
    return {line: _Repeated(before[0], len(before) / loads[line]) for line, before in again.items()}


def _runs_before(earlier: Op, later: Op) -> bool:
    """Whether the earlier op has run whenever the later one does: not in another branch. Loops are taken to
    have a step."""
    block, around = earlier.parent, [each.parent for each in (later, *later.ancestors())]
    while block is not None and block not in around:
        loop = block.parent_op
        block = loop.parent if loop is not None and loop.name == "scf.for" else None
    return block is not None


class _Expressions:
    """Numbers for how values are computed, equal for equal computations. A loop's counter is its bounds;
    what a loop carries, a load or a region gives, is only equal to itself."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[object, ...], int] = {}
        self._known: dict[tuple[int, int], int] = {}

    def number(self, user: Op, name: str) -> int:
        """Of the value that `name` means for the op."""
        value = user.resolve(name)
        if value is None:
            return self._of((name,))
        place = id(value.owner), value.index
        if place not in self._known:
            self._known[place] = self._of(self._computation(value))
        return self._known[place]

    def _computation(self, value: Value) -> tuple[object, ...]:
        owner, index = value.owner, value.index
        if isinstance(owner, Block):
            loop = owner.parent_op
            if loop is not None and loop.name == "scf.for" and index == 0:
                return "counter", *(self.number(loop, each) for each in loop.operands[:3])
            return "argument", id(owner), index
        if owner.regions or owner.name in FROM_GLOBAL:
            return "result", id(owner), index
        text = _NAMES.sub("%", str(owner).split(" loc(", 1)[0].strip())
        return text, index, *(self.number(owner, each) for each in owner.operands)

    def _of(self, computation: tuple[object, ...]) -> int:
        return self._numbers.setdefault(computation, len(self._numbers))


def _varies(user: Op, name: str, loop: Op) -> bool:
    """Whether a value may be another one in the next step of the loop; of the counter of a loop inside,
    whether it counts otherwise."""
    left, seen = [(user, name)], set()
    while left:
        op, used = left.pop()
        value = op.resolve(used)
        if value is None:
            return True
        owner = value.owner
        around = owner.parent_op if isinstance(owner, Block) else owner
        if around is None or loop not in (around, *around.ancestors()) or id(owner) in seen:
            continue
        seen.add(id(owner))
        if isinstance(owner, Block):
            if around is loop or around.name != "scf.for" or value.index:
                return True
            left += [(around, each) for each in around.operands[:3]]
        elif owner.regions or owner.name in FROM_GLOBAL or owner.name.startswith("tt.atomic_"):
            return True
        else:
            left += [(owner, each) for each in owner.operands]
    return False


CAUSES: Final = (redundant_load, overlapping_loads, neighbours)
