"""The class of an instruction of PTX, as `profscope.binaries.listing` has those of SASS."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

__all__ = ["ptx_class"]

# The first that matches; what ptxas makes of an instruction decides, such as LDGDEPBAR of a commit.
_CLASSES: Final = tuple(
    (re.compile(pattern), cls)
    for pattern, cls in (
        (r"ldu?\.(\w+\.)*(param|const)\b", "constant load"),
        (r"ldmatrix|ldu?\.(\w+\.)*shared\b", "shared load"),
        (r"ldu?\.(\w+\.)*local\b", "local load"),
        (r"ldu?\b", "global load"),
        (r"st\.(\w+\.)*shared\b", "shared store"),
        (r"st\.(\w+\.)*local\b", "local store"),
        (r"st\b", "global store"),
        (r"(atom|red)\.", "atomic"),
        (r"cp\.async\.wait", "barrier"),
        (r"cp\.async", "async copy"),
        (r"mma\b", "mma"),
        (r"bar\b|barrier|fence|membar|griddepcontrol|nanosleep", "barrier"),
        (r"(ex2|lg2|sin|cos|tanh|rcp|rsqrt|sqrt)\b", "special function"),
        (r"cvt\b", "conversion"),
        (r"(setp|set|testp|isspacep)\b", "predicate"),
        (r"(mov|cvta|movmatrix)\b", "move"),
        (r"(shfl|vote|match|redux|elect|activemask)\b", "warp exchange"),
        (r"(bra|brx|ret|exit|call|trap|brkpt|pmevent)\b", "control"),
        (r"\w+\.(\w+\.)*(b?f16|f32|f64|b?f16x2)\b", "float"),
        (r"(prefetchu?|createpolicy)\b", "other"),
    )
)


@lru_cache(maxsize=1024)
def ptx_class(opcode: str) -> str:
    """ "ld.global.v4.b32": "global load". What is in no other class is integer arithmetic."""
    return next((cls for pattern, cls in _CLASSES if pattern.match(opcode)), "integer")
