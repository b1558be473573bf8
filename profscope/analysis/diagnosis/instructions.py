"""Opcodes in one language: the emulator counts instructions of PTX, the hardware those of SASS."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

__all__ = ["op_names", "thread_bytes"]

_NAMES: Final = tuple(
    (re.compile(pattern), name)
    for pattern, name in (
        (r"(ld|ldu)\.param|mov|cvta", "MOV"),
        (r"ldmatrix", "LDSM"),
        (r"(ld|ldu)\.\S*shared", "LDS"),
        (r"st\.\S*shared", "STS"),
        (r"(ld|ldu)\.\S*local", "LDL"),
        (r"st\.\S*local", "STL"),
        (r"cp\.async\.(wait|commit|mbarrier)", "LDGDEPBAR"),
        (r"cp\.async", "LDGSTS"),
        (r"(ld|ldu)\b", "LDG"),
        (r"st\b", "STG"),
        (r"atom", "ATOM"),
        (r"red\.(async\.)?\S*global", "RED"),
        (r"bar", "BAR"),
        (r"shfl", "SHFL"),
        (r"mma", "HMMA"),
        (r"cvt", "F2F"),
        (r"\w+\..*f64", "DFMA"),
        (r"(ex2|lg2|rcp|rsqrt|sqrt|sin|cos|tanh)\b", "MUFU"),
        (r"(fma|mad)\..*f(16|32)", "FFMA"),
        (r"mul\..*f(16|32)", "FMUL"),
        (r"(add|sub)\..*f(16|32)", "FADD"),
        (r"prmt", "PRMT"),
        (r"sh[lrf]", "SHF"),
        (r"(and|or|xor|not|lop3)\b", "LOP3"),
    )
)
"""By the opcode in PTX, what ptxas mostly makes of it."""
_PTX_WIDTH: Final = re.compile(r"(?:\.v(\d))?\.[bfsu](\d+)$")
_SASS_WIDTH: Final = re.compile(r"\.(U8|S8|U16|S16|64|128)(?:\.|$)")
_SASS_BYTES: Final = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}


def op_names(opcodes: Iterable[str]) -> list[str]:
    """Of each opcode the name in SASS without its modifiers, such as LDG."""
    return [_name(opcode) if opcode[:1].islower() else opcode.partition(".")[0] for opcode in opcodes]


def thread_bytes(opcodes: Iterable[str]) -> list[int]:
    """Of each opcode the bytes that a thread accesses, if it accesses memory."""
    return [_ptx_bytes(opcode) if opcode[:1].islower() else _sass_bytes(opcode) for opcode in opcodes]


def _name(opcode: str) -> str:
    known = (name for pattern, name in _NAMES if pattern.match(opcode))
    return next(known, opcode.partition(".")[0].upper())


def _ptx_bytes(opcode: str) -> int:
    width = _PTX_WIDTH.search(opcode)
    return int(width[1] or 1) * int(width[2]) // 8 if width else 4


def _sass_bytes(opcode: str) -> int:
    width = _SASS_WIDTH.search(opcode)
    return _SASS_BYTES[width[1]] if width else 4
