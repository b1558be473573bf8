"""Kinds of values (see `opcodes/table.py`): how a register's bits become one, and back."""

from collections.abc import Callable

import numpy as np

from profscope.emulator.arrays import DTYPES, Array
from profscope.emulator.opcodes.convert import to_bf16
from profscope.errors import EmulatorError

__all__ = ["LOAD", "STORE", "constant", "converter", "raw", "width"]


def raw(kind: str) -> str:
    """The kind a register of `kind` values is kept as between blocks: signed bits, or a float."""
    return {"u8": "i16", "i8": "i16", "u16": "i16", "u32": "i32", "u64": "i64", "bf16": "i16", "f16x2": "i32",
            "bf16x2": "i32", "f16": "i16"}.get(kind, kind)  # fmt: skip


def width(kind: str) -> int:
    """Bytes of the register bits behind a kind; 0 for predicates."""
    if kind == "pred":
        return 0
    return {"bf16": 2, "f16x2": 4, "bf16x2": 4}.get(kind, DTYPES[kind].itemsize)


def load_bf16(bits: Array) -> Array:
    return (bits.view(np.uint16).astype(np.uint32) << np.uint32(16)).view(np.float32)


def store_bf16(values: Array) -> Array:
    return (to_bf16(values).view(np.uint32) >> np.uint32(16)).astype(np.uint16).view(np.int16)


def load_pair(bits: Array) -> Array:
    return np.ascontiguousarray(bits).view(np.float16).reshape(*bits.shape, 2)


def store_pair(values: Array) -> Array:
    return np.ascontiguousarray(values).view(np.int32)[..., 0]


def load_bf16_pair(bits: Array) -> Array:
    return load_bf16(np.ascontiguousarray(bits).view(np.int16).reshape(*bits.shape, 2))


def store_bf16_pair(values: Array) -> Array:
    return np.ascontiguousarray(store_bf16(values)).view(np.int32)[..., 0]


LOAD = {"bf16": load_bf16, "f16x2": load_pair, "bf16x2": load_bf16_pair}
STORE = {"bf16": store_bf16, "f16x2": store_pair, "bf16x2": store_bf16_pair}


def converter(have: str, want: str) -> Callable[[Array], Array] | None:
    """The function from one kind to another of the same register; None if nothing is to be done.

    A narrower kind takes the low bits; a wider one extends by the sign of what is there.
    """
    if have == want:
        return None
    if want in LOAD:
        first, load = converter(have, raw(want)), LOAD[want]
        return load if first is None else (lambda x: load(first(x)))
    if have in STORE:
        then, store = converter(raw(have), want), STORE[have]
        return store if then is None else (lambda x: then(store(x)))
    if "pred" in (have, want):
        raise EmulatorError(f"a predicate is used as a number or the other way round ({have}, {want})")
    dtype = DTYPES[want]
    if width(have) == width(want):
        return lambda x: x.view(dtype)
    integer = np.dtype(f"i{width(have)}" if have[0] == "f" else DTYPES[have])
    signed = np.dtype(f"i{width(want)}")
    return lambda x: x.view(integer).astype(signed).view(dtype)


def constant(bits: int, kind: str, literal_width: int = 0) -> Array:
    """An array of one element with these bits; a float literal of another width than `kind` is converted."""
    if kind == "pred":
        return np.full((1, 1, 1), bool(bits))
    size = width(kind)
    if literal_width == 32 and kind == "f64":
        return np.array([bits], np.uint32).view(np.float32).astype(np.float64).reshape(1, 1, 1)
    if literal_width == 64 and size == 4:
        with np.errstate(over="ignore"):
            single = np.array([bits], np.uint64).view(np.float64).astype(np.float32)
        bits = int(single.view(np.uint32)[0])
    stored = np.array([bits % (1 << 8 * size)], f"u{size}").reshape(1, 1, 1)
    convert = converter(f"u{8 * size}", kind)
    return stored if convert is None else convert(stored)
