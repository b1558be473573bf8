"""Logic, shifts and bit fields."""

from collections.abc import Callable

import numpy as np

from profscope.emulator.arrays import DTYPES, Array
from profscope.emulator.costs import Cost
from profscope.emulator.opcodes.arithmetic import signless
from profscope.emulator.opcodes.table import Form, Meaning, elementwise, op

__all__: list[str] = []


@op("lop3")
def lop3(form: Form) -> Meaning:
    """d = the function of a, b, c whose truth table is the immediate"""
    table = form.constant(4)
    if table is None:
        raise form.unsupported("the truth table must be a constant")

    def function(a: Array, b: Array, c: Array, _: Array) -> Array:
        result = np.zeros(1, np.int32)
        for row in range(8):
            if table >> row & 1:
                result = result | ((a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c))
        return result

    return elementwise(form, function, "i32", "i32", "i32", "i32", "i32")


@op("shl shr")
def shift(form: Form) -> Meaning:
    """d = a shifted by min(b, width) bits; `shr` of a signed type copies the sign"""
    is_logical = ".s" not in form.instruction.opcode
    kind = signless(form.kind) if form.name == "shl" else "u" + form.kind[1:] if is_logical else form.kind
    dtype = DTYPES[kind]
    width = dtype.itemsize * 8
    function: Callable[..., Array] = np.left_shift if form.name == "shl" else np.right_shift
    count = form.constant(2)
    if count is not None and dtype.itemsize == 4:
        return elementwise(form, function, kind, kind, kind)

    def clamped(a: Array, b: Array) -> Array:
        return function(a, np.minimum(b, np.uint32(width)).astype(dtype))

    return elementwise(form, clamped, kind, kind, "u32")


@op("shf", "l r clamp wrap")
def shf(form: Form) -> Meaning:
    """d = 32 bits of the pair b:a shifted left (its upper half) or right (its lower half) by c"""
    is_left, wraps = form.has("l"), form.has("wrap")

    def function(a: Array, b: Array, c: Array) -> Array:
        count = (c & np.uint32(31) if wraps else np.minimum(c, np.uint32(32))).astype(np.uint64)
        pair = (b.astype(np.uint64) << np.uint64(32)) | a
        moved = (pair << count) >> np.uint64(32) if is_left else pair >> count
        return moved.astype(np.uint32)

    return elementwise(form, function, "u32", "u32", "u32", "u32")


@op("bfe", cost=Cost.ALU)
def bfe(form: Form) -> Meaning:
    """d = the c bits of a from bit b on, extended with their sign if the type is signed"""
    kind = form.kind
    dtype = DTYPES[kind]
    width = dtype.itemsize * 8

    def function(a: Array, b: Array, c: Array) -> Array:
        start = np.minimum(b & np.uint32(255), np.uint32(width)).astype(dtype)
        length = np.minimum(c & np.uint32(255), np.uint32(width)).astype(dtype)
        field = np.right_shift(a, start)
        spare = dtype.type(width) - length
        # The right shifts of a signed type have filled what lies beyond the top bit with the sign.
        return np.where(length == 0, dtype.type(0), (field << spare) >> spare)

    return elementwise(form, function, kind, kind, "u32", "u32")


@op("bfi", cost=Cost.ALU)
def bfi(form: Form) -> Meaning:
    """f = b with its d bits from bit c on replaced by the low bits of a"""
    dtype = DTYPES["u" + form.kind[1:]]
    width = dtype.itemsize * 8
    kind = "u" + form.kind[1:]

    def function(a: Array, b: Array, c: Array, d: Array) -> Array:
        start = np.minimum(c & np.uint32(255), np.uint32(width)).astype(dtype)
        length = np.minimum(d & np.uint32(255), np.uint32(width)).astype(dtype)
        ones = np.where(length >= width, ~dtype.type(0), (dtype.type(1) << length) - dtype.type(1))
        field = ones << start
        return (b & ~field) | ((a << start) & field)

    return elementwise(form, function, kind, kind, kind, "u32", "u32")


@op("popc", cost=Cost.CONVERT)
def popc(form: Form) -> Meaning:
    """d = the number of bits set in a"""
    return elementwise(
        form, lambda a: np.bitwise_count(a).astype(np.uint32), "u32", form.kind.replace("i", "u")
    )


@op("clz", cost=Cost.CONVERT)
def clz(form: Form) -> Meaning:
    """d = the number of zero bits above the highest set one"""
    kind = form.kind.replace("i", "u")
    dtype = DTYPES[kind]
    width = dtype.itemsize * 8

    def function(a: Array) -> Array:
        for shift in (1, 2, 4, 8, 16, 32)[: width.bit_length() - 1]:
            a = a | (a >> dtype.type(shift))
        return (np.uint32(width) - np.bitwise_count(a)).astype(np.uint32)

    return elementwise(form, function, "u32", kind)


@op("bfind", "shiftamt", cost=Cost.CONVERT)
def bfind(form: Form) -> Meaning:
    """d = the position of the highest bit that differs from the sign, all ones if none does"""
    signed = form.kind[0] == "i"
    dtype = DTYPES["u" + form.kind[1:]]
    width = dtype.itemsize * 8

    def function(a: Array) -> Array:
        bits = (np.where(a < 0, ~a, a) if signed else a).view(dtype)
        for shift in (1, 2, 4, 8, 16, 32)[: width.bit_length() - 1]:
            bits = bits | (bits >> dtype.type(shift))
        bit = np.bitwise_count(bits).astype(np.int32) - np.int32(1)
        return np.where(bit >= 0, np.int32(width - 1) - bit, bit) if form.has("shiftamt") else bit

    return elementwise(form, function, "i32", form.kind)


@op("brev", cost=Cost.CONVERT)
def brev(form: Form) -> Meaning:
    """d = a with its bits in reverse order"""
    kind = "u" + form.kind[1:]
    dtype = DTYPES[kind]

    def function(a: Array) -> Array:
        for shift, mask in ((1, 0x55), (2, 0x33), (4, 0x0F)):
            pattern = dtype.type(int.from_bytes(bytes([mask]) * dtype.itemsize, "little"))
            a = ((a >> dtype.type(shift)) & pattern) | ((a & pattern) << dtype.type(shift))
        return a.byteswap()

    return elementwise(form, function, kind, kind)


@op("prmt", cost=Cost.ALU)
def prmt(form: Form) -> Meaning:
    """d = four bytes picked from b:a, each by four bits of c, the top one of which spreads the byte's sign"""
    if form.modifiers:
        raise form.unsupported("only the default mode of prmt is supported")
    constant = form.constant(3)

    def function(a: Array, b: Array, c: Array) -> Array:
        pair = (b.astype(np.uint64) << np.uint64(32)) | a
        result = np.zeros(1, np.uint32)
        for byte in range(4):
            if constant is not None:
                pick: Array = np.uint32(constant >> 4 * byte & 15)
            else:
                pick = (c >> np.uint32(4 * byte)) & np.uint32(15)
            value = (pair >> ((pick & 7).astype(np.uint64) * np.uint64(8))).astype(np.uint32) & np.uint32(255)
            sign = (value >> np.uint32(7)) * np.uint32(255)
            result = result | (np.where(pick & 8, sign, value) << np.uint32(8 * byte))
        return result

    return elementwise(form, function, "u32", "u32", "u32", "u32")
