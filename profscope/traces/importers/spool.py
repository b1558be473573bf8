"""What a session with `spool=` wrote: its file, or its folder if there is one file in it."""

from pathlib import Path
from typing import Final

from profscope.around.host_tables import with_host
from profscope.decoding.assemble import assemble
from profscope.errors import TraceError
from profscope.evidence.tables import with_evidence
from profscope.schema import Tables
from profscope.store.chunks import SUFFIX, version_of
from profscope.store.spool_reading import Spool
from profscope.store.spool_reading import read as read_spool
from profscope.traces.trace_file import TraceFile

__all__ = ["read", "recognises"]

_DAMAGE: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What comes of statements that have their form and are not of the same launches."""


def recognises(file: TraceFile) -> bool:
    """By its name, too: the first bytes may be damaged."""
    if file.is_folder:
        return bool(_spools(file.path))
    return version_of(file.head) is not None or file.path.suffix == SUFFIX


def read(file: TraceFile) -> Tables:
    """Raises TraceError for a folder with several spools, for a file in which nothing is complete, and for
    one whose parts do not fit together."""
    spools = _spools(file.path) if file.is_folder else [file.path]
    if len(spools) > 1:
        names = ", ".join(spool.name for spool in spools[:4]) + (", ..." if len(spools) > 4 else "")
        raise TraceError(f"{file} holds {len(spools)} spools, name one of them: {names}")
    spool = read_spool(spools[0])
    try:
        return _tables(spool)
    except _DAMAGE as error:
        raise file.damaged(f"what it states of its launches does not fit together: {error!r}") from error


def _tables(spool: Spool) -> Tables:
    tables = assemble(spool.launches, spool.metadata, spool.notes)
    tables = with_host(tables, spool.scopes)
    return tables if spool.evidence is None else with_evidence(tables, spool.evidence)


def _spools(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob(f"*{SUFFIX}")) if path.is_file()]
