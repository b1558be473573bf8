"""A profile in a few lines of HTML, as a notebook shows it below a cell.

It has no script and no style sheet: notebooks that are not trusted, and GitHub, take both away. Colours are
those of the notebook, dark or light, with some transparency.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from profscope.analysis.model.build import profile_model
from profscope.analysis.model.entries import FindingEntry, KernelEntry, LineEntry, ProfileModel
from profscope.analysis.model.lines import SAMPLES
from profscope.analysis.texts import Child, Markup, clipped, joined, tag
from profscope.schema import Tables
from profscope.traces.html.figures import count_text, duration_text, percent_text, place_text

__all__ = ["overview"]

_MOST_SPANS: Final = 3_000_000
"""Of more, a cell would take seconds to say what is found in them."""
_KERNELS, _FINDINGS, _LINES, _LETTERS = 5, 3, 5, 80
_QUIET: Final = "opacity: 0.75"
_LEFT: Final = "text-align: left; white-space: nowrap; color: inherit"


def overview(tables: Tables, held: str) -> Markup:
    """The verdict, kernels, what holds them back, and the lines that take most time. held: what there is."""
    is_large = len(tables.df) > _MOST_SPANS
    model = profile_model(tables, parts=() if is_large else ("findings", "lines"), detailed=1)
    device = model.header.device.name
    on = f", {device}" if device and not model.emulated else ""
    head = tag("p", tag("b", "profscope"), " ", held, on)
    if not model.kernels:
        return tag("div", head)
    parts: list[Child] = [head, _verdict(model)]
    if len(model.kernels) > 1:
        parts.append(_kernels(model))
    if is_large:
        parts.append(tag("p", "prof.findings() and prof.lines() say more, and take a while.", style=_QUIET))
    else:
        parts += [_findings(model), _lines(model.kernels[0]), _missing(model)]
    parts.append(
        tag("p", tag("code", "prof.show()"), " has the whole report, ", tag("code", "prof.plot"), " figures.",
            style=_QUIET)
    )  # fmt: skip
    return tag("div", *parts)


def _verdict(model: ProfileModel) -> Markup:
    """The label, and the reasons of each kernel behind it; those of several unfold."""
    items = [
        tag("li", f"{entry.name}: ", tag("b", reason.rule), f" {reason.text}")
        for entry in model.kernels
        for reason in entry.reasons
    ]
    verdict = model.verdict
    head = "Verdict: ", tag("b", verdict.label), verdict.headline.removeprefix(verdict.label)
    if not items:
        return tag("p", *head)
    return tag("details", tag("summary", *head), tag("ul", *items), open=len(model.kernels) == 1)


def _kernels(model: ProfileModel) -> Markup:
    rows = []
    for entry in model.kernels[:_KERNELS]:
        median = "" if entry.time is None else duration_text(entry.time.median, model.unit)
        share = "" if entry.share is None else percent_text(entry.share)
        rows.append((share, clipped(entry.name, _LETTERS), count_text(entry.launches), median))
    left = len(model.kernels) - len(rows)
    heads = ("share of time", "kernel", "launches", "median launch")
    return joined([_table(heads, rows), tag("p", f"and {left} more", style=_QUIET) if left > 0 else None])


def _findings(model: ProfileModel) -> Markup:
    """What holds the kernels back; where there is nothing, what is known of them."""
    found = model.findings
    if not found:
        clean = list(dict.fromkeys(entry.clean for entry in model.kernels if entry.clean))
        return joined(tag("p", text) for text in clean[:_FINDINGS])
    items = []
    for entry, own in found[:_FINDINGS]:
        gain = f"up to {own.program_pct:.0f} %: " if own.program_pct else ""
        of = f" of {clipped(entry.name, _LETTERS)}" if len(model.kernels) > 1 else ""
        items.append(
            tag("li", tag("b", gain, own.finding), f" at {_place(own)}{of}. {own.evidence}. ",
                tag("i", "Try: "), own.advice)
        )  # fmt: skip
    left = len(found) - len(items)
    more = tag("p", f"and {left} more in prof.findings()", style=_QUIET) if left > 0 else None
    title = "What holds it back, and how much of the kernels' time fixing it saves at most:"
    return joined([tag("p", title), tag("ul", *items), more])


def _lines(entry: KernelEntry) -> Markup:
    """The lines of a kernel that take most time, by what ranks them."""
    if entry.lines is None:
        return Markup("")
    by = "of samples" if entry.lines.witness == SAMPLES else "of time, by spans"
    rows = [
        (percent_text(row.share), _place(row), clipped(row.text, _LETTERS))
        for row in entry.lines.rows[:_LINES]
        if row.share
    ]
    return _table((by, "line", clipped(entry.name, _LETTERS)), rows, code=2) if rows else Markup("")


def _place(row: FindingEntry | LineEntry) -> str:
    return clipped(place_text(row.file, row.line), _LETTERS // 2)


def _missing(model: ProfileModel) -> Markup:
    said = [f"{entry.name}: {text}" for entry in model.kernels for text in entry.findings_not_measured]
    if not said:
        return Markup("")
    items = (tag("li", text) for text in said)
    return tag("details", tag("summary", "What could not be judged"), tag("ul", *items), style=_QUIET)


def _table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]], *, code: int = -1) -> Markup:
    """code: the column that is source."""
    top = tag("tr", *(tag("th", head, style=_LEFT) for head in heads))
    body = (
        tag(
            "tr",
            *(
                tag("td", tag("code", cell) if at == code else cell, style=_LEFT)
                for at, cell in enumerate(row)
            ),
        )
        for row in rows
    )
    return tag("table", tag("thead", top), tag("tbody", *body))
