"""Track events said in full, for the few that are no spans: absolute times, names as text, a track each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from profscope.traces.perfetto.layout import packet
from profscope.traces.perfetto.packets import event_places
from profscope.traces.perfetto.protobuf import field, varint
from profscope.traces.perfetto.slices import nested_depth

__all__ = ["EXPLICIT", "counter_packets", "slice_packets", "slice_text", "track_packet"]

Ints = NDArray[np.int64]
EXPLICIT: Final = 3
"""TrackDescriptor.child_ordering: by rank."""

_BLOCK_EVENTS: Final = 1 << 14
_SLICE_BEGIN, _SLICE_END, _COUNTER = 1, 2, 4


def track_packet(
    uuid: int, name: str, parent: int, rank: int, *, unit: str | None = None, description: str = ""
) -> bytes:
    """A track; those in it are shown by their ranks, and those of one name as one. With a unit: a counter."""
    parents = field(5, parent) if parent else b""
    counter = field(8, field(6, unit)) if unit is not None else b""
    more = field(14, description) if description else b""
    order = field(11, EXPLICIT) + field(12, rank)
    return packet(field(60, field(1, uuid) + field(2, name) + parents + counter + order + more))


def slice_text(name: str, kind: str, args: Mapping[str, object]) -> bytes:
    """What an event that begins a slice says of it: category, name, annotations."""
    return field(22, kind) + field(23, name) + b"".join(field(4, _annotation(*each)) for each in args.items())


def slice_packets(sequence: int, uuid: int, start: Ints, end: Ints, said: Sequence[bytes]) -> Iterator[bytes]:
    """The slices of a track, in order of start, the longest first: they nest. said: `slice_text` of each."""
    at_begin, at_end = event_places(nested_depth(start, end))
    order = np.empty(2 * len(start), np.int64)
    order[at_begin], order[at_end] = np.arange(len(start)), np.arange(len(start)) + len(start)
    times = np.append(start, end)[order].tolist()
    on_track = field(11, uuid)
    begins = {id(text): field(11, field(9, _SLICE_BEGIN) + on_track + text) for text in said}
    ends = field(11, field(9, _SLICE_END) + on_track)
    events = (begins[id(said[each])] if each < len(said) else ends for each in order.tolist())
    yield from _blocks(sequence, zip(times, events, strict=True))


def counter_packets(sequence: int, uuid: int, time_ns: Ints, value: NDArray[np.float64]) -> Iterator[bytes]:
    """What a counter is from each time on."""
    on_track = field(9, _COUNTER) + field(11, uuid)
    events = (field(11, on_track + field(44, each)) for each in value.tolist())
    yield from _blocks(sequence, zip(time_ns.tolist(), events, strict=True))


def _blocks(sequence: int, events: Iterable[tuple[int, bytes]]) -> Iterator[bytes]:
    packets: list[bytes] = []
    own = field(10, sequence)
    for time, event in events:
        packets.append(packet(b"\x40" + varint(time), own, event))  # field 8
        if len(packets) >= _BLOCK_EVENTS:
            yield b"".join(packets)
            packets = []
    yield b"".join(packets)


def _annotation(name: str, value: object) -> bytes:
    """A DebugAnnotation: name, and an int, a double or a string."""
    number = {int: 4, float: 5}.get(type(value), 6)
    return field(10, name) + field(number, value if isinstance(value, int | float) else str(value))
