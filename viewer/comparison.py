"""The output of `profscope diff`: computed as plain data, then printed as text or JSON."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from rich.text import Text

from profscope.analysis.comparing.differences import differences, program_text, status_text
from profscope.analysis.comparing.gate import (
    is_slower,
    launch_text,
    leaves_open,
)
from profscope.analysis.comparing.operands import LAUNCH
from profscope.analysis.comparing.pairs import COMPARED, heading_text
from profscope.analysis.model.labels import told_apart
from profscope.analysis.trust_rules import CARE, DISTRUST
from profscope.progress import working
from profscope.traces.trace_filter import TraceFilter
from profscope.viewer.flags import in_flags
from profscope.viewer.grid import Column, grid, pad, wrap
from profscope.viewer.header import EMULATED
from profscope.viewer.input import part_of, read
from profscope.viewer.units import count_text, duration_text, printable

__all__ = ["Comparison", "Row", "compare", "render"]

JUDGED = "--fail-above judges launches that recording has changed"


ROWS = "self times summed over all warps: a row can grow while the launch gets shorter"


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
    `rows` that are shown, and how many are `omitted`.
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

    @property
    def has_regressed(self) -> bool:
        """Whether a kernel is slower than the gate allows."""
        return any(kernel["regressed"] for kernel in self.kernels)

    @property
    def leaves_open(self) -> bool:
        """Whether a gate cannot judge more of the time than may be left open."""
        return self.fail_above is not None and leaves_open(self.program)


def compare(options: argparse.Namespace) -> Comparison:
    """Of the traces that the command line names.

    Raises TraceError where one cannot be read or has nothing of what is asked for, DiffError where they
    cannot be compared.
    """
    traces = [read(name) for name in (options.a, options.b)]
    profiles = [part_of(trace.profile, TraceFilter(kernels=options.kernels)) for trace in traces]
    with working("comparing two profiles"):
        table = differences(profiles[0].tables, profiles[1].tables)
    verdicts = [profile.verdict.headline for profile in profiles]
    unit = table.attrs["unit"]
    groups = table.groupby(list(COMPARED), sort=False, dropna=False)
    kernels = [_kernel(rows, unit, options.top, options.fail_above) for _, rows in groups]
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
    )


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
    if not kernel["rows"]:
        return lines
    lines += _table(kernel["rows"], comparison.unit, width)
    if kernel["omitted"]:
        lines.append(Text(f"{kernel['omitted']} more rows; --top 0 shows them", style="dim"))
    return lines


def _table(rows: Sequence[Row], unit: str, width: int) -> list[Text]:
    columns = [Column("scope", "name"), Column("line", spare=1), Column("A", spare=2), Column("B", spare=2)]
    columns += [Column("change"), Column("%"), Column("least", spare=4), Column("most", spare=4)]
    columns += [Column("count", spare=6), Column("", "name")]
    apart = told_apart([((row["scope"], row["line_a"], row["line_b"]), row["call_path"]) for row in rows])
    cells = []
    for row, path in zip(rows, apart, strict=True):
        of = "total" if row["kind"] == "async" else "self"
        times = row[f"{of}_a"], row[f"{of}_b"]
        before, after = (
            "-" if absent else duration_text(value, unit)
            for value, absent in zip(
                times, (row["status"] == "appeared", row["status"] == "gone"), strict=True
            )
        )
        changes = [_signed(each, unit) for each in (row["change"], row["low"], row["high"])]
        percent = "-" if row["percent"] is None else f"{row['percent']:+.1f}"
        counts = dict.fromkeys(count_text(round(each)) for each in (row["count_a"], row["count_b"]) if each)
        place = [printable(row["scope"] + path), _lines(row)]
        told = status_text(row["status"], row["change"], significant=row["significant"])
        cells.append([*place, before, after, changes[0], percent, *changes[1:], ">".join(counts), told])
    styles = [_style(row) for row in rows]
    return grid(columns, cells, styles, width)


def _style(row: Row) -> str:
    if not row["significant"]:
        return "dim"
    return "" if row["kind"] == "async" else "red" if row["change"] > 0 else "green"


def _lines(row: Row) -> str:
    """ "24", or "24>26" where it has moved."""
    known = [str(line) for line in (row["line_a"], row["line_b"]) if line]
    return ">".join(dict.fromkeys(known))


def _signed(value: float, unit: str) -> str:
    return ("+" if value > 0 else "") + duration_text(value, unit)
