"""The cost model: the cycles behind every clock value and every wait.

A warp issues the instructions of a basic block in the order of an assembler (`translation/ordering.py`). Each
takes `issue` cycles of its time, or as many as ptxas makes instructions of it (`ptx_slots`); its result is
there `latency` cycles after it was issued, two more for each instruction of an expansion. The first
instruction that reads the result waits for it, as does the end of the basic block if the result is used
beyond. Stores, prefetches and asynchronous copies are not waited for,
except by `cp.async.wait_group`. Instructions that a predicate switches off are issued all the same, but a
wait that is switched off does not wait.

Warps of an SM share its four partitions and its load/store unit. All are taken to run the same code at the
same time: with W warps a partition, W instructions are issued before the same warp's next one, each keeping
the partition for the cycles of its busiest pipe. The load/store unit is the whole SM's: an access of one warp
takes a cycle for each wavefront of shared memory, or for each four sectors of global memory, and with R warps
on an SM, R times as many pass before the warp's next instruction.

Rates: CUDA C++ Programming Guide, "Throughput of Native Arithmetic Instructions", compute capability 8.0 (16
special functions and conversions, 32 float64 results a cycle and SM); NVIDIA A100 whitepaper (32 load/store
lanes an SM, dense tensor-core rates, 128 bytes a cycle and SM of L1 and shared memory). Latencies are of the
order that public dissections of Ampere give. All make a plausible, reproducible clock, not a prediction of
GPU time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from typing import Final, NamedTuple

__all__ = [
    "BARRIER_CYCLES",
    "COSTS",
    "CTA_LAUNCH_CYCLES",
    "EXPANDED_LATENCY",
    "PARTITIONS",
    "SECTORS_PER_CYCLE",
    "STALLS",
    "Cost",
    "Cycles",
    "Stalls",
    "Use",
    "ptx_slots",
    "tensor_cycles",
    "use_of",
]

# How many instructions of each pipe ptxas makes of an instruction of PTX, which the emulator counts.
#
# As ptxas of CUDA 12.8 does for sm_80, on the way that is usual: without denormals, and with divisors that
# need 64 bits where a division has them. What it makes of moves depends on the kernel; they count as nothing.

_SLOTS: Final[tuple[tuple[str, Mapping[str, int]], ...]] = (
    (r"(mov|ld\.param|cvta)\b", {}),
    (r"cp\.async\.wait|bar|bra|brx|ret|exit|call|nop|griddepcontrol", {"": 1}),
    (r"(ld|ldu|st|atom|red|shfl|ldmatrix|cp|prefetchu?|fence|membar)\b", {"lsu": 1}),
    (r"mma\b", {"tensor": 1}),
    (r"div\..*s64", {"fma": 40, "alu": 41, "xu": 3, "": 2}),
    (r"div\..*u64", {"fma": 33, "alu": 32, "xu": 3, "": 2}),
    (r"rem\..*s64", {"fma": 37, "alu": 38, "xu": 3, "": 2}),
    (r"rem\..*u64", {"fma": 33, "alu": 28, "xu": 3, "": 2}),
    (r"div\.s", {"fma": 11, "alu": 9, "xu": 3}),
    (r"div\.u", {"fma": 8, "alu": 9, "xu": 3}),
    (r"rem\.s", {"fma": 9, "alu": 9, "xu": 3}),
    (r"rem\.u", {"fma": 8, "alu": 8, "xu": 3}),
    (r"div\..*f64", {"fp64": 8, "fma": 14, "alu": 3, "xu": 1, "": 2}),
    (r"(sqrt|rcp)\..*f64", {"fp64": 8, "fma": 14, "alu": 13, "xu": 1, "": 2}),
    (r"div\.approx\.ftz", {"fma": 1, "xu": 1}),
    (r"div\.(approx|full\.ftz)", {"fma": 3, "alu": 1, "xu": 1}),
    (r"div\.full", {"fma": 5, "alu": 2, "xu": 1}),
    (r"div\.", {"fma": 9, "alu": 2, "xu": 1, "": 2}),
    (r"rcp\.r", {"fma": 4, "alu": 4, "xu": 1, "": 3}),
    (r"sqrt\.r", {"fma": 5, "alu": 5, "xu": 1, "": 3}),
    (r"(ex2|lg2|rcp|rsqrt|sqrt)\..*ftz|tanh", {"xu": 1}),
    (r"rcp\.approx", {"fma": 2, "alu": 4, "xu": 1}),
    (r"(ex2|lg2|rsqrt|sqrt)\.approx", {"fma": 2, "alu": 1, "xu": 1}),
    (r"(sin|cos)\.approx", {"fma": 1, "xu": 1}),
    (r"(popc|brev|bfind)\b", {"xu": 1}),
    (r"clz\b", {"xu": 1, "alu": 1}),
    (r"cvt\..*f64", {"xu": 1}),
    (r"cvt\.\w*\.?\w*\.?(f|bf)\d+(x2)?\.[su]|cvt\..*[su]\d+\.b?f", {"xu": 1}),
    (r"cvt\.f32\.b?f16", {"fma": 1}),
    (r"\w+\..*f64", {"fp64": 1}),
    (r"(add|sub|mul|fma|mad|neg)\..*f(16|32)(x2)?", {"fma": 1}),
    (r"mul\.hi\..*64", {"fma": 5, "alu": 2}),
    (r"(mul|mad)\.lo\..*64", {"fma": 3, "alu": 1}),
    (r"(mul|mad)\b", {"fma": 1}),
    (r"(min|max)\..*[su]64", {"alu": 4}),
    (r"(add|sub|and|or|xor|not|neg|shl|shr|setp|selp)\..*64", {"alu": 2}),
)
_PATTERNS: Final = [(re.compile(pattern), slots) for pattern, slots in _SLOTS]
_ELSE: Final[Mapping[str, int]] = {"alu": 1}


@lru_cache(maxsize=1024)
def ptx_slots(opcode: str) -> Mapping[str, int]:
    """Instructions by pipe, as `pipe_of` names them: fma, alu, ..., "" for none of them."""
    return next((slots for pattern, slots in _PATTERNS if pattern.match(opcode)), _ELSE)


class Cycles(NamedTuple):
    issue: int
    latency: int


class Cost(Enum):
    """Classes of instructions; the table's rows."""

    MOVE = "register moves and special registers"
    ALU = "integer, logic, compare, float32"
    WIDE = "integer multiply"
    DIVIDE = "division, remainder"
    FLOAT64 = "float64 arithmetic"
    SPECIAL = "ex2, lg2, sin, cos, rcp, rsqrt, sqrt, tanh"
    CONVERT = "conversions, popc, clz"
    EXCHANGE = "shfl, vote, redux"
    MMA = "tensor core"
    MATRIX_LOAD = "ldmatrix"
    PARAMETER = "ld.param, constants"
    SHARED_LOAD = "ld.shared"
    LOCAL = "ld.local"
    GLOBAL_LOAD = "ld.global"
    STORE = "st.global, st.shared, red, prefetch"
    ATOMIC = "atom"
    ASYNC_COPY = "cp.async"
    WAIT = "cp.async.wait_group, fences"
    CONTROL = "bra, ret, bar, nop"
    CALL = "vprintf"


COSTS = {
    Cost.MOVE: Cycles(1, 1),
    Cost.ALU: Cycles(1, 4),
    Cost.WIDE: Cycles(2, 5),
    Cost.DIVIDE: Cycles(1, 18),
    Cost.FLOAT64: Cycles(4, 8),
    Cost.SPECIAL: Cycles(4, 18),
    Cost.CONVERT: Cycles(2, 6),
    Cost.EXCHANGE: Cycles(2, 23),
    Cost.MMA: Cycles(1, 33),
    Cost.MATRIX_LOAD: Cycles(8, 33),
    Cost.PARAMETER: Cycles(1, 8),
    Cost.SHARED_LOAD: Cycles(2, 23),
    Cost.LOCAL: Cycles(4, 40),
    Cost.GLOBAL_LOAD: Cycles(4, 400),
    Cost.STORE: Cycles(4, 0),
    Cost.ATOMIC: Cycles(4, 500),
    Cost.ASYNC_COPY: Cycles(4, 450),  # from issue to the data's arrival in shared memory
    Cost.WAIT: Cycles(4, 0),
    Cost.CONTROL: Cycles(2, 0),
    Cost.CALL: Cycles(1000, 0),
}

BARRIER_CYCLES = 20  # from the last warp's arrival until all go on
CTA_LAUNCH_CYCLES = 300  # from a slot's release to the first instruction of its next CTA
EXPANDED_LATENCY = 2  # cycles for each instruction that ptxas makes of one, if more than two
PARTITIONS = 4  # of an SM, each of which issues an instruction a cycle
SECTORS_PER_CYCLE = 4  # of 32 bytes, that L1 passes: 128 bytes a cycle of an SM


class Stalls(NamedTuple):
    """Why warps do not go on, as Nsight Compute names it. result: those that need an instruction's result.
    busy: one that has issued it, while its unit is busy."""

    result: str
    busy: str


_FIXED: Final = Stalls("wait", "math_pipe_throttle")
_SHARED: Final = Stalls("short_scoreboard", "mio_throttle")
_GLOBAL: Final = Stalls("long_scoreboard", "lg_throttle")

STALLS: Final[Mapping[Cost, Stalls]] = {
    **dict.fromkeys(Cost, _FIXED),
    **dict.fromkeys((Cost.EXCHANGE, Cost.MATRIX_LOAD, Cost.SHARED_LOAD), _SHARED),
    **dict.fromkeys((Cost.GLOBAL_LOAD, Cost.STORE, Cost.ATOMIC, Cost.ASYNC_COPY, Cost.LOCAL), _GLOBAL),
    Cost.SPECIAL: Stalls("short_scoreboard", "math_pipe_throttle"),
    Cost.WAIT: Stalls("wait", "wait"),
    Cost.CONTROL: Stalls("wait", "branch_resolving"),
    Cost.CALL: Stalls("wait", "wait"),
}


class Use(NamedTuple):
    """The cost of an instruction to its SM partition. slots: instructions issued. busy: cycles until the
    partition can do the same for another warp. of_sm: the unit is the SM's, so `busy` is a fourth of it."""

    slots: int
    busy: int
    of_sm: bool


# Cycles for which an instruction keeps a partition's pipe. FMA and ALU take two each and overlap: one slot.
_PIPE_CYCLES: Final = {"xu": 8, "fp64": 4}
_TENSOR_FMA: Final = {"f16": 1024, "bf16": 1024, "tf32": 512, "s8": 2048, "u8": 2048, "f64": 64}
"""Multiply-adds a cycle of an SM, by the type of the operands."""
_SHAPE: Final = re.compile(r"m(\d+)n(\d+)k(\d+)")


@lru_cache(maxsize=1024)
def use_of(opcode: str) -> Use:
    """The cost of a PTX instruction, by its opcode with all modifiers."""
    pipes = ptx_slots(opcode)
    slots = sum(pipes.values())
    if pipes.get("tensor"):
        return Use(slots, PARTITIONS * tensor_cycles(opcode), False)
    if pipes.get("lsu"):
        return Use(slots, PARTITIONS * pipes["lsu"], True)
    return Use(slots, max(slots, *(_PIPE_CYCLES.get(pipe, 1) * n for pipe, n in pipes.items()), 0), False)


def tensor_cycles(opcode: str) -> int:
    """Cycles that an `mma` of one warp keeps all tensor cores of an SM busy, at least 1.

    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32": 2
    """
    shape = _SHAPE.search(opcode)
    kind = next((part for part in opcode.split(".")[6:] if part in _TENSOR_FMA), "f16")
    return max(1, math.prod(map(int, shape.groups())) // _TENSOR_FMA[kind]) if shape else 1
