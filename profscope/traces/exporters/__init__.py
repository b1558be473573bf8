"""Formats a profile can be written in: one file each.

    # profscope/traces/exporters/csv.py: makes prof.save("spans.csv") work, and prof.save("spans.csv.gz")
    def pieces(tables, pool):
        yield tables.df.to_csv().encode()

The file's name is the suffix, with `_` for a dot: `speedscope_json.py` writes `.speedscope.json`. Adding the
file makes the format known; it is imported when something is saved in it, and no other is then. A format that
has the name of an extra of the distribution (profscope.installed) needs that extra. Commands replace a file
only if it has a mark in `profscope.traces.own_files`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:  # a name is checked before anything is recorded, and that need not load pandas
    from profscope.schema import Tables

__all__ = ["OWN", "PACKED", "Exporter", "Piece"]

OWN = ("json", "pftrace", "parquet")
"""The formats that load back exactly; they are named first."""

PACKED = ("parquet", "html")
"""Formats that compress by themselves: `.gz` behind them makes no sense."""

Piece: TypeAlias = bytes | Callable[[], bytes]
"""A part of a file: bytes, or a function that makes them, which a thread calls that compresses them, too."""


class Exporter(Protocol):
    """What a file in this folder has."""

    def pieces(self, tables: Tables, pool: Executor) -> Iterator[Piece]:
        """The file's bytes, in order; at least one piece. `pool` has threads for whatever can run beside.

        `.gz` is none of its business: pieces are compressed one by one. Tables have the columns and dtypes of
        the schema.
        """
