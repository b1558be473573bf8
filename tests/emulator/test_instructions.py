"""Integer, bit and warp instructions against Python's integers."""

import struct
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from profscope.errors import EmulatorError
from tests.support.examples import examples
from tests.support.instructions import INTEGER, LANES, ONE_OPERAND, execute, words


@pytest.mark.parametrize("opcode", INTEGER)
@settings(max_examples=examples(15))
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
@settings(max_examples=examples(10))
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


@settings(max_examples=examples(15))
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


@settings(max_examples=examples(15))
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


@settings(max_examples=examples(10))
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
@settings(max_examples=examples(10))
@given(data=st.data())
def test_one_operand(opcode: str, data: st.DataObject) -> None:
    source, target, reference = ONE_OPERAND[opcode]
    a = data.draw(words(source))
    got = execute(opcode + " {d}, {a}", [a], np.dtype(target))
    bits = 8 * np.dtype(target).itemsize
    assert [int(v) % 2**bits for v in got] == [reference(int(x)) % 2**bits for x in a]


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
