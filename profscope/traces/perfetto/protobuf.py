"""Protocol Buffers' wire format, as far as a Perfetto trace needs it: fields written and read one at a time.

https://protobuf.dev/programming-guides/encoding: a message is its fields, each a tag and a value, in any
order; a reader passes over fields that it does not know.
"""

import struct

__all__ = ["LENGTH_DELIMITED", "field", "padded_varint", "read_varint", "varint"]

VARINT, FIXED64, LENGTH_DELIMITED = 0, 1, 2
"""Wire types."""

LARGEST_VARINT_BYTES = 10


def varint(value: int) -> bytes:
    """An integer in the fewest bytes; a negative one as its 64 bits, as int32 and int64 fields have it."""
    left = value & 0xFFFF_FFFF_FFFF_FFFF
    data = bytearray()
    while left >= 0x80:
        data.append(left & 0x7F | 0x80)
        left >>= 7
    data.append(left)
    return bytes(data)


def padded_varint(value: int, width: int) -> bytes:
    """A non-negative integer in exactly `width` bytes, which any reader takes for the same number.

    Raises ValueError when they do not hold it.
    """
    if value >> (7 * width):
        raise ValueError(f"{value} does not fit into a varint of {width} bytes")
    return bytes(value >> (7 * at) & 0x7F | (0x80 if at < width - 1 else 0) for at in range(width))


def field(number: int, value: int | float | str | bytes) -> bytes:
    """One field: an int as a varint, a float as a double, text and bytes (or a message) with their length.

    Text that UTF-8 cannot hold, a lone surrogate, is written with a question mark in its place.
    """
    if isinstance(value, int):
        return varint(number << 3 | VARINT) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | FIXED64) + struct.pack("<d", value)
    data = value.encode(errors="replace") if isinstance(value, str) else value
    return varint(number << 3 | LENGTH_DELIMITED) + varint(len(data)) + data


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The varint at `at`, and where it ends. Raises ValueError when the data end first or it is none."""
    value = 0
    for shift in range(LARGEST_VARINT_BYTES):
        if at + shift >= len(data):
            break
        byte = data[at + shift]
        value |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return value, at + shift + 1
    raise ValueError(f"no varint at byte {at}")
