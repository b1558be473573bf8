"""`profscope view`: reads the trace and hands it to the requested view."""

import argparse
import json
import sys
from dataclasses import fields
from functools import partial
from importlib import import_module
from pathlib import Path

from profscope.analysis.sources import source_lines
from profscope.profiles import Profile
from profscope.progress import working
from profscope.traces.trace_file import TraceFile
from profscope.traces.trace_filter import TraceFilter
from profscope.viewer.flags import in_flags
from profscope.viewer.input import Trace, imported_beside, part_of, read

__all__ = ["show"]


def show(options: argparse.Namespace, file: TraceFile) -> None:
    """Load the trace that the command line names, which is in this file, and print what it asks for.

    Raises TraceError if the trace cannot be read or the selection is empty, OptionError for a wrong range.
    """
    if options.view == "serve" and _is_ready(options):
        from profscope.viewer.serve_view import serve_file

        serve_file(Path(options.trace))
        return
    with imported_beside(partial(_prepare, options)):
        trace, selection, whole, profile = _chosen(options, file)
    if options.view == "report":
        from profscope.analysis.report import report

        with working("analysing the trace"):
            document = report(profile.tables, whole.tables, options.top, options.trace)
        json.dump(document, sys.stdout, indent=1)
        sys.stdout.write("\n")
    elif options.view == "brief":
        from profscope.analysis.brief import brief

        sys.stdout.write(brief(profile.tables, whole.tables, options.trace, in_flags))
    elif options.view == "source":
        from profscope.viewer.source_view import show_source

        show_source(profile, options, source_lines(profile.metadata, trace.written_s))
    elif options.view in ("open", "serve"):
        import_module(f"profscope.viewer.{options.view}_view").show(profile, options)
    else:
        from profscope.viewer.screen import show_screen

        show_screen(trace, selection, whole, profile, options)


def _prepare(options: argparse.Namespace) -> None:
    """Import what a first screen needs besides the trace."""
    if options.view in ("", "show"):
        import_module("profscope.viewer.screen")
        import_module("profscope.analysis.rules.diagnose")


def _selection(options: argparse.Namespace) -> TraceFilter:
    return TraceFilter(**{each.name: getattr(options, each.name, None) for each in fields(TraceFilter)})


def _is_ready(options: argparse.Namespace) -> bool:
    """Whether Perfetto reads the trace's file as it is, and all of it is asked for."""
    path = Path(options.trace)
    return path.name.endswith((".pftrace", ".pftrace.gz")) and path.is_file() and _selection(options).is_all


def _chosen(options: argparse.Namespace, file: TraceFile) -> tuple[Trace, TraceFilter, Profile, Profile]:
    """The trace, what the command line asks for of it, the launches of which that is a part, whole where a
    view judges them, and that alone."""
    selection = _selection(options)
    judges = options.view in ("", "show", "report", "brief")
    needed = selection.of_launches if judges else selection
    trace = read(file, only=needed)
    profile = part_of(trace.profile, selection)
    has_part = judges and selection != selection.of_launches
    whole = part_of(trace.profile, selection.of_launches) if has_part else profile
    return trace, selection, whole, profile
