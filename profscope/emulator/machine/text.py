"""C strings in device memory and C's printf."""

import ctypes
import re
import struct
from collections.abc import Callable

from profscope.emulator.machine.memory import GlobalMemory

__all__ = ["format_c", "read_c_string"]

_CONVERSION = re.compile(r"%([-+ #0]*)(\d*)(?:\.(\d+))?(hh|h|ll|l)?([diouxXeEfFgGaAcsp%])")


def read_c_string(memory: GlobalMemory, address: int) -> str:
    """The text at `address`, up to a zero byte or its allocation's end."""
    allocation = memory.around(address - memory.base)
    if allocation is None:
        return f"<no text at {address:#x}>"
    data = ctypes.string_at(address, allocation.end - address)
    return data.split(b"\0", 1)[0].decode(errors="replace")


def format_c(template: str, data: bytes, text_at: Callable[[int], str]) -> str:
    """`template` with its conversions filled from `data`, laid out like C variable arguments of a GPU."""
    offset = 0

    def take(code: str) -> int | float:
        nonlocal offset
        size = struct.calcsize(code)
        offset = (offset + size - 1) // size * size
        (value,) = struct.unpack_from("<" + code, data, offset)
        offset += size
        return value  # type: ignore[no-any-return]

    def fill(match: re.Match[str]) -> str:
        flags, width, precision, length, kind = match.groups()
        if kind == "%":
            return "%"
        spec = f"%{flags}{width}" + (f".{precision}" if precision else "")
        if kind in "diu" or kind in "oxX":
            code = "q" if length in ("l", "ll") else "i"
            value = take(code if kind in "di" else code.upper())
            return (spec + ("d" if kind in "diu" else kind)) % value
        if kind in "eEfFgG":
            return (spec + kind) % take("d")
        if kind in "aA":
            return float(take("d")).hex()
        if kind == "c":
            return (spec + "s") % chr(int(take("i")) & 255)
        if kind == "s":
            return (spec + "s") % text_at(int(take("Q")))
        return hex(int(take("Q")))

    return _CONVERSION.sub(fill, template)
