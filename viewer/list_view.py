"""`profscope view TRACE -l`: the metrics that -m takes of a trace."""

import argparse

from rich.console import Console
from rich.text import Text

from profscope.errors import TraceError
from profscope.profiles import Profile
from viewer.grid import Column, grid
from viewer.metrics import NO_METRICS, available
from viewer.outlet import print_lines

__all__ = ["show"]


def show(profile: Profile, options: argparse.Namespace, unit: str) -> None:
    """Print them, each with what it says. Raises TraceError where there is none."""
    width = Console(width=options.width).width
    known = available(profile)
    if not known:
        raise TraceError(NO_METRICS)
    rows = [[name, what] for name, what in known.items()]
    lines = grid([Column("metric", "name"), Column("what it is", "name")], rows, [""] * len(rows), width)
    example = ",".join(dict.fromkeys([next(iter(known)), "count"]))
    print_lines([*lines, Text(f"-m takes two of them: -m {example}", style="dim")], width)
