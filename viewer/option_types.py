"""What the values of command-line options may be, and what several commands say alike. Nothing heavy is
imported."""

import argparse
import re
from typing import NamedTuple

__all__ = [
    "ANSWERS",
    "BY",
    "FIRST",
    "FORMATS",
    "KERNELS",
    "NO_TABLE",
    "SECTIONS",
    "SORTS",
    "TRACE",
    "VIEWS",
    "WHOLE_FORMATS",
    "Place",
    "add_no_verify",
    "add_width",
    "count",
    "pattern",
    "place",
    "sections",
    "width",
]

TRACE = "a file or folder of profscope, torch.profiler or Proton; - is standard input"
KERNELS = "kernels whose name this regular expression matches"
"""What the commands say of a trace that they read, and of --kernel."""

VIEWS = ("source", "show", "by", "interactive", "serve")

NO_TABLE = ("header", "timeline")
"""Of SECTIONS, those that are no table."""

SECTIONS = (
    "header", "findings", "kernels", "breakdown", "limits", "lines", "scopes", "tree", "timeline",
)  # fmt: skip
"""What --show shows, one or several."""

ANSWERS = ("breakdown", "limits")
"""Of SECTIONS, those that are the rows of a question, of no line and in no unit of --unit."""

FIRST = ("findings", "kernels", "lines", "tree", "timeline")
"""What the first screen has of it, in this order."""

BY = ("kernel", "variant", "launch", "rank", "sm", "cta", "warp", "line", "scope", "kind")
SORTS = ("self", "total", "count", "mean", "max", "share", "name")
WHOLE_FORMATS = ("report", "collapsed")
"""Of FORMATS, those of all that is chosen, in which there is one view only."""

FORMATS = ("table", "json", "csv", "md", *WHOLE_FORMATS)


def add_no_verify(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--no-verify", dest="verify", action="store_false", help="read a trace even if its checksum is wrong"
    )


def add_width(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--width",
        type=width,
        metavar="N",
        help="columns of text (default: as wide as the terminal, 80 in a pipe)",
    )


class Place(NamedTuple):
    """A line of a file; file: the end of its path, "" for any; line: 0 for all."""

    file: str
    line: int


def pattern(text: str) -> str:
    """A regular expression."""
    try:
        re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"not a regular expression: {error}") from None
    return text


def count(text: str) -> int:
    """A whole number, 0 and above."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"not a count: {text!r}")
    return int(text)


def width(text: str) -> int:
    """Columns of a terminal."""
    if not text.isdecimal() or int(text) < 40:
        raise argparse.ArgumentTypeError(f"must be 40 or more: {text!r}")
    return int(text)


def place(text: str) -> Place:
    """ "kernels.py:16", or "16" of any file."""
    file, _, line = text.rpartition(":")
    if not line.isdecimal() or int(line) == 0:
        raise argparse.ArgumentTypeError(f"not a line: {text!r}; write it like kernels.py:16")
    return Place(file, int(line))


def sections(text: str) -> list[str]:
    """Names of SECTIONS, or "all"."""
    if text == "all":
        return list(SECTIONS)
    names = [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name not in SECTIONS]
    if unknown:
        known = ", ".join(SECTIONS)
        raise argparse.ArgumentTypeError(f"there is no {unknown[0]!r}; there are: {known}, and all")
    return list(dict.fromkeys(names))
