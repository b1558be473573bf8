"""Opcodes in one language: the emulator counts instructions of PTX, the hardware those of SASS."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import numpy as np
import pandas as pd

from profscope.analysis.kernels.devices import slots_of
from profscope.emulator.ptx_syntax import sass_name

__all__ = ["in_words_of_sass"]

_PTX_WIDTH: Final = re.compile(r"(?:\.v(\d))?\.[bfsu](\d+)$")
_SASS_WIDTH: Final = re.compile(r"\.(U8|S8|U16|S16|64|128)(?:\.|$)")
_SASS_BYTES: Final = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}


def in_words_of_sass(counts: pd.DataFrame) -> pd.DataFrame:
    """Rows of `prof.counts` with `op`, the opcode in SASS's words without its suffixes, `bytes`, what a
    thread accesses, and `executed` in instructions of SASS."""
    opcodes = counts["opcode"].astype("str")
    slots = [sum(slots_of(opcode).values()) for opcode in opcodes]
    widths = np.array(thread_bytes(opcodes), np.int64)
    copies = opcodes.str.startswith("cp.async").to_numpy(bool)  # of PTX, whose size is an operand
    moved = 32 * counts["sectors_ideal"].to_numpy() / counts["threads"].clip(lower=1).to_numpy()
    widths = np.where(copies, 2 ** np.ceil(np.log2(np.clip(moved, 4, 16))).astype(np.int64), widths)
    return counts.assign(
        op=pd.Series(op_names(opcodes), counts.index, dtype="str"),
        bytes=pd.Series(widths, counts.index, dtype="int64"),
        executed=counts["executed"] * np.array(slots, np.int64),
    )


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
