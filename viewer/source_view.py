"""`profscope view TRACE --source`: which functions and lines were asked for, and how they are shown."""

import argparse
import re
from dataclasses import asdict, dataclass, replace
from typing import Any

from rich.console import Console
from rich.text import Text

from profscope.errors import OptionError, TraceError
from profscope.profiles import Profile
from viewer.annotated import Annotated, annotate
from viewer.annotated_text import MOST_CODE, render_annotated
from viewer.filters import ends_with
from viewer.header import EMULATED
from viewer.listings import FORMS
from viewer.option_types import Place
from viewer.outlet import TABLES, noted, print_json, print_lines, print_rows
from viewer.source import SourceLines
from viewer.units import source_text

__all__ = ["Wanted", "show_source", "wanted"]

MOST_KERNELS = 5


@dataclass(frozen=True)
class Wanted:
    """file: the end of a path, "" for all; line: 0 for all; form: of the code behind the lines."""

    file: str = ""
    line: int = 0
    form: str = ""


def wanted(source: str, line: Place | None) -> Wanted:
    """What --source FILE[:LINE] or --source sass, and --line, ask for. Raises OptionError if they differ."""
    asked = Wanted(form=source) if source in FORMS else parse_line(source) if source else Wanted()
    if line is None:
        return asked
    if asked.line or (asked.file and line.file and asked.file != line.file):
        raise OptionError(f"--source {source} and --line name two places")
    return replace(asked, file=line.file or asked.file, line=line.line)


def parse_line(text: str) -> Wanted:
    """ "kernels.py:16", "kernels.py" or "16"."""
    if text.isdecimal():
        return Wanted(line=int(text))
    match = re.fullmatch(r"(.+?)(?::(\d+))?", text, re.DOTALL)
    if match is None:
        raise OptionError(f"not a line: {text!r}; write it like kernels.py:16")
    return Wanted(match[1], int(match[2] or 0))


def show_source(profile: Profile, options: argparse.Namespace, unit: str, disk: SourceLines) -> None:
    """Print it. Raises TraceError where there is no such file or line, naming what there is."""
    asked = wanted(options.source, options.line)
    made, omitted = annotate(profile, unit, disk, asked.form, 0 if asked.file else MOST_KERNELS)
    if not made:
        raise TraceError("nothing was recorded of any line; `profscope view` prints notes that may say why")
    if asked.form and all(source.no_code for source in made):
        raise TraceError(made[0].no_code)
    sources = _chosen(made, asked)
    if options.format == "json":
        print_json([asdict(source) for source in sources])
    elif options.format in TABLES:
        print_rows([row for source in sources for row in _rows(source)], options.format)
    else:
        width = Console(width=options.width).width
        lines = [Text(EMULATED, style="bold black on yellow")] if profile.emulated else []
        for number, source in enumerate(sources):
            lines += [Text()] if number else []
            if source.no_code:
                lines += noted(source.no_code, width)
                continue
            top = MOST_CODE if options.top is None else options.top
            lines += render_annotated(source, width, at=asked.line, top=top)
        if omitted and not asked.file:
            lines += [Text(), *noted(f"{omitted} more kernels; --kernel shows one of them.", width)]
        print_lines(lines, width)


def _chosen(sources: list[Annotated], asked: Wanted) -> list[Annotated]:
    """The blocks that hold what was asked for."""
    if not (asked.file or asked.line):
        return sources
    chosen = []
    for source in sources:
        blocks = [
            block
            for block in source.blocks
            if ends_with(block.file, asked.file)
            and (not asked.line or any(line.line == asked.line for line in block.lines))
        ]
        if blocks:
            chosen.append(replace(source, blocks=blocks))
    if not chosen:
        there = dict.fromkeys(
            source_text(block.file, block.lines[0].line)
            + (f"-{block.lines[-1].line}" if block.function else "")
            for source in sources
            for block in source.blocks
            if block.file
        )
        name = (
            f"{asked.file}:{asked.line}" if asked.file and asked.line else asked.file or f"line {asked.line}"
        )
        if any(source.kernel == asked.file for source in sources):
            raise TraceError(f"{asked.file} is a kernel, not a file: use --kernel {asked.file} --source")
        raise TraceError(f"nothing is known of {name}; there are: {', '.join(there) or 'none'}")
    return chosen


def _rows(source: Annotated) -> list[dict[str, Any]]:
    """A row for each line; what is inside of calls is in the lines of the functions."""
    rows = []
    for block in source.blocks:
        for line in block.lines:
            about = {"kernel": source.kernel, "variant": source.variant, "function": block.function}
            figures = {
                name: value
                for name, value in asdict(line).items()
                if name not in ("text", "shares", "scopes", "flights", "code", "calls")
            }
            shares = {f"by_{name}": share for name, share in line.shares.items()}
            rows.append({**about, **figures, **shares, "unit": source.unit, "text": line.text})
    return rows
