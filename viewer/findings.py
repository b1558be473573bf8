"""The findings: what holds the kernels back, what mending it can bring, and what to try."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from profscope.analysis.findings import OF_THE_EMULATOR
from profscope.profiles import Profile
from viewer.cells import wrap
from viewer.select import Selection
from viewer.units import printable, source_text

__all__ = ["FindingRow", "make_findings", "render_findings"]

MOST_FINDINGS = 5
"""Findings shown as text: those that can bring most."""

_OF_WHOLE_CTAS = ("cta", "sm", "warp")


@dataclass(frozen=True)
class FindingRow:
    """A row of `Profile.findings()`."""

    kernel: str
    variant: int
    finding: str
    file: str
    line: int
    evidence: str
    advice: str
    gain_pct: float
    confidence: str


def make_findings(profile: Profile, selection: Selection) -> list[FindingRow]:
    """All of them, the largest gain first; none where parts of launches were chosen, which say nothing of the
    whole."""
    if any(name in selection.chosen for name in _OF_WHOLE_CTAS):
        return []
    rows: list[dict[str, Any]] = profile.findings().to_dict("records")  # type: ignore[assignment]
    return [FindingRow(**row) for row in rows]


def render_findings(rows: list[FindingRow], several: Collection[str], width: int) -> list[Text]:
    """A line for each with its gain at most, then its evidence and what to try, where that was not told
    above. several: kernels with more than one variant."""
    title = "What holds the kernels back, and the time that mending it saves at most"
    lines = [Text(line, style="bold") for line in wrap(title.split(), width)]
    told: set[str] = set()
    for row in rows[:MOST_FINDINGS]:
        place = source_text(row.file, row.line)
        kernel = printable(row.kernel) + (f" #{row.variant}" if row.kernel in several else "")
        heading = [part for part in (row.finding, place, kernel, f"(confidence: {row.confidence})") if part]
        for at, text in enumerate(wrap(heading, width - 6)):
            lines.append(Text(f"{row.gain_pct:3.0f}%  {text}" if not at else f"      {text}", style="bold"))
        evidence = row.evidence.removesuffix(OF_THE_EMULATOR)  # the first line says that
        advice = [] if row.advice in told else [f"Try: {row.advice}."]
        told.add(row.advice)
        for text in (evidence, *advice):
            lines += [Text(f"      {line}") for line in wrap(printable(text).split(), width - 6)]
    if len(rows) > MOST_FINDINGS:
        left = len(rows) - MOST_FINDINGS
        more = f"{left} more {'finding' if left == 1 else 'findings'}; --json has them"
        lines.append(Text(more, style="dim"))
    return lines
