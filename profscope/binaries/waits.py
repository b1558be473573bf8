"""The producers of each instruction's operands: definitions, found backwards through branches.

As GPA slices (Zhou et al., "GPA: A GPU Performance Advisor Based on Instruction Sampling", CGO 2021): from
the registers, predicates and scoreboards that an instruction needs to the instructions that define them, over
all paths of the function. A stall at the first use of a value is thus charged to the load that made it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from profscope.binaries.listing import Flow, Instruction, Listing, blocks_of, class_of, flow_of
from profscope.binaries.operands import Access, access

__all__ = ["Control", "control_of", "waits_of"]

_IN_ORDER: Final = frozenset({"shared load", "global load", "local load", "constant load", "warp exchange"})
_State = dict[str, frozenset[int]]
_NOTHING: frozenset[int] = frozenset()


def waits_of(listing: Listing) -> tuple[list[tuple[int, ...]], list[str]]:
    """By instruction, the numbers of those that it waits for, in order; and notes on unknowns.

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


# The control bits of an instruction: which scoreboards it waits for, and which it sets.
#
# From Volta on they are bits 105 to 125 of the 128: 4 for cycles to stall, 1 for yield, 3 for the scoreboard
# that is set until the result is written, 3 for that until the operands are read (7: none), and a mask of 6
# scoreboards to wait for. Sources: Jia et al., "Dissecting the NVIDIA Turing T4 GPU via Microbenchmarking"
# (arXiv:1903.07486, section 2.1); CuAssembler, `CuAsm/common.py`. Hopper and Blackwell have kept them.


# Waits for asynchronous work: for scoreboards, for groups counted down, for phases of mbarriers.


SCOREBOARDS: Final = 6
_FIRST_BIT: Final = 105
_NONE: Final = 7


@dataclass(frozen=True, slots=True)
class Control:
    """stall: cycles before the next instruction may issue. writes, reads: the scoreboard that is set until
    the result is written, or the operands are read; None without one. waits: the scoreboards waited for."""

    stall: int = 0
    writes: int | None = None
    reads: int | None = None
    waits: tuple[int, ...] = ()

    @property
    def sets(self) -> frozenset[int]:
        """The scoreboards that the instruction sets."""
        return frozenset(board for board in (self.writes, self.reads) if board is not None)


def control_of(encoding: int | None) -> Control:
    """The control bits of a 128-bit encoding; nothing is known of an instruction without one."""
    if encoding is None:
        return Control()
    bits = encoding >> _FIRST_BIT
    writes, reads, mask = (bits >> 5) & 7, (bits >> 8) & 7, bits >> 11
    return Control(
        stall=bits & 15,
        writes=None if writes == _NONE else writes,
        reads=None if reads == _NONE else reads,
        waits=tuple(board for board in range(SCOREBOARDS) if mask >> board & 1),
    )


# What instructions wait for that wait for asynchronous work by its count.
#
# LDGSTS ...; LDGSTS ...; LDGDEPBAR        a group of copies is closed
# DEPBAR.LE SB0, 0x1                       waits until at most one group is under way
# WARPGROUP.DEPBAR.LE gsb0, 0x1            the same for groups of wgmma, closed by an operand gsb0

_BOARD: Final = re.compile(r"SB([0-5])")
# How many more closed groups a walk looks at behind those that may stay under way: older ones are long done.
_FURTHER: Final = 64
# What closes groups of asynchronous work -> the work.
_MEMBERS: Final = {
    "LDGDEPBAR": frozenset({"LDGSTS"}),
    "UTMACMDFLUSH": frozenset({"UTMASTG", "UTMAREDG", "UBLKCP", "UBLKRED"}),
}
_WARP_GROUP: Final = re.compile(r"[HIQB]GMMA$")


class _Walk(NamedTuple):
    """Where a walk back stands: groups closed so far, how many can matter, and the work of the newest."""

    at: int
    closed: int
    limit: int
    members: frozenset[str]


def is_counted_wait(instruction: Instruction) -> bool:
    """Whether an instruction waits until at most so many groups are under way."""
    return instruction.name == "DEPBAR" or instruction.opcode.startswith("WARPGROUP.DEPBAR")


def awaited_groups(
    at: int, instructions: Sequence[Instruction], controls: Sequence[Control], before: Flow
) -> set[int]:
    """The asynchronous work that the counted wait at `at` waits for; nothing if its operands are not read.

    Goes back over all paths and counts the groups closed on the way: the newest may stay under way. An
    earlier wait of the same kind bounds what can still be.
    """
    kept = _kept(instructions[at])
    if kept is None:
        return set()
    closes = _closing(instructions[at], controls)
    awaited: set[int] = set()
    start = _Walk(at, 0, kept + _FURTHER, frozenset())
    seen, waiting = {start}, [start]
    while waiting:
        walk = waiting.pop()
        for earlier in before[walk.at]:
            instruction = instructions[earlier]
            closed, limit, members = walk.closed, walk.limit, walk.members
            if is_counted_wait(instruction) and instruction.operands[:1] == instructions[at].operands[:1]:
                limit = min(limit, closed + (_kept(instruction) or 0))
            is_closing = closes(earlier, instruction)
            if is_closing:
                closed, members = closed + 1, _members(instruction)
            if closed > limit:
                continue
            is_work = instruction.name in members or (is_closing and instruction.name not in _MEMBERS)
            if closed > kept and is_work:
                awaited.add(earlier)
            step = _Walk(earlier, closed, limit, members)
            if step not in seen:
                seen.add(step)
                waiting.append(step)
    return awaited


def _kept(wait: Instruction) -> int | None:
    """How many groups may stay under way."""
    last = wait.operands[-1] if len(wait.operands) > 1 else ""
    return int(last, 16) if re.fullmatch(r"0x[0-9a-f]+", last) else None


def _closing(wait: Instruction, controls: Sequence[Control]) -> Callable[[int, Instruction], bool]:
    """Which instructions close a group that the wait counts."""
    if wait.name == "WARPGROUP":
        return lambda at, instruction: (
            wait.operands[0] in instruction.operands and _is_warp_group_mma(instruction)
        )
    board = _BOARD.fullmatch(wait.operands[0])
    number = int(board[1]) if board else -1
    return lambda at, instruction: number in controls[at].sets


def _members(closing: Instruction) -> frozenset[str]:
    if _is_warp_group_mma(closing):
        return frozenset({closing.name})
    return _MEMBERS.get(closing.name, frozenset())


def _is_warp_group_mma(instruction: Instruction) -> bool:
    return _WARP_GROUP.match(instruction.name) is not None


# What waits for a phase of an mbarrier wait for.
#
# SYNCS.EXCH.64 URZ, [UR8+0x16140], UR12           sets a barrier up
# SYNCS.ARRIVE.TRANS64 RZ, [R5+UR14+0x16140], R3   expects the bytes of copies that follow
# UTMALDG.2D [UR16], [UR10]                        a copy; its barrier is in UR17
# SYNCS.ARRIVE.TRANS64.ART0 RZ, [UR24+0x16160], R5 a warp arrives by itself
# SYNCS.PHASECHK...TRYWAIT P0, [UR24+0x16140], R5  waits for a phase
#
# Which barrier of an array it is, is computed as the kernel runs. But the array's place in shared memory is
# in the instruction, and so are arrays told apart.

# Work that arrives at an mbarrier when it is done.
_ARRIVALS: Final = {"UTMALDG": "copy", "UBLKCP": "copy", "ARRIVES": "copy", "UTCBAR": "mma"}
_COPIES: Final = ("UTMALDG", "UBLKCP")
_ARRIVES_ALONE: Final = ("A1T0", "ART0")  # and expects no bytes
_MMAS: Final = re.compile(r"UTC\w*MMA$")
_OFFSET: Final = re.compile(r"\[\w.*\+(0x[0-9a-f]+)\]")


def awaited_phases(instructions: Sequence[Instruction]) -> Mapping[int, frozenset[int]]:
    """By the number of each wait for a phase, the instructions it waits for; none if unknown.

    If a function has one kind of work that arrives at barriers, all waits are for that. If it has several, as
    with specialised warps, a wait is for the copies or arrivals at barriers of the same place in shared
    memory.
    """
    waits = [at for at, each in enumerate(instructions) if each.opcode.startswith("SYNCS.PHASECHK")]
    kinds: dict[str, set[int]] = {}
    for at, instruction in enumerate(instructions):
        kind = "warps" if _arrives_alone(instruction) else _ARRIVALS.get(instruction.name)
        if kind is not None:
            kinds.setdefault(kind, set()).add(at)
    if list(kinds) == ["copy"]:
        return dict.fromkeys(waits, frozenset(kinds["copy"]))
    if list(kinds) == ["mma"]:
        mmas = {at for at, each in enumerate(instructions) if _MMAS.match(each.name)}
        return dict.fromkeys(waits, frozenset(mmas or kinds["mma"]))
    if kinds.keys() <= {"copy", "warps"}:
        return _by_place(instructions, waits)
    return {}


def _by_place(instructions: Sequence[Instruction], waits: Sequence[int]) -> dict[int, frozenset[int]]:
    barriers, copies, warps = set[str](), dict[str, set[int]](), dict[str, set[int]]()
    expecting: set[int] = set()  # the copies that follow
    for at, instruction in enumerate(instructions):
        place = _place(instruction)
        if instruction.opcode.startswith("SYNCS.EXCH"):
            barriers.add(place)
        elif _arrives_alone(instruction):
            warps.setdefault(place, set()).add(at)
        elif instruction.opcode.startswith("SYNCS.ARRIVE"):
            expecting = copies.setdefault(place, set())
        elif instruction.name in _COPIES:
            expecting.add(at)
    told = (barriers & (copies.keys() ^ warps.keys())) - {""}
    places = {at: _place(instructions[at]) for at in waits}
    return {at: frozenset((copies | warps)[place]) for at, place in places.items() if place in told}


def _arrives_alone(instruction: Instruction) -> bool:
    return instruction.opcode.startswith("SYNCS.ARRIVE") and instruction.opcode.endswith(_ARRIVES_ALONE)


def _place(instruction: Instruction) -> str:
    """What is added to the registers of an address, "" if nothing."""
    return next((match[1] for each in instruction.operands if (match := _OFFSET.fullmatch(each))), "")
