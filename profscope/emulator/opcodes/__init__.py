"""The opcode table, one module a group; importing this package fills it."""

from profscope.emulator.opcodes import arithmetic, bits, control, convert, memory, warp
from profscope.emulator.opcodes.table import TABLE, Form, Meaning, Op, lookup

__all__ = [
    "TABLE",
    "Form",
    "Meaning",
    "Op",
    "arithmetic",
    "bits",
    "control",
    "convert",
    "lookup",
    "memory",
    "warp",
]
