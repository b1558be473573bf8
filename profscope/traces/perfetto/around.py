"""Host scopes and events as Perfetto's track events, on a sequence and on tracks of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from profscope.traces.around_tracks import AroundTracks, Track
from profscope.traces.perfetto.layout import packet
from profscope.traces.perfetto.packets import event_places
from profscope.traces.perfetto.protobuf import field, varint
from profscope.traces.perfetto.slices import nested_depth

__all__ = ["around_packets"]

Ints = NDArray[np.int64]
SEQUENCE: Final = 2
BLOCK_EVENTS: Final = 1 << 14
SLICE_BEGIN, SLICE_END = 1, 2
EXPLICIT: Final = 3
FIRST_UUID: Final = 1 << 40
"""Above all numbers of tracks with spans."""


def around_packets(drawn: AroundTracks) -> Iterator[bytes]:
    """The packets, track by track."""
    processes: dict[str, int] = {}
    for number, track in enumerate(drawn.tracks):
        if track.process not in processes:
            processes[track.process] = FIRST_UUID + len(drawn.tracks) + len(processes)
            yield _descriptor(processes[track.process], track.process, 0, len(processes))
        yield _descriptor(FIRST_UUID + number, track.name, processes[track.process], number)
        yield from _events(drawn, track, FIRST_UUID + number)


def _events(drawn: AroundTracks, track: Track, uuid: int) -> Iterator[bytes]:
    rows = track.rows
    start, end = drawn.start_ns[rows], drawn.end_ns[rows]
    at_begin, at_end = event_places(nested_depth(start, end))
    order = np.empty(2 * len(rows), np.int64)
    order[at_begin], order[at_end] = np.arange(len(rows)), np.arange(len(rows)) + len(rows)
    times = np.append(start, end)
    on_track = field(11, uuid)
    ending = field(11, field(9, SLICE_END) + on_track)
    beginnings: dict[tuple[str, str, int], bytes] = {}
    packets: list[bytes] = []
    numbers = rows.tolist()
    for each, time in zip(order.tolist(), times[order].tolist(), strict=True):
        if each < len(numbers):
            row = numbers[each]
            key = drawn.name[row], drawn.kind[row], id(drawn.args[row])
            if key not in beginnings:
                args = b"".join(field(4, _annotation(*arg)) for arg in drawn.args[row].items())
                said = field(9, SLICE_BEGIN) + on_track + field(22, key[1]) + field(23, key[0]) + args
                beginnings[key] = field(11, said)
            event = beginnings[key]
        else:
            event = ending
        packets.append(packet(b"\x40" + varint(time), b"\x50\x02", event))  # fields 8 and 10
        if len(packets) >= BLOCK_EVENTS:
            yield b"".join(packets)
            packets = []
    yield b"".join(packets)


def _annotation(name: str, value: object) -> bytes:
    """A DebugAnnotation: name, and an int, a double or a string."""
    number = {int: 4, float: 5}.get(type(value), 6)
    return field(10, name) + field(number, value if isinstance(value, int | float) else str(value))


def _descriptor(uuid: int, name: str, parent: int, rank: int) -> bytes:
    parents = field(5, parent) if parent else b""
    order = field(11, EXPLICIT) + field(12, rank)
    return packet(field(60, field(1, uuid) + field(2, name) + parents + order))
