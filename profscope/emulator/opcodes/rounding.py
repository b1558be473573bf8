"""Rounding down, up and toward zero: the nearest value, corrected if it lies on the wrong side.

An exact result is a pair of float64, the rounded value and the rest. The pairs come from the error-free
transformations of Knuth (sum) and Dekker (product); of a quotient and a root, the rest is found from the
residual.
"""

from collections.abc import Callable

import numpy as np

from profscope.emulator.arrays import Array, DType

__all__ = ["DIRECTIONS", "directed", "fma32", "fma64", "round_pair"]

DIRECTIONS = ("rm", "rp", "rz")
Pair = tuple[Array, Array]
_SPLIT = np.float64(134217729.0)  # 2^27 + 1


def two_sum(a: Array, b: Array) -> Pair:
    """a + b exactly, if nothing overflows."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def two_product(a: Array, b: Array) -> Pair:
    """a * b exactly, if nothing overflows or underflows."""
    product = a * b
    a_high = a * _SPLIT - (a * _SPLIT - a)
    b_high = b * _SPLIT - (b * _SPLIT - b)
    a_low, b_low = a - a_high, b - b_high
    rest = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    return product, rest


def quotient(a: Array, b: Array) -> Pair:
    near = a / b
    product, rest = two_product(near, b)
    return near, ((a - product) - rest) / b


def root(a: Array) -> Pair:
    near = np.sqrt(a)
    square, rest = two_product(near, near)
    return near, ((a - square) - rest) / (near + near)


def multiply_add(a: Array, b: Array, c: Array) -> Pair:
    product, product_rest = two_product(a, b)
    total, rest = two_sum(product, c)
    return total, rest + product_rest


def fma64(a: Array, b: Array, c: Array) -> Array:
    """a * b + c in float64, rounded once but for rare cases."""
    total, rest = multiply_add(a, b, c)
    return np.where(np.isfinite(rest), total + rest, a * b + c)


def fma32(a: Array, b: Array, c: Array) -> Array:
    """a * b + c for float32, rounded once.

    The product is exact in float64, the sum is not: where it lies half way between two float32 (the lower 29
    bits of its fraction are then 1 and zeros), or is too small for that test, what it lacks decides.
    """
    product = a.astype(np.float64) * b
    total = product + c
    result = total.astype(np.float32)
    half_way = (total.view(np.int64) & np.int64((1 << 29) - 1)) == np.int64(1 << 28)
    subnormal = (result.view(np.uint32) << np.uint32(1)) - np.uint32(1) < np.uint32((1 << 24) - 1)
    if not half_way.any() and not subnormal.any():
        return result
    _, rest = two_sum(product, np.broadcast_to(c, total.shape).astype(np.float64))
    # To odd: the last bit set says that there is more, whichever way float32 is rounded from here.
    is_even = total.view(np.int64) & np.int64(1) == 0
    away = np.nextafter(total, np.where(rest > 0, np.inf, -np.inf))
    return np.where((rest != 0) & is_even & np.isfinite(rest), away, total).astype(np.float32)


PAIRS: dict[str, Callable[..., Pair]] = {
    "add": two_sum,
    "sub": lambda a, b: two_sum(a, -b),
    "mul": two_product,
    "div": quotient,
    "rcp": lambda a: quotient(np.float64(1), a),
    "sqrt": root,
    "fma": multiply_add,
}


def round_pair(exact: Array, rest: Array, dtype: DType, direction: str) -> Array:
    """The value `exact` + `rest` in `dtype`, rounded down (rm), up (rp) or toward zero (rz).

    If `exact` is infinite and `rest` has the other sign, the true value is finite: it overflowed.
    """
    near = exact.astype(dtype)
    beyond = np.where(np.isinf(exact), rest, (exact - near) + rest)
    infinity = dtype.type(np.inf)
    falls = beyond < 0
    rises = beyond > 0
    if direction == "rz":
        falls, rises = falls & (exact > 0), rises & (exact < 0)
    if direction != "rp":
        near = np.where(falls, np.nextafter(near, -infinity), near)
    if direction != "rm":
        near = np.where(rises, np.nextafter(near, infinity), near)
    return near


def directed(name: str, dtype: DType, direction: str) -> Callable[..., Array]:
    """The operation of that name in PAIRS, rounded in a direction."""
    pair = PAIRS[name]

    def function(*args: Array) -> Array:
        wide = [a.astype(np.float64) for a in args]
        exact, rest = pair(*wide)
        finite = np.logical_and.reduce(np.broadcast_arrays(*map(np.isfinite, wide)))
        if name in ("div", "rcp"):
            finite = finite & (wide[-1] != 0)
        inward = np.where(finite, -np.sign(exact), 0.0)
        return round_pair(exact, np.where(np.isinf(exact), inward, rest), dtype, direction)

    return function
