"""What an instruction of PTX is: its class, as `profscope.binaries.listing` has them, and the opcode
of SASS that ptxas mostly makes of it."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

__all__ = ["ptx_class", "sass_name"]

_SPACES: Final = r"(\w+\.)*"
_XU: Final = r"(ex2|lg2|sin|cos|tanh|rcp|rsqrt|sqrt)"
# The first that matches; what ptxas makes of an instruction decides, such as LDGDEPBAR of a commit. Without a
# name it is the opcode's own.
_TABLE: Final = tuple(
    (re.compile(pattern), cls, name)
    for pattern, cls, name in (
        (rf"ldu?\.{_SPACES}param\b", "constant load", "MOV"),
        (rf"ldu?\.{_SPACES}const\b", "constant load", "LDC"),
        (r"ldmatrix", "shared load", "LDSM"),
        (rf"ldu?\.{_SPACES}shared\b", "shared load", "LDS"),
        (rf"ldu?\.{_SPACES}local\b", "local load", "LDL"),
        (r"ldu?\b", "global load", "LDG"),
        (rf"st\.{_SPACES}shared\b", "shared store", "STS"),
        (rf"st\.{_SPACES}local\b", "local store", "STL"),
        (r"st\b", "global store", "STG"),
        (r"atom\.", "atomic", "ATOM"),
        (r"red\.", "atomic", "RED"),
        (r"cp\.async\.wait", "barrier", "LDGDEPBAR"),
        (r"cp\.async\.(commit|mbarrier)", "async copy", "LDGDEPBAR"),
        (r"cp\.async", "async copy", "LDGSTS"),
        (r"mma\b", "mma", "HMMA"),
        (r"bar\b|barrier", "barrier", "BAR"),
        (r"fence|membar|griddepcontrol|nanosleep", "barrier", ""),
        (rf"{_XU}\.{_SPACES}f64", "special function", "DFMA"),
        (rf"{_XU}\b", "special function", "MUFU"),
        (r"cvt\b", "conversion", "F2F"),
        (rf"(setp|set|testp)\.{_SPACES}f64", "predicate", "DFMA"),
        (r"(setp|set|testp|isspacep)\b", "predicate", ""),
        (r"(mov|cvta|movmatrix)\b", "move", "MOV"),
        (r"shfl\b", "warp exchange", "SHFL"),
        (r"(vote|match|redux|elect|activemask)\b", "warp exchange", ""),
        (r"(bra|brx|ret|exit|call|trap|brkpt|pmevent)\b", "control", ""),
        (rf"\w+\.{_SPACES}f64\b", "float", "DFMA"),
        (rf"(fma|mad)\.{_SPACES}b?f(16|32|16x2)\b", "float", "FFMA"),
        (rf"mul\.{_SPACES}b?f(16|32|16x2)\b", "float", "FMUL"),
        (rf"(add|sub)\.{_SPACES}b?f(16|32|16x2)\b", "float", "FADD"),
        (rf"\w+\.{_SPACES}b?f(16|32|16x2)\b", "float", ""),
        (r"(prefetchu?|createpolicy)\b", "other", ""),
        (r"prmt\b", "integer", "PRMT"),
        (r"sh[lrf]\b", "integer", "SHF"),
        (r"(and|or|xor|not|lop3)\b", "integer", "LOP3"),
    )
)


@lru_cache(maxsize=1024)
def _row(opcode: str) -> tuple[str, str]:
    known = ((cls, name) for pattern, cls, name in _TABLE if pattern.match(opcode))
    cls, name = next(known, ("integer", ""))
    return cls, name or opcode.partition(".")[0].upper()


def ptx_class(opcode: str) -> str:
    """ "ld.global.v4.b32": "global load". What is in no other class is integer arithmetic."""
    return _row(opcode)[0]


def sass_name(opcode: str) -> str:
    """ "ld.global.v4.b32": "LDG"."""
    return _row(opcode)[1]
