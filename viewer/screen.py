"""The first screen, and its parts one by one: computed as plain data, then printed."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from profscope.analysis.answers import EVIDENCE_LEFT_OUT, refused_evidence, refused_experiments
from profscope.analysis.limits import ON_EMULATOR
from profscope.analysis.model.build import ModelSources, profile_model
from profscope.analysis.model.entries import KernelEntry, KernelFinding, ProfileModel
from profscope.analysis.model.labels import Group, differs_text
from profscope.analysis.model.missing import bare_kernels, more_spans
from profscope.analysis.model.numbers import plain
from profscope.analysis.scopes.table import KernelTable, RowFilter, make_tables
from profscope.analysis.scopes.tree import ScopeTree, make_trees
from profscope.analysis.sources import source_lines
from profscope.errors import TraceError
from profscope.profiles import Profile
from profscope.progress import working
from profscope.traces.trace_filter import SAMPLES_OF_RANK, TraceFilter
from profscope.viewer.flags import in_flags
from profscope.viewer.grid import words, wrap
from profscope.viewer.header import (
    EMULATED,
    Shown,
    of_ctas,
    of_launches,
    of_scopes,
    render_foot,
    render_hangs,
    render_header,
    render_top,
)
from profscope.viewer.input import Trace
from profscope.viewer.kernels import (
    MOST_ACCOUNTS,
    render_account,
    render_findings,
    render_kernels,
    render_lines,
)
from profscope.viewer.option_types import ANSWERS, FIRST
from profscope.viewer.outlet import Row, print_json, print_lines, print_rows, text_width
from profscope.viewer.scopes import (
    answer_rows,
    render_breakdown,
    render_experiments,
    render_heading,
    render_limits,
    render_table,
    render_tree,
    render_uncovered,
)
from profscope.viewer.timeline import (
    LABEL_WIDTH,
    Timeline,
    choose_cta,
    make_timeline,
    render_timeline,
)
from profscope.viewer.units import count_text, printable

__all__ = ["View", "show_first_screen", "show_screen"]

DETAILED_KERNELS = 5
"""Kernels and variants that text shows with lines, scopes and tree: those that took longest."""

MOST_ROWS, FIRST_LINES = 20, 8
"""Rows of a table where --top does not say; of the lines on the first screen."""

_APART = {"header", "findings", "kernels", *ANSWERS}
"""What needs no sums of spans."""

BARE_NAMES = 3
"""Kernels without spans inside that are named; the rest are counted."""

NOTHING = {
    "kernels": "no launches were recorded",
    "lines": "no line of any kernel was recorded",
    "breakdown": "where the time goes is unknown: no launch was recorded to its end",
    "limits": "no limits are known: session(evidence=True) measures what a kernel uses",
    "hangs": "no launch was reported to hang; `profscope run --hang 10` watches for them",
    "experiments": "no experiments were made: profscope.explain measures what each line costs",
    "scopes": "no spans were recorded inside of any kernel",
    "tree": "no spans were recorded inside of any kernel",
    "timeline": "no spans were recorded, so there is no timeline",
}
"""What is said where nothing is there of what --show names."""
NO_SPANS = "No spans were recorded in these launches; see the notes and dropped records."
EXPERIMENTS = "--show experiments (what each line costs),"
MORE = (
    "--source (the code with its time in the margin), --show scopes (percentiles), "
    "--show header (clocks, versions, options), --help"
)


@dataclass(frozen=True)
class View:
    """All that is shown. shown: the model, with the rows of findings and lines that were asked for.

    breakdown, limits, experiments, hangs: rows of the questions and tables of these names, where --show names
    them.
    bare: kernels with no span inside their own; advice: what would record some, "" if that is not known.
    hidden_findings: at other lines than --line. tables and trees are of the same groups; `omitted` further
    ones with spans inside have none.
    """

    shown: Shown
    breakdown: list[Row]
    limits: list[Row]
    experiments: list[Row]
    hangs: list[Row]
    hidden_findings: int
    has_experiments: bool
    bare: list[str]
    advice: str
    tables: list[KernelTable]
    trees: list[ScopeTree]
    trees_of: str
    omitted: int
    timeline: Timeline | None

    @property
    def kernels(self) -> tuple[KernelEntry, ...]:
        return self.shown.model.kernels


def show_screen(
    trace: Trace,
    selection: TraceFilter,
    whole: Profile,
    profile: Profile,
    options: argparse.Namespace,
) -> None:
    """Print the first screen, or those of its parts that --show names.

    profile: the part that `selection` chose; whole: all of these launches, for the verdict.
    """
    width = text_width(options.width)
    shown = options.show or FIRST
    if options.format == "json" and not options.show:
        shown = (*FIRST, "scopes")
    with working("analysing the trace"):
        view = _view(trace, selection, whole, profile, options, width, shown)
    if options.show:
        _check_shown(view, options.show, profile.metadata)
    if options.format == "csv":
        print_rows(_rows(view, shown[0]))
    elif options.format == "json":
        print_json(_document(view, options.show))
    else:
        print_lines(_render(view, options, width, shown), width)


def _view(
    trace: Trace,
    selection: TraceFilter,
    whole: Profile,
    profile: Profile,
    options: argparse.Namespace,
    width: int,
    shown: Collection[str],
) -> View:
    rows, unit = RowFilter(options.line, options.scope), profile.tables.unit
    # What several parts add up is worked out once; percentiles are in the table of scopes alone.
    adds_up = bool({*shown} - _APART) or not rows.are_all
    sources = ModelSources(profile.tables, percentiles="scopes" in shown)
    top = _most_rows(options)
    most_kernels = DETAILED_KERNELS if options.format == "table" else 0
    model = profile_model(
        profile.tables,
        None if whole is profile else whole.tables,
        _parts(selection, shown, is_first=not options.show),
        most_kernels,
        sources,
    )
    first_lines = FIRST_LINES if options.top is None and not options.show else top
    found = len(model.findings)
    model = replace(model, kernels=tuple(_with_rows(entry, rows, first_lines) for entry in model.kernels))
    groups = [Group(each.kernel, each.variant, each.label, each.differs) for each in model.kernels]
    # Everything below a kernel's own row goes by these.
    wants_tables = bool({*shown} - _APART - {"lines"}) or not rows.are_all
    tables = (
        make_tables(profile.tables, unit, top, groups, rows, options.sort, sources.summary)
        if wants_tables
        else []
    )
    if options.line is not None:
        there = {(table.kernel, table.variant) for table in tables if table.rows}
        model = replace(model, kernels=tuple(entry for entry in model.kernels if _is_at(entry, there)))
        tables = [table for table in tables if table.rows]
        groups = [group for group in groups if (group.kernel, group.variant) in there]
    detailed = tables[: most_kernels or None]
    spans = sources.spans if adds_up else None
    choice = choose_cta(profile.tables, groups) if "timeline" in shown else None
    drawn = None
    if choice is not None:
        cells = width - LABEL_WIDTH
        drawn = make_timeline(profile, choice, unit, cells, options.zoom, spans and spans.rows)
    trees = []
    if "tree" in shown:
        lines = source_lines(profile.metadata, trace.written_s)
        trees = make_trees(profile.tables, detailed, unit, top, lines, rows, spans)
    view = View(
        shown=Shown(model, trace.name, selection.chosen, trace.spans),
        breakdown=answer_rows(profile, "breakdown", shown),
        limits=answer_rows(profile, "limits", shown),
        experiments=answer_rows(profile, "experiments", shown),
        hangs=answer_rows(profile, "hangs", shown),
        hidden_findings=found - len(model.findings),
        has_experiments=len(profile.experiments) > 0,
        bare=bare_kernels(profile.tables, list(dict.fromkeys(each.kernel for each in groups)), spans),
        advice=more_spans(profile.metadata.get("options") or {}),
        tables=detailed,
        trees=trees,
        trees_of=_rank_of_spans(profile),
        omitted=len(tables) - len(detailed),
        timeline=drawn,
    )
    rows.check(profile.tables)
    return view


def _rank_of_spans(profile: Profile) -> str:
    """Such as "rank 3", where spans are of one rank, other figures of all; else ""."""
    return f"rank {profile.metadata[SAMPLES_OF_RANK]}" if len(profile.tables.sums) else ""


def _parts(selection: TraceFilter, shown: Collection[str], *, is_first: bool) -> set[str]:
    """Those of the model that are shown; findings are of whole launches, whatever part of them is chosen."""
    has_accounts = is_first and not selection.inside
    return ({"findings", "lines"} & {*shown}) | ({"accounts"} if has_accounts else set())


def _is_at(entry: KernelEntry, spans: Collection[tuple[str, int]]) -> bool:
    """Whether anything of a kernel is at the line of --line. spans: kernels and variants with some there."""
    has_lines = entry.lines is not None and bool(entry.lines.rows)
    return bool(entry.findings) or has_lines or (entry.kernel, entry.variant) in spans


def _with_rows(entry: KernelEntry, rows: RowFilter, most: int) -> KernelEntry:
    """The entry with the findings and lines that were asked for; of lines `most` (0: all)."""
    entry = replace(entry, findings=tuple(rows.chosen(entry.findings)))
    if entry.lines is None:
        return entry
    lines = tuple(rows.chosen(entry.lines.rows, scope=""))
    left_out = replace(entry.left_out, lines=max(0, len(lines) - most) if most else 0)
    return replace(entry, lines=replace(entry.lines, rows=lines[: most or None]), left_out=left_out)


def _most_rows(options: argparse.Namespace) -> int:
    """Of a table: in CSV and Markdown nothing says that some were left out, so there all are shown, and
    those of all kernels."""
    if options.top is not None:
        return int(options.top)
    return 0 if options.format == "csv" else MOST_ROWS


def _check_shown(view: View, asked: Sequence[str], metadata: Mapping[str, Any]) -> None:
    """Raise TraceError where there is nothing of all that --show names. No findings: that is an answer."""
    there = {
        "header": True,
        "findings": True,
        "kernels": bool(view.kernels),
        "breakdown": bool(view.breakdown),
        "limits": bool(view.limits),
        "experiments": bool(view.experiments),
        "hangs": bool(view.shown.header.hangs),
        "lines": any(each.lines.rows for each in view.kernels if each.lines),
        "scopes": any(table.rows for table in view.tables),
        "tree": any(tree.nodes for tree in view.trees),
        "timeline": view.timeline is not None,
    }
    if not any(there[name] for name in asked):
        refused = refused_evidence(metadata)
        refused_limits = ON_EMULATOR if view.shown.model.emulated else refused
        reasons = NOTHING | ({"limits": f"no limits are known: {refused_limits}"} if refused_limits else {})
        if EVIDENCE_LEFT_OUT in metadata:
            reasons |= {"experiments": f"no experiments: {refused}"}
        elif told := refused_experiments(metadata):
            reasons |= {"experiments": "; ".join(told)}
        raise TraceError("; ".join(reasons[name] for name in asked))


def _document(view: View, asked: Sequence[str] | None) -> dict[str, Any]:
    """The model, and of the other parts those that were asked for, or all, as JSON has them."""
    shown = view.shown
    told: dict[str, Any] = plain(shown.model) | {
        "trace": shown.trace,
        "chosen": plain(shown.chosen),
        "all_spans": shown.all_spans,
    }
    others = {"scopes": "tables", "tree": "trees", "timeline": "timeline", **{name: name for name in ANSWERS}}
    names = [others[name] for name in others if name in (asked or ())]
    if asked is None:
        names = ["tables", "trees", "timeline", "bare", "advice"]
    whole = asdict(replace(view, shown=None))  # type: ignore[arg-type]
    return told | {name: whole[name] for name in names}


def _rows(view: View, name: str) -> list[Row]:
    """One part as the rows of one table, with the kernels that they are of."""
    if name == "findings":
        return [_about(row.kernel) | plain(row.own) for row in view.shown.model.findings]
    if name == "kernels":
        return [_about(entry) | _of_kernel(entry, view.shown.model.unit) for entry in view.kernels]
    if name in ANSWERS:
        rows: list[Row] = getattr(view, name)
        return rows
    if name == "lines":
        known = [(entry, row) for entry in view.kernels if entry.lines for row in entry.lines.rows]
        return [_about(entry) | plain(row) for entry, row in known]
    own: Any = [(table, table.rows) for table in view.tables]
    if name == "tree":
        own = [(tree, tree.nodes) for tree in view.trees]
    return [_about(table) | {"unit": table.unit} | asdict(row) for table, rows in own for row in rows]


def _about(of: Group | KernelEntry) -> dict[str, Any]:
    return {"kernel": of.kernel, "variant": of.variant}


def _of_kernel(entry: KernelEntry, unit: str) -> dict[str, Any]:
    """What the table of kernels has, as one row."""
    time = plain(entry.time) or {}
    figures = {name: time.get(name) for name in ("total", "median", "p25", "p75", "min", "max")}
    about = {"label": entry.label, "differs": plain(entry.differs), "unit": unit}
    counts = {"launches": entry.launches, "untimed": entry.untimed, "ctas": entry.ctas.recorded}
    return about | counts | {"share": entry.share} | figures


def _render(view: View, options: argparse.Namespace, width: int, shown: Collection[str]) -> list[Text]:
    lines = (
        _render_first(view, options, width) if options.show is None else _render_parts(view, options, width)
    )
    if view.hidden_findings:
        lines += [Text(), Text(f"{count_text(view.hidden_findings, 'finding')} at other lines", style="dim")]
    if options.show and "hangs" in shown:
        lines += [Text(), *render_hangs(view.shown.header.hangs, width)]
    lines += render_breakdown(view.breakdown, view.kernels, width, _most_rows(options))
    lines += render_limits(view.limits, view.kernels, width)
    lines += render_experiments(view.experiments, view.kernels, width, options.top)
    if options.show and "lines" in shown:
        lines += _lines(view, width)
    lines += _scopes(view, width, shown)
    if view.omitted:
        more = f"{view.omitted} more kernels with spans; {_ways(view)} shows them"
        lines += [Text(), Text(more, style="dim")]
    if "timeline" in shown:
        lines += _timeline(view, width)
    if options.show is None and view.shown.header.launches:
        foot = render_foot(view.shown, width)
        lines += [Text(), *foot] if foot else []
        more = f"{EXPERIMENTS} {MORE}" if view.has_experiments else MORE
        lines += [Text(), *(Text(line, style="dim") for line in wrap(["More:", *more.split()], width))]
    return lines[1:] if lines and not lines[0].plain else lines


def _render_first(view: View, options: argparse.Namespace, width: int) -> list[Text]:
    lines = render_first(view.shown, width, _most_rows(options))
    if view.bare and view.advice:
        lines += [Text(line) for line in wrap(_bare(view), width)]
    return lines


def _no_findings(model: ProfileModel, width: int) -> list[Text]:
    """What is known of each kernel."""
    told = [f"{entry.name}: {entry.clean}" for entry in model.kernels if entry.clean] or ["no findings"]
    return [Text(line) for text in told for line in wrap(words(text), width)]


def _render_parts(view: View, options: argparse.Namespace, width: int) -> list[Text]:
    """The header, findings and kernels that --show names."""
    model = view.shown.model
    lines = [Text(EMULATED, style="bold black on yellow")] if model.emulated else []
    if "header" in options.show:
        lines = [*render_header(view.shown, width), *[Text()] * ("findings" in options.show)]
    if "findings" in options.show:
        found = model.findings
        lines += render_findings(found, width, _most_rows(options)) if found else _no_findings(model, width)
    if "kernels" in options.show:
        most, said = _most_rows(options), of_launches(model)
        lines += [Text(), *render_kernels(model.kernels, model.unit, width, most, said)]
    return lines


def _lines(view: View, width: int) -> list[Text]:
    lines: list[Text] = []
    told: list[str] = []
    for entry in view.kernels:
        if entry.lines is not None:
            lines += [Text(), *render_lines(entry, width, told)]
            told += entry.lines.not_measured
    return lines


def _scopes(view: View, width: int, shown: Collection[str]) -> list[Text]:
    lines: list[Text] = []
    said = of_scopes(view.shown.header)
    told: set[str] = set()
    for at, table in enumerate(view.tables):
        if not (table.rows or (view.trees and view.trees[at].nodes)):
            continue  # none of its scopes was asked for
        if "scopes" in shown:
            lines += [Text(), *render_table(table, width, said)]
        if view.trees:
            lines += [Text(), *([] if "scopes" in shown else render_heading(table, width, said))]
            lines += [Text(f"of {view.trees_of}:", style="dim")] * bool(view.trees_of)
            lines += render_tree(view.trees[at], width)
        if "scopes" in shown or view.trees:
            lines += render_uncovered(table, width, with_advice=table.advice not in told)
            told.add(table.advice)
    return lines


def _timeline(view: View, width: int) -> list[Text]:
    if view.timeline is not None:
        return [Text(), *render_timeline(view.timeline, width, of_ctas(view.shown.header))]
    if view.shown.header.launches and not view.shown.header.spans:
        return [Text(), *(Text(line, style="bold") for line in wrap(NO_SPANS.split(), width))]
    return []


def _ways(view: View) -> str:
    return "--kernels or --variant" if any(row.label for row in view.kernels) else "--kernels"


def _bare(view: View) -> list[str]:
    """The words of a sentence on the kernels that have no span inside."""
    names = [printable(name) for name in view.bare[:BARE_NAMES]]
    if len(view.bare) > len(names):
        names.append(f"{len(view.bare) - len(names)} more")
    return f"No spans inside {', '.join(names)}; {in_flags(view.advice)}.".split(" ")


_KERNEL_ROWS = 10
"""Rows of the table of kernels."""

FINDINGS_EACH = 3
"""Kinds of findings of each kernel."""


def show_first_screen(profile: Profile, name: str, stream: TextIO) -> None:
    """Print it, without lines. name: of the trace, for its first line."""
    width = text_width(None, stream)
    console = Console(file=stream, width=width, highlight=False)
    with working("analysing the profile"):
        model = profile_model(profile.tables, parts=("findings", "accounts"), detailed=MOST_ACCOUNTS)
    shown = Shown(model, name, {}, model.header.spans)
    lines = render_first(shown, width, _KERNEL_ROWS)
    foot = render_foot(shown, width)
    lines += [Text(), *foot] if foot else []
    console.print(Text("\n").join([Text(), *lines]), soft_wrap=True)


def render_first(shown: Shown, width: int, most: int) -> list[Text]:
    """The lines that always come first. most: rows of kernels."""
    model = shown.model
    lines = render_top(shown, width)
    if not model.kernels:
        return lines
    lines += [Text(), *render_kernels(model.kernels, model.unit, width, most, of_launches(model))]
    longest = model.kernels[:MOST_ACCOUNTS]
    told: list[str] = []
    for entry in longest:
        lines += _render_kernel(entry, width, told, alone=len(model.kernels) == 1)
        told += () if entry.lines is None else entry.lines.not_measured
        told += () if entry.account is None else entry.account.caveats
    left = sum(len(entry.findings) for entry in model.kernels[MOST_ACCOUNTS:])
    if left:
        more = f"{count_text(left, 'more finding')}, of other kernels; --show findings has all"
        lines += [Text(), Text(more, style="dim")]
    return lines


def _render_kernel(entry: KernelEntry, width: int, told: list[str], *, alone: bool) -> Iterator[Text]:
    """One kernel's bar, findings and lines, as far as there are any. told: what was said not to be known."""
    if entry.account is not None:
        what = f"{printable(entry.name)} {differs_text(entry.differs)}".strip()
        title = "Where its time goes" if alone else f"Where the time of {what} goes"
        yield Text()
        yield from render_account(entry.name, entry.account, title, width, told)
    if entry.findings:
        own = [KernelFinding(entry, finding) for finding in entry.findings]
        yield Text()
        yield from render_findings(own, width, FINDINGS_EACH)
    elif entry.clean:
        yield Text()
        said = in_flags(f"{entry.clean[:1].upper()}{entry.clean[1:]}.")
        yield from (Text(line) for line in wrap(words(said), width))
    if entry.lines is not None and any(row.line for row in entry.lines.rows):  # other tools tell of none
        yield Text()
        yield from render_lines(entry, width, told)
