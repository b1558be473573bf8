"""Formats that a profile can be written in.

    # profscope/traces/exporters/csv.py
    def pieces(tables, pool):
        yield tables.df.to_csv().encode()

With a row `"csv": "exporters.csv:pieces"` in FORMATS, `prof.save("spans.csv")` works; so does "spans.csv.gz".
A function gives the file's bytes, in order, in at least one piece. `pool` has threads for whatever can run
beside. `.gz` is none of its business: pieces are compressed one by one. Tables have the columns and dtypes of
the schema. Its module is imported when something is saved in that format, and no other is then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

__all__ = ["FORMATS", "PACKED", "WHOLE", "Piece"]

FORMATS: Final[Mapping[str, str]] = {
    "json": "exporters.json:pieces",
    "pftrace": "exporters.pftrace:pieces",
    "parquet": "parquet:pieces",
    "html": "html.document:pieces",
    "report_json": "exporters.json:report_pieces",
}
"""By name the function, below profscope.traces. The name is the suffix, with `_` for a dot; one that is an
extra of the distribution (profscope.installed) needs that extra. Commands replace a file only if it has a
mark in `profscope.traces.own_files`."""

WHOLE: Final = ("json", "pftrace", "parquet")
"""Formats that load back exactly, and so must have all spans."""

PACKED: Final = ("parquet", "html")
"""Formats that compress by themselves: `.gz` behind them makes no sense."""

Piece: TypeAlias = bytes | Callable[[], bytes]
"""A part of a file: bytes, or a function that makes them, which a thread calls that compresses them, too."""
