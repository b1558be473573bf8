"""Read a Perfetto trace of ours packet by packet, with what Perfetto's documentation says of each field.

Slow and plain, to hold the writer against: no padding, no words, no order is taken for granted.
"""

import struct
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from profscope.traces.perfetto.protobuf import read_varint

__all__ = ["Slice", "Trace", "fields", "read_trace"]

Fields = dict[int, list[Any]]
CLEARED = 1
BEGIN, END = 1, 2
SPANS = 1
"""The sequence that spans are on; what is drawn beside them is on others."""


@dataclass
class Slice:
    """A slice as drawn; `dur` is -1 while it is open."""

    track: tuple[str, ...]
    ts: int
    dur: int
    depth: int
    name: str
    category: str
    args: dict[str, Any]
    source: tuple[str, str, int] | None
    begins_flows: list[int]
    ends_flows: list[int]


@dataclass
class Trace:
    """A whole trace: its slices, and the numbers of packets that are no events by their fields."""

    slices: list[Slice] = field(default_factory=list)
    other: list[tuple[int, ...]] = field(default_factory=list)


def fields(data: bytes) -> Fields:
    """A message's fields: number -> values; lengths-delimited ones as bytes, fixed ones as bytes too."""
    found: Fields = defaultdict(list)
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


def read_trace(data: bytes) -> Trace:
    """All that a trace shows."""
    trace = Trace()
    descriptors: dict[int, Fields] = {}
    state = _Sequence()
    open_slices: dict[int, list[Slice]] = defaultdict(list)
    packets = fields(data)
    assert list(packets) == [1]
    for packet in map(fields, packets[1]):
        if 60 in packet:
            descriptor = fields(packet[60][0])
            descriptors[descriptor[1][0]] = descriptor
        elif 10 not in packet or packet[10] != [SPANS]:
            if 10 not in packet:
                trace.other.append(tuple(packet))
            continue
        state.see(packet)
        for event in map(fields, packet.get(11, [])):
            state.clock += _signed(packet[8][0])
            stack = open_slices[state.track]
            kind = event[9][0]
            if kind == END:
                ended = stack.pop()
                ended.dur = state.clock - ended.ts
                continue
            assert kind == BEGIN
            begun = state.slice(event, _path(descriptors, state.track), len(stack))
            trace.slices.append(begun)
            stack.append(begun)
    assert not any(open_slices.values())
    return trace


class _Sequence:
    """What a sequence of packets has said since it was cleared."""

    def __init__(self) -> None:
        self.names: dict[int, dict[int, Fields]] = defaultdict(dict)
        self.clock = self.track = -1

    def see(self, packet: Fields) -> None:
        if packet.get(13, [0])[0] & CLEARED:
            self.names.clear()
        for interned in map(fields, packet.get(12, [])):
            for kind, entries in interned.items():
                for entry in map(fields, entries):
                    self.names[kind][entry[1][0]] = entry
        for defaults in map(fields, packet.get(59, [])):
            assert defaults[58] == [64]
            self.track = fields(defaults[11][0])[11][0]
        for snapshot in map(fields, packet.get(6, [])):
            there, here = map(fields, snapshot[1])
            assert (there[1], here[1], here[2], here[3], here[4]) == ([6], [64], [0], [1], [1])
            self.clock = there[2][0]

    def slice(self, event: Fields, track: tuple[str, ...], depth: int) -> Slice:
        source = self.names[4][event[34][0]] if 34 in event else None
        return Slice(
            track,
            self.clock,
            -1,
            depth,
            self.names[2][event[10][0]][2][0].decode(),
            self.names[1][event[3][0]][2][0].decode(),
            dict(self._annotation(fields(one)) for one in event.get(4, [])),
            source and (source[2][0].decode(), source[3][0].decode(), source[4][0]),
            [struct.unpack("<Q", flow)[0] for flow in event.get(47, [])],
            [struct.unpack("<Q", flow)[0] for flow in event.get(48, [])],
        )

    def _annotation(self, one: Fields) -> tuple[str, Any]:
        name = self.names[3][one[1][0]][2][0].decode()
        if 4 in one:
            return name, _signed(one[4][0])
        if 5 in one:
            return name, struct.unpack("<d", one[5][0])[0]
        return name, self.names[29][one[17][0]][2][0].decode()


def _path(descriptors: dict[int, Fields], uuid: int) -> tuple[str, ...]:
    above: Iterator[str] | tuple[()] = ()
    descriptor = descriptors[uuid]
    if 5 in descriptor:
        above = iter(_path(descriptors, descriptor[5][0]))
    return (*above, descriptor[2][0].decode())


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
