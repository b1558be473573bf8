"""All that profscope-view shows: computed as plain data, then printed as text or JSON."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields

from rich.console import Console
from rich.text import Text

from profscope.profiles import Profile
from profscope.traces.only import Only
from viewer.cells import wrap
from viewer.drawing import LABEL_WIDTH, render_timeline
from viewer.findings import FindingRow, make_findings
from viewer.first_screen import render_first
from viewer.groups import Group
from viewer.header import Header, make_header
from viewer.input import Trace, read
from viewer.kernels import KernelRow, make_kernels
from viewer.lines import LineTable, make_lines, render_lines
from viewer.numbers import NumberTable, make_numbers, render_numbers
from viewer.select import Choice, Selection, choose_cta, select
from viewer.source import source_lines
from viewer.table import KernelTable, make_tables, render_table
from viewer.timeline import Timeline, make_timeline
from viewer.tree import ScopeTree, make_trees, render_tree
from viewer.uncovered import advice, bare_kernels
from viewer.units import count_text, printable

__all__ = ["View", "show", "show_report"]

DETAILED_KERNELS = 5
"""Kernels and variants shown with table and tree: those that took longest."""

BARE_NAMES = 3
"""Kernels without spans inside that are named; the rest are counted."""

NO_TIMELINE = "These launches kept sums and no spans: there is no timeline to draw."

NO_SPANS = "No spans were recorded in these launches; see the notes and dropped records."


@dataclass(frozen=True)
class View:
    """All that is shown. Kernels, each variant for itself, are in one order everywhere: trials last, by the
    time that their launches took.

    bare: kernels with no span inside their own; advice: what would record some, "" if that is not known.
    tables, trees and numbers are of the same groups; `omitted` further ones with spans inside have none.
    lines: of all kernels, where they were asked for.
    """

    header: Header
    findings: list[FindingRow]
    kernels: list[KernelRow]
    bare: list[str]
    advice: str
    tables: list[KernelTable]
    trees: list[ScopeTree]
    numbers: list[NumberTable]
    lines: list[LineTable]
    omitted: int
    timeline: Timeline | None


def show(options: argparse.Namespace) -> None:
    """Load the trace that the command line names and print what it asks for.

    Raises TraceError where the trace cannot be read or has nothing of it, OptionError for a wrong range.
    """
    if options.report:
        show_report(options)
        return
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


def show_report(options: argparse.Namespace) -> None:
    """Print the report of what the command line chooses, as JSON. Raises what `show` does."""
    _, _, profile = _chosen(options)
    json.dump(profile.report(), sys.stdout, indent=1)
    sys.stdout.write("\n")


def _chosen(options: argparse.Namespace) -> tuple[Trace, Selection, Profile]:
    """The trace, what the command line asks for of it, and that alone."""
    selection = Selection(**{each.name: getattr(options, each.name) for each in fields(Selection)})
    trace = read(options.trace, verify=options.verify, only=Only(**asdict(selection)))
    return trace, selection, select(trace.profile, selection)


def _view(options: argparse.Namespace, width: int) -> View:
    trace, selection, profile = _chosen(options)
    unit = options.unit or ("cycles" if profile.emulated else "ns")
    kernels = make_kernels(profile, unit)
    tables = make_tables(profile, unit, options.top, kernels)
    detailed = tables[:DETAILED_KERNELS]
    lines = source_lines(trace.written_s)
    choice = _choose(profile, kernels)
    return View(
        header=make_header(profile, trace.name, selection, trace.spans),
        findings=make_findings(profile, selection),
        kernels=kernels,
        bare=bare_kernels(profile, list(dict.fromkeys(row.kernel for row in kernels))),
        advice=advice(profile.metadata.get("options") or {}),
        tables=detailed,
        trees=make_trees(profile, detailed, unit, options.top, lines),
        numbers=[make_numbers(profile, table, options.top) for table in detailed],
        lines=make_lines(profile, options.top) if options.lines else [],
        omitted=len(tables) - len(detailed),
        timeline=None
        if choice is None
        else make_timeline(profile, choice, unit, width - LABEL_WIDTH, options.zoom),
    )


def _choose(profile: Profile, groups: Sequence[Group]) -> Choice | None:
    """The CTA to draw: of the first group that has any."""
    launches = profile.launches
    for group in groups:
        is_own = (launches["variant"] == group.variant) & (launches["trial"] == group.trial)
        own = profile.tables.df[profile.tables.df["launch"].isin(launches["launch"][is_own])]
        if choice := choose_cta(own, [group.kernel]):
            return choice
    return None


def _render(view: View, width: int, most: int) -> list[Text]:
    lines = render_first(view.header, view.findings, view.kernels, width, most)
    if view.bare and view.advice:
        lines += [Text(line) for line in wrap(_bare(view), width)]
    for of_kernel in view.lines:
        lines += [Text(), *render_lines(of_kernel, width)]
    for table, tree, numbers in zip(view.tables, view.trees, view.numbers, strict=True):
        lines += [Text(), *render_table(table, width), Text(), *render_tree(tree, width)]
        if numbers.rows:
            lines += [Text(), *render_numbers(numbers, width)]
    if view.omitted:
        lines += [
            Text(),
            Text(f"{view.omitted} more kernels with spans; {_ways(view)} shows them", style="dim"),
        ]
    if view.timeline is not None:
        lines += [Text(), *render_timeline(view.timeline, width)]
        if view.header.sums:
            drawn, kept = view.header.launches - view.header.sums, count_text(view.header.sums)
            those = "launch" if drawn == 1 else f"{count_text(drawn)} launches"
            note = f"Drawn from the {those} that kept spans; {kept} kept sums."
            lines += [Text(line, style="dim") for line in wrap(note.split(), width)]
    elif view.header.sums and not view.header.spans:
        lines += [Text(), *(Text(line, style="dim") for line in wrap(NO_TIMELINE.split(), width))]
    elif view.header.launches and not view.header.spans:
        lines += [Text(), *(Text(line, style="bold") for line in wrap(NO_SPANS.split(), width))]
    return lines


def _ways(view: View) -> str:
    return "--kernel or --variant" if any(row.label for row in view.kernels) else "--kernel"


def _bare(view: View) -> list[str]:
    """The words of a sentence on the kernels that have no span inside."""
    names = [printable(name) for name in view.bare[:BARE_NAMES]]
    if len(view.bare) > len(names):
        names.append(f"{len(view.bare) - len(names)} more")
    return f"No spans inside {', '.join(names)}; {view.advice}.".split(" ")
