"""Control flow, device_print and failed assertions.

The translator makes the ends of basic blocks of branches and barriers; most have no function on arrays.
"""

import ctypes
import re
import struct
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from profscope.emulator.arrays import Array
from profscope.emulator.costs import Cost
from profscope.emulator.machine.batch import Batch
from profscope.emulator.machine.block import Site
from profscope.emulator.machine.memory import LOCAL_WINDOW, GlobalMemory
from profscope.emulator.opcodes.table import Form, Meaning, nothing, op

__all__: list[str] = []


for _names, _modifiers, _meaning in (
    ("bra", "uni", "go on at the label; threads that go different ways meet again where their ways do"),
    (
        "brx.idx",
        "uni",
        "go on at the label that a picks from the list, from 0; the launch fails if there is none",
    ),
    ("ret exit", "uni", "the thread ends; in a device function, go on after the call"),
    (
        "bar barrier",
        "sync aligned cta",
        "wait for all threads of the CTA that have not ended (or as many as the second operand says)",
    ),
    ("bar.warp", "sync", "wait for the warp's lanes; they run in step here"),
    ("nanosleep", "", "go on"),
    ("pmevent", "", "nothing: there are no performance counters"),
):
    op(_names, _modifiers, cost=Cost.CONTROL, results=0, meaning=_meaning)(nothing)


@op("trap brkpt", cost=Cost.CONTROL, results=0)
def trap(form: Form) -> Meaning:
    """the launch fails"""

    def function(machine: Batch, mask: Array | None, site: Site) -> Any:
        raise machine.error(site, "the kernel executed a trap", np.ones((1, 1, 1), np.bool_), mask)

    return Meaning(function, [], [], on_machine=True)


@op("call.vprintf", cost=Cost.CALL, results=1)
def vprintf(form: Form) -> Meaning:
    """print: the arguments are a format and a buffer of values, as in C"""
    result, text, values = form.operands

    def function(machine: Batch, mask: Array | None, site: Site, text: Array, values: Array) -> Array:
        print_from_threads(machine, mask, text, values)
        return np.zeros((1, 1, 1), np.int32)

    return Meaning(function, [(result, "i32")], [(text, "i64"), (values, "i64")], on_machine=True)


@op("call.__assertfail", cost=Cost.CALL, results=0)
def assertfail(form: Form) -> Meaning:
    """the launch fails with the assertion's message"""

    def function(machine: Batch, mask: Array | None, site: Site, *arguments: Array) -> None:
        message, file, line, _, _ = arguments
        assertion_failed(machine, mask, site, message, file, line)

    kinds = ("i64", "i64", "i32", "i64", "i64")
    return Meaning(function, [], list(zip(form.operands, kinds, strict=True)), on_machine=True)


def print_from_threads(batch: Batch, mask: Array | None, text: Array, values: Array) -> None:
    """vprintf: one call a thread, in the order of their numbers, to where this process prints."""
    active = np.broadcast_to(np.True_ if mask is None else mask, batch.shape)
    texts, buffers = (np.broadcast_to(a, batch.shape) for a in (text, values))
    for cta, warp, lane in zip(*np.nonzero(active), strict=True):
        start = int(buffers[cta, warp, lane]) - LOCAL_WINDOW
        data = batch.local[cta, warp, lane][max(start, 0) :].tobytes()
        template = read_c_string(batch.memory, int(texts[cta, warp, lane]))
        sys.stdout.write(format_c(template, data, lambda address: read_c_string(batch.memory, address)))


def assertion_failed(
    batch: Batch, mask: Array | None, site: Site, message: Array, file: Array, line: Array
) -> None:
    """Raise what the assertion says, if a thread is active."""
    active = np.broadcast_to(np.True_ if mask is None else mask, batch.shape)
    if not active.any():
        return
    said = read_c_string(batch.memory, int(message.flat[0]))
    place = f"{read_c_string(batch.memory, int(file.flat[0]))}:{int(line.flat[0])}"
    raise batch.error(site, f"assertion failed at {place}: {said}", active, None)


# C strings in device memory and C's printf.

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
