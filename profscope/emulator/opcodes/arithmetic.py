"""Arithmetic on integers and floats."""

from collections.abc import Callable

import numpy as np

from profscope.emulator.arrays import DTYPES, Array, DType
from profscope.emulator.costs import Cost
from profscope.emulator.opcodes.rounding import DIRECTIONS, directed, fma32, fma64
from profscope.emulator.opcodes.table import Form, Meaning, elementwise, op
from profscope.emulator.ptx_syntax import Register

__all__: list[str] = []

FLOAT = "rn rz rm rp ftz sat"
SMALLEST_NORMAL = np.float32(2.0**-126)


def flush(x: Array) -> Array:
    """Subnormal float32 values become zeros of the same sign."""
    return np.where(np.abs(x) < SMALLEST_NORMAL, np.copysign(np.float32(0), x), x)


def clamped(function: Callable[..., Array], dtype: DType) -> Callable[..., Array]:
    """`function` with its results in [0, 1]; NaN becomes 0."""
    return lambda *args: np.fmin(np.fmax(function(*args), dtype.type(0)), dtype.type(1))


def with_modifiers(form: Form, function: Callable[..., Array]) -> Callable[..., Array]:
    """`function` under `.ftz` (subnormal float32 values are zero) and `.sat` (the result is in [0, 1])."""
    if form.has("sat") and form.kind[0] == "f":
        function = clamped(function, DTYPES[form.kind])
    if form.has("ftz") and form.kind == "f32":
        exact = function
        return lambda *args: flush(exact(*map(flush, args)))
    return function


def rounded(form: Form, function: Callable[..., Array]) -> Callable[..., Array]:
    """`function` with the instruction's rounding, flushing and clamping; it rounds to nearest by itself."""
    direction = form.pick(*DIRECTIONS)
    if direction:
        function = directed("fma" if form.name == "mad" else form.name, DTYPES[form.kind], direction)
        if form.kind not in ("f32", "f64"):
            raise form.unsupported("directed rounding of float32 and float64 only")
    function = with_modifiers(form, function)
    if form.kind not in ("f16", "f16x2"):
        return function
    return lambda *args: canonical_nan(function(*args))


def canonical_nan(x: Array) -> Array:
    """Float16 as a GPU leaves it: every NaN is 0x7FFF."""
    nan = np.isnan(x)
    return np.where(nan, np.uint16(0x7FFF), x.view(np.uint16)).view(np.float16) if nan.any() else x


def is_float(form: Form) -> bool:
    return form.kind in ("f16", "f32", "f64", "bf16", "f16x2", "bf16x2")


def signless(kind: str) -> str:
    """For operations whose bits do not depend on the sign: one kind for both saves conversions."""
    return kind.replace("u", "i") if kind[0] == "u" else kind


def wide(kind: str) -> str:
    return {"i16": "i32", "u16": "u32", "i32": "i64", "u32": "u64"}[kind]


def binary(form: Form, function: Callable[..., Array]) -> Meaning:
    kind = signless(form.kind)
    return elementwise(form, rounded(form, function) if is_float(form) else function, kind, kind, kind)


@op("add", FLOAT + " cc")
def add(form: Form) -> Meaning:
    """d = a + b; `.cc` also sets the carry."""
    if form.has("cc"):
        return carry(form, lambda a, b: a.astype(np.uint64) + b)
    return binary(form, np.add)


@op("sub", FLOAT + " cc")
def sub(form: Form) -> Meaning:
    """d = a - b; `.cc` also sets the borrow."""
    if form.has("cc"):
        return carry(form, lambda a, b: a.astype(np.uint64) - b)
    return binary(form, np.subtract)


@op("addc", "cc")
def addc(form: Form) -> Meaning:
    """d = a + b + carry"""
    return carry(form, lambda a, b, c: a.astype(np.uint64) + b + c, reads=True)


@op("subc", "cc")
def subc(form: Form) -> Meaning:
    """d = a - b - borrow"""
    return carry(form, lambda a, b, c: a.astype(np.uint64) - b - c, reads=True)


@op("madc", "lo hi cc", cost=Cost.WIDE)
def madc(form: Form) -> Meaning:
    """d = low or high half of a * b, plus c, plus carry"""
    return carry(form, lambda a, b, c, carried: half(form, a, b) + c + carried, reads=True)


def half(form: Form, a: Array, b: Array) -> Array:
    product = a.astype(np.uint64) * b
    return product >> np.uint64(32) if form.has("hi") else product & np.uint64(0xFFFFFFFF)


def carry(form: Form, function: Callable[..., Array], reads: bool = False) -> Meaning:
    """32-bit arithmetic in 64 bits: the carry (or borrow) is bit 32 of the result."""
    if form.kind not in ("u32", "i32"):
        raise form.unsupported("carries of 32-bit integers only")
    flag = Register("%cc")
    sources = [(operand, "u32") for operand in form.operands[1:]] + [(flag, "pred")] * reads
    writes = form.has("cc")

    def call(*args: Array) -> Array:
        total = function(*args)
        result = total.astype(np.uint32)
        return (result, (total >> np.uint64(32)) & np.uint64(1) != 0) if writes else result

    return Meaning(call, [(form.operands[0], "u32")] + [(flag, "pred")] * writes, sources)


@op("mul", FLOAT + " lo hi wide")
def mul(form: Form) -> Meaning:
    """d = a * b: floats rounded; integers the `.lo` or `.hi` half, or `.wide` all of it"""
    if is_float(form):
        return binary(form, np.multiply)
    kind = form.kind
    if form.has("wide"):
        dtype = DTYPES[signless(wide(kind))]
        return elementwise(
            form, lambda a, b: np.multiply(a.astype(dtype), b), signless(wide(kind)), kind, kind
        )
    if form.has("hi"):
        return elementwise(form, high_half(kind), kind, kind, kind)
    return binary(form, np.multiply)


def high_half(kind: str) -> Callable[[Array, Array], Array]:
    """The upper half of the product of two integers."""
    if kind in ("i32", "u32", "i16", "u16"):
        bits = DTYPES[kind].itemsize * 8
        double = DTYPES[wide(kind)]
        return lambda a, b: ((a.astype(double) * b.astype(double)) >> double.type(bits)).astype(DTYPES[kind])

    def unsigned(a: Array, b: Array) -> Array:
        low = np.uint64(0xFFFFFFFF)
        s = np.uint64(32)
        a0, a1, b0, b1 = a & low, a >> s, b & low, b >> s
        middle = a1 * b0 + ((a0 * b0) >> s)
        return a1 * b1 + (middle >> s) + ((a0 * b1 + (middle & low)) >> s)

    def signed(a: Array, b: Array) -> Array:
        high = unsigned(a.view(np.uint64), b.view(np.uint64)).view(np.int64)
        return high - np.where(a < 0, b, np.int64(0)) - np.where(b < 0, a, np.int64(0))

    return unsigned if kind == "u64" else signed


@op("mul24 mad24", "lo", cost=Cost.ALU)
def mul24(form: Form) -> Meaning:
    """d = low 32 bits of the product of two 24-bit integers (+ c)"""
    shift = DTYPES[form.kind].type(8)

    def product(a: Array, b: Array) -> Array:
        return (a << shift >> shift) * (b << shift >> shift)

    if form.name == "mul24":
        return elementwise(form, product, form.kind, form.kind, form.kind)
    return elementwise(form, lambda a, b, c: product(a, b) + c, form.kind, form.kind, form.kind, form.kind)


@op("mad", FLOAT + " lo hi wide cc")
def mad(form: Form) -> Meaning:
    """d = a * b + c: as `mul`, then an addition; of floats it is `fma`"""
    if is_float(form):
        return fma(form)
    kind = form.kind
    if form.has("cc"):
        return carry(form, lambda a, b, c: half(form, a, b) + c)
    if form.has("wide"):
        dtype = DTYPES[signless(wide(kind))]
        result = signless(wide(kind))
        return elementwise(
            form, lambda a, b, c: np.multiply(a.astype(dtype), b) + c, result, kind, kind, result
        )
    if form.has("hi"):
        high = high_half(kind)
        return elementwise(form, lambda a, b, c: high(a, b) + c, kind, kind, kind, kind)
    kind = signless(kind)
    return elementwise(form, lambda a, b, c: a * b + c, kind, kind, kind, kind)


@op("fma", FLOAT + " relu")
def fma(form: Form) -> Meaning:
    """d = a * b + c with one rounding

    Types narrower than float32 are computed in float64 and rounded again; only sums of numbers of very
    different size differ.
    """
    kind = form.kind
    narrow = DTYPES[kind]

    def by_float64(a: Array, b: Array, c: Array) -> Array:
        return (a.astype(np.float64) * b + c).astype(narrow)

    function = rounded(form, {"f64": fma64, "f32": fma32}.get(kind, by_float64))
    if form.has("relu"):
        return elementwise(form, lambda a, b, c: np.fmax(function(a, b, c), 0), kind, kind, kind, kind)
    return elementwise(form, function, kind, kind, kind, kind)


@op("div", FLOAT + " approx full", cost=Cost.DIVIDE)
def div(form: Form) -> Meaning:
    """d = a / b: integers toward zero (of zero: all bits set); floats rounded to nearest, also `.approx`"""
    if is_float(form):
        return binary(form, np.divide)
    kind = form.kind

    def divide(a: Array, b: Array) -> Array:
        quotient = a // b
        quotient += (quotient * b != a) & ((a ^ b) < 0)
        return np.where(b == 0, DTYPES[kind].type(-1), quotient)

    def divide_unsigned(a: Array, b: Array) -> Array:
        return np.where(b == 0, ~DTYPES[kind].type(0), a // b)

    return elementwise(form, divide if kind[0] == "i" else divide_unsigned, kind, kind, kind)


@op("rem", cost=Cost.DIVIDE)
def rem(form: Form) -> Meaning:
    """d = a - b * (a / b), with the sign of a (of zero: all bits set)"""
    kind = form.kind
    ones = ~DTYPES[kind].type(0)
    return elementwise(form, lambda a, b: np.where(b == 0, ones, np.fmod(a, b)), kind, kind, kind)


@op("sad")
def sad(form: Form) -> Meaning:
    """d = c + |a - b|"""
    bits = signless(form.kind)
    dtype = DTYPES[bits]

    def function(a: Array, b: Array, c: Array) -> Array:
        return c + (np.maximum(a, b).view(dtype) - np.minimum(a, b).view(dtype))

    return elementwise(form, function, bits, form.kind, form.kind, bits)


@op("min max", "ftz NaN")
def min_max(form: Form) -> Meaning:
    """d = the smaller (larger) of a and b; a NaN loses, unless `.NaN`; of floats, -0 is smaller than +0"""
    is_min = form.name == "min"
    strict: Callable[..., Array] = np.minimum if is_min else np.maximum
    if not is_float(form):
        return elementwise(form, strict, form.kind, form.kind, form.kind)
    lenient: Callable[..., Array] = np.fmin if is_min else np.fmax
    pick = strict if form.has("NaN") else lenient
    join = np.logical_or if is_min else np.logical_and

    def function(a: Array, b: Array) -> Array:
        result = pick(a, b)
        zero = result == 0
        if not zero.any():
            return result
        negative = join(np.signbit(a), np.signbit(b)) & (a == b)
        signed = np.where(negative, -result.dtype.type(0), result.dtype.type(0))
        return np.where(zero & (a == b), signed, result)

    return binary(form, function)


@op("rcp", FLOAT + " approx", cost=Cost.SPECIAL)
def rcp(form: Form) -> Meaning:
    """d = 1 / a (`.approx.ftz.f64` uses and gives the upper 32 bits only)"""
    one = DTYPES[form.kind].type(1)
    if form.kind == "f64" and form.has("approx"):
        mask = np.int64(-(1 << 32))

        def coarse(a: Array) -> Array:
            upper = (a.view(np.int64) & mask).view(np.float64)
            return ((one / upper).view(np.int64) & mask).view(np.float64)

        return elementwise(form, coarse, "f64", "f64")
    return elementwise(form, rounded(form, lambda a: one / a), form.kind, form.kind)


@op("sqrt", FLOAT + " approx", cost=Cost.SPECIAL)
def sqrt(form: Form) -> Meaning:
    """d = the square root of a"""
    return elementwise(form, rounded(form, np.sqrt), form.kind, form.kind)


def alike(function: Callable[..., Array]) -> Callable[[Form], Meaning]:
    """An instruction whose operands all have the opcode's type."""

    def resolve(form: Form) -> Meaning:
        kinds = [signless(form.kind)] * len(form.operands)
        return elementwise(form, with_modifiers(form, function), *kinds)

    return resolve


_Row = tuple[str, Callable[..., Array], str]

_EXACT: tuple[_Row, ...] = (
    ("and", np.bitwise_and, "d = a and b, bit by bit"),
    ("or", np.bitwise_or, "d = a or b, bit by bit"),
    ("xor", np.bitwise_xor, "d = a exclusive or b, bit by bit"),
    ("not", np.invert, "d = ~a"),
    ("abs", np.abs, "d = |a|"),
    ("neg", np.negative, "d = -a"),
    ("copysign", lambda a, b: np.copysign(b, a), "d = b with the sign of a"),
)
_SPECIAL: tuple[_Row, ...] = (
    ("rsqrt", lambda a: 1 / np.sqrt(a), "d = 1 / the square root of a"),
    ("ex2", np.exp2, "d = 2 to the power of a"),
    ("lg2", np.log2, "d = the logarithm of a to base 2"),
    ("sin", np.sin, "d = sin(a), a in radians"),
    ("cos", np.cos, "d = cos(a), a in radians"),
    ("tanh", np.tanh, "d = tanh(a)"),
)
for _rows, _modifiers, _cost in ((_EXACT, "ftz", Cost.ALU), (_SPECIAL, "approx ftz", Cost.SPECIAL)):
    for _name, _function, _meaning in _rows:
        op(_name, _modifiers, cost=_cost, meaning=_meaning)(alike(_function))
