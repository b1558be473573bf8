"""A profile below a cell of a notebook: a few lines of HTML, or the page in a frame.

The few lines have no script and no style sheet: notebooks that are not trusted, and GitHub, take both away.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Final

from profscope.analysis.cause import FINDINGS_TITLE, gain_text, qualified_text
from profscope.analysis.model.build import profile_model
from profscope.analysis.model.entries import FindingEntry, KernelEntry, LineEntry, ProfileModel
from profscope.analysis.model.lines import SAMPLES
from profscope.analysis.texts import Child, Markup, clipped, source_text, tag
from profscope.analysis.verdict import verdict_html
from profscope.errors import DrawError
from profscope.schema import Tables
from profscope.threads import worker_pool
from profscope.traces.html.document import document
from profscope.traces.html.figures import count_text, duration_text, percent_text, table

__all__ = ["framed", "overview", "show"]

_LEAST, _MOST = 100, 10_000
_ELSEWHERE: Final = (
    "prof.show() puts the report below a cell of a notebook, and this is none: prof.save('report.html') "
    "writes it to a file for a browser, and print(prof.findings().to_string()) prints the findings here"
)
MOST_SPANS: Final = 3_000_000
"""Of more, a cell would take seconds to say what is found in them."""
_KERNELS, _DETAILED, _FINDINGS, _LINES, _LETTERS = 5, 3, 3, 5, 80


def overview(tables: Tables, described: str) -> Markup:
    """The verdict, kernels, and of the longest findings and the lines that take most.

    described: what the profile holds.
    """
    parts = () if len(tables.df) > MOST_SPANS else ("findings", "lines")
    model = profile_model(tables, parts=parts, detailed=_DETAILED)
    device = model.header.device.name
    on = f", {device}" if device and not model.emulated else ""
    shown: list[Child] = [tag("p", tag("b", "profscope"), " ", described, on)]
    if model.kernels:
        reasons = {entry.name: entry.reasons for entry in model.kernels}
        shown += [verdict_html(model.verdict.label, model.verdict.headline, reasons), _kernels(model)]
    for entry in model.kernels[:_DETAILED]:
        shown += [*_findings(entry), _lines(entry)]
    return tag("div", *shown, tag("p", "More: ", tag("code", "prof.findings(), prof.lines(), prof.show()")))


def _kernels(model: ProfileModel) -> Markup:
    rows = []
    for entry in model.kernels[:_KERNELS]:
        median = "" if entry.time is None else duration_text(entry.time.median, model.unit)
        share = "" if entry.share is None else percent_text(entry.share)
        rows.append(_row(share, clipped(entry.name, _LETTERS), count_text(entry.launches), median))
    left = len(model.kernels) - len(rows)
    rows += [_row("", f"and {left} more", "", "")] if left > 0 else []
    return table(("share of time", "kernel", "launches", "median launch"), rows)


def _findings(entry: KernelEntry) -> Iterator[Markup]:
    """Those that save most, each with its gain, line and evidence; if there are none, what is known."""
    if entry.clean:
        yield tag("p", entry.clean)
    items = []
    for own in entry.findings[:_FINDINGS]:
        known = qualified_text(own.gain, own.program_pct, own.confidence, own.basis)
        head = tag("b", gain_text(own.gain.expected), " ", own.finding)
        items.append(
            tag("li", head, f" at {_place(own)} ({known}). {own.evidence}. ", tag("i", "Try: "), own.advice)
        )
    if items:
        left = len(entry.findings) - len(items)
        more = f", and {left} more" if left > 0 else ""
        yield tag("p", f"{FINDINGS_TITLE}{more}:")
        yield tag("ul", *items)


def _lines(entry: KernelEntry) -> Markup | None:
    """The lines of a kernel that take most time, by what ranks them."""
    known = [] if entry.lines is None else [row for row in entry.lines.rows[:_LINES] if row.share]
    if entry.lines is None or not known:
        return None
    by = "of samples" if entry.lines.witness == SAMPLES else "of time, by spans"
    rows = [_row(percent_text(row.share or 0), _place(row), clipped(row.source, _LETTERS)) for row in known]
    return table((by, "line", clipped(entry.name, _LETTERS)), rows)


def _row(*cells: str) -> Markup:
    return tag("tr", *(tag("td", cell) for cell in cells))


def _place(row: FindingEntry | LineEntry) -> str:
    return clipped(source_text(row.file, row.line), _LETTERS // 2)


def show(tables: Tables, height: int) -> None:
    """See `Profile.show`."""
    if isinstance(height, bool) or not isinstance(height, int) or not _LEAST <= height <= _MOST:
        raise DrawError(f"prof.show(): height={height!r} is a number of pixels, {_LEAST} to {_MOST:,}")
    # IPython itself is never imported to see whether a front end that shows HTML drives this process.
    ipython: Any = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if getattr(shell, "kernel", None) is None:
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
