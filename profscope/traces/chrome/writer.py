"""Write a profile as a Chrome trace that Perfetto reads without error and profscope reads back exactly.

The file (docs/trace-format.md) is one JSON object: first, on one line, "profscope" with the tables in
compact form; then the "traceEvents" drawn from them, one a line.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from typing import TypeVar

from profscope.analysis.spans import sites
from profscope.schema import Tables
from profscope.traces.chrome.events import EventLines, name_events
from profscope.traces.compact import encode
from profscope.traces.document import head_text, in_order, row_devices
from profscope.traces.tracks import assign_tracks

T = TypeVar("T")

__all__ = ["END", "trace_pieces"]

END = b"\n]}\n"
"""How every trace ends; a reader that stops after the first line checks for it."""

BLOCK_ROWS = 16384


def trace_pieces(profile: Tables, pool: Executor, prepare: Callable[[bytes], T]) -> Iterator[T]:
    """The file's bytes but for `END`, in order and in pieces, each passed through `prepare` in `pool`."""
    df = profile.df
    origin_ns = int(df["start_ns"].min()) if len(df) else 0
    site, table = sites(df)
    spans = encode(df, site, table, pool)
    tracks = assign_tracks(df, row_devices(df, profile.launches))
    lines = EventLines(df, site, table, tracks, origin_ns)
    head = head_text(profile, spans())[:-1]
    head += f',\n"displayTimeUnit":"ns","baseTimeNanoseconds":{origin_ns},\n"traceEvents":[\n'
    yield prepare(head.encode("ascii"))
    if len(df):
        # Each line closes the event before it.
        yield prepare(",\n".join(name_events(tracks.table, profile.emulated)).removesuffix("}").encode())
        begins = range(0, len(df), BLOCK_ROWS)
        yield from in_order(pool, lambda begin: prepare(lines.block(begin, begin + BLOCK_ROWS)), begins)
        yield prepare(b"}")
