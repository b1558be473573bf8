"""Single instructions on arrays, and what integer instructions give by Python's integers."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tests.support.ptx_kernel import run

LANES = 32
REGISTER = {2: "%h", 4: "%r", 8: "%q"}


def load(register: str, pointer: str, size: int) -> str:
    return f"""
  mad.wide.u32 %q30, %t, {size}, {pointer};
  ld.global.b{8 * size} {register}, [%q30];"""


def store(register: str, size: int) -> str:
    return f"""
  mad.wide.u32 %q31, %t, {size}, %out;
  st.global.b{8 * size} [%q31], {register};"""


def execute(instruction: str, inputs: list[np.ndarray], out: np.dtype) -> np.ndarray:
    """`instruction` is a format with {d}, {a}, {b}, {c} for the registers."""
    names = {}
    body = ""
    for letter, array, pointer, number in zip("abc", inputs, ("%a", "%b", "%c"), range(3), strict=False):
        size = array.dtype.itemsize
        names[letter] = f"{REGISTER[size]}{number}"
        body += load(names[letter], pointer, size)
    result = np.zeros(LANES, out)
    names["d"] = f"{REGISTER[out.itemsize]}9"
    body += f"\n  {instruction.format(**names)};" + store(names["d"], out.itemsize)
    run(body, *inputs, result)
    return result


def words(dtype: type) -> st.SearchStrategy[np.ndarray]:
    """Full arrays of a dtype; edge values come up often."""
    info = np.iinfo(dtype) if np.issubdtype(dtype, np.integer) else None
    elements = None
    if info is not None:
        edges = [info.min, info.max, 0, 1, info.max // 2]
        elements = st.sampled_from(edges) | st.integers(info.min, info.max)
    return arrays.arrays(dtype, LANES, elements=elements)


INTEGER: dict[str, tuple[type, Callable[[int, int], int]]] = {
    "add.s32": (np.int32, lambda a, b: a + b),
    "sub.s64": (np.int64, lambda a, b: a - b),
    "mul.lo.s32": (np.int32, lambda a, b: a * b),
    "mul.lo.s16": (np.int16, lambda a, b: a * b),
    "mul.hi.s32": (np.int32, lambda a, b: a * b >> 32),
    "mul.hi.u32": (np.uint32, lambda a, b: a * b >> 32),
    "mul.hi.u64": (np.uint64, lambda a, b: a * b >> 64),
    "mul.hi.s64": (np.int64, lambda a, b: a * b >> 64),
    "div.s32": (np.int32, lambda a, b: -1 if b == 0 else int(Fraction(a, b))),
    "div.u32": (np.uint32, lambda a, b: -1 if b == 0 else a // b),
    "div.s64": (np.int64, lambda a, b: -1 if b == 0 else int(Fraction(a, b))),
    "rem.s32": (np.int32, lambda a, b: -1 if b == 0 else a - b * int(Fraction(a, b))),
    "rem.u64": (np.uint64, lambda a, b: -1 if b == 0 else a % b),
    "min.s32": (np.int32, min), "max.u32": (np.uint32, max), "min.u64": (np.uint64, min),
    "max.s16": (np.int16, max),
    "and.b32": (np.uint32, lambda a, b: a & b), "or.b64": (np.uint64, lambda a, b: a | b),
    "xor.b16": (np.uint16, lambda a, b: a ^ b),
}  # fmt: skip

ONE_OPERAND: dict[str, tuple[type, type, Callable[[int], int]]] = {
    "popc.b32": (np.uint32, np.uint32, lambda a: a.bit_count()),
    "popc.b64": (np.uint64, np.uint32, lambda a: a.bit_count()),
    "clz.b32": (np.uint32, np.uint32, lambda a: 32 - a.bit_length()),
    "clz.b64": (np.uint64, np.uint32, lambda a: 64 - a.bit_length()),
    "brev.b32": (np.uint32, np.uint32, lambda a: int(f"{a:032b}"[::-1], 2)),
    "brev.b64": (np.uint64, np.uint64, lambda a: int(f"{a:064b}"[::-1], 2)),
    "bfind.u32": (np.uint32, np.uint32, lambda a: a.bit_length() - 1),
    "not.b32": (np.uint32, np.uint32, lambda a: ~a), "neg.s32": (np.int32, np.int32, lambda a: -a),
    "abs.s32": (np.int32, np.int32, abs),
}  # fmt: skip
