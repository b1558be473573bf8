"""How many instructions a cubin has, without a disassembler.

A cubin is an ELF file with the code of each function in a section `.text.NAME`. Since Volta an instruction
has 16 bytes, and the low 12 bits are its opcode (Jia et al., "Dissecting the NVIDIA Volta GPU Architecture
via Microbenchmarking", 2018, chapter 2). Code ends with NOPs that fill up its last 128 bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

__all__ = ["instruction_count"]

_MAGIC: Final = b"\x7fELF\x02"  # of 64 bits
_INSTRUCTION_BYTES: Final = 16
_OPCODE: Final = 0xFFF
_NOP: Final = 0x918


def instruction_count(cubin: bytes) -> int | None:
    """SASS instructions of all functions, padding left out; None for what is no cubin."""
    try:
        codes = [code for name, code in _sections(cubin) if name.startswith(b".text.")]
    except (struct.error, ValueError):
        return None
    return sum(map(_unpadded, codes)) or None


def _unpadded(code: bytes) -> int:
    count = len(code) // _INSTRUCTION_BYTES
    while count and int.from_bytes(code[(count - 1) * _INSTRUCTION_BYTES :][:8], "little") & _OPCODE == _NOP:
        count -= 1
    return count


def _sections(elf: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Names and contents. Raises struct.error or ValueError for what is no ELF file of 64 bits."""
    if not elf.startswith(_MAGIC):
        raise ValueError("not an ELF file of 64 bits")
    (table,) = struct.unpack_from("<Q", elf, 0x28)
    size, count, names_at = struct.unpack_from("<3H", elf, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", elf, table + size * at) for at in range(count)]
    _, _, _, _, names, _ = headers[names_at] if names_at < count else (0,) * 6
    for name, _, _, _, offset, length in headers:
        begin = names + name
        yield elf[begin : elf.index(b"\0", begin)], elf[offset : offset + length]
