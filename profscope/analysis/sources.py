"""The code of kernels that a profile keeps: source lines, the variables they assign to, and sampled SASS."""

from __future__ import annotations

import ast
import json
import textwrap
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any, Final, NamedTuple

from profscope.instrument_passes.kept_text import unpacked

__all__ = ["Instruction", "Sources", "file_with_source", "parsed", "sampled_code"]

_DEEPEST: Final = 100
"""Levels of a syntax tree; those of real kernels have some twenty."""


def file_with_source(file: str, known: Iterable[str]) -> str:
    """The file among those of known sources that has the text of `file`; `file` itself if there is none.

    A binary that Triton's cache kept of another copy of a program names that copy's files. The cache found
    it by the text and its line, so the one file of the same name has the same text; of several none is taken.
    """
    files = set(known)
    alike = {each for each in files if PurePath(each).name == PurePath(file).name}
    return alike.pop() if file not in files and len(alike) == 1 else file


class Sources:
    """Of a profile's metadata."""

    def __init__(self, metadata: dict[str, Any]) -> None:
        self._files = {str(source["file"]) for source in metadata.get("sources") or []}
        self._texts: dict[tuple[str, int], str] = {}
        self._variables: dict[tuple[str, int], str] = {}
        for source in metadata.get("sources") or []:
            first = int(source["line"])
            for at, text in enumerate(source["text"].splitlines()):
                self._texts[source["file"], first + at] = text
            for line, name in _assigned(source["text"]).items():
                self._variables[source["file"], first + line - 1] = name

    def text(self, file: str, line: int) -> str:
        """A line, without the space around it; "" where it is not known."""
        return self._texts.get((file_with_source(file, self._files), line), "").strip()

    def lines(self, file: str) -> dict[int, str]:
        """Those of a file that are known, by number, as they are written."""
        file = file_with_source(file, self._files)
        return {line: text for (name, line), text in self._texts.items() if name == file}

    def variable(self, file: str, line: int) -> str:
        """What the statement at a line assigns to, "x" or "a, b"; "" if nothing, or nobody knows."""
        return self._variables.get((file_with_source(file, self._files), line), "")


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


def _assigned(text: str) -> dict[int, str]:
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

    None where the profile keeps none. Raises IRError or ValueError where what is kept cannot be read.
    """
    binaries = (metadata.get("sampler") or {}).get("binaries") or []
    own = (each for each in binaries if (each["kernel"], each["variant"]) == (kernel, variant))
    entry = next((each for each in own if each.get("sass")), None)
    return None if entry is None else [Instruction(*row[:4]) for row in json.loads(unpacked(entry["sass"]))]
