"""`.report.json`: what `prof.report()` returns, for programs; not a trace that could be loaded again."""

import json
from collections.abc import Iterator
from concurrent.futures import Executor

from profscope.analysis.report import report
from profscope.schema import Tables
from profscope.traces.exporters import Piece

__all__ = ["pieces"]


def pieces(tables: Tables, pool: Executor) -> Iterator[Piece]:
    """The file's bytes."""
    yield json.dumps(report(tables), indent=1).encode() + b"\n"
