"""Write a profile to a file; the suffix chooses the format (see `exporters`)."""

from collections.abc import Iterator
from importlib import import_module
from itertools import chain, pairwise
from pathlib import Path

from profscope.errors import OptionError, TraceError
from profscope.progress import working
from profscope.schema import Tables
from profscope.threads import in_order, worker_pool
from profscope.traces.checks import column_problems, misfit
from profscope.traces.exporters import FORMATS, WHOLE, Piece
from profscope.traces.formats import GZIP, own_suffix, rank_of
from profscope.traces.output import PieceFile, whole_file
from profscope.traces.places import is_remote, place, uploaded
from profscope.traces.trace_file import one_line
from profscope.traces.trace_filter import SAMPLES_OF_RANK

__all__ = ["save"]


def save(tables: Tables, path: str | Path) -> None:
    """Write a profile to `path`, whole or not at all.

    Raises OptionError for a suffix that no exporter has or whose extra is not installed, and for what is no
    path, TraceError for tables that do not follow the schema, for what no trace can hold, and for a place
    that cannot be written.
    """
    try:
        given, path = str(path), place(path)
    except TypeError:
        raise OptionError(
            f"a trace is saved under a name, such as 'trace.pftrace.gz', not {path!r}"
        ) from None
    _, name = own_suffix(path.name, given)
    if len(tables.sums) and name in WHOLE:
        rank = tables.metadata.get(SAMPLES_OF_RANK)
        raise TraceError(
            f"cannot save {given!r}: this profile has the spans of rank {rank} alone; copy the folder of the "
            "job, or load it with rank=N"
        )
    problems = column_problems(tables)
    if problems:
        raise TraceError(f"cannot save {given!r}: {problems[0]}")
    wrong = misfit(tables)
    if wrong:
        raise TraceError(f"cannot save {given!r}: no trace can hold {wrong}")
    try:
        with working(f"saving {one_line(path.name)}"):
            _write(tables, path, name)
    except OSError as error:
        raise TraceError(f"cannot write {one_line(path)}: {error.strerror or error}") from error


def _write(tables: Tables, path: Path, name: str) -> None:
    if rank_of(path.parent) is not None and not is_remote(
        path
    ):  # the ranks of a job make the folder of their parts
        for folder in (path.parent.parent, path.parent):
            folder.mkdir(exist_ok=True)
    module, _, function = FORMATS[name].partition(":")
    pieces = getattr(import_module(f"profscope.traces.{module}"), function)
    with (uploaded if is_remote(path) else whole_file)(path) as file, worker_pool() as pool:
        output = PieceFile(file, is_gzip=path.name.endswith(GZIP))
        for piece in in_order(pool, output.prepare, _with_last(pieces(tables, pool))):
            output.write(piece)
        output.close()


def _with_last(pieces: Iterator[Piece]) -> Iterator[tuple[Piece, bool]]:
    """Each piece, and whether it is the last."""
    for piece, following in pairwise(chain(pieces, [None])):
        assert piece is not None
        yield piece, following is None
