"""The first screen, and its parts one by one: computed as plain data, then printed."""

import argparse
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from profscope.analysis.span_rows import outermost
from profscope.analysis.summary import summary_of
from profscope.analysis.summing import summed_spans
from profscope.analysis.time_account import TimeAccount
from profscope.errors import TraceError
from profscope.profiles import Profile
from profscope.threads import worker_pool
from viewer.accounts import make_accounts
from viewer.cells import wrap
from viewer.drawing import LABEL_WIDTH, render_timeline
from viewer.filters import Rows
from viewer.findings import FindingRow, make_findings, render_findings
from viewer.first_screen import render_first
from viewer.groups import Group, several_variants
from viewer.header import (
    EMULATED,
    Header,
    make_header,
    of_ctas,
    of_launches,
    of_scopes,
    render_foot,
    render_header,
)
from viewer.input import Trace
from viewer.kernels import KernelRow, make_kernels, render_kernels
from viewer.lines import LineTable, make_lines, render_lines
from viewer.option_types import ANSWERS, FIRST
from viewer.outlet import TABLES, Row, print_json, print_lines, print_rows
from viewer.question_tables import answer_rows, render_breakdown, render_limits
from viewer.select import Choice, Selection, choose_cta
from viewer.source import source_lines
from viewer.table import KernelTable, make_tables, render_heading, render_table, render_uncovered
from viewer.timeline import Timeline, make_timeline
from viewer.tree import ScopeTree, make_trees, render_tree
from viewer.uncovered import advice, bare_kernels
from viewer.units import printable

__all__ = ["View", "show_screen"]

DETAILED_KERNELS = 5
"""Kernels and variants shown with lines, scopes and tree: those that took longest."""

MOST_ROWS, FIRST_LINES = 20, 8
"""Rows of a table where --top does not say; of the lines on the first screen."""

_APART = {"header", "findings", "kernels", "breakdown", "limits"}
"""What needs no sums of spans."""

BARE_NAMES = 3
"""Kernels without spans inside that are named; the rest are counted."""

NOTHING = {
    "kernels": "no launches were recorded",
    "lines": "nothing was recorded of any line",
    "breakdown": "where the time goes is not known: no launch was recorded to its end",
    "limits": "no limits are known: session(hardware=True) counts what a kernel uses",
    "scopes": "no spans were recorded inside of any kernel",
    "tree": "no spans were recorded inside of any kernel",
    "timeline": "no single spans were kept: there is no timeline to draw",
}
"""What is said where nothing is there of what --show names."""
NO_SPANS = "No spans were recorded in these launches; see the notes and dropped records."
MORE = (
    "More: --source (the code with its time in the margin), --show scopes (percentiles), --by cta, "
    "--show header (clocks, versions, options), --help"
)


@dataclass(frozen=True)
class View:
    """All that is shown. Kernels, each variant for itself, are in one order everywhere: by the time
    that their launches took.

    accounts: of the kernels that took longest; on the first screen alone.
    breakdown, limits: rows of the questions of these names, where --show names them.
    bare: kernels with no span inside their own; advice: what would record some, "" if that is not known.
    tables and trees are of the same groups; `omitted` further ones with spans inside have none.
    lines: of the kernels that took longest.
    """

    header: Header
    accounts: list[TimeAccount]
    findings: list[FindingRow]
    kernels: list[KernelRow]
    breakdown: list[Row]
    limits: list[Row]
    bare: list[str]
    advice: str
    tables: list[KernelTable]
    trees: list[ScopeTree]
    lines: list[LineTable]
    omitted: int
    timeline: Timeline | None


def show_screen(
    trace: Trace,
    selection: Selection,
    whole: Profile,
    profile: Profile,
    options: argparse.Namespace,
    unit: str,
) -> None:
    """Print the first screen, or those of its parts that --show names.

    profile: what `selection` chose; whole: the launches that it is a part of, of which the verdict is.
    """
    width = Console(width=options.width).width
    shown = options.show or FIRST
    if options.format == "json" and not options.show:
        shown = (*FIRST, "scopes")
    view = _view(trace, selection, whole, profile, options, unit, width, shown)
    if options.show:
        _check_shown(view, options.show)
    if options.format in TABLES:
        print_rows(_rows(view, shown[0]), options.format)
    elif options.format == "json":
        print_json(_document(view, options.show))
    else:
        print_lines(_render(view, options, width, shown), width)


def _view(
    trace: Trace,
    selection: Selection,
    whole: Profile,
    profile: Profile,
    options: argparse.Namespace,
    unit: str,
    width: int,
    shown: Collection[str],
) -> View:
    rows = Rows(options.line, options.scope)
    # What several parts add up is worked out once.
    adds_up = bool({*shown} - _APART) or not rows.are_all
    spans = summed_spans(profile.tables) if adds_up else None
    with worker_pool(1) as beside:  # findings need nothing of what follows, and take as long
        found = beside.submit(make_findings, profile, selection, spans) if "findings" in shown else None
        top = _most_rows(options)
        first_lines = FIRST_LINES if options.top is None and not options.show else top
        kernels = make_kernels(profile, unit)
        # Percentiles are in the table of scopes alone.
        has_scopes = "scopes" in shown
        summary = None if spans is None else summary_of(profile.tables, spans, ordered=has_scopes)
        # Everything below a kernel's own row goes by these.
        wants_tables = bool({*shown} - _APART - {"lines"}) or not rows.are_all
        tables = make_tables(profile, unit, top, kernels, rows, options.sort, summary) if wants_tables else []
        most_kernels = 0 if options.format in TABLES else DETAILED_KERNELS
        detailed = tables[: most_kernels or None]
        disk = source_lines(trace.written_s)
        choice = _choose(profile, kernels) if "timeline" in shown else None
        view = View(
            header=make_header(profile, trace.name, selection, trace.spans, whole),
            accounts=[] if options.show else make_accounts(profile, selection, kernels, summary),
            findings=[] if found is None else rows.findings(found.result()),
            kernels=kernels,
            breakdown=answer_rows(profile, "breakdown", shown),
            limits=answer_rows(profile, "limits", shown),
            bare=bare_kernels(profile, list(dict.fromkeys(row.kernel for row in kernels)), spans),
            advice=advice(profile.metadata.get("options") or {}),
            tables=detailed,
            trees=make_trees(profile, detailed, unit, top, disk, rows, spans) if "tree" in shown else [],
            lines=[
                table
                for table in make_lines(profile, first_lines, most_kernels, rows, summary)
                if options.show or any(row.line for row in table.rows)  # another tool's trace has none
            ]
            if "lines" in shown
            else [],
            omitted=len(tables) - len(detailed),
            timeline=None
            if choice is None
            else make_timeline(
                profile, choice, unit, width - LABEL_WIDTH, options.zoom, spans and spans.rows
            ),
        )
    rows.check(profile)
    return view


def _most_rows(options: argparse.Namespace) -> int:
    """Of a table: in CSV and Markdown nothing says that some were left out, so there all are shown, and
    those of all kernels."""
    if options.top is not None:
        return int(options.top)
    return 0 if options.format in TABLES else MOST_ROWS


def _check_shown(view: View, asked: Sequence[str]) -> None:
    """Raise TraceError where there is nothing of all that --show names. No findings: that is an answer."""
    there = {
        "header": True,
        "findings": True,
        "kernels": bool(view.kernels),
        "breakdown": bool(view.breakdown),
        "limits": bool(view.limits),
        "lines": any(table.rows for table in view.lines),
        "scopes": any(table.rows for table in view.tables),
        "tree": any(tree.nodes for tree in view.trees),
        "timeline": view.timeline is not None,
    }
    if not any(there[name] for name in asked):
        raise TraceError("; ".join(NOTHING[name] for name in asked))


def _choose(profile: Profile, groups: Sequence[Group]) -> Choice | None:
    """The CTA to draw: of the first group that has any."""
    launches, df = profile.launches, profile.tables.df
    roots = df.iloc[outermost(df)]
    for group in groups:
        is_own = launches["variant"] == group.variant
        own = roots[roots["launch"].isin(launches["launch"][is_own])]
        if choice := choose_cta(own, [group.kernel]):
            return choice
    return None


def _document(view: View, asked: Sequence[str] | None) -> dict[str, Any]:
    """The view as JSON has it: of the parts that were asked for, or whole."""
    whole = asdict(view)
    if asked is None:
        return {name: part for name, part in whole.items() if name not in ANSWERS}
    names = {"scopes": "tables", "tree": "trees"}
    return {
        "header": whole["header"],
        **{names.get(name, name): whole[names.get(name, name)] for name in asked},
    }


def _rows(view: View, name: str) -> list[Row]:
    """One part as the rows of one table, with the kernels that they are of."""
    if name == "findings":
        return [asdict(row) for row in view.findings]
    if name == "kernels":
        return [asdict(row) for row in view.kernels]
    if name in ("breakdown", "limits"):
        return view.breakdown if name == "breakdown" else view.limits
    if name == "lines":
        own: Any = [(table, table.rows) for table in view.lines]
    elif name == "tree":
        own = [(tree, tree.nodes) for tree in view.trees]
    else:
        own = [(table, table.rows) for table in view.tables]
    about = ("kernel", "variant", "unit")
    return [
        {**{name: getattr(table, name) for name in about if hasattr(table, name)}, **asdict(row)}
        for table, rows in own
        for row in rows
    ]


def _render(view: View, options: argparse.Namespace, width: int, shown: Collection[str]) -> list[Text]:
    if options.show is None:
        lines = render_first(
            view.header, view.kernels, view.accounts, view.findings, view.lines, width, _most_rows(options)
        )
        if view.bare and view.advice:
            lines += [Text(line) for line in wrap(_bare(view), width)]
    else:
        lines = [Text(EMULATED, style="bold black on yellow")] if view.header.backend == "emulator" else []
        if "header" in shown:
            lines = [*render_header(view.header, width), *[Text()] * ("findings" in shown)]
        if "findings" in shown:
            lines += (
                render_findings(view.findings, several_variants(view.kernels), width, _most_rows(options))
                if view.findings
                else [Text("no findings")]
            )
        if "kernels" in shown:
            unit = view.kernels[0].unit if view.kernels else ""
            lines += [
                Text(),
                *render_kernels(view.kernels, width, _most_rows(options), of_launches(view.header, unit)),
            ]
    lines += render_breakdown(view.breakdown, width, _most_rows(options))
    lines += render_limits(view.limits, width)
    for of_kernel in view.lines if options.show else []:
        lines += [Text(), *render_lines(of_kernel, width)]
    for at, table in enumerate(view.tables):
        if not (table.rows or (view.trees and view.trees[at].nodes)):
            continue  # none of its scopes was asked for
        if "scopes" in shown:
            lines += [Text(), *render_table(table, width, of_scopes(view.header))]
        if view.trees:
            said = of_scopes(view.header)
            lines += [Text(), *([] if "scopes" in shown else render_heading(table, width, said))]
            lines += [*render_tree(view.trees[at], width)]
        if "scopes" in shown or view.trees:
            lines += render_uncovered(table, width)
    if view.omitted:
        more = f"{view.omitted} more kernels with spans; {_ways(view)} shows them"
        lines += [Text(), Text(more, style="dim")]
    if "timeline" in shown:
        lines += _timeline(view, width)
    if options.show is None and view.header.launches:
        foot = render_foot(view.header, width)
        lines += [Text(), *foot] if foot else []
        lines += [Text(), *(Text(line, style="dim") for line in wrap(MORE.split(), width))]
    return lines[1:] if lines and not lines[0].plain else lines


def _timeline(view: View, width: int) -> list[Text]:
    if view.timeline is not None:
        return [Text(), *render_timeline(view.timeline, width, of_ctas(view.header))]
    if view.header.launches and not view.header.spans:
        return [Text(), *(Text(line, style="bold") for line in wrap(NO_SPANS.split(), width))]
    return []


def _ways(view: View) -> str:
    return "--kernel or --variant" if any(row.label for row in view.kernels) else "--kernel"


def _bare(view: View) -> list[str]:
    """The words of a sentence on the kernels that have no span inside."""
    names = [printable(name) for name in view.bare[:BARE_NAMES]]
    if len(view.bare) > len(names):
        names.append(f"{len(view.bare) - len(names)} more")
    return f"No spans inside {', '.join(names)}; {view.advice}.".split(" ")
