"""Which rows of a view are shown: those of a line, those of a scope. What they say stays as it is."""

import re
from collections.abc import Sequence
from typing import Any, TypeVar

from profscope.analysis.spans.summing import summed_spans
from profscope.analysis.summary import summary_of
from profscope.analysis.texts import printable
from profscope.errors import TraceError
from profscope.schema import Tables

__all__ = ["RowFilter", "ends_with"]

Row = TypeVar("Row")


class RowFilter:
    """line: only rows of this line, by the end of its file's path and its number. scope: only rows whose
    scope this regular expression matches."""

    def __init__(self, line: tuple[str, int] | None = None, scope: str | None = None) -> None:
        self._line, self._scope = line, scope
        self._any = False

    @property
    def are_all(self) -> bool:
        return self._line is None and self._scope is None

    def has(self, file: str, line: int, scope: str | None = None) -> bool:
        """Whether a row is shown. scope: None of rows that are of a line and of no scope."""
        if self._line is not None and not (line == self._line[1] and ends_with(file, self._line[0])):
            return False
        fits = self._scope is None or scope is None or re.search(self._scope, scope) is not None
        self._any |= fits and (scope is not None or self._scope is None)
        return fits

    def chosen(self, rows: Sequence[Row], scope: str = "scope") -> list[Row]:
        """Those of some rows that are shown: objects with file, line and, mostly, a scope."""
        return [row for row in rows if self._shows(row, scope)]

    def _shows(self, row: Any, scope: str) -> bool:
        return self.are_all or self.has(row.file, row.line, getattr(row, scope, None))

    def check(self, tables: Tables) -> None:
        """Raise TraceError where nothing was shown for it, naming what there is."""
        if self.are_all or self._any:
            return
        summary = summary_of(tables, summed_spans(tables))
        if self._line is not None:
            lines = sorted({int(line) for line in summary["line"] if line})
            file, line = self._line
            asked = f"{file}:{line}" if file else f"line {line}"
            there = ", ".join(map(str, lines[:20])) or "none"
            raise TraceError(f"nothing was recorded at {asked}; there are spans at lines {there}")
        names = list(dict.fromkeys(printable(str(name)) for name in summary["scope"]))
        raise TraceError(f"no scope matches {self._scope!r}; there are: {', '.join(names[:20]) or 'none'}")


def ends_with(path: str, end: str) -> bool:
    """Whether a path is `end`, or ends with these folders and file."""
    steps, last = (re.split(r"[\\/]", text) for text in (path, end))
    return not end or steps[-len(last) :] == last
