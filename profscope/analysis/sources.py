"""The text of kernels, which a profile has: a line's text, and the variable that a line assigns to."""

import ast
import textwrap
from typing import Any

__all__ = ["Sources"]


class Sources:
    """Of a profile's metadata."""

    def __init__(self, metadata: dict[str, Any]) -> None:
        self._texts: dict[tuple[str, int], str] = {}
        self._variables: dict[tuple[str, int], str] = {}
        for source in metadata.get("sources") or []:
            first = int(source["line"])
            for at, text in enumerate(source["text"].splitlines()):
                self._texts[source["file"], first + at] = text.strip()
            for line, name in _assigned(source["text"]).items():
                self._variables[source["file"], first + line - 1] = name

    def text(self, file: str, line: int) -> str:
        """A line, without the space around it; "" where it is not known."""
        return self._texts.get((file, line), "")

    def lines(self, file: str) -> dict[int, str]:
        """Those of a file that are known, by number."""
        return {line: text for (name, line), text in self._texts.items() if name == file}

    def variable(self, file: str, line: int) -> str:
        """What the statement at a line assigns to, "x" or "a, b"; "" if nothing, or nobody knows."""
        return self._variables.get((file, line), "")


def _assigned(text: str) -> dict[int, str]:
    """By line of a function's text, from 1, what the innermost statement there assigns to."""
    try:
        tree = ast.parse(textwrap.dedent(text))
    except (SyntaxError, ValueError):
        return {}
    names: dict[int, str] = {}
    for node in ast.walk(tree):  # those inside come after those around them
        if isinstance(node, ast.stmt):
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            named = targets[0] if not isinstance(node, ast.For) else None
            name = ast.unparse(named).strip("()") if named is not None else ""
            names |= dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), name)
    return {line: name for line, name in names.items() if name}
