"""The wire format: field by field, and in columns of words."""

import struct
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profscope.traces.perfetto.protobuf import (
    SHORT_BITS,
    constant,
    field,
    fixed64,
    long_varint,
    padded_varint,
    read_varint,
    short_varint,
    varint,
    word_table,
)

INT64 = st.integers(-(2**63), 2**63 - 1)


def fields(data: bytes) -> dict[int, list[Any]]:
    """A message's fields: number -> values; lengths-delimited ones as bytes, fixed ones as bytes too."""
    found: dict[int, list[Any]] = defaultdict(list)
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        if tag & 7 == 0:
            value, at = read_varint(data, at)
        else:
            size, at = (8, at) if tag & 7 == 1 else read_varint(data, at)
            assert tag & 7 in (1, 2)
            assert at + size <= len(data)
            value, at = data[at : at + size], at + size
        found[tag >> 3].append(value)
    return found


@given(INT64)
def test_a_varint_is_read_back(value: int) -> None:
    data = varint(value)
    assert read_varint(data, 0) == (value % 2**64, len(data))
    assert len(data) == (10 if value < 0 else max(1, -(-value.bit_length() // 7)))


def test_known_varints() -> None:
    """The examples of protobuf.dev/programming-guides/encoding."""
    assert varint(1) == b"\x01"
    assert varint(150) == b"\x96\x01"
    assert varint(-2) == b"\xfe" + b"\xff" * 8 + b"\x01"
    assert field(1, 150) == b"\x08\x96\x01"
    assert field(2, "testing") == b"\x12\x07testing"


@given(st.integers(0, 2**35 - 1), st.integers(5, 10))
def test_a_padded_varint_is_the_same_number(value: int, width: int) -> None:
    data = padded_varint(value, width)
    assert len(data) == width
    assert read_varint(data + b"\xff", 0) == (value, width)


def test_what_does_not_fit_is_refused() -> None:
    assert padded_varint(127, 1) == b"\x7f"
    with pytest.raises(ValueError, match="128 does not fit into a varint of 1 bytes"):
        padded_varint(128, 1)
    with pytest.raises(ValueError, match="5 bytes are no whole words"):
        list(constant(b"12345"))


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 11])
def test_no_varint(data: bytes) -> None:
    with pytest.raises(ValueError, match="no varint at byte 0"):
        read_varint(data, 0)


def test_fields_of_every_type() -> None:
    data = field(1, -1) + field(8, 0.5) + field(2**29 - 1, "é\ud800") + field(3, field(1, 7))
    found = fields(data)
    assert found == {
        1: [2**64 - 1],
        8: [struct.pack("<d", 0.5)],
        2**29 - 1: ["é?".encode()],
        3: [b"\x08\x07"],
    }


@given(st.lists(st.integers(0, 2**SHORT_BITS - 1), min_size=1))
def test_short_numbers_in_words(values: list[int]) -> None:
    words = short_varint(0x40, np.array(values))
    read = [fields(word.astype("<u4").tobytes()) for word in words]
    assert read == [{8: [value]} for value in values]


@given(st.lists(INT64, min_size=1))
def test_long_numbers_in_words(values: list[int]) -> None:
    numbers = np.array(values, np.int64)
    rows = np.stack(list(long_varint(17 << 3, numbers)), axis=1).astype("<u4")
    assert [fields(row.tobytes()) for row in rows] == [{17: [value % 2**64]} for value in values]
    rows = np.stack(list(fixed64(numbers)), axis=1).astype("<u4")
    assert [row.tobytes() for row in rows] == [struct.pack("<q", value) for value in values]


def test_tables_and_constants_in_words() -> None:
    assert word_table([b"abcdefgh", b"ijklmnop"]).astype("<u4").tobytes() == b"abcdefghijklmnop"
    assert b"".join(word.to_bytes(4, "little") for word in constant(b"abcdefgh")) == b"abcdefgh"
