"""The code of kernels that a profile keeps: source lines, the variables they assign to, the texts of
functions, the call paths that lead to their lines, and sampled SASS."""

from __future__ import annotations

import ast
import json
import linecache
import re
import textwrap
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path, PurePath
from typing import Any, Final, NamedTuple

from profscope.instrument_passes.kept_text import unpacked
from profscope.instrument_passes.manifest import PATH_SEPARATOR
from profscope.schema import Tables

__all__ = [
    "Instruction",
    "SourceLines",
    "Sources",
    "Step",
    "Text",
    "file_with_source",
    "parsed",
    "sampled_code",
    "source_lines",
    "steps_of",
    "texts_of",
]

_DEEPEST: Final = 100
"""Levels of a syntax tree; those of real kernels have some twenty."""


def file_with_source(file: str, known: Collection[str]) -> str:
    """The file among those of known sources that has the text of `file`; `file` itself if there is none.

    A binary that Triton's cache kept of another copy of a program names that copy's files. The cache found
    it by the text and its line, so the one file of the same name has the same text; of several none is taken.
    """
    if file in known:
        return file
    alike = {each for each in known if PurePath(each).name == PurePath(file).name}
    return alike.pop() if len(alike) == 1 else file


class Sources:
    """Source texts of a profile's metadata."""

    def __init__(self, metadata: dict[str, Any]) -> None:
        self._files = {str(source["file"]) for source in metadata.get("sources") or []}
        self._texts: dict[tuple[str, int], str] = {}
        self._functions: dict[str, list[tuple[range, str]]] = {}  # by file, lines and texts
        for source in metadata.get("sources") or []:
            first, texts = int(source["line"]), source["text"].splitlines()
            for at, text in enumerate(texts):
                self._texts[source["file"], first + at] = text
            lines = range(first, first + len(texts))
            self._functions.setdefault(source["file"], []).append((lines, source["text"]))

    def text(self, file: str, line: int) -> str:
        """A line, without the space around it; "" if unknown."""
        return self._texts.get((file_with_source(file, self._files), line), "").strip()

    def lines(self, file: str) -> dict[int, str]:
        """Those of a file that are known, by number, as they are written."""
        file = file_with_source(file, self._files)
        return {line: text for (name, line), text in self._texts.items() if name == file}

    def variable(self, file: str, line: int) -> str:
        """The targets of the assignment at a line, "x" or "a, b"; "" if there is none, or if unknown."""
        functions = self._functions.get(file_with_source(file, self._files), [])
        around = [(lines.start, text) for lines, text in reversed(functions) if line in lines]
        found = (_assigned(text).get(line - first + 1) for first, text in around)
        return next((name for name in found if name), "")


def parsed(text: str) -> ast.Module | None:
    """The syntax tree of a function's text; None if it does not parse, or is nested deeper than programs are.

    A text comes from a file, which may hold any. So whoever walks its tree need not fear for the stack.
    """
    try:
        tree = ast.parse(textwrap.dedent(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the last two: of Python's own parser
        return None
    level: list[ast.AST] = [tree]
    for _ in range(_DEEPEST):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return tree
    return None


@lru_cache(256)
def _assigned(text: str) -> Mapping[int, str]:
    """By line of a function's text, from 1, what the innermost statement there assigns to."""
    tree = parsed(text)
    if tree is None:
        return {}
    names: dict[int, str] = {}
    for node in ast.walk(tree):  # those inside come after those around them
        if isinstance(node, ast.stmt):
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            named = targets[0] if not isinstance(node, ast.For) else None
            name = ast.unparse(named).strip("()") if named is not None else ""
            names |= dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), name)
    return {line: name for line, name in names.items() if name}


class Instruction(NamedTuple):
    """pc: as in the table of samples; text: "LDG.E R2, [R2]"."""

    pc: int
    text: str
    file: str
    line: int


def sampled_code(metadata: dict[str, Any], kernel: str, variant: int) -> list[Instruction] | None:
    """The instructions of the bare binary of a kernel's variant, in order.

    None if the profile keeps none. Raises IRError or ValueError if they cannot be read.
    """
    binaries = (metadata.get("sampler") or {}).get("binaries") or []
    own = (each for each in binaries if (each["kernel"], each["variant"]) == (kernel, variant))
    entry = next((each for each in own if each.get("sass")), None)
    return None if entry is None else [Instruction(*row[:4]) for row in json.loads(unpacked(entry["sass"]))]


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
    """Look lines up in the sources that a profile's metadata keeps, and missing ones in Python files that
    have not changed since the trace was written, in seconds since the epoch."""
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
