"""The options of `profscope view`. Nothing heavy is imported: `--help` answers at once."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from profscope.errors import OptionError
from profscope.version import __version__
from viewer.option_types import (
    ANSWERS,
    BY,
    FIRST,
    FORMATS,
    NO_TABLE,
    SECTIONS,
    SORTS,
    count,
    pattern,
    place,
    sections,
    width,
)
from viewer.units import UNITS
from viewer.zoom import Zoom, parse_zoom

__all__ = ["add_parts", "parsed"]

EPILOG = """\
The first screen has the verdict, the kernels, and of the three longest where
their time goes, what holds them back and their lines; then the scopes in
program order, and one CTA's timeline. Everything else comes on request: --show
header has clocks, versions and options. Kernels stand in the order of the time
that their launches took. Self time is what a span's synchronous children leave
of it; share is self time over the kernel's warp time, which is the sum of all
its warps' run times. Durations have three significant digits; --json has them
exact. Short lines leave columns out; --width 120 has all.

examples:
  profscope view trace.json --source
  profscope view trace.json --source kernels.py:16
  profscope view trace.json --kernel matmul --launch 3 --show scopes
  profscope view trace.json --by cta --top 5
  profscope view trace.json --show lines --format csv > lines.csv
  profscope view trace.json --zoom 1us:2us --warp 0
  zcat trace.json.gz | profscope view - --json
  profscope view trace.json --report | jq '.kernels[0].findings'

`profscope diff A B` shows what has changed from one trace to another. (A trace
called diff is ./diff.)

exit status: 0 shown; 1 the trace cannot be read or has nothing of what was
asked for; 2 wrong usage
"""


def parsed(arguments: Sequence[str], tool: str) -> argparse.Namespace:
    """What the command line of `tool` says; ends the process, as argparse does, where that is no usage."""
    parser = _parser(tool)
    options = parser.parse_args(arguments)
    if options.trace is None and options.source and Path(options.source).exists():
        options.trace, options.source = options.source, ""  # "view --source trace.json"
    if options.trace is None:
        parser.error("the following arguments are required: trace")
    return _agreeing(parser, options)


def _agreeing(parser: argparse.ArgumentParser, options: argparse.Namespace) -> argparse.Namespace:
    """Options that mean the same are made one, and those that exclude each other are refused."""
    views = {
        "--report": ("report", options.report),
        "--html": ("html", options.html is not None),
        "--source": ("source", options.source is not None),
        "--by": ("by", options.by is not None),
        "--show": ("show", options.show is not None),
        "--interactive": ("interactive", options.interactive),
        "--serve": ("serve", options.serve),
    }
    asked = [name for name, (_, is_asked) in views.items() if is_asked]
    if len(asked) > 1:
        parser.error(f"{asked[0]} and {asked[1]} are two views: ask for one")
    options.view = views[asked[0]][0] if asked else ""
    if options.json:
        if options.format not in (None, "json") or options.report:
            parser.error("--json goes with neither --report nor another --format")
        options.format = "json"
    options.format = options.format or "table"
    parts = [f"--{name}" for name in ("cta", "sm", "warp") if getattr(options, name) is not None]
    if options.view == "html" and parts:
        parser.error(f"--html shows whole launches: leave {' and '.join(parts)} out, and zoom in there")
    if options.view in ("report", "html", "interactive", "serve") and options.format != "table":
        parser.error(f"--{options.view} has one form only: leave --format out")
    if not (options.browser or options.serve):
        parser.error("--no-browser goes with --serve")
    if options.unfold and options.source is None:
        parser.error("--unfold goes with --source")
    if options.view == "" and options.sort is not None:
        options.view, options.show = "show", ["scopes"]
    sorts = options.view in ("by", "show") and (options.view == "by" or options.show == ["scopes"])
    if options.sort is not None and not sorts:
        parser.error("--sort goes with --show scopes and --by")
    _check_tables(parser, options)
    _check_effect(parser, options)
    return options


def _check_effect(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """What would change nothing in the view that is asked for is refused."""
    view = options.view if options.format != "collapsed" else "collapsed"
    shown = FIRST if options.show is None else options.show
    parts = [] if view not in ("", "show") else shown
    effects = {
        "--line": view in ("by", "source") or bool({*parts} - {"header", "kernels", "timeline", *ANSWERS}),
        "--scope": view == "by" or bool({*parts} - {"header", "kernels", "timeline", "lines", *ANSWERS}),
        "--zoom": "timeline" in parts,
        "--depth": "tree" in parts,
        "--top": view in ("by", "source") or bool({*parts} - {"header", "limits"}),
        "--unit": view in ("by", "source", "interactive")
        or bool({*parts} - {"header", "lines", "findings", *ANSWERS}),
    }
    for name, has_effect in effects.items():
        if getattr(options, name[2:]) is not None and not has_effect:
            parser.error(f"{name} changes nothing in {_called(view, shown)}: leave it out")


def _called(view: str, shown: Sequence[str]) -> str:
    if view == "collapsed":
        return "--format collapsed"
    return f"--show {','.join(shown)}" if view == "show" else f"--{view}"


def _check_tables(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """CSV and Markdown are one table."""
    if options.format in ("csv", "md") and options.view in ("", "show"):
        tables = [name for name in SECTIONS if name not in NO_TABLE]
        if options.view == "" or len(options.show) != 1 or options.show[0] in NO_TABLE:
            names = ", ".join(tables)
            parser.error(
                f"--format {options.format} prints one table: add --show NAME ({names}), --by or --source"
            )
    if options.format == "collapsed" and options.view != "":
        parser.error("--format collapsed is of the whole trace: leave other views out")


def _parser(tool: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=tool,
        usage=f"{tool} [options] TRACE\n       profscope diff [options] A B",
        description="Show a trace: what holds its kernels back, lines by time, scopes, a CTA's timeline.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "trace",
        nargs="?",
        help="trace of profscope (.pftrace, .json, either with .gz, .parquet, a folder), torch.profiler or "
        "Proton; - reads standard input",
    )
    parser.add_argument(
        "--no-verify",
        dest="verify",
        action="store_false",
        help="show a trace even if its checksum is wrong",
    )
    _add_views(parser)
    _add_selection(parser)
    _add_form(parser)
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    return parser


def _add_views(parser: argparse.ArgumentParser) -> None:
    views = parser.add_argument_group("views", "at most one; it replaces the first screen")
    views.add_argument(
        "--source",
        nargs="?",
        const="",
        metavar="WHAT",
        help="source with its time in the margin; WHAT is FILE, FILE:LINE, or ttgir, ptx or sass to show the "
        "code of each line (default: all functions)",
    )
    views.add_argument(
        "--unfold", action="store_true", help="with --source: show inlined lines below each call"
    )
    views.add_argument(
        "--show",
        type=sections,
        metavar="NAME,...",
        help=f"sections to show: {', '.join(SECTIONS)}",
    )
    views.add_argument("--by", choices=BY, help="table with one row for each of these")
    views.add_argument(
        "--report",
        action="store_true",
        help="print a report for programs: JSON of at most 20,000 characters",
    )
    views.add_argument(
        "--html", metavar="FILE", help="write a report for a browser, as one file that needs no network"
    )
    views.add_argument(
        "--interactive",
        action="store_true",
        help="explore the timeline with the keyboard; needs profscope[interactive]",
    )
    _add_serving(views)


def _add_serving(views: argparse._ArgumentGroup) -> None:
    views.add_argument(
        "--serve",
        action="store_true",
        help="open the trace in Perfetto's UI and serve it to this machine only, until Ctrl-C; uses "
        "ui.perfetto.dev unless profscope[perfetto] is installed",
    )
    views.add_argument(
        "--no-browser",
        dest="browser",
        action="store_false",
        help="with --serve: print the address and open no browser",
    )


def _add_selection(parser: argparse.ArgumentParser) -> None:
    chosen = parser.add_argument_group("selection", "show only this part of the trace")
    add_parts(chosen)
    _add_rows(chosen)
    _add_timeline(parser)


def add_parts(chosen: argparse._ArgumentGroup) -> None:
    """The parts of a trace that can be asked for: the fields of a Selection."""
    chosen.add_argument("--kernel", type=pattern, metavar="REGEX", help="kernels whose name matches")
    chosen.add_argument("--variant", type=count, metavar="N", help="launches of this configuration")
    chosen.add_argument("--rank", type=count, metavar="N", help="launches of this rank of a job")
    chosen.add_argument("--launch", type=count, metavar="N", help="this launch")
    chosen.add_argument("--cta", type=count, metavar="N", help="this CTA (linear id) of each launch")
    chosen.add_argument("--sm", type=count, metavar="N", help="what ran on this SM")
    chosen.add_argument("--warp", type=count, metavar="N", help="this warp of each CTA")


def _add_rows(chosen: argparse._ArgumentGroup) -> None:
    chosen.add_argument(
        "--line",
        type=place,
        metavar="[FILE:]LINE",
        help="rows of this line; shares still refer to the whole kernel",
    )
    chosen.add_argument(
        "--scope",
        type=pattern,
        metavar="REGEX",
        help="rows of scopes whose name matches; shares still refer to the whole kernel",
    )


def _add_timeline(parser: argparse.ArgumentParser) -> None:
    drawn = parser.add_argument_group(
        "timeline", "shows the median CTA of the slowest kernel; --launch and --cta choose another"
    )
    drawn.add_argument(
        "--zoom",
        type=_zoom,
        metavar="A:B",
        help="draw only this part of the CTA's time: 1us:2us, 900:2k in cycles, or 900: to its end",
    )


def _add_form(parser: argparse.ArgumentParser) -> None:
    form = parser.add_argument_group("form")
    form.add_argument(
        "--unit", choices=UNITS, help="unit of durations (default: ns, or cycles for an emulated trace)"
    )
    form.add_argument(
        "--top",
        type=count,
        metavar="N",
        help="rows of each table (default: 20; 0 shows all, as CSV and md do); with --source sass: "
        "instructions of each line",
    )
    form.add_argument("-d", "--depth", type=count, metavar="N", help="levels of the tree")
    form.add_argument("--sort", choices=SORTS, help="with --show scopes and --by: sort by this column")
    form.add_argument(
        "--width",
        type=width,
        metavar="N",
        help="columns of text (default: as wide as the terminal, 80 in a pipe)",
    )
    form.add_argument(
        "--format",
        choices=FORMATS,
        help="form of the output (default: table); collapsed prints stacks for flame graphs",
    )
    form.add_argument("--json", action="store_true", help="same as --format json; durations are exact")


def _zoom(text: str) -> Zoom:
    try:
        return parse_zoom(text)
    except OptionError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
