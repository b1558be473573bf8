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
    field,
    fixed64,
    long_varint,
    padded_varint,
    read_varint,
    short_varint,
    varint,
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


@given(st.integers(0, 2**35 - 1), st.integers(5, 10))
def test_a_padded_varint_is_the_same_number(value: int, width: int) -> None:
    data = padded_varint(value, width)
    assert len(data) == width
    assert read_varint(data + b"\xff", 0) == (value, width)


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
