"""Dot products of the bytes and 16-bit words of a register."""

import numpy as np

from profscope.emulator.arrays import DTYPES, Array
from profscope.emulator.costs import Cost
from profscope.emulator.opcodes.table import Form, Meaning, elementwise, op

__all__: list[str] = []


def parts(x: Array, kind: str, size: int) -> Array:
    """The parts of `size` bytes of 32-bit values, lowest first, along a fourth axis; of the kind's sign."""
    return np.ascontiguousarray(x).reshape(*x.shape, 1).view(f"{kind[0]}{size}").astype(DTYPES["i32"])


@op("dp4a", cost=Cost.WIDE)
def dp4a(form: Form) -> Meaning:
    """d = c + the sum of the products of a's and b's four bytes"""
    return dot(form, 1, slice(0, 4))


@op("dp2a", "lo hi", cost=Cost.WIDE)
def dp2a(form: Form) -> Meaning:
    """d = c + the sum of the products of a's 16-bit halves and the lower (`.hi`: upper) two bytes of b"""
    return dot(form, 2, slice(2, 4) if form.has("hi") else slice(0, 2))


def dot(form: Form, size: int, chosen: slice) -> Meaning:
    """a in parts of `size` bytes, b in bytes, of which the chosen ones take part."""
    first, second = form.kinds

    def function(a: Array, b: Array, c: Array) -> Array:
        products = parts(a, first, size) * parts(b, second, 1)[..., chosen]
        return c + products.sum(axis=-1, dtype=c.dtype)

    return elementwise(form, function, "i32", first, second, "i32")
