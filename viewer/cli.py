"""The command line of `profscope view`. Nothing heavy is imported, so `--help` answers at once."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from profscope.errors import OptionError, exit_status, run_command
from profscope.version import __version__
from profscope.viewer.flags import in_flags
from profscope.viewer.option_types import (
    ANSWERS,
    FIRST,
    FORMATS,
    KERNELS,
    NO_TABLE,
    SECTIONS,
    SORTS,
    TRACE,
    VIEWS,
    WHOLE_FORMATS,
    Zoom,
    add_width,
    check_there,
    count,
    parse_zoom,
    pattern,
    place,
    sections,
)

__all__ = ["main", "make_parser", "parsed"]

EPILOG = f"""\
examples:
  profscope view trace.json --source                  every function's lines
  profscope view trace.json --source kernels.py:16    one line, unfolded
  profscope view trace.json --show findings,scopes
  profscope view trace.json --kernels matmul --launch 3 --zoom 1us:2us
  profscope view trace.json --show lines --format csv > lines.csv
  profscope view trace.json --format report | jq '.kernels[0].findings'

A page for a browser: --open, or profscope convert trace.json report.html
Two traces: profscope diff A B

{exit_status("shown", "a trace that cannot be read, or nothing to show")}
"""


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """The parsed command line; ends the process, as argparse does, where that is no usage."""
    parser = make_parser()
    options = parser.parse_args(arguments)
    if options.trace is None and options.source and _is_trace(Path(options.source)):
        options.trace, options.source = options.source, ""  # "view --source trace.json"
    if options.trace is None:
        from profscope.traces.formats import newest_run

        newest = newest_run(Path())
        if newest is None:
            parser.error("name a trace: `profscope run` has written none in this folder")
        options.trace = str(newest)
        sys.stderr.write(f"profscope view: {newest}, the newest trace here\n")
    return _agreeing(parser, options)


def _is_trace(path: Path) -> bool:
    """Whether it can be one; a name of a Python file is that of a source."""
    return path.exists() and path.suffix != ".py"


def _agreeing(parser: argparse.ArgumentParser, options: argparse.Namespace) -> argparse.Namespace:
    """Options that mean the same are made one, and those that exclude each other are refused."""
    asked = [name for name in VIEWS if getattr(options, name) not in (None, False)]
    if len(asked) > 1:
        parser.error(f"--{asked[0]} and --{asked[1]} are two views: ask for one")
    options.view = asked[0] if asked else ""
    if options.view in ("open", "serve") and options.format != "table":
        parser.error(f"--{options.view} has one form only: leave --format out")
    if options.format in WHOLE_FORMATS:
        if options.view:
            parser.error(f"--format {options.format} is a view of its own: leave --{options.view} out")
        options.view = options.format
    if options.view == "" and options.sort is not None:
        options.view, options.show = "show", ["scopes"]
    if options.sort is not None and (options.view, options.show) != ("show", ["scopes"]):
        parser.error("--sort goes with --show scopes")
    _check_tables(parser, options)
    _check_effect(parser, options)
    return options


def _check_effect(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """What would change nothing in the view that is asked for is refused."""
    view = options.view
    shown = FIRST if options.show is None else options.show
    parts = [] if view not in ("", "show") else shown
    effects = {
        "--line": view == "source" or bool({*parts} - {"header", "kernels", "timeline", *ANSWERS}),
        "--scope": bool({*parts} - {"header", "kernels", "timeline", "lines", *ANSWERS}),
        "--zoom": "timeline" in parts,
        "--top": view in ("source", "report") or bool({*parts} - {"header", "limits"}),
    }
    for name, has_effect in effects.items():
        if getattr(options, name[2:]) is not None and not has_effect:
            parser.error(f"{name} changes nothing in {_called(view, shown)}: leave it out")


def _called(view: str, shown: Sequence[str]) -> str:
    if view in WHOLE_FORMATS:
        return f"--format {view}"
    return f"--show {','.join(shown)}" if view == "show" else f"--{view}"


def _check_tables(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """CSV is one table."""
    if options.format == "csv" and options.view in ("", "show"):
        tables = [name for name in SECTIONS if name not in NO_TABLE]
        if options.view == "" or len(options.show) != 1 or options.show[0] in NO_TABLE:
            parser.error(f"--format csv prints one table: add --show NAME ({', '.join(tables)}), or --source")


def make_parser(name: str = "view") -> argparse.ArgumentParser:
    """That of `profscope view`, or of "diff"."""
    if name == "diff":
        from profscope.viewer import diff_command

        return diff_command.make_parser()
    parser = argparse.ArgumentParser(
        prog="profscope view",
        usage="profscope view [options] [TRACE]",
        description="Show a trace: verdict, kernels, findings, lines, scopes and a CTA's timeline.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "trace", nargs="?", metavar="TRACE", help=f"{TRACE} (default: the newest of profscope run)"
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
        help="source with its time in the margin, of all functions or of WHAT: FILE, FILE:LINE, or ttgir, "
        "ptx or sass for the code of each line",
    )
    views.add_argument("--show", type=sections, metavar="NAME,...", help=f"sections: {', '.join(SECTIONS)}")
    views.add_argument("--open", action="store_true", help="write a page, and open it in a browser")
    views.add_argument(
        "--serve",
        action="store_true",
        help="open in Perfetto (ui.perfetto.dev) until Ctrl-C",
    )


def _add_selection(parser: argparse.ArgumentParser) -> None:
    chosen = parser.add_argument_group("selection", "show only this part of the trace")
    chosen.add_argument("--kernels", type=pattern, metavar="REGEX", help=KERNELS)
    chosen.add_argument("--variant", type=count, metavar="N", help="launches of this configuration")
    chosen.add_argument("--rank", type=count, metavar="N", help="launches of this rank of a job")
    chosen.add_argument("--launch", type=count, metavar="N", help="this launch")
    chosen.add_argument("--cta", type=count, metavar="N", help="this CTA (linear id) of each launch")
    chosen.add_argument("--warp", type=count, metavar="N", help="this warp of each CTA")
    chosen.add_argument(
        "--line",
        type=place,
        metavar="[FILE:]LINE",
        help="rows of this line; shares stay those of the whole kernel",
    )
    chosen.add_argument(
        "--scope",
        type=pattern,
        metavar="REGEX",
        help="rows of these scopes; shares stay those of the whole kernel",
    )
    chosen.add_argument(
        "--zoom",
        type=_zoom,
        metavar="A:B",
        help="this part of the timeline: 1us:2us, 900:2k in cycles, or 900: to its end",
    )


def _add_form(parser: argparse.ArgumentParser) -> None:
    form = parser.add_argument_group("form")
    form.add_argument(
        "--top",
        type=count,
        metavar="N",
        help="rows of each table, or instructions of each line; 0: all (default: 20; csv and md: all; "
        "report: what 20,000 characters hold)",
    )
    form.add_argument(
        "--sort",
        choices=SORTS,
        metavar="COLUMN",
        help=f"order of --show scopes: {', '.join(SORTS)}",
    )
    add_width(form)
    form.add_argument(
        "--format",
        choices=FORMATS,
        default="table",
        help="json, csv: exact figures, csv of one table; brief: 4 KB of text for "
        "agents; report: JSON for programs (default: table)",
    )


def _zoom(text: str) -> Zoom:
    try:
        return parse_zoom(text)
    except OptionError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `profscope view`, or `profscope diff` if that is the first word; returns the exit code. arguments:
    those of `profscope-view` by default."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    name, body = "view", lambda: _view(given)
    if given[:1] == ["diff"]:
        from profscope.viewer.diff_command import diff_main

        name, body = "diff", lambda: diff_main(given[1:])
    return run_command(f"profscope {name}", body, says=in_flags)


def _view(given: Sequence[str]) -> int:
    options = parsed(given)
    check_there(options.trace)
    from profscope.traces.trace_file import TraceFile

    file = TraceFile(options.trace)
    file.read_ahead()
    from profscope.viewer.view import show  # behind the command line: pandas and rich take their time

    show(options, file)
    return 0
