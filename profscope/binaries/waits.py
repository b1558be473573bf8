"""Whose results each instruction needs: definitions and uses, followed backwards through branches.

As GPA slices (Zhou et al., "GPA: A GPU Performance Advisor Based on Instruction Sampling", CGO 2021): from
the registers, predicates and scoreboards that an instruction needs to the instructions that define them, over
all paths of the function. A stall at the first use of a value is thus charged to the load that made it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from profscope.binaries.asynchronous import (
    Control,
    awaited_groups,
    awaited_phases,
    control_of,
    is_counted_wait,
)
from profscope.binaries.flow import blocks_of, flow_of
from profscope.binaries.listing import Instruction, Listing, class_of
from profscope.binaries.operands import Access, access

__all__ = ["waits_of"]

_IN_ORDER: Final = frozenset({"shared load", "global load", "local load", "constant load", "warp exchange"})
_State = dict[str, frozenset[int]]
_NOTHING: frozenset[int] = frozenset()


def waits_of(listing: Listing) -> tuple[list[tuple[int, ...]], list[str]]:
    """By instruction, the numbers of those that it waits for, in order; and notes on what could not be told.

    - An instruction that waits for scoreboards: those that have set them since they were last waited for; of
      these, those whose results or operands it needs, where there are any. Also loads that it needs and that
      set none, since a later one of the same unit stands for them.
    - One that waits for none: those that last wrote what it reads, on every path that leads to it.
    - A wait for asynchronous work: the work, see `pending`.

    What no rule tells is empty. A barrier of the CTA waits for other warps, which are not in this table.
    """
    flow, notes = flow_of(listing)
    slicer = _Slicer(listing.instructions)
    entries = _entries(slicer, [list(following) for following in flow])
    waits: list[tuple[int, ...]] = [()] * len(flow)
    for block, state in entries.items():
        local = _Local(dict(state))
        for at in block:
            waits[at] = slicer.waits(at, local)
            slicer.step(at, local)
    before: list[list[int]] = [[] for _ in flow]
    for at, following in enumerate(flow):
        for each in following:
            before[each].append(at)
    paths = [tuple(each) for each in before]
    phases = awaited_phases(listing.instructions)
    for at, instruction in enumerate(listing.instructions):
        if is_counted_wait(instruction):
            work: Iterable[int] = awaited_groups(at, listing.instructions, slicer.controls, paths)
        elif at in phases:
            work = phases[at]
        else:
            continue
        waits[at] = tuple(sorted(work)) or waits[at]
    return waits, notes


def _entries(slicer: _Slicer, flow: Sequence[Iterable[int]]) -> dict[range, _State]:
    """What holds where each block is entered: by register, predicate and scoreboard, who may have set it
    last."""
    blocks = {block.start: block for block in blocks_of([tuple(following) for following in flow])}
    entries: dict[int, _State] = {0: {}}
    waiting = [0]
    while waiting:
        start = waiting.pop()
        local = _Local(dict(entries[start]))
        for at in blocks[start]:
            slicer.step(at, local)
        for following in flow[blocks[start][-1]]:
            known = entries.get(following)
            if known is None:
                entries[following] = dict(local.state)
            elif not _merge(known, local.state):
                continue
            if following not in waiting:
                waiting.append(following)
    return {blocks[start]: state for start, state in entries.items()}


def _merge(into: _State, state: Mapping[str, frozenset[int]]) -> bool:
    """Whether anything was new."""
    changed = False
    for name, setters in state.items():
        known = into.get(name, _NOTHING)
        if not setters <= known:
            into[name] = known | setters
            changed = True
    return changed


class _Local:
    """What holds at a point of a block.

    guards: by instruction of this block, the guard that it ran under and how often that predicate had been
    written in this block: two guards are opposite only where nothing was written between them.
    """

    def __init__(self, state: _State) -> None:
        self.state = state
        self.written: dict[str, int] = {}
        self.guards: dict[int, tuple[str, int]] = {}

    def guard(self, text: str) -> tuple[str, int]:
        return text, self.written.get(text.lstrip("!"), 0)


class _Slicer:
    def __init__(self, instructions: Sequence[Instruction]) -> None:
        self._instructions = instructions
        self._accesses: list[Access] = [access(instruction) for instruction in instructions]
        self.controls: list[Control] = [_control(instruction) for instruction in instructions]

    def waits(self, at: int, local: _Local) -> tuple[int, ...]:
        """What an instruction waits for, given what holds before it."""
        accesses, state = self._accesses[at], local.state
        producers = set[int]().union(*(state.get(name, _NOTHING) for name in accesses.reads))
        producers -= self._excluded(at, producers, local)
        awaited: set[int] = set()
        for board in self.controls[at].waits:
            setters = state.get(f"SB{board}", _NOTHING)
            needed = setters & producers or {each for each in setters if self._is_overwritten(each, at)}
            awaited |= needed or setters
        if awaited:
            awaited |= {each for each in producers if self._is_covered(each)}
        return tuple(sorted(awaited or producers))

    def step(self, at: int, local: _Local) -> None:
        """Go on behind an instruction."""
        state, guard = local.state, local.guard(self._instructions[at].guard)
        for board in self.controls[at].waits:
            state[f"SB{board}"] = _NOTHING
        if self._accesses[at].guarded:
            local.guards[at] = guard
        mine = frozenset({at})
        for name in self._accesses[at].writes:
            if not self._accesses[at].guarded:
                state[name] = mine
            else:
                known = state.get(name, _NOTHING)
                opposite = {each for each in known if local.guards.get(each) == _opposite(guard)}
                same = {each for each in known if local.guards.get(each) == guard}
                # Of two opposite writes one has happened, whatever came before the first of them.
                behind = {each for each in known if each >= max(opposite)} if opposite else known
                state[name] = mine | opposite | (behind - same)
        for board in self.controls[at].sets:
            state[f"SB{board}"] = state.get(f"SB{board}", _NOTHING) | mine
        for name in self._accesses[at].writes:
            if "P" in name:
                local.written[name] = local.written.get(name, 0) + 1

    def _excluded(self, at: int, producers: Iterable[int], local: _Local) -> set[int]:
        """Those that have run only if this instruction does not."""
        if not self._accesses[at].guarded:
            return set()
        opposite = _opposite(local.guard(self._instructions[at].guard))
        return {each for each in producers if local.guards.get(each) == opposite}

    def _is_covered(self, at: int) -> bool:
        """Whether an instruction sets no scoreboard though its latency varies.

        Loads of one unit come back in order, so the scoreboard of the last of them stands for all.
        """
        return self.controls[at].writes is None and class_of(self._instructions[at].name) in _IN_ORDER

    def _is_overwritten(self, earlier: int, at: int) -> bool:
        """Whether an instruction writes what an earlier one reads or writes."""
        return bool(
            self._accesses[at].writes & (self._accesses[earlier].reads | self._accesses[earlier].writes)
        )


def _control(instruction: Instruction) -> Control:
    """The control bits; DEPBAR {5, 4} waits for the scoreboards in braces, too."""
    control = control_of(instruction.encoding)
    braces = re.search(r"\{(.*)\}", instruction.sass) if instruction.name == "DEPBAR" else None
    if braces is None:
        return control
    named = (int(board) for board in re.findall(r"\d", braces[1]))
    return replace(control, waits=tuple(sorted({*control.waits, *named})))


def _opposite(guard: tuple[str, int]) -> tuple[str, int]:
    text, written = guard
    return (text[1:] if text.startswith("!") else f"!{text}"), written
