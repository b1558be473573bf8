"""What each line of a kernel costs, by experiments: a table."""

from __future__ import annotations

from typing import Final

from profscope.analysis.experiments import EXPERIMENTS_TITLE, TEXT_ROWS
from profscope.analysis.model.entries import ExperimentEntry, KernelEntry
from profscope.analysis.texts import Markup, count_text, joined, source_text, tag
from profscope.traces.html.figures import table

__all__ = ["experiments_of"]

_HEADS: Final = ("saved (95 % interval)", "experiment", "op", "line", "")


def experiments_of(entry: KernelEntry) -> Markup | None:
    """The parts that saved most; None without experiments."""
    timed = [each for each in entry.experiments if each.saved_pct is not None]
    if not timed:
        return None
    left = len(entry.experiments) - TEXT_ROWS
    more = f"{count_text(left, 'more row')} in prof.experiments." if left > 0 else None
    return joined(
        [
            tag("h2", "What each line costs"),
            tag("p", f"Bare time {EXPERIMENTS_TITLE}.", class_="lead"),
            table(_HEADS, map(_row, timed[:TEXT_ROWS])),
            tag("p", more, class_="dim") if more else None,
        ]
    )


def _row(own: ExperimentEntry) -> Markup:
    saved = f"{own.saved_pct:.1f} %"
    if own.low_pct != own.high_pct:  # cycles are the same each time
        saved += f" ({own.low_pct:.1f} to {own.high_pct:.1f})"
    cells = (
        tag("td", saved, class_="n"),
        tag("td", own.experiment),
        tag("td", own.op),
        tag("td", source_text(own.file, own.line)),
        tag("td", own.why_not, class_="dim"),
    )
    return tag("tr", *cells)
