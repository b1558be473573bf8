"""Types of command-line options, and texts that several commands share. Nothing heavy is
imported: pandas and rich are loaded after the command line is checked."""

import argparse
import math
import os
import re
from dataclasses import dataclass
from typing import NamedTuple

from profscope.errors import OptionError, TraceError
from profscope.viewer.units import STEPS, duration_text

__all__ = [
    "ANSWERS",
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
    "Zoom",
    "add_width",
    "check_apart",
    "check_there",
    "count",
    "parse_zoom",
    "pattern",
    "place",
    "sections",
    "width",
]

TRACE = "a file or folder of profscope or torch.profiler"
KERNELS = "kernels whose name this regular expression matches"
"""What the commands say of a trace that they read, and of --kernels."""

VIEWS = ("source", "show", "open", "serve")

NO_TABLE = ("header", "timeline")
"""Of SECTIONS, those that are no table."""

SECTIONS = (
    "header", "hangs", "findings", "kernels", "breakdown", "limits", "experiments", "lines", "scopes", "tree",
    "timeline",
)  # fmt: skip
"""What --show shows, one or several."""

ANSWERS = ("breakdown", "limits", "experiments", "hangs")
"""Of SECTIONS, those that are the rows of a question or table as they are: --line does not apply."""

FIRST = ("findings", "kernels", "lines", "tree", "timeline")
"""What the first screen has of it, in this order."""

SORTS = ("self", "total", "count", "mean", "max", "share", "name")
WHOLE_FORMATS = ("brief", "report")
"""Of FORMATS, those of all that is chosen, in which there is one view only."""

FORMATS = ("table", "json", "csv", *WHOLE_FORMATS)


TIME = r"(?:(\d+(?:\.\d*)?|\.\d+)([a-zA-Z]*))?"

RANGE = re.compile(f"{TIME}:{TIME}", re.ASCII)

SCALES = {name: (unit, scale) for unit, steps in STEPS.items() for name, scale in steps if name}


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


LEAST_WIDTH = 40
"""Columns that all text is laid out for at least."""


def width(text: str) -> int:
    """Columns of a terminal."""
    if not text.isdecimal() or int(text) < LEAST_WIDTH:
        raise argparse.ArgumentTypeError(f"must be {LEAST_WIDTH} or more: {text!r}")
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


@dataclass(frozen=True)
class Point:
    """A time since the CTA's start, in "ns" or "cycles"; unit "": in what the view is in."""

    value: float
    unit: str

    def to(self, unit: str, clock_ghz: float) -> int:
        """In `unit`, by the launch's clock where that is the other one."""
        if self.unit in ("", unit):
            return round(self.value)
        if not (math.isfinite(clock_ghz) and clock_ghz > 0):
            raise TraceError(
                f"--zoom is in {self.unit} and the view in {unit}; the launch's clock is not known"
            )
        return round(self.value * clock_ghz if unit == "cycles" else self.value / clock_ghz)


@dataclass(frozen=True)
class Zoom:
    """From one time to another; None: from the start, to the end."""

    begin: Point | None
    end: Point | None

    def within(self, duration: int, unit: str, clock_ghz: float) -> tuple[int, int]:
        """Begin and end in `unit`, in a CTA that takes `duration`; TraceError if no part of it is meant."""
        begin = self.begin.to(unit, clock_ghz) if self.begin else 0
        end = self.end.to(unit, clock_ghz) if self.end else duration
        if begin >= duration:
            took, asked = duration_text(duration, unit), duration_text(begin, unit)
            raise TraceError(f"--zoom begins at {asked}{_cycles(unit)}; the CTA takes {took}{_cycles(unit)}")
        if begin >= end:
            raise OptionError(f"--zoom ends before it begins, or where it does: {begin}:{end} {unit}")
        return begin, end


def parse_zoom(text: str) -> Zoom:
    """A range of time as the command line has it. Raises OptionError for anything else."""
    match = RANGE.fullmatch(text.replace(" ", ""))
    units = {"", *SCALES}
    if match and (match[1] or match[3]) and {match[2] or "", match[4] or ""} <= units:
        begin, end = _point(match[1], match[2]), _point(match[3], match[4])
        if begin and end and begin.unit == end.unit and begin.value >= end.value:
            raise OptionError(f"{text!r}: the end is before the start, or at it")
        return Zoom(begin, end)
    raise OptionError(f"not a range of time: {text!r}; write it like 1us:2us, 900:2k (cycles) or 900:")


def _point(number: str | None, name: str) -> Point | None:
    if number is None:
        return None
    unit, scale = SCALES.get(name, ("", 1))
    return Point(float(number) * scale, unit)


def _cycles(unit: str) -> str:
    return " cycles" if unit == "cycles" else ""


def check_there(*arguments: str) -> None:
    """Raises TraceError for the first of these paths where nothing is."""
    for argument in arguments:
        if not os.path.exists(argument):
            from profscope.traces.trace_file import TraceFile

            TraceFile(argument)  # which says why


def check_apart(output: str | None, *traces: str) -> None:
    """Raises OptionError if a file would take the place of one of the traces that it is made of; None
    if none is written."""
    for trace in traces:
        if output is not None and os.path.realpath(output) == os.path.realpath(trace):
            raise OptionError(f"{output!r} is a trace that is read: name another file to write")
