"""profscope-view: look at a trace in the terminal."""

import argparse
import json
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.text import Text

from profscope.errors import OptionError, ProfscopeError, TraceError
from profscope.profiles import Profile, load
from profscope.version import __version__
from viewer.drawing import LABEL_WIDTH, render_timeline
from viewer.header import Header, make_header, render_header
from viewer.kernels import KernelRow, make_kernels, render_kernels
from viewer.select import choose_cta
from viewer.source import source_lines
from viewer.table import KernelTable, make_tables, render_table
from viewer.timeline import Timeline, make_timeline
from viewer.tree import ScopeTree, make_trees, render_tree
from viewer.units import UNITS, parse_range

__all__ = ["main"]

DETAILED_KERNELS = 5
"""Kernels shown with table and tree: those with most warp time."""

EPILOG = """\
Durations have three significant digits; --json has them exact. Self time is
what a span's synchronous children leave of it; share is self time over the
kernel's warp time, which is the sum of all its warps' run times.

exit status: 0 shown; 1 the trace cannot be read or has nothing of what was
asked for; 2 wrong usage
"""


@dataclass(frozen=True)
class View:
    """All that is shown; tables and trees are of the same kernels, `omitted` further kernels have none."""

    header: Header
    kernels: list[KernelRow]
    tables: list[KernelTable]
    trees: list[ScopeTree]
    omitted: int
    timeline: Timeline | None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    parser = _parser()
    options = parser.parse_args(arguments)
    console = Console(width=options.width, highlight=False)
    try:
        view = _view(options, console.width)
    except OptionError as error:
        parser.error(str(error))
    except ProfscopeError as error:
        print(f"profscope-view: {error}", file=sys.stderr)  # noqa: T201
        return 1
    try:
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
        if options.json:
            json.dump(asdict(view), sys.stdout, indent=2)
            sys.stdout.write("\n")
        else:
            console.print(Text("\n").join(_render(view, console.width, options.top)), soft_wrap=True)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader had enough. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="profscope-view",
        description="Show a trace: kernels, scopes by time, scope tree, timeline of one CTA's warps.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "trace",
        type=Path,
        help="a trace of profscope (.pftrace or .json, or either .gz), torch.profiler or Proton",
    )
    parser.add_argument("--kernel", type=_pattern, metavar="REGEX", help="only kernels whose name matches")
    chosen = parser.add_argument_group(
        "timeline", "by default the kernel with most warp time, its median CTA"
    )
    chosen.add_argument("--launch", type=int, metavar="N", help="draw a CTA of this launch")
    chosen.add_argument("--cta", type=int, metavar="N", help="draw this CTA (linear id)")
    chosen.add_argument("--sm", type=int, metavar="N", help="draw a CTA that ran on this SM")
    chosen.add_argument("--warp", type=int, metavar="N", help="draw this warp alone")
    chosen.add_argument(
        "--zoom", metavar="A:B", help="draw only this part of the CTA's time, e.g. 1.5us:3us or 900:2k"
    )
    form = parser.add_argument_group("form")
    form.add_argument("--unit", choices=UNITS, help="default: ns; cycles for an emulated trace")
    form.add_argument(
        "--top", type=_count, default=20, metavar="N", help="scopes per kernel (default 20; 0: all)"
    )
    form.add_argument(
        "--width", type=_width, metavar="N", help="columns (default: the terminal's, 80 in a pipe)"
    )
    form.add_argument("--json", action="store_true", help="print the same as JSON, durations exact")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    return parser


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


def _pattern(text: str) -> "re.Pattern[str]":
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"not a regular expression: {error}") from None


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"not a count: {text!r}")
    return int(text)


def _width(text: str) -> int:
    if not text.isdecimal() or int(text) < 40:
        raise argparse.ArgumentTypeError(f"must be 40 or more: {text!r}")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
