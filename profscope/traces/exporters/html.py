"""`.html`: a report in one file for a browser, which needs no network; not a trace to be loaded again."""

from collections.abc import Iterator
from concurrent.futures import Executor

from profscope.schema import Tables
from profscope.traces.exporters import Piece
from profscope.traces.html.document import document

__all__ = ["pieces"]


def pieces(tables: Tables, pool: Executor) -> Iterator[Piece]:
    """The file's bytes."""
    yield document(tables, pool).encode()
