"""What waits for a phase of an mbarrier wait for.

SYNCS.EXCH.64 URZ, [UR8+0x16140], UR12           sets a barrier up
SYNCS.ARRIVE.TRANS64 RZ, [R5+UR14+0x16140], R3   expects the bytes of copies that follow
UTMALDG.2D [UR16], [UR10]                        a copy; its barrier is in UR17
SYNCS.ARRIVE.TRANS64.ART0 RZ, [UR24+0x16160], R5 a warp arrives by itself
SYNCS.PHASECHK...TRYWAIT P0, [UR24+0x16140], R5  waits for a phase

Which barrier of an array it is, is computed as the kernel runs. But the array's place in shared memory is in
the instruction, and so are arrays told apart.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from instrument_passes.sass.listing import Instruction

__all__ = ["awaited_phases"]

# Work that arrives at an mbarrier when it is done.
_ARRIVALS: Final = {"UTMALDG": "copy", "UBLKCP": "copy", "ARRIVES": "copy", "UTCBAR": "mma"}
_COPIES: Final = ("UTMALDG", "UBLKCP")
_ARRIVES_ALONE: Final = ("A1T0", "ART0")  # and expects no bytes
_MMAS: Final = re.compile(r"UTC\w*MMA$")
_OFFSET: Final = re.compile(r"\[\w.*\+(0x[0-9a-f]+)\]")


def awaited_phases(instructions: Sequence[Instruction]) -> Mapping[int, frozenset[int]]:
    """By the number of each wait for a phase, what it waits for; nothing where that is not known.

    Where a function has one kind of work that arrives at barriers, all waits are for that. Where it has
    several, as where warps are specialised, a wait is for those who arrive at barriers of the same place in
    shared memory: copies, or the arrivals of other warps.
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
