"""The texts of a kernel's functions and lines, and the call paths that lead to their lines."""

import linecache
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from profscope.analysis.sources import Sources, file_with_source
from profscope.instrument_passes.manifest import PATH_SEPARATOR
from profscope.schema import Tables

__all__ = ["SourceLines", "Step", "Text", "source_lines", "steps_of", "texts_of"]

_STEP = re.compile(r"(?:(?P<function>\w+) )?(?P<file>.+?):(?P<line>\d+)(?::\d+)?", re.DOTALL)


SourceLines = Callable[[str, int], str]
"""(file, line) to the line's text, "" when unknown."""


class Step(NamedTuple):
    """A line on the way. file: its path in the last step of a way, in the others its name alone."""

    function: str
    file: str
    line: int

    @property
    def place(self) -> tuple[str, int]:
        return self.file, self.line

    def is_in(self, file: str) -> bool:
        return _name(file) == _name(self.file)


def steps_of(file: str, line: int, call_path: str) -> tuple[Step, ...]:
    """The steps to a line, outermost first; the last is the line itself.

    /src/f.py, 9, "kernel f.py:3 > half f.py:9" -> (kernel, f.py, 3), (half, /src/f.py, 9)
    """
    steps = []
    for text in call_path.split(PATH_SEPARATOR) if call_path else []:
        match = _STEP.fullmatch(text)
        if match is None:
            return (Step("", file, line),)
        steps.append(Step(match["function"] or "", match["file"], int(match["line"])))
    own = steps.pop() if steps else Step("", file, line)
    return (*steps, Step(own.function, file, line))


def _name(file: str) -> str:
    return re.split(r"[\\/]", file)[-1]


@dataclass(frozen=True)
class Text:
    """A function's text, from `first` on. known: the files whose texts are known."""

    name: str
    file: str
    first: int
    text: str
    known: frozenset[str]

    @cached_property
    def _lines(self) -> list[str]:
        return textwrap.dedent(self.text.expandtabs(4)).splitlines()

    def lines(self) -> list[tuple[int, str]]:
        """Numbers and texts, without the indentation that all have."""
        return list(enumerate(self._lines, self.first))

    def is_called(self, function: str) -> bool:
        """Whether it is the text of a function of that name; one inside another has the names of both."""
        return self.name.rsplit(".", 1)[-1] == function

    def holds(self, file: str, line: int) -> bool:
        """Whether a place is in it; a file of another copy of the program counts as this one."""
        return (
            self.first <= line < self.first + len(self._lines)
            and file_with_source(file, self.known) == self.file
        )


def texts_of(tables: Tables) -> list[Text]:
    """Those of all functions, each place once: the last one is that which was compiled last."""
    entries = tables.metadata.get("sources") or []
    known = frozenset(str(entry["file"]) for entry in entries)
    texts = {(str(entry["file"]), int(entry["line"])): entry for entry in entries}
    return [
        Text(str(entry["name"]), file, line, str(entry["text"]), known)
        for (file, line), entry in texts.items()
    ]


def source_lines(metadata: dict[str, Any], written_s: float) -> SourceLines:
    """Look lines up in the sources that a profile's metadata keeps, and what they do not have in Python files
    that have not changed since the trace was written, in seconds since the epoch."""
    kept = Sources(metadata)
    known: dict[str, bool] = {}

    def look_up(file: str, line: int) -> str:
        if text := kept.text(file, line):
            return text
        if file not in known:
            known[file] = not kept.lines(file) and _is_unchanged(Path(file), written_s)
        return linecache.getline(file, line).strip() if known[file] and line > 0 else ""

    return look_up


def _is_unchanged(file: Path, written_s: float) -> bool:
    try:
        return file.suffix == ".py" and file.is_absolute() and file.stat().st_mtime <= written_s
    except OSError:
        return False
