"""`.json`: a Chrome trace that Perfetto reads without error and profscope reads back exactly.

The file (docs/records.md) is one JSON object: first, on one line, "profscope" with the tables in
compact form; then the "traceEvents" drawn from them, one a line.
"""

import json
from collections.abc import Iterator
from concurrent.futures import Executor
from functools import partial

from profscope.analysis.program.host_times import unix_ns
from profscope.analysis.spans.rows import sites
from profscope.schema import Tables
from profscope.traces.around_tracks import around_tracks
from profscope.traces.chrome.events import EventLines, name_lines
from profscope.traces.chrome.overview import Around
from profscope.traces.chrome.text import END
from profscope.traces.compact import encode
from profscope.traces.exporters import Piece
from profscope.traces.profscope_object import object_text
from profscope.traces.tracks import assign_tracks, device_word, row_devices

__all__ = ["pieces", "report_pieces"]

BLOCK_ROWS = 16384


def pieces(tables: Tables, pool: Executor) -> Iterator[Piece]:
    """The file's bytes."""
    df = tables.df
    drawn = around_tracks(tables)
    timed = tables.launches["end_ns"] > tables.launches["start_ns"]
    starts = [df["start_ns"].to_numpy()] + ([] if drawn is None else [drawn.start_ns])
    starts += [tables.launches["start_ns"][timed].to_numpy()] if len(df) else []
    origin_ns = min((int(each.min()) for each in starts if len(each)), default=0)
    site, table = sites(df)
    spans = encode(df, site, table, pool)
    tracks = assign_tracks(df, row_devices(df, tables.launches))
    head = object_text(tables, spans())[:-1]
    # By the host's clock, if known: torch.profiler's traces count from a moment of that.
    base_ns = unix_ns(tables, origin_ns) or origin_ns
    head += f',\n"displayTimeUnit":"ns","baseTimeNanoseconds":{base_ns},\n"traceEvents":[\n'
    yield head.encode("ascii")
    around = Around(999, 999, origin_ns)
    if len(df):
        device_is = device_word(tables.launches)
        around = Around(int(tracks.table["pid"].max()), int(tracks.table["tid"].max()), origin_ns)
        around.above(tables, tracks, device_is)
        around.lines += name_lines(df, tracks, tables.emulated, device_is)
    if drawn is not None:
        around.program(drawn)
    yield ",\n".join(around.lines).encode()
    lines = EventLines(df, site, table, tracks, origin_ns)
    for begin in range(0, len(df), BLOCK_ROWS):
        yield partial(lines.block, begin, begin + BLOCK_ROWS)
    yield END


def report_pieces(tables: Tables, pool: Executor) -> Iterator[Piece]:
    """Of `.report.json`: what `prof.report()` returns, for programs; it cannot be loaded."""
    from profscope.analysis.report import report

    yield json.dumps(report(tables), indent=1).encode() + b"\n"
