"""Opcodes in one language: the emulator counts instructions of PTX, the hardware those of SASS."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from profscope.emulator.ptx_syntax import sass_name

__all__ = ["CONVERSIONS", "op_names", "thread_bytes"]

CONVERSIONS: Final = ("F2F", "F2FP", "I2F", "F2I", "I2FP", "F2IP", "I2I", "FRND")
"""Opcodes that turn one type of number into another."""
_PTX_WIDTH: Final = re.compile(r"(?:\.v(\d))?\.[bfsu](\d+)$")
_SASS_WIDTH: Final = re.compile(r"\.(U8|S8|U16|S16|64|128)(?:\.|$)")
_SASS_BYTES: Final = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}


def op_names(opcodes: Iterable[str]) -> list[str]:
    """Of each opcode the name in SASS without its modifiers, such as LDG."""
    return [sass_name(opcode) if opcode[:1].islower() else opcode.partition(".")[0] for opcode in opcodes]


def thread_bytes(opcodes: Iterable[str]) -> list[int]:
    """Of each opcode the bytes that a thread accesses, if it accesses memory."""
    return [_ptx_bytes(opcode) if opcode[:1].islower() else _sass_bytes(opcode) for opcode in opcodes]


def _ptx_bytes(opcode: str) -> int:
    width = _PTX_WIDTH.search(opcode)
    return int(width[1] or 1) * int(width[2]) // 8 if width else 4


def _sass_bytes(opcode: str) -> int:
    width = _SASS_WIDTH.search(opcode)
    return _SASS_BYTES[width[1]] if width else 4
