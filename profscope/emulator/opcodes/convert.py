"""Moves, conversions, comparisons and selections."""

from collections.abc import Callable

import numpy as np

from profscope.emulator.arrays import DTYPES, Array, DType
from profscope.emulator.costs import Cost
from profscope.emulator.machine.memory import LOCAL_WINDOW, SHARED_WINDOW
from profscope.emulator.opcodes.arithmetic import canonical_nan, clamped, flush, signless
from profscope.emulator.opcodes.rounding import DIRECTIONS, round_pair
from profscope.emulator.opcodes.table import Form, Meaning, elementwise, items, op
from profscope.emulator.ptx_syntax import Register, Vector

__all__: list[str] = []


def split(value: Array, dtype: DType, count: int) -> Array:
    """The `count` parts of each element, lowest first, on a new last axis."""
    return np.ascontiguousarray(value).view(dtype).reshape(*value.shape, count)


def join(parts: tuple[Array, ...], dtype: DType) -> Array:
    """The inverse of `split`."""
    shape = np.broadcast_shapes(*(p.shape for p in parts))
    out = np.empty((*shape, len(parts)), parts[0].dtype)
    for i, part in enumerate(parts):
        out[..., i] = part
    return out.view(dtype)[..., 0]


def narrow(kind: str, count: int) -> str:
    bits = {"i16": 16, "i32": 32, "u32": 32, "i64": 64, "u64": 64, "f64": 64, "f32": 32, "u16": 16}[
        kind
    ] // count
    return {8: "u8", 16: "i16", 32: "i32"}[bits]


@op("mov", cost=Cost.MOVE)
def mov(form: Form) -> Meaning:
    """d = a; `{...}` on one side splits or joins a value's parts, lowest first"""
    target, source = form.operands
    kind = signless(form.kind)
    if isinstance(target, Vector):
        count = len(target.items)
        part = narrow(kind, count)

        def unpack(value: Array) -> Array:
            parts = split(value, DTYPES[part], count)
            return tuple(parts[..., i] for i, t in enumerate(target.items) if t != Register("_"))

        results = [(t, part) for t in target.items if t != Register("_")]
        if len(results) == 1:
            return Meaning(lambda value: unpack(value)[0], results, [(source, kind)])
        return Meaning(unpack, results, [(source, kind)])
    if isinstance(source, Vector):
        part = narrow(kind, len(source.items))
        return Meaning(
            lambda *parts: join(parts, DTYPES[kind]), [(target, kind)], [(s, part) for s in source.items]
        )
    return elementwise(form, lambda a: a, kind, kind)


@op("cvta", "global local shared to", cost=Cost.ALU)
def cvta(form: Form) -> Meaning:
    """d = the generic address of a global, shared or local one; `.to` the other way"""
    window = {"global": 0, "shared": SHARED_WINDOW, "local": LOCAL_WINDOW}[
        form.pick("global", "local", "shared")
    ]
    offset = np.int64(-window if form.has("to") else window)
    return elementwise(form, (lambda a: a + offset) if window else (lambda a: a), "i64", "i64")


def saturate(x: Array, kind: str, source: str) -> Array:
    """Float64 integers to an integer kind: beyond the range its end.

    NaN becomes zero, but the top bit alone if the result has 64 bits or the source had (as seen on an H200).
    """
    info = np.iinfo(DTYPES[kind])
    if info.bits < 64:
        nan = 1 << (info.bits - 1) if source == "f64" else 0
        clipped = np.where(np.isnan(x), 0, np.clip(x, info.min, info.max)).astype(DTYPES[kind])
        return np.where(np.isnan(x), np.array([nan], f"u{info.bits // 8}").view(DTYPES[kind]), clipped)
    top = x >= float(info.max)
    inside = np.where(top | (x < float(info.min)) | np.isnan(x), 0.0, x).astype(DTYPES[kind])
    result = np.where(top, info.max, np.where(x < float(info.min), DTYPES[kind].type(info.min), inside))
    return np.where(np.isnan(x), DTYPES[kind].type(1) << DTYPES[kind].type(63), result)


_TO_INTEGER = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def to_bf16(x: Array) -> Array:
    """Float32 rounded to nearest even bfloat16, as float32; NaN becomes the canonical one."""
    bits = x.view(np.uint32)
    even = (bits >> np.uint32(16)) & np.uint32(1)
    rounded = (bits + even + np.uint32(0x7FFF)) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(x), np.uint32(0x7FFF0000), rounded).view(np.float32)


def float_to_float(target: str, mode: str) -> Callable[[Array], Array]:
    """Rounding to `target`, from any float kind."""
    dtype = DTYPES[target]
    if target.startswith("bf16"):
        if mode == "rz":
            return lambda x: (x.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
        return lambda x: to_bf16(x.astype(np.float32))
    finish = canonical_nan if target.startswith("f16") else (lambda x: x)
    if mode in DIRECTIONS:
        return lambda x: finish(round_pair(x.astype(np.float64), np.float64(0), dtype, mode))
    return lambda x: finish(x.astype(dtype))


def convert(form: Form, target: str, source: str) -> Callable[[Array], Array]:
    """One value of kind `source` to `target`."""
    mode = form.pick("rn", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi", "rna")
    from_float, into_float = source[0] in "fb", target[0] in "fb"
    if from_float and not into_float:
        return lambda x: saturate(_TO_INTEGER[mode](x.astype(np.float64)), target, source)
    if from_float and mode in _TO_INTEGER:
        return lambda x: _TO_INTEGER[mode](x).astype(DTYPES[target])
    if from_float:
        return float_to_float(target, mode)
    if into_float:
        rounded = float_to_float(target, mode)
        return lambda x: rounded(x.astype(np.float32 if target == "bf16" else DTYPES[target]))
    if form.has("sat"):
        info = np.iinfo(DTYPES[target])
        return lambda x: np.clip(x, info.min, info.max).astype(DTYPES[target])
    return lambda x: x.astype(DTYPES[target])


def compose(last: Callable[[Array], Array], first: Callable[[Array], Array]) -> Callable[[Array], Array]:
    return lambda x: last(first(x))


@op("cvt", "rn rz rm rp rni rzi rmi rpi rna ftz sat relu satfinite", cost=Cost.CONVERT)
def cvt(form: Form) -> Meaning:
    """d = a converted: floats to integers saturate and NaN gives 0; `f16x2` packs two (a the upper half)"""
    if form.has("relu") or form.has("satfinite"):
        raise form.unsupported("this modifier is not supported")
    target, source = form.kinds[0], form.kinds[-1]
    if "tf32" in form.instruction.opcode:
        half_ulp, mask = np.uint32(0x1000), np.uint32(0xFFFFE000)
        return elementwise(
            form, lambda x: np.where(np.isfinite(x.view(np.float32)), (x + half_ulp) & mask, x), "u32", "u32"
        )
    if target.endswith("x2") and source == "f32":
        one = float_to_float(target, form.pick("rn", "rz"))
        return elementwise(
            form, lambda a, b: np.stack(np.broadcast_arrays(one(b), one(a)), axis=-1), target, "f32", "f32"
        )
    function = convert(form, target, source)
    if form.has("ftz") and source == "f32":
        function = compose(function, flush)
    if form.has("ftz") and target == "f32":
        function = compose(flush, function)
    if form.has("sat") and target[0] == "f":
        function = clamped(function, DTYPES[target])

    return elementwise(form, function, target, source)


def ordered(function: Callable[..., Array]) -> Callable[..., Array]:
    return lambda a, b: function(a, b) & ~(np.isnan(a) | np.isnan(b))


def unordered(function: Callable[..., Array]) -> Callable[..., Array]:
    return lambda a, b: function(a, b) | np.isnan(a) | np.isnan(b)


COMPARISONS: dict[str, Callable[..., Array]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
    "equ": unordered(np.equal), "neu": np.not_equal,
    "ltu": unordered(np.less), "leu": unordered(np.less_equal),
    "gtu": unordered(np.greater), "geu": unordered(np.greater_equal),
    "num": lambda a, b: ~(np.isnan(a) | np.isnan(b)), "nan": lambda a, b: np.isnan(a) | np.isnan(b),
}  # fmt: skip

BOOLEAN = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def comparison(form: Form, kind: str) -> Callable[..., Array]:
    name = form.pick(*COMPARISONS)
    function = ordered(np.not_equal) if name == "ne" and kind[0] in "fb" else COMPARISONS[name]
    if form.has("ftz") and kind == "f32":
        return lambda a, b: function(flush(a), flush(b))
    return function


@op("setp", " ".join(COMPARISONS) + " ftz and or xor")
def setp(form: Form) -> Meaning:
    """p = a compared with b; `p|q` also gives the opposite; a boolean operation with c may follow

    A NaN makes a comparison false, and true for equ neu ltu leu gtu geu nan. For f16x2, p and q are the two
    halves' results.
    """
    kind = form.kind
    targets = items(form.operands[0])
    compare = comparison(form, kind)
    boolean = BOOLEAN.get(form.pick(*BOOLEAN))
    arguments = [(operand, kind) for operand in form.operands[1:3]]
    if boolean is not None:
        arguments.append((form.operands[3], "pred"))

    def function(a: Array, b: Array, *c: Array) -> Array:
        result = compare(a, b)
        both = (result[..., 0], result[..., 1]) if kind.endswith("x2") else (result, ~result)
        if boolean is not None:
            both = (boolean(both[0], c[0]), boolean(both[1], c[0]))
        return both if len(wanted) == 2 else both[0]

    wanted = [(t, "pred") for t in targets]
    return Meaning(function, wanted, arguments)


@op("set", " ".join(COMPARISONS) + " ftz")
def set_if(form: Form) -> Meaning:
    """d = all bits set (1.0 if d is a float) where a compares with b, else 0"""
    target, kind = form.kinds[0], form.kinds[-1]
    compare = comparison(form, kind)
    true = DTYPES[target].type(1 if target[0] in "fb" else -1)
    return elementwise(form, lambda a, b: np.where(compare(a, b), true, true * 0), target, kind, kind)


@op("selp")
def selp(form: Form) -> Meaning:
    """d = a if p, else b"""
    kind = signless(form.kind)
    return elementwise(form, lambda a, b, p: np.where(p, a, b), kind, kind, kind, "pred")
