"""The output of `profscope diff`: computed as plain data, then printed as text or JSON."""

import argparse
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from rich.text import Text

from profscope.analysis.comparing.code_changes import (
    Change,
    KernelChanges,
    by_kernel,
    by_line,
    compared_key,
    row_text,
    same_text,
    share_text,
)
from profscope.analysis.comparing.code_facts import INSTRUCTIONS
from profscope.analysis.comparing.differences import differences, program_text, row_texts
from profscope.analysis.comparing.gate import (
    is_slower,
    launch_text,
    leaves_open,
)
from profscope.analysis.comparing.operands import LAUNCH
from profscope.analysis.comparing.pairs import COMPARED, heading_text
from profscope.analysis.comparing.renaming import paired
from profscope.analysis.model.labels import told_apart
from profscope.analysis.trust_rules import CARE, DISTRUST
from profscope.progress import working
from profscope.traces.trace_filter import TraceFilter
from profscope.viewer.flags import in_flags
from profscope.viewer.grid import Column, grid, pad, wrap
from profscope.viewer.header import EMULATED
from profscope.viewer.input import part_of, read
from profscope.viewer.units import printable

__all__ = ["Comparison", "Row", "compare", "render"]

JUDGED = "--fail-above judges launches that recording has changed"


ROWS = "self times summed over all warps: a row can grow while the launch gets shorter"


_READ = 10
"""Kernels whose code is read for the first screen."""
_INDENT = " " * 11
_LONG = 60
_CAUSES = 3
_FACTS = 2
"""Lines of a kernel's code that the first screen names, and facts of each."""

Row = dict[str, Any]
_OF_KERNEL = ("kernel", "variant_a", "variant_b", "grid_a", "grid_b", "configuration", "differs")
_OF_ROW = (
    "scope", "kind", "file", "line_a", "line_b", "call_path", "status", "significant", "change", "percent",
    "low", "high", "self_a", "self_b", "total_a", "total_b", "count_a", "count_b", "launches_a", "launches_b",
)  # fmt: skip
"""Columns of `profscope.diff`: of a kernel, and of a row."""


@dataclass(frozen=True)
class Comparison:
    """All that is shown. verdict_a, verdict_b: whether each side can be believed, in one line. program: the
    entry of `profscope.diff`'s attrs. fail_above: in per cent, None if nothing was asked for.

    kernels: of each, `_OF_KERNEL`; what it `says` in a line; whether it has `regressed`: become slower by
    more than was allowed, and that is no noise; its `launch` as a whole, None if its times are not known; the
    `rows` that are shown, and how many are `omitted`; `code`: what differs in the compiled code, None if it
    was not compared. show: "rows" or "code".
    """

    a: str
    b: str
    verdict_a: str
    verdict_b: str
    unit: str
    emulated: bool
    notes: list[str]
    not_measured: list[str]
    program: dict[str, Any]
    fail_above: float | None
    kernels: list[dict[str, Any]]
    show: str = "rows"
    top: int = 0

    @property
    def has_regressed(self) -> bool:
        """Whether a kernel is slower than the gate allows."""
        return any(kernel["regressed"] for kernel in self.kernels)

    @property
    def leaves_open(self) -> bool:
        """Whether a gate cannot judge more of the time than may be left open."""
        return self.fail_above is not None and leaves_open(self.program)


def compare(options: argparse.Namespace) -> Comparison:
    """The comparison of the traces that the command line names.

    Raises TraceError if one cannot be read or the selection is empty, DiffError if they cannot be compared.
    """
    traces = [read(name) for name in (options.a, options.b)]
    profiles = [part_of(trace.profile, TraceFilter(kernels=options.kernels)) for trace in traces]
    with working("comparing two profiles"):
        pair = dict(options.pair)
        a, b = (profile.tables for profile in profiles)
        a = paired(a, b, pair) if pair else a
        table = differences(a, b)
        found = by_kernel(a, b, table, _changed(table) if options.show == "rows" else None)
        code = {each.compared: each for each in found}
    verdicts = [profile.verdict.headline for profile in profiles]
    unit = table.attrs["unit"]
    groups = table.groupby(list(COMPARED), sort=False, dropna=False)
    kernels = [
        _kernel(rows, unit, options.top, options.fail_above) | {"code": code.get(compared_key(names))}
        for names, rows in groups
    ]
    return Comparison(
        a=options.a if traces[0].name == traces[1].name else traces[0].name,
        b=options.b if traces[0].name == traces[1].name else traces[1].name,
        verdict_a=verdicts[0],
        verdict_b=verdicts[1],
        unit=unit,
        emulated=table.attrs["emulated"],
        notes=table.attrs["notes"],
        not_measured=table.attrs["not_measured"],
        program=table.attrs["program"],
        fail_above=options.fail_above,
        kernels=kernels,
        show=options.show,
        top=options.top,
    )


def _changed(table: pd.DataFrame) -> list[tuple[Any, ...]]:
    """The kernels whose launches changed most: reading a kernel's code takes its time."""
    launches = table[(table["kind"] == LAUNCH) & table["significant"]].head(_READ)
    return [compared_key(key) for key in launches[list(COMPARED)].itertuples(index=False, name=None)]


def _kernel(table: pd.DataFrame, unit: str, top: int, fail_above: float | None) -> dict[str, Any]:
    values: list[Row] = table.astype(object).where(table.notna(), None).to_dict("records")  # type: ignore[assignment]
    rows = [{name: row[name] for name in _OF_ROW} for row in values]
    launch = rows.pop(0) if rows[0]["kind"] == LAUNCH else None
    return {name: values[0][name] for name in _OF_KERNEL} | {
        "says": launch_text(launch, unit),
        "regressed": launch is not None and fail_above is not None and is_slower(launch, fail_above),
        "launch": launch,
        "rows": rows[: top or None],
        "omitted": max(len(rows) - top, 0) if top else 0,
    }


def render(comparison: Comparison, width: int) -> list[Text]:
    """The whole comparison as lines of a terminal."""
    lines = [Text(EMULATED, style="bold black on yellow")] if comparison.emulated else []
    facts = [
        ("Time", program_text(comparison.program, comparison.unit)),
        ("A", _named(comparison.a, comparison.verdict_a)),
        ("B", _named(comparison.b, comparison.verdict_b)),
    ]
    facts += [("Note", in_flags(note)) for note in comparison.notes]
    facts += [("Untested", in_flags(missing)) for missing in comparison.not_measured]
    if any(kernel["rows"] for kernel in comparison.kernels):
        facts.append(("Rows", ROWS))
    label = max(len(name) for name, _ in facts) + 2
    for name, text in facts:
        style = "bold yellow" if name in ("Note", "Untested") else "dim"
        is_doubtful = name in "AB" and f": {DISTRUST}" in text
        for at, line in enumerate(wrap(printable(text).split(" "), width - label)):
            lines.append(
                Text.assemble((pad("" if at else name, label), style), (line, "bold red" * is_doubtful))
            )
    for kernel in comparison.kernels:
        lines += [Text(), *_render_kernel(kernel, comparison, width)]
    doubtful = _distrusted(comparison.verdict_a, comparison.verdict_b)
    if comparison.fail_above is not None and doubtful:
        said = f'The verdict of {" and of ".join(doubtful)} is "{DISTRUST}": {JUDGED}.'
        lines += [Text(), *(Text(line, style="bold red") for line in wrap(said.split(), width))]
    return lines


def _named(name: str, verdict: str) -> str:
    """A side with its verdict where that asks for care, and with the reasons where it forbids trust."""
    if verdict.startswith(DISTRUST):
        return f"{name}: {verdict}"
    return f"{name}: {CARE}" if verdict.startswith(CARE) else name


def _distrusted(verdict_a: str, verdict_b: str) -> list[str]:
    """The sides that are another kernel than the one that runs without a session."""
    verdicts = {"A": verdict_a, "B": verdict_b}
    return [side for side, verdict in verdicts.items() if verdict.startswith(DISTRUST)]


def _render_kernel(kernel: dict[str, Any], comparison: Comparison, width: int) -> list[Text]:
    style = "bold"
    is_doubtful = bool(_distrusted(comparison.verdict_a, comparison.verdict_b))
    launch = kernel["launch"]
    if launch and launch["significant"] and launch["status"] == "changed" and not is_doubtful:
        style += " red" if launch["change"] > 0 else " green"
    heading = heading_text(kernel["kernel"], kernel["configuration"], kernel["differs"])
    sentence = f"{printable(heading)}: {kernel['says']}"
    lines = [Text(line, style=style) for line in wrap(sentence.split(" "), width)]
    if kernel["regressed"]:
        lines.append(Text(f"That is more than --fail-above {comparison.fail_above:g}%.", style="bold red"))
    if comparison.show == "code":
        return lines + [
            Text(part)
            for line in _code_lines(kernel["code"], comparison.top)
            for part in textwrap.wrap(line, width, subsequent_indent=_INDENT, break_on_hyphens=False)
        ]
    if not kernel["rows"]:
        return lines
    lines += _table(kernel["rows"], comparison.unit, width)
    if kernel["omitted"]:
        lines.append(Text(f"{kernel['omitted']} more rows; --top 0 shows them", style="dim"))
    return lines + [Text(part) for line in _causes(kernel["code"]) for part in wrap(line.split(" "), width)]


def _code_lines(code: KernelChanges | None, top: int) -> Iterator[str]:
    """The facts of a line that differ, with the change of a launch there."""
    if code is None:
        yield "code: only one side has it"
        return
    lines = list(by_line(code.changes))
    if any(change.percent is not None for change in code.changes):
        yield f"{'%':>7}  of a launch of A: what the line, and those waiting for it, take more"
    for own in lines[: top or None]:
        first = own[0]
        percent = "-" if first.percent is None else f"{first.percent:+.1f}"
        by = " (by experiments)" if first.basis == "experiment" else ""
        yield f"{percent:>7}  {printable(row_text(*own))}{by}"
    if top and len(lines) > top:
        yield f"{len(lines) - top} more; --top 0 shows them"
    if code.why_not:
        yield f"code: {code.why_not}"
    else:
        yield share_text(code) if code.changes else same_text(is_same=code.is_same)


def _causes(code: KernelChanges | None) -> Iterator[str]:
    """Under a kernel's rows, the facts that cost most."""
    if code is None or not code.changes:
        return
    lines = list(by_line(filter(_is_telling, code.changes)))[:_CAUSES]
    told = [printable(row_text(*own[:_FACTS])) for own in lines]
    more = len(code.changes) - sum(len(own[:_FACTS]) for own in lines)
    told += [f"{more} more with --show code"] * bool(more)
    yield f"Code: {'; '.join(told)}"


def _is_telling(change: Change) -> bool:
    """Layouts are too long for the first screen, and counts of instructions follow from something."""
    return change.fact != INSTRUCTIONS and len(change.a) + len(change.b) < _LONG


def _table(rows: Sequence[Row], unit: str, width: int) -> list[Text]:
    columns = [Column("scope", "name"), Column("line", spare=1), Column("A", spare=2), Column("B", spare=2)]
    columns += [Column("change"), Column("%"), Column("least", spare=4), Column("most", spare=4)]
    columns += [Column("count", spare=6), Column("", "name")]
    apart = told_apart([((row["scope"], row["line_a"], row["line_b"]), row["call_path"]) for row in rows])
    cells = [
        [printable(row["scope"] + path), *row_texts(row, unit)] for row, path in zip(rows, apart, strict=True)
    ]
    styles = [_style(row) for row in rows]
    return grid(columns, cells, styles, width)


def _style(row: Row) -> str:
    if not row["significant"]:
        return "dim"
    return "" if row["kind"] == "async" else "red" if row["change"] > 0 else "green"
