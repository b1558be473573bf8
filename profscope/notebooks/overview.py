"""A profile below a cell of a notebook: a few lines of HTML, or the report in a frame.

The few lines have no script and no style sheet: notebooks that are not trusted, and GitHub, take both away.
Colours are those of the notebook, dark or light, with some transparency.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Final

from profscope.analysis.breakdown import bar_of, bar_symbols, basis_text
from profscope.analysis.cause import FINDINGS_TITLE, gain_text, qualified_text
from profscope.analysis.model.build import profile_model
from profscope.analysis.model.entries import FindingEntry, KernelEntry, LineEntry, ProfileModel
from profscope.analysis.model.lines import SAMPLES
from profscope.analysis.texts import Child, Markup, clipped, joined, source_text, tag
from profscope.analysis.verdict import verdict_html
from profscope.errors import DrawError
from profscope.schema import Tables
from profscope.threads import worker_pool
from profscope.traces.html.document import document
from profscope.traces.html.figures import count_text, duration_text, percent_text

__all__ = ["MOST_SPANS", "framed", "overview", "show"]

_LEAST, _MOST = 100, 10_000
_ELSEWHERE: Final = (
    "prof.show() puts the report below a cell of a notebook, and this is none: prof.save('report.html') "
    "writes it to a file for a browser, and print(prof.findings().to_string()) prints the findings here"
)
MOST_SPANS: Final = 3_000_000
"""Of more, a cell would take seconds to say what is found in them."""
_KERNELS, _DETAILED, _FINDINGS, _LINES, _LETTERS = 5, 3, 3, 5, 80
_BAR: Final = 60
"""Characters of the bar of an account."""
_QUIET: Final = "opacity: 0.75"
_LEFT: Final = "text-align: left; white-space: nowrap; color: inherit"


def overview(tables: Tables, described: str) -> Markup:
    """The verdict, kernels, and of the longest where their time goes, findings and the lines that take most.

    described: what the profile holds.
    """
    is_large = len(tables.df) > MOST_SPANS
    parts_of_model = () if is_large else ("accounts", "findings", "lines")
    model = profile_model(tables, parts=parts_of_model, detailed=_DETAILED)
    device = model.header.device.name
    on = f", {device}" if device and not model.emulated else ""
    head = tag("p", tag("b", "profscope"), " ", described, on)
    if not model.kernels:
        return tag("div", head)
    reasons = {entry.name: entry.reasons for entry in model.kernels}
    parts: list[Child] = [head, verdict_html(model.verdict.label, model.verdict.headline, reasons)]
    if len(model.kernels) > 1:
        parts.append(_kernels(model))
    if is_large:
        parts.append(tag("p", "prof.findings() and prof.lines() say more, and take a while.", style=_QUIET))
    else:
        for entry in model.kernels[:_DETAILED]:
            parts += [_account(entry), _findings(entry), _lines(entry)]
        left = sum(len(entry.findings) for entry in model.kernels[_DETAILED:])
        parts.append(
            _quiet(f"{count_text(left, 'more finding')} of other kernels: prof.findings()") if left else None
        )
        parts.append(_missing(model))
    parts.append(
        tag("p", tag("code", "prof.show()"), " has the whole report, ", tag("code", "prof.plot"), " figures.",
            style=_QUIET)
    )  # fmt: skip
    return tag("div", *parts)


def _kernels(model: ProfileModel) -> Markup:
    rows = []
    for entry in model.kernels[:_KERNELS]:
        median = "" if entry.time is None else duration_text(entry.time.median, model.unit)
        share = "" if entry.share is None else percent_text(entry.share)
        rows.append((share, clipped(entry.name, _LETTERS), count_text(entry.launches), median))
    left = len(model.kernels) - len(rows)
    heads = ("share of time", "kernel", "launches", "median launch")
    return joined([_table(heads, rows), tag("p", f"and {left} more", style=_QUIET) if left > 0 else None])


def _account(entry: KernelEntry) -> Markup | None:
    """Where a kernel's time goes: one bar of characters, as a notebook that is not trusted has no styles."""
    account = entry.account
    if account is None:
        return None
    symbols = bar_symbols(account.shares)
    legend: list[Child] = []
    for name, share in account.shares.items():
        legend += [tag("code", symbols[name]), f" {name} {percent_text(share)}  "]
    title = tag("p", "Where the time of ", tag("b", clipped(entry.name, _LETTERS)), " goes")
    bar = tag("p", tag("code", bar_of(account.shares, _BAR)), f" from {basis_text(account.basis)}")
    return joined([title, bar, tag("p", *legend), *(_quiet(text) for text in account.caveats)])


def _findings(entry: KernelEntry) -> Markup:
    """Those that save most, each with its gain, line and evidence; if there are none, what is known."""
    if not entry.findings:
        return joined([tag("p", entry.clean)] if entry.clean else [])
    items = []
    for own in entry.findings[:_FINDINGS]:
        known = qualified_text(own.gain, own.program_pct, own.confidence, own.basis)
        items.append(
            tag("li", tag("b", gain_text(own.gain.expected), " ", own.finding),
                f" at {_place(own)} ({known}). {own.evidence}. ", tag("i", "Try: "), own.advice)
        )  # fmt: skip
    left = len(entry.findings) - len(items)
    more = _quiet(f"and {left} more in prof.findings()") if left > 0 else None
    return joined([tag("p", f"{FINDINGS_TITLE}:"), tag("ul", *items), more])


def _lines(entry: KernelEntry) -> Markup:
    """The lines of a kernel that take most time, by what ranks them."""
    if entry.lines is None:
        return Markup("")
    by = "of samples" if entry.lines.witness == SAMPLES else "of time, by spans"
    rows = [
        (percent_text(row.share), _place(row), clipped(row.source, _LETTERS))
        for row in entry.lines.rows[:_LINES]
        if row.share
    ]
    return _table((by, "line", clipped(entry.name, _LETTERS)), rows, code=2) if rows else Markup("")


def _quiet(text: str) -> Markup:
    return tag("p", text, style=_QUIET)


def _place(row: FindingEntry | LineEntry) -> str:
    return clipped(source_text(row.file, row.line), _LETTERS // 2)


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


def show(tables: Tables, height: int) -> None:
    """See `Questions.show`."""
    if isinstance(height, bool) or not isinstance(height, int) or not _LEAST <= height <= _MOST:
        raise DrawError(f"prof.show(): height={height!r} is a number of pixels, {_LEAST} to {_MOST:,}")
    if not _in_notebook():
        raise DrawError(_ELSEWHERE)
    from IPython.display import display

    data = {"text/html": framed(tables, height), "text/plain": "the report of profscope (HTML)"}
    display(data, raw=True)  # type: ignore[no-untyped-call]


def framed(tables: Tables, height: int) -> str:
    """The report in a frame, as HTML. What is in it may run the report's own script, and sees nothing of the
    notebook around it."""
    with worker_pool() as pool:
        page = document(tables, pool)
    return tag(
        "iframe", srcdoc=page, sandbox="allow-scripts", width="100%", height=height, title="profscope report",
        style="border: 1px solid rgba(128, 128, 128, 0.4); border-radius: 4px",
    )  # fmt: skip


def _in_notebook() -> bool:
    """Whether a front end that shows HTML drives this process. IPython itself is never imported for that."""
    ipython: Any = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and getattr(shell, "kernel", None) is not None
