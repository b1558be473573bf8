"""Writes the tables in docs/passes.md: `python -m instrument_passes.documents.passes docs/passes.md`."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from instrument_passes.levels import LEVELS
from instrument_passes.passes import Pass, passes, signature, spelled, summary

__all__ = ["OURS", "document"]

# Passes of installed packages are documented by those.
OURS: Final = "instrument_passes.passes."
_TABLE: Final = re.compile(r"(?<=<!-- table: )(\w+)( -->\n).*?(?=\n<!-- end -->)", re.DOTALL)
_PAGE: Final = re.compile(r"\bdocs/([\w-]+\.md)")


def document(text: str) -> str:
    """The page with its tables, each between `<!-- table: NAME -->` and `<!-- end -->`, written anew."""
    return _TABLE.sub(lambda match: f"{match[1]}{match[2]}{_TABLES[match[1]]()}", text)


def _passes() -> str:
    ours = {name: cls for name, cls in passes().items() if cls.__module__.startswith(OURS)}
    rows = [f"| `{name}` | {_options(cls)} | {_does(cls)} |" for name, cls in ours.items()]
    return "\n".join(["| pass | options and defaults | what it does |", "|---|---|---|", *rows])


def _options(cls: type[Pass]) -> str:
    return "<br>".join(f"`{name}={spelled(default)}`" for name, (_, default) in signature(cls).items())


def _does(cls: type[Pass]) -> str:
    """The docstring: its text in one cell, a line for each option."""
    lines = [""]
    for paragraph in summary(cls):
        option, colon, rest = paragraph.partition(": ")
        if colon and option in signature(cls):
            lines.append(f"`{option}`: {rest}")
        else:
            lines[0] = f"{lines[0]} {paragraph}".strip()
    return _PAGE.sub(r"[\1](\1)", "<br>".join(lines)).replace("|", "\\|")


def _levels() -> str:
    rows = [f'| `"{name}"` | `{passes}` |' for name, passes in LEVELS.items()]
    return "\n".join(["| level | passes |", "|---|---|", *rows])


_TABLES: Final[Mapping[str, Callable[[], str]]] = {"passes": _passes, "levels": _levels}


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(document(page.read_text()))
