"""The text of source lines, where the file is still there and is the one that was profiled."""

import linecache
from collections.abc import Callable
from pathlib import Path

__all__ = ["SourceLines", "source_lines"]

SourceLines = Callable[[str, int], str]
"""(file, line) to the line's text, "" when unknown."""


def source_lines(written_s: float) -> SourceLines:
    """Look lines up in Python files that have not changed since the trace was written, in seconds since the
    epoch."""
    known: dict[str, bool] = {}

    def look_up(file: str, line: int) -> str:
        if file not in known:
            known[file] = _is_unchanged(Path(file), written_s)
        return linecache.getline(file, line).strip() if known[file] and line > 0 else ""

    return look_up


def _is_unchanged(file: Path, written_s: float) -> bool:
    try:
        return file.suffix == ".py" and file.is_absolute() and file.stat().st_mtime <= written_s
    except OSError:
        return False
