"""profscope's own Parquet files and folders, and those of others, which have no profile in them."""

from profscope.errors import TraceError
from profscope.installed import missing, require
from profscope.schema import Tables
from profscope.traces.formats import PROFILE
from profscope.traces.trace_file import TraceFile

__all__ = ["read", "recognises", "spans_in"]

MAGIC = b"PAR1"


def recognises(file: TraceFile) -> bool:
    return (file.path / PROFILE).exists() if file.is_folder else file.head.startswith(MAGIC)


def spans_in(file: TraceFile) -> int:
    """How many spans a folder in Parquet says it has, without reading them; 0 where it does not say it: what
    is wrong with it, reading it tells."""
    if not (recognises(file) and not missing("parquet")):
        return 0
    from profscope.traces.parquet.folder import spans_in_folder

    try:
        return spans_in_folder(file)
    except TraceError:
        return 0


def read(file: TraceFile) -> Tables:
    """Raises TraceError for a file of another tool, one that is damaged or of a newer schema, and without
    pyarrow."""
    require("parquet", f"{file} is Parquet: to read it", TraceError)
    if file.is_folder:
        from profscope.traces.parquet.folder import tables_in_folder

        return tables_in_folder(file)
    from profscope.traces.parquet.reading import tables_in_file

    return tables_in_file(file)
