"""`.pftrace`: a Perfetto trace, in protobuf, that profscope reads back exactly.

The file (docs/perfetto-format.md) is a list of packets: first those with the "profscope" object, which
Perfetto passes over; then the tracks' names; then the events of one track after the other.
"""

from collections.abc import Iterator
from concurrent.futures import Executor
from functools import partial

import pandas as pd

from profscope.analysis.span_rows import sites
from profscope.schema import Tables
from profscope.traces.around_tracks import around_tracks
from profscope.traces.compact import encode
from profscope.traces.exporters import Piece
from profscope.traces.perfetto.around import around_packets
from profscope.traces.perfetto.layout import DATA_FIELD, END, packet
from profscope.traces.perfetto.packets import EventPackets
from profscope.traces.perfetto.protobuf import field
from profscope.traces.perfetto.slices import Drawing, draw
from profscope.traces.profscope_object import object_text
from profscope.traces.tracks import Tracks, assign_tracks, device_word, row_devices

__all__ = ["pieces"]

DATA_BYTES = 1 << 20
"""Of the object in one packet: threads compress them side by side."""

EXPLICIT = 3
"""TrackDescriptor.child_ordering: by rank."""


def pieces(tables: Tables, pool: Executor) -> Iterator[Piece]:
    """The file's bytes."""
    df = tables.df
    numbered = pool.submit(sites, df)  # beside the tracks: these two take longest of what one thread must do
    tracks = assign_tracks(df, row_devices(df, tables.launches))
    site, table = numbered.result()
    spans = encode(df, site, table, pool)
    drawing = draw(df, tracks)
    text = object_text(tables, spans()).encode("ascii")
    for begin in range(0, len(text), DATA_BYTES):
        yield packet(field(DATA_FIELD, text[begin : begin + DATA_BYTES]))
    yield b"".join(_descriptors(df, tracks, drawing, device_word(tables.launches), tables.emulated))
    if len(df):
        events = EventPackets(df, site, table, tracks, drawing)
        for cut in events.cuts():
            yield partial(events.block, *cut)
    drawn = around_tracks(tables)
    if drawn is not None:
        yield from around_packets(drawn)
    yield END


def _descriptors(
    df: pd.DataFrame, tracks: Tracks, drawing: Drawing, device_is: str, emulated: bool
) -> Iterator[bytes]:
    """Tracks in their order: GPU, SM, CTA slot, warp; and after each warp what it has in flight.

    Tracks with events have the number of their place in `Drawing`, from 1; those above them come after.
    """
    first = drawing.first
    leaves = len(first) - 1
    table = tracks.table[["device", "sm", "slot", "warp", "lane"]].to_numpy().tolist()
    lanes: list[list[tuple[int, str]]] = [[] for _ in table]
    opening = drawing.rows[first[len(table) : -1]]
    scopes = df["scope"].iloc[opening].tolist()
    for uuid, (track, scope) in enumerate(
        zip(tracks.track[tracks.run[opening]].tolist(), scopes, strict=True)
    ):
        lanes[track].append((len(table) + uuid + 1, scope))
    groups: dict[tuple[int, ...], int] = {}
    mark = " (emulated)" if emulated else ""
    for number, (device, sm, slot, warp, lane) in enumerate(table):
        levels: list[tuple[tuple[int, ...], str]] = [((device,), f"{device_is} {device}{mark}")]
        levels += [((device, sm), f"SM {sm}{mark}")] if sm >= 0 else []
        levels += [((device, sm, slot), f"CTA slot {slot}")] if warp >= 0 else []
        parent = 0
        for key, name in levels:
            if key not in groups:
                groups[key] = leaves + len(groups) + 1
                yield _descriptor(groups[key], name, parent, len(groups))
            parent = groups[key]
        name = (f"warp {warp}" if warp >= 0 else f"kernels {slot}") + (f" lane {lane}" if lane else "")
        yield _descriptor(number + 1, name, parent, 2 * number)
        for uuid, scope in lanes[number]:
            yield _descriptor(uuid, f"{name}: {scope}", parent, 2 * number + 1)


def _descriptor(uuid: int, name: str, parent: int, rank: int) -> bytes:
    """A track; those in it are shown by their ranks, and those of one name as one."""
    parents = field(5, parent) if parent else b""
    return packet(
        field(60, field(1, uuid) + field(2, name) + parents + field(11, EXPLICIT) + field(12, rank))
    )
