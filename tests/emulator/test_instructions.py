"""Each arithmetic instruction against numpy or Python integers, on all kinds of values."""

import math
import struct
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from profscope.errors import EmulatorError
from tests.support.instructions import INTEGER, LANES, ONE_OPERAND, execute


def words(dtype: type) -> st.SearchStrategy[np.ndarray]:
    """Full arrays of a dtype; edge values come up often."""
    info = np.iinfo(dtype) if np.issubdtype(dtype, np.integer) else None
    elements = None
    if info is not None:
        edges = [info.min, info.max, 0, 1, info.max // 2]
        elements = st.sampled_from(edges) | st.integers(info.min, info.max)
    return arrays.arrays(dtype, LANES, elements=elements)


@pytest.mark.parametrize("opcode", INTEGER)
@settings(max_examples=15)
@given(data=st.data())
def test_integer(opcode: str, data: st.DataObject) -> None:
    dtype, reference = INTEGER[opcode]
    a, b = data.draw(words(dtype)), data.draw(words(dtype))
    got = execute(opcode + " {d}, {a}, {b}", [a, b], np.dtype(dtype))
    bits = 8 * np.dtype(dtype).itemsize
    expected = [reference(int(x), int(y)) % 2**bits for x, y in zip(a, b, strict=True)]
    assert [int(v) % 2**bits for v in got] == expected


SHIFTS = [f"shl.{kind}" for kind in ("b16", "b32", "b64")] + [
    f"shr.{kind}" for kind in ("b16", "b32", "b64", "u32", "s32", "s64", "s16")
]


@pytest.mark.parametrize("opcode", SHIFTS)
@settings(max_examples=10)
@given(data=st.data())
def test_shifts_clamp_their_count(opcode: str, data: st.DataObject) -> None:
    direction, kind = opcode.split(".")
    width = int(kind[1:])
    dtype = np.dtype(f"{'i' if kind[0] == 's' else 'u'}{width // 8}")
    a = data.draw(words(dtype.type))
    counts = data.draw(arrays.arrays(np.uint32, LANES, elements=st.integers(0, 70) | st.just(2**32 - 1)))
    got = execute(f"{opcode} {{d}}, {{a}}, {{b}}", [a, counts], dtype)
    for x, count, result in zip(a.tolist(), counts.tolist(), got.tolist(), strict=True):
        count = min(count, width)
        shifted = x << count if direction == "shl" else x >> count
        assert result % 2**width == shifted % 2**width


@settings(max_examples=15)
@given(a=words(np.uint32), b=words(np.uint32), c=words(np.uint32))
def test_three_operand_bit_instructions(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    u32 = np.dtype(np.uint32)
    triples = list(zip(a.tolist(), b.tolist(), c.tolist(), strict=True))
    got = execute("lop3.b32 {d}, {a}, {b}, {c}, 0xCA", [a, b, c], u32)  # a ? b : c
    assert got.tolist() == [(x & y) | (~x & z) for x, y, z in triples]
    got = execute("mad.lo.u32 {d}, {a}, {b}, {c}", [a, b, c], u32)
    assert got.tolist() == [(x * y + z) % 2**32 for x, y, z in triples]
    got = execute("mul24.lo.u32 {d}, {a}, {b}", [a, b], u32)
    assert got.tolist() == [(x & 0xFFFFFF) * (y & 0xFFFFFF) % 2**32 for x, y, _ in triples]
    got = execute("mad.hi.u32 {d}, {a}, {b}, {c}", [a, b, c], u32)
    assert got.tolist() == [((x * y >> 32) + z) % 2**32 for x, y, z in triples]
    got = execute("shf.l.wrap.b32 {d}, {a}, {b}, {c}", [a, b, c], u32)
    assert got.tolist() == [((y << 32 | x) << (z & 31)) >> 32 & 0xFFFFFFFF for x, y, z in triples]
    got = execute("shf.r.clamp.b32 {d}, {a}, {b}, {c}", [a, b, c], u32)
    assert got.tolist() == [(y << 32 | x) >> min(z, 32) & 0xFFFFFFFF for x, y, z in triples]
    got = execute("prmt.b32 {d}, {a}, {b}, {c}", [a, b, c], u32)
    assert got.tolist() == [permuted(x, y, z) for x, y, z in triples]


def permuted(a: int, b: int, selector: int) -> int:
    data = struct.pack("<II", a, b)
    out = []
    for i in range(4):
        pick = selector >> 4 * i & 15
        byte = data[pick & 7]
        out.append((255 if byte & 128 else 0) if pick & 8 else byte)
    return int(struct.unpack("<I", bytes(out))[0])


@settings(max_examples=15)
@given(
    a=words(np.uint32),
    start=arrays.arrays(np.uint32, LANES, elements=st.integers(0, 40)),
    length=arrays.arrays(np.uint32, LANES, elements=st.integers(0, 40)),
)
def test_bit_fields(a: np.ndarray, start: np.ndarray, length: np.ndarray) -> None:
    got = execute("bfe.u32 {d}, {a}, {b}, {c}", [a, start, length], np.dtype(np.uint32))
    signed = execute("bfe.s32 {d}, {a}, {b}, {c}", [a, start, length], np.dtype(np.int32))
    for x, s, n, value, signed_value in zip(
        a.tolist(), start.tolist(), length.tolist(), got, signed, strict=True
    ):
        assert value == (x >> s) & ((1 << n) - 1) & 0xFFFFFFFF
        wide = x - (1 << 32) if x >> 31 else x
        field = (wide >> s) & ((1 << n) - 1)
        expected = 0 if n == 0 else field - (1 << n) if field >> (n - 1) & 1 else field
        assert signed_value == expected


@settings(max_examples=10)
@given(a=words(np.uint32), b=words(np.uint32), c=words(np.uint32))
def test_carries(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    """A 64-bit product and sum made of 32-bit halves with carries."""
    u32 = np.dtype(np.uint32)
    high = execute("add.cc.u32 {d}, {a}, {b}; addc.u32 {d}, {c}, 0", [a, b, c], u32)
    pairs = list(zip(a.tolist(), b.tolist(), c.tolist(), strict=True))
    assert high.tolist() == [(z + (x + y >> 32)) % 2**32 for x, y, z in pairs]
    borrow = execute("sub.cc.u32 {d}, {a}, {b}; subc.u32 {d}, {c}, 0", [a, b, c], u32)
    assert borrow.tolist() == [(z - (x < y)) % 2**32 for x, y, z in pairs]
    product = execute("mad.lo.cc.u32 {d}, {a}, {b}, {c}; madc.hi.u32 {d}, {a}, {b}, 0", [a, b, c], u32)
    assert product.tolist() == [(x * y + z) >> 32 for x, y, z in pairs]


@pytest.mark.parametrize("opcode", ONE_OPERAND)
@settings(max_examples=10)
@given(data=st.data())
def test_one_operand(opcode: str, data: st.DataObject) -> None:
    source, target, reference = ONE_OPERAND[opcode]
    a = data.draw(words(source))
    got = execute(opcode + " {d}, {a}", [a], np.dtype(target))
    bits = 8 * np.dtype(target).itemsize
    assert [int(v) % 2**bits for v in got] == [reference(int(x)) % 2**bits for x in a]


# --- floats: bit for bit, except that one NaN is as good as another ---

FLOAT: dict[str, Callable[..., np.ndarray]] = {
    "add.{}": np.add, "sub.{}": np.subtract, "mul.{}": np.multiply, "div.rn.{}": np.divide,
}  # fmt: skip


def same(got: np.ndarray, expected: np.ndarray) -> bool:
    unsigned = np.dtype(f"u{got.dtype.itemsize}")
    both_nan = np.isnan(got) & np.isnan(expected)
    return bool(np.all((got.view(unsigned) == expected.view(unsigned)) | both_nan))


@pytest.mark.parametrize("opcode", FLOAT)
@pytest.mark.parametrize("kind", ["f32", "f64"])
@settings(max_examples=15)
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


@settings(max_examples=25)
@given(a=words(np.float32), b=words(np.float32), c=words(np.float32))
def test_fma_has_one_rounding(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
    with np.errstate(all="ignore"):
        expected = [exact_fma(*map(float, row), np.float32) for row in zip(a, b, c, strict=True)]
        expected32 = np.array(expected, np.float64).astype(np.float32)
    assert same(execute("fma.rn.f32 {d}, {a}, {b}, {c}", [a, b, c], np.dtype(np.float32)), expected32)


@pytest.mark.parametrize("direction", ["rm", "rp", "rz"])
@pytest.mark.parametrize("opcode", ["add", "sub", "mul", "fma", "div"])
@settings(max_examples=10)
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


@settings(max_examples=25)
@given(
    values=arrays.arrays(np.float64, (3, LANES), elements=st.floats(-1e100, 1e100, allow_subnormal=False)),
)
def test_fma_in_float64(values: np.ndarray) -> None:
    a, b, c = (np.ascontiguousarray(v) for v in np.where(np.abs(values) < 1e-100, 0, values))
    got = execute("fma.rn.f64 {d}, {a}, {b}, {c}", [a, b, c], np.dtype(np.float64))
    expected = np.array([exact_fma(*map(float, row), np.float64) for row in zip(a, b, c, strict=True)])
    np.testing.assert_array_max_ulp(got, expected, maxulp=1)


@settings(max_examples=15)
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


@settings(max_examples=15)
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


@settings(max_examples=20)
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


@settings(max_examples=20)
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


def test_vectors_split_and_join() -> None:
    a = np.arange(32, dtype=np.uint64) * 0x0123456789ABCDEF
    got = execute(
        "mov.b64 {{%r1, %r2}}, {a}; mov.b32 {{%h1, %h2}}, %r1; "
        "mov.b32 %r3, {{%h2, %h1}}; mov.b64 {d}, {{%r2, %r3}}",
        [a],
        np.dtype(np.uint64),
    )
    low = a & 0xFFFFFFFF
    swapped = (low >> 16) | ((low & 0xFFFF) << 16)
    assert np.array_equal(got, (a >> 32) | (swapped << np.uint64(32)))


@pytest.mark.parametrize(
    ("mode", "b", "c", "source"),
    [
        ("bfly", 5, 31, lambda i: i ^ 5), ("up", 3, 0, lambda i: i - 3 if i >= 3 else i),
        ("down", 4, 31, lambda i: i + 4 if i + 4 < 32 else i), ("idx", 7, 31, lambda i: 7),
        ("idx", 2, (24 << 8) | 31, lambda i: (i & 24) | 2),
    ],
)  # fmt: skip
def test_shuffles(mode: str, b: int, c: int, source: Callable[[int], int]) -> None:
    a = np.arange(100, 132, dtype=np.uint32)
    constant = execute(f"shfl.sync.{mode}.b32 {{d}}, {{a}}, {b}, {c}, -1", [a], np.dtype(np.uint32))
    register = execute(
        f"mov.u32 %r20, {b}; shfl.sync.{mode}.b32 {{d}}|%p1, {{a}}, %r20, {c}, -1", [a], np.dtype(np.uint32)
    )
    expected = [100 + source(i) for i in range(32)]
    assert constant.tolist() == register.tolist() == expected


def test_votes() -> None:
    a = (np.arange(32) % 3 == 0).astype(np.uint32)
    prefix = "setp.ne.u32 %p1, {a}, 0; "
    u32 = np.dtype(np.uint32)
    bits = sum(1 << i for i in range(32) if i % 3 == 0)
    assert set(execute(prefix + "vote.sync.ballot.b32 {d}, %p1, -1", [a], u32)) == {bits}
    assert set(execute(prefix + "vote.sync.any.pred %p2, %p1, -1; selp.b32 {d}, 1, 0, %p2", [a], u32)) == {1}
    assert set(execute(prefix + "vote.sync.all.pred %p2, %p1, -1; selp.b32 {d}, 1, 0, %p2", [a], u32)) == {0}
    assert set(execute("redux.sync.add.u32 {d}, {a}, -1", [a], u32)) == {11}


def test_unknown_opcodes_say_where() -> None:
    with pytest.raises(EmulatorError, match=r"frobnicate\.b32 at PTX line \d+: unknown opcode"):
        execute("frobnicate.b32 {d}, {a}", [np.zeros(32, np.uint32)], np.dtype(np.uint32))
    with pytest.raises(
        EmulatorError, match=r"add\.strange\.s32 at PTX line \d+: modifier \.strange is unknown"
    ):
        execute("add.strange.s32 {d}, {a}, {a}", [np.zeros(32, np.uint32)], np.dtype(np.uint32))
