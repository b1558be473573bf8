"""All that profscope-view shows: computed as plain data, then printed as text or JSON."""

import argparse
import json
import re
import sys
from dataclasses import asdict, dataclass

import numpy as np
from rich.console import Console
from rich.text import Text

from profscope.errors import TraceError
from profscope.profiles import Profile, load
from viewer.drawing import LABEL_WIDTH, render_timeline
from viewer.header import Header, make_header, render_header
from viewer.kernels import KernelRow, make_kernels, render_kernels
from viewer.select import choose_cta
from viewer.source import source_lines
from viewer.table import KernelTable, make_tables, render_table
from viewer.timeline import Timeline, make_timeline
from viewer.tree import ScopeTree, make_trees, render_tree
from viewer.units import parse_range

__all__ = ["View", "show"]

DETAILED_KERNELS = 5
"""Kernels shown with table and tree: those with most warp time."""


@dataclass(frozen=True)
class View:
    """All that is shown; tables and trees are of the same kernels, `omitted` further kernels have none."""

    header: Header
    kernels: list[KernelRow]
    tables: list[KernelTable]
    trees: list[ScopeTree]
    omitted: int
    timeline: Timeline | None


def show(options: argparse.Namespace) -> None:
    """Load the trace that the command line names and print what it asks for.

    Raises TraceError where the trace cannot be read or has nothing of it, OptionError for a wrong range.
    """
    console = Console(width=options.width, highlight=False)
    view = _view(options, console.width)
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    if options.json:
        json.dump(asdict(view), sys.stdout, indent=2)
        sys.stdout.write("\n")
    else:
        with console.capture() as capture:  # printing, it would end the process where a pipe is closed
            console.print(Text("\n").join(_render(view, console.width, options.top)), soft_wrap=True)
        sys.stdout.write(capture.get())


def _view(options: argparse.Namespace, width: int) -> View:
    profile = load(options.trace)
    unit = options.unit or ("cycles" if profile.emulated else "ns")
    header = make_header(profile, options.trace.name)
    if options.kernel is not None:
        profile = _only_kernels(profile, options.kernel)
    tables = make_tables(profile, unit, options.top)
    lines = source_lines(options.trace)
    detailed = tables[:DETAILED_KERNELS]
    return View(
        header=header,
        kernels=make_kernels(profile, unit),
        tables=detailed,
        trees=make_trees(profile, [table.kernel for table in detailed], unit, options.top, lines),
        omitted=len(tables) - len(detailed),
        timeline=_timeline(profile, options, unit, width),
    )


def _timeline(profile: Profile, options: argparse.Namespace, unit: str, width: int) -> Timeline | None:
    """The timeline asked for; None where a trace of another tool knows no CTAs."""
    if profile.df.empty or (profile.df["cta"] < 0).all():
        return None
    choice = choose_cta(profile.df, options.launch, options.cta, options.sm, options.warp)
    zoom = parse_range(options.zoom, unit) if options.zoom else None
    return make_timeline(profile, choice, unit, width - LABEL_WIDTH, options.warp, zoom)


def _only_kernels(profile: Profile, pattern: "re.Pattern[str]") -> Profile:
    """The profile of the kernels whose name matches. Raises TraceError when there is none."""
    names = profile.df["kernel"].cat.categories
    wanted = [name for name in names if pattern.search(name)]
    if not wanted:
        raise TraceError(f"no kernel matches {pattern.pattern!r}; there are: {', '.join(names) or 'none'}")
    kept = profile.df["kernel"].isin(wanted).to_numpy()
    row = np.append(np.cumsum(kept) - 1, -1)  # where -1 looks, a root's parent
    df = profile.df[kept].reset_index(drop=True)
    for name in ("parent", "wait"):
        df[name] = row[df[name].to_numpy()]
    return Profile(
        df, profile.launches[profile.launches["kernel"].isin(wanted)].reset_index(drop=True), profile.metadata
    )


def _render(view: View, width: int, most: int) -> list[Text]:
    lines = render_header(view.header, width)
    if view.kernels:
        lines += [Text(), *render_kernels(view.kernels, width, most)]
    for table, tree in zip(view.tables, view.trees, strict=True):
        lines += [Text(), *render_table(table, width), Text(), *render_tree(tree, width)]
    if view.omitted:
        lines += [Text(), Text(f"{view.omitted} more kernels with spans; --kernel shows them", style="dim")]
    if view.timeline is not None:
        lines += [Text(), *render_timeline(view.timeline, width)]
    elif view.header.launches and not view.header.spans:
        lines += [
            Text(),
            Text("No spans were recorded in these launches; see the notes and dropped records."),
        ]
    return lines
