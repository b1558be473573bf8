"""Which instructions may run after an instruction: branches, calls and returns of a function."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from profscope.binaries.listing import Instruction, Listing

__all__ = ["Flow", "blocks_of", "flow_of"]

Flow = Sequence[tuple[int, ...]]
"""By instruction, the numbers of those that may run next."""

_BRANCHES: Final = frozenset({"BRA", "JMP"})
_INDIRECT: Final = frozenset({"BRX", "BRXU", "JMX", "JMXU"})
_ENDS: Final = frozenset({"EXIT", "KILL", "WARPEXIT"})


def flow_of(listing: Listing) -> tuple[Flow, list[str]]:
    """The flow of a listing, and notes on what could not be told.

    An indirect branch whose targets nvdisasm does not name leads to every label that nothing else leads to; a
    note says so. A return leads behind every call of its function.
    """
    instructions = listing.instructions
    number = {instruction.pc: at for at, instruction in enumerate(instructions)}
    targets = [tuple(number[pc] for pc in each.targets if pc in number) for each in instructions]
    after: list[tuple[int, ...]] = []
    unknown: list[int] = []
    for at, instruction in enumerate(instructions):
        falls = (at + 1,) if _falls_through(instruction) and at + 1 < len(instructions) else ()
        if instruction.name in _INDIRECT and not targets[at]:
            unknown.append(at)
        if instruction.name == "CALL" and targets[at] and not instruction.guard:
            falls = ()  # it comes back by the callee's return
        after.append(tuple(dict.fromkeys((*falls, *targets[at]))))
    _add_returns(instructions, targets, after)
    notes = []
    if unknown:
        led_to = {target for each in targets for target in each}
        others = sorted({number[pc] for pc in listing.labelled} - led_to)
        for at in unknown:
            after[at] = (*after[at], *others)
        pcs = ", ".join(f"{instructions[at].pc:#x}" for at in unknown)
        notes.append(f"targets of the indirect branch at {pcs} are not known; taken: labels without a branch")
    return after, notes


def blocks_of(flow: Flow) -> list[range]:
    """The basic blocks, in order: runs of instructions of which only the first is led to from elsewhere."""
    starts = {0, len(flow)}
    for at, following in enumerate(flow):
        if following != (at + 1,):
            starts.add(at + 1)
            starts.update(following)
    ordered = sorted(starts)
    return [range(first, last) for first, last in pairwise(ordered)]


def _falls_through(instruction: Instruction) -> bool:
    if instruction.guard not in ("", "PT", "UPT"):
        return True
    if instruction.name in _BRANCHES:  # BRA P0, `(.L_x_1): one more condition
        return "DIV" in instruction.opcode or len(instruction.operands) > 1
    return instruction.name not in (*_INDIRECT, *_ENDS, "RET")


def _add_returns(
    instructions: Sequence[Instruction], targets: Sequence[tuple[int, ...]], after: list[tuple[int, ...]]
) -> None:
    calls: dict[int, list[int]] = {}
    for at, instruction in enumerate(instructions):
        if instruction.name == "CALL":
            for target in targets[at]:
                calls.setdefault(target, []).append(at)
    for entry, callers in calls.items():
        behind = tuple(at + 1 for at in callers if at + 1 < len(instructions))
        for at in _returns(entry, instructions, after, targets):
            after[at] = tuple(dict.fromkeys((*after[at], *behind)))


def _returns(
    entry: int,
    instructions: Sequence[Instruction],
    after: Sequence[tuple[int, ...]],
    targets: Sequence[tuple[int, ...]],
) -> list[int]:
    """The returns that are reached from a function's entry; calls in it are stepped over."""
    seen, waiting, returns = {entry}, [entry], []
    while waiting:
        at = waiting.pop()
        if instructions[at].name == "RET":
            returns.append(at)
            following: tuple[int, ...] = (at + 1,) if instructions[at].guard else ()
        else:
            following = (at + 1,) if instructions[at].name == "CALL" and targets[at] else after[at]
        for each in following:
            if each < len(instructions) and each not in seen:
                seen.add(each)
                waiting.append(each)
    return returns
