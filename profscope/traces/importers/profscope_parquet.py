"""profscope's own Parquet files, and those of others, which have no profile in them."""

from profscope.errors import TraceError
from profscope.installed import require
from profscope.schema import Tables
from profscope.traces.trace_file import TraceFile

__all__ = ["read", "recognises"]

MAGIC = b"PAR1"


def recognises(file: TraceFile) -> bool:
    return file.head.startswith(MAGIC)


def read(file: TraceFile) -> Tables:
    """Raises TraceError for a file of another tool, one that is damaged or of a newer schema, and without
    pyarrow."""
    require("parquet", f"{file} is Parquet: to read it", TraceError)
    from profscope.traces.parquet.reading import tables_in_file

    return tables_in_file(file)
