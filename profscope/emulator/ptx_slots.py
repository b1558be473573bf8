"""How many instructions of each pipe ptxas makes of an instruction of PTX, which the emulator counts.

As ptxas of CUDA 12.8 does for sm_80, on the way that is usual: without denormals, and with divisors that need
64 bits where a division has them. What it makes of moves depends on the kernel; they count as nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

__all__ = ["ptx_slots"]

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
    (r"div\.(full|approx)", {"fma": 5, "alu": 2, "xu": 1}),
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
    (r"(mul|mad|dp4a|dp2a)\b", {"fma": 1}),
    (r"(min|max)\..*[su]64", {"alu": 4}),
    (r"(add|sub|and|or|xor|not|neg|shl|shr|setp|selp)\..*64", {"alu": 2}),
)
_PATTERNS: Final = [(re.compile(pattern), slots) for pattern, slots in _SLOTS]
_ELSE: Final[Mapping[str, int]] = {"alu": 1}


@lru_cache(maxsize=1024)
def ptx_slots(opcode: str) -> Mapping[str, int]:
    """Instructions by pipe, as `pipe_of` names them: fma, alu, ..., "" for none of them."""
    return next((slots for pattern, slots in _PATTERNS if pattern.match(opcode)), _ELSE)
