"""Read a file into a profile: our own exactly, other tools' as far as they go (see `importers`)."""

from importlib import import_module
from pathlib import Path
from typing import cast

from profscope.errors import TraceError
from profscope.schema import Tables
from profscope.traces import importers
from profscope.traces.formats import format_names
from profscope.traces.importers import Importer
from profscope.traces.trace_file import TraceFile

__all__ = ["load"]

FOREIGN_DAMAGE = (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError)
"""What an importer raises that meets content of another form than its tool writes."""


def load(path: str | Path) -> Tables:
    """The profile in a trace file of whatever suffix; or in a spool, or its folder.

    Raises TraceError, in one line saying what the file is, when it holds none that can be read.
    """
    file = TraceFile(Path(path))
    for name in format_names(importers, importers.OWN):
        importer = cast(Importer, import_module(f"{importers.__name__}.{name}"))
        try:
            if importer.recognises(file):
                return importer.read(file)
        except TraceError:
            raise
        except FOREIGN_DAMAGE as error:
            if name in importers.OWN:
                raise  # these say themselves what is damaged: it is a fault of ours
            raise TraceError(f"{path} is a damaged trace of another tool: {error!r}") from error
    raise TraceError(f"{path} is {file.describe()}")
