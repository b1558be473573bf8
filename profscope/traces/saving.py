"""Write a profile to a file; the suffix chooses the format (see `exporters`)."""

from collections.abc import Iterator
from importlib import import_module
from itertools import chain, pairwise
from pathlib import Path
from typing import cast

from profscope.analysis.validate import column_problems
from profscope.errors import TraceError
from profscope.schema import Tables
from profscope.threads import in_order, worker_pool
from profscope.traces import exporters
from profscope.traces.exporters import Exporter, Piece
from profscope.traces.formats import GZIP, own_suffix
from profscope.traces.limits import misfit
from profscope.traces.output import GzipFile, PlainFile, whole_file
from profscope.traces.trace_file import printable

__all__ = ["save"]


def save(tables: Tables, path: str | Path) -> None:
    """Write a profile to `path`, whole or not at all.

    Raises OptionError for a suffix that no exporter has, TraceError for tables that do not follow the schema
    for what no trace can hold, and for a place that cannot
    be written.
    """
    given, path = str(path), Path(path)
    _, name = own_suffix(path.name, given)
    exporter = cast(Exporter, import_module(f"{exporters.__name__}.{name}"))
    problems = column_problems(tables)
    if problems:
        raise TraceError(f"cannot save {given!r}: {problems[0]}")
    wrong = misfit(tables)
    if wrong:
        raise TraceError(f"cannot save {given!r}: no trace can hold {wrong}")
    try:
        with whole_file(path) as file, worker_pool() as pool:
            output = GzipFile(file) if path.name.endswith(GZIP) else PlainFile(file)
            for piece in in_order(pool, output.prepare, _with_last(exporter.pieces(tables, pool))):
                output.write(piece)
            output.close()
    except OSError as error:
        raise TraceError(f"cannot write {printable(path)}: {error.strerror or error}") from error


def _with_last(pieces: Iterator[Piece]) -> Iterator[tuple[Piece, bool]]:
    """Each piece, and whether it is the last."""
    for piece, following in pairwise(chain(pieces, [None])):
        assert piece is not None
        yield piece, following is None
