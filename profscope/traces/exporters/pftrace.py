"""`.pftrace`: a Perfetto trace, in protobuf, that profscope reads back exactly.

The file (docs/records.md) is a list of packets: first those with the "profscope" object, which
Perfetto passes over; then the tracks' names; then the events of one track after the other.
"""

from collections.abc import Iterator
from concurrent.futures import Executor
from functools import partial

from profscope.analysis.spans.rows import sites
from profscope.schema import Tables
from profscope.traces.around_tracks import around_tracks
from profscope.traces.compact import encode
from profscope.traces.exporters import Piece
from profscope.traces.overview import group_bars, warp_runs
from profscope.traces.perfetto.packets import EventPackets, draw
from profscope.traces.perfetto.protobuf import DATA_FIELD, END, field, packet
from profscope.traces.perfetto.tree import around_packets, queue_packets, tree
from profscope.traces.profscope_object import object_text
from profscope.traces.tracks import assign_tracks, device_word, row_devices

__all__ = ["pieces"]

DATA_BYTES = 1 << 20
"""Of the object in one packet: threads compress them side by side."""


def pieces(tables: Tables, pool: Executor) -> Iterator[Piece]:
    """The file's bytes."""
    df = tables.df
    site, table = sites(df)
    spans = encode(df, site, table, pool)  # the pool is busy with it while one thread makes the tracks
    tracks = assign_tracks(df, row_devices(df, tables.launches))
    bars = pool.submit(lambda: group_bars(tables, tracks, warp_runs(df, tracks))) if len(df) else None
    drawing = draw(df, tracks)
    made = pool.submit(EventPackets, df, site, table, tracks, drawing) if len(df) else None
    text = object_text(tables, spans()).encode("ascii")
    for begin in range(0, len(text), DATA_BYTES):
        yield packet(field(DATA_FIELD, text[begin : begin + DATA_BYTES]))
    if made is not None and bars is not None:
        naming = device_word(tables.launches), tables.emulated
        yield partial(b"".join, tree(df, tracks, drawing, bars.result(), naming))
        events = made.result()
        for cut in events.cuts():
            yield partial(events.block, *cut)
    yield from queue_packets(tables.launches)
    drawn = around_tracks(tables)
    if drawn is not None:
        yield from around_packets(drawn)
    yield END
