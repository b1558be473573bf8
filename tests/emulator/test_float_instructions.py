"""Float instructions bit for bit, except that one NaN is as good as another."""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tests.support.examples import examples
from tests.support.instructions import LANES, execute, words

FLOAT: dict[str, Callable[..., np.ndarray]] = {
    "add.{}": np.add, "sub.{}": np.subtract, "mul.{}": np.multiply, "div.rn.{}": np.divide,
}  # fmt: skip


def same(got: np.ndarray, expected: np.ndarray) -> bool:
    unsigned = np.dtype(f"u{got.dtype.itemsize}")
    both_nan = np.isnan(got) & np.isnan(expected)
    return bool(np.all((got.view(unsigned) == expected.view(unsigned)) | both_nan))


@pytest.mark.parametrize("opcode", FLOAT)
@pytest.mark.parametrize("kind", ["f32", "f64"])
@settings(max_examples=examples(15))
@given(data=st.data())
def test_float(opcode: str, kind: str, data: st.DataObject) -> None:
    dtype = np.dtype(f"f{int(kind[1:]) // 8}")
    a, b = data.draw(words(dtype.type)), data.draw(words(dtype.type))
    with np.errstate(all="ignore"):
        expected = FLOAT[opcode](a, b)
    assert same(execute(opcode.format(kind) + " {d}, {a}, {b}", [a, b], dtype), expected)


def exact_fma(a: float, b: float, c: float, dtype: type) -> float:
    if not all(map(math.isfinite, (a, b, c))):
        return float(np.float64(a) * b + c)
    total = Fraction(a) * Fraction(b) + Fraction(c)
    if total == 0:
        return float(np.float64(a) * b + c)
    if dtype is np.float64:
        try:
            return float(total)  # correctly rounded
        except OverflowError:
            return math.copysign(math.inf, total)
    return float(round_fraction(total))


def round_fraction(value: Fraction) -> np.float32:
    """To the nearest float32, ties to even."""
    near = np.float32(float(np.clip(float(value), -3.5e38, 3.5e38)))
    candidates = [np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf))]
    finite = [c for c in candidates if np.isfinite(c)]
    if not np.isfinite(near):
        return near
    return min(finite, key=lambda c: (abs(Fraction(float(c)) - value), int(c.view(np.uint32)) & 1))


@settings(max_examples=examples(25))
@given(a=words(np.float32), b=words(np.float32), c=words(np.float32))
def test_fma_has_one_rounding(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    with np.errstate(all="ignore"):
        expected = [exact_fma(*map(float, row), np.float32) for row in zip(a, b, c, strict=True)]
        expected32 = np.array(expected, np.float64).astype(np.float32)
    assert same(execute("fma.rn.f32 {d}, {a}, {b}, {c}", [a, b, c], np.dtype(np.float32)), expected32)


@pytest.mark.parametrize("direction", ["rm", "rp", "rz"])
@pytest.mark.parametrize("opcode", ["add", "sub", "mul", "fma", "div"])
@settings(max_examples=examples(10))
@given(data=st.data())
def test_directed_rounding(opcode: str, direction: str, data: st.DataObject) -> None:
    """Against exact fractions: the result is the neighbour of the true value on the right side."""
    elements = st.floats(-1e10, 1e10, width=32, allow_subnormal=False).filter(
        lambda v: v == 0 or abs(v) > 1e-10
    )
    a, b, c = (data.draw(arrays.arrays(np.float32, LANES, elements=elements)) for _ in range(3))
    b[b == 0] = 1
    operands = ("{a}, {b}, {c}", [a, b, c]) if opcode == "fma" else ("{a}, {b}", [a, b])
    got = execute(f"{opcode}.{direction}.f32 {{d}}, {operands[0]}", operands[1], np.dtype(np.float32))
    exact: dict[str, Callable[[Fraction, Fraction, Fraction], Fraction]] = {
        "add": lambda x, y, z: x + y, "sub": lambda x, y, z: x - y, "mul": lambda x, y, z: x * y,
        "fma": lambda x, y, z: x * y + z, "div": lambda x, y, z: x / y,
    }  # fmt: skip
    for x, y, z, result in zip(a, b, c, got, strict=True):
        true = exact[opcode](*(Fraction(float(v)) for v in (x, y, z)))
        found = Fraction(float(result))
        goes_down = direction == "rm" or (direction == "rz" and true > 0)
        assert found <= true if goes_down else found >= true
        next_one = np.nextafter(result, np.float32(np.inf if goes_down else -np.inf))
        assert found == true or (
            Fraction(float(next_one)) > true if goes_down else Fraction(float(next_one)) < true
        )


@settings(max_examples=examples(25))
@given(
    values=arrays.arrays(np.float64, (3, LANES), elements=st.floats(-1e100, 1e100, allow_subnormal=False)),
)
def test_fma_in_float64(values: np.ndarray) -> None:
    a, b, c = (np.ascontiguousarray(v) for v in np.where(np.abs(values) < 1e-100, 0, values))
    got = execute("fma.rn.f64 {d}, {a}, {b}, {c}", [a, b, c], np.dtype(np.float64))
    expected = np.array([exact_fma(*map(float, row), np.float64) for row in zip(a, b, c, strict=True)])
    np.testing.assert_array_max_ulp(got, expected, maxulp=1)


@settings(max_examples=examples(15))
@given(a=words(np.float32), b=words(np.float32))
def test_float_min_and_max(a: np.ndarray, b: np.ndarray) -> None:
    for opcode, sign in (("min.f32", 1), ("max.f32", -1)):
        got = execute(opcode + " {d}, {a}, {b}", [a, b], np.dtype(np.float32))
        for x, y, result in zip(a, b, got, strict=True):
            if np.isnan(x) or np.isnan(y):
                assert np.isnan(result) == (np.isnan(x) and np.isnan(y))
            else:
                first = min((x, y), key=lambda v: (sign * v, sign * math.copysign(1, v)))
                assert result == first
                assert math.copysign(1, result) == math.copysign(1, first)


@settings(max_examples=examples(15))
@given(a=words(np.float32))
def test_approximations_and_flushing(a: np.ndarray) -> None:
    f32 = np.dtype(np.float32)
    tiny = np.float32(2.0**-126)
    flushed = np.where(np.abs(a) < tiny, np.copysign(np.float32(0), a), a)
    with np.errstate(all="ignore"):
        exact: dict[str, np.ndarray] = {
            "ex2.approx.ftz.f32": np.exp2(flushed.astype(np.float64)),
            "lg2.approx.ftz.f32": np.log2(flushed.astype(np.float64)),
            "rcp.approx.ftz.f32": 1 / flushed.astype(np.float64),
            "rsqrt.approx.ftz.f32": 1 / np.sqrt(flushed.astype(np.float64)),
            "sqrt.approx.ftz.f32": np.sqrt(flushed.astype(np.float64)),
        }
        for opcode, value in exact.items():
            got = execute(opcode + " {d}, {a}", [a], f32)
            expected = value.astype(np.float32)
            expected = np.where(np.abs(expected) < tiny, np.copysign(np.float32(0), expected), expected)
            near_the_edge = np.abs(np.abs(value) - tiny) < tiny * 1e-5
            np.testing.assert_allclose(got[~near_the_edge], expected[~near_the_edge], rtol=3e-7)


@settings(max_examples=examples(20))
@given(a=words(np.float32))
def test_float_to_integer_saturates(a: np.ndarray) -> None:
    rounding = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}
    for kind in ("s32", "u32", "s64", "s16"):
        info = np.iinfo(f"{'i' if kind[0] == 's' else 'u'}{int(kind[1:]) // 8}")
        for mode, function in rounding.items():
            got = execute(f"cvt.{mode}.{kind}.f32 {{d}}, {{a}}", [a], info.dtype)
            for x, result in zip(a, got, strict=True):
                if np.isnan(x):
                    assert result == (0 if info.bits < 64 else info.min)
                else:
                    whole = info.max if x == np.inf else info.min if x == -np.inf else function(float(x))
                    assert result == min(max(whole, info.min), info.max)


@settings(max_examples=examples(20))
@given(a=words(np.float32))
def test_float_narrowing(a: np.ndarray) -> None:
    with np.errstate(all="ignore"):
        half = execute("cvt.rn.f16.f32 {d}, {a}", [a], np.dtype(np.float16))
        assert same(half, a.astype(np.float16))
        toward_zero = execute("cvt.rz.f16.f32 {d}, {a}", [a], np.dtype(np.float16))
        beyond = np.nextafter(np.abs(toward_zero), np.float16(np.inf))
    for x, result, next_one in zip(a.tolist(), toward_zero.tolist(), beyond.tolist(), strict=True):
        if math.isfinite(x):
            assert abs(result) <= abs(x)
            assert next_one > abs(x) or abs(x) >= 65504
    brain = execute("cvt.rn.bf16.f32 {d}, {a}", [a], np.dtype(np.uint16)).astype(np.uint32) << 16
    finite = np.isfinite(a)
    wide = brain.view(np.float32)[finite].astype(np.float64)
    for x, result in zip(a[finite].tolist(), wide, strict=True):
        ulp = 2.0 ** (max(math.frexp(x)[1], -125) - 8)
        assert abs(result - x) <= ulp / 2 or not math.isfinite(result)
    tf32 = execute("cvt.rna.tf32.f32 {d}, {a}", [a], np.dtype(np.uint32))
    assert not (tf32[finite] & 0x1FFF).any()


@pytest.mark.parametrize(
    "comparison", ["eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"]
)  # fmt: skip
@settings(max_examples=5)
@given(a=words(np.float32), b=words(np.float32))
def test_float_comparisons_with_nan(comparison: str, a: np.ndarray, b: np.ndarray) -> None:
    b = np.where(np.arange(LANES) % 3 == 0, a, b)
    a[5] = np.nan
    got = execute(
        f"setp.{comparison}.f32 %p1|%p2, {{a}}, {{b}}; selp.b32 {{d}}, 1, 0, %p1", [a, b], np.dtype(np.uint32)
    )
    plain: dict[str, Callable[[float, float], bool]] = {
        "eq": lambda x, y: x == y, "ne": lambda x, y: x != y, "lt": lambda x, y: x < y,
        "le": lambda x, y: x <= y, "gt": lambda x, y: x > y, "ge": lambda x, y: x >= y,
    }  # fmt: skip
    for x, y, result in zip(a.tolist(), b.tolist(), got, strict=True):
        unordered = math.isnan(x) or math.isnan(y)
        if comparison in ("num", "nan"):
            expected = unordered == (comparison == "nan")
        elif comparison.endswith("u"):
            expected = unordered or plain[comparison[:-1]](x, y)
        else:
            expected = not unordered and plain[comparison](x, y)
        assert bool(result) == expected
