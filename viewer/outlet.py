"""Output of views: as text, JSON or CSV."""

import csv
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from profscope.viewer.flags import in_flags
from profscope.viewer.grid import wrap
from profscope.viewer.option_types import LEAST_WIDTH
from profscope.viewer.units import printable

__all__ = ["Row", "noted", "print_json", "print_lines", "print_rows", "text_width"]

_FORMULA = ("=", "+", "-", "@", "\t", "\r")

Row = Mapping[str, Any]


def text_width(asked: int | None, stream: TextIO | None = None) -> int:
    """Columns of text: those asked for, or the terminal's. A narrower terminal wraps lines itself."""
    return max(Console(file=stream, width=asked).width, LEAST_WIDTH)


def print_lines(lines: Sequence[Text], width: int | None) -> None:
    """Print text, in colours where a terminal reads it."""
    console = Console(width=width, highlight=False)
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    with console.capture() as capture:  # printing, it would end the process where a pipe is closed
        console.print(Text("\n").join(lines), soft_wrap=True)
    sys.stdout.write(capture.get())


def print_json(document: Any) -> None:
    """Figures are exact."""
    json.dump(document, sys.stdout, indent=2)
    sys.stdout.write("\n")


def print_rows(rows: Sequence[Row]) -> None:
    """Print a table as CSV, figures exact. A missing value is empty; a list or dict is JSON; an apostrophe
    precedes a text that spreadsheets would read as a formula."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(map(_no_formula, names))
    writer.writerows([_cell(row.get(name)) for name in names] for row in rows)


def noted(text: str, width: int) -> list[Text]:
    """A remark below a view."""
    return [Text(line, style="dim") for line in wrap(printable(in_flags(text)).split(), width)]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list | dict):
        return json.dumps(value)
    text = printable(str(value))
    return _no_formula(text) if isinstance(value, str) else text


def _no_formula(text: str) -> str:
    """A text that a spreadsheet would run as a formula, behind the apostrophe that makes it a text there."""
    return "'" + text if text.startswith(_FORMULA) else text
