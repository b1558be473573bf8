"""Files a profile can be read from: one importer each, named after the tool that wrote them.

    # profscope/traces/importers/my_tool.py: makes profscope.load read what my_tool writes
    def recognises(file):
        return file.head.startswith(b"MYTOOL1")

    def read(file):
        return Tables(df, launches, {"tool": "my_tool", "backend": "gpu", "notes": []})

Adding the file makes the format known. profscope's own formats are asked first, then the others by name,
until one recognises the file; the rest are not imported.
"""

from typing import Protocol

from profscope.schema import Tables
from profscope.traces.trace_file import TraceFile

__all__ = ["OWN", "Importer"]

OWN = ("own_formats", "spool", "ranks")
"""profscope's own formats, in the order in which they are asked."""


class Importer(Protocol):
    """What a file in this folder has."""

    def recognises(self, file: TraceFile) -> bool:
        """Whether the file is one of the tool's. Must not raise for other content."""

    def read(self, file: TraceFile) -> Tables:
        """The tables of a file it recognises.

        Raises TraceError where the file cannot be read; what else damaged content makes it raise (KeyError,
        TypeError, ValueError and the like) is reported as a damaged trace of another tool.
        """
