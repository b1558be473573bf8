"""Read a file into a profile: our own exactly, other tools' as far as they go (see `importers`)."""

import json
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, cast

from profscope.errors import TraceError
from profscope.progress import working
from profscope.schema import Tables
from profscope.store.file_checks import misshapen
from profscope.traces import importers
from profscope.traces.checks import misfit
from profscope.traces.formats import importer_names
from profscope.traces.importers import Importer
from profscope.traces.places import is_remote
from profscope.traces.selecting import selected
from profscope.traces.trace_file import TraceFile, one_line
from profscope.traces.trace_filter import TraceFilter

__all__ = ["load_part", "load_selected"]

FOREIGN_DAMAGE = (AttributeError, IndexError, KeyError, OverflowError, RecursionError, TypeError, ValueError)
"""What an importer raises that meets content of another form than its tool writes."""


class Loaded(NamedTuple):
    """tables: what was read. left_out: rows of the span table that were not, since only others were asked
    for."""

    tables: Tables
    left_out: int


def load_selected(path: str | Path, only: TraceFilter) -> Tables:
    """What is asked for of the profile in a trace file of whatever suffix, or in a spool, or its folder; a
    note says what that is of.

    Raises TraceError, in one line saying what the file is, when it holds none that can be read, and where
    there is nothing of the sort. That takes time and memory in proportion to the file's size, whatever the
    file says.
    """
    part = load_part(path, only)
    if only.is_all:
        return part.tables
    tables, all_spans = selected(part.tables, only), len(part.tables.df) + part.left_out
    note = f"this is a part of the trace: {only}; {len(tables.df):,} of its {all_spans:,} spans"
    notes = [*(tables.metadata.get("notes") or ()), note]
    return replace(tables, metadata=tables.metadata | {"notes": notes})


def load_part(path: str | Path | TraceFile, only: TraceFilter) -> Loaded:
    """As `load_selected`, also of a file that is read ahead; of a large file that can be read in parts, no
    more spans than needed, and all other tables.

    The spans that are asked for are there, and others may be. Where there are none, all are.
    """
    file = path if isinstance(path, TraceFile) else TraceFile(path)
    file.only = only
    with working(f"loading {one_line(file.path.name)}"):
        tables = _read(file)
    tables = replace(tables, metadata=_encodable(tables.metadata))
    wrong = next(misshapen(tables.metadata), None) or misfit(tables)
    if wrong:
        raise TraceError(f"{file} is no trace that can be read: it has {wrong}")
    return Loaded(tables, file.left_out)


def _encodable(metadata: dict[str, Any]) -> dict[str, Any]:
    """With a question mark for each lone surrogate: JSON can spell one, UTF-8 and so the views cannot."""
    text = json.dumps(metadata, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        spelled: dict[str, Any] = json.loads(text.encode(errors="replace"))
        return spelled
    return metadata


def _read(file: TraceFile) -> Tables:
    for name in importer_names(importers, importers.OWN):
        importer = cast(Importer, import_module(f"{importers.__name__}.{name}"))
        try:
            if importer.recognises(file):
                return importer.read(file)
        except TraceError:
            raise
        except PermissionError as error:
            raise TraceError(f"cannot read {one_line(error.filename or file)}: {error.strerror}") from error
        except FOREIGN_DAMAGE as error:
            if is_remote(file.path) and isinstance(error, OSError | ValueError):
                raise TraceError(f"cannot read {file}: {one_line(error)}") from error
            if name in importers.OWN:
                raise  # these say themselves what is damaged: it is a fault of ours
            why = one_line(repr(error))
            raise TraceError(f"{file} is a damaged trace of another tool: {why}") from error
    raise TraceError(f"{file} is {file.describe()}")
