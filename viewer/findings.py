"""The findings: what holds the kernels back, what mending it can bring, and what to try."""

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from rich.text import Text

from profscope.analysis.cause import between_text
from profscope.analysis.findings import OF_THE_EMULATOR, findings_with
from profscope.analysis.summing import SummedSpans
from profscope.profiles import Profile
from viewer.cells import words, wrap
from viewer.select import Selection
from viewer.units import count_text, printable, source_text

__all__ = ["FindingRow", "make_findings", "render_findings"]

MOST_FINDINGS = 5
"""Kinds of findings shown as text: those that can bring most."""

TITLE = "What holds the kernels back, and how much of their time it costs"

MOST_PLACES = 3
"""Of each, the places that are shown."""


@dataclass(frozen=True)
class FindingRow:
    """A row of `Profile.findings()`."""

    kernel: str
    variant: int
    finding: str
    file: str
    line: int
    evidence: str
    evidence_values: dict[str, dict[str, Any]]
    advice: str
    gain_pct: float
    gain_low_pct: float
    gain_high_pct: float
    program_pct: float
    confidence: str


def make_findings(
    profile: Profile, selection: Selection, spans: SummedSpans | None = None
) -> list[FindingRow]:
    """All of them, in the order of `Profile.findings()`; none where parts of launches were
    chosen, which say nothing of the whole. spans: what the summary adds up, where that is known."""
    if selection.inside:
        return []
    rows: list[dict[str, Any]] = findings_with(profile.tables, spans).to_dict("records")  # type: ignore[assignment]
    return [FindingRow(**row) for row in rows]


def render_findings(
    rows: list[FindingRow],
    several: Collection[str],
    width: int,
    most: int = MOST_FINDINGS,
    title: str = TITLE,
) -> list[Text]:
    """What holds the kernels back, `most` of it (0: all): its gain at most, where, the evidence, and what to
    try; what several kernels have in common once. several: kernels with more than one variant."""
    lines = [Text(line, style="bold") for line in wrap(title.split(), width)]
    alike: dict[tuple[str, str], list[FindingRow]] = {}
    for row in rows:
        alike.setdefault((row.finding, row.advice), []).append(row)
    groups = list(alike.values())
    for own in groups[: most or None]:
        lines += _group(own, several, width, MOST_PLACES if most else 0)
    if most and len(groups) > most:
        left = sum(map(len, groups[most:]))
        lines.append(
            Text(f"{count_text(left, 'more finding')}; --show findings --top 0 has them", style="dim")
        )
    return lines


def _group(rows: list[FindingRow], several: Collection[str], width: int, most: int) -> Iterator[Text]:
    """Findings of one kind with one advice: a heading with what the first saves, and below it each place."""
    first = rows[0]
    heading = [first.finding, *(_place(first, several) if len(rows) == 1 else [f"in {len(rows)} places"])]
    known = [text for text in (_between(first), f"confidence: {_confidence(rows)}") if text]
    for at, text in enumerate(wrap([*heading, f"({', '.join(known)})"], width - 6)):
        yield Text(f"{_saved(first)}  {text}" if not at else f"      {text}", style="bold")
    told = ""
    for row in rows[: most or None]:
        evidence = row.evidence.removesuffix(OF_THE_EMULATOR)  # the first line says that
        said = words("as above" if evidence == told else evidence)
        if len(rows) == 1:
            yield from (Text(f"      {line}") for line in wrap(said, width - 6))
        else:
            *place, kernel = _place(row, several)
            for at, line in enumerate(wrap([*place, f"{kernel}:", *said], width - 12)):
                yield Text(f"{'' if at else f'{_saved(row):>9}':9}   {line}")
        told = evidence
    if most and len(rows) > most:
        yield Text(f"            {len(rows) - most} more; --show findings --top 0 has them", style="dim")
    for line in wrap(words(f"Try: {first.advice}."), width - 6):
        yield Text(f"      {line}")


def _place(row: FindingRow, several: Collection[str]) -> list[str]:
    """Where it is: the line, and the kernel with its variant where there are several."""
    kernel = printable(row.kernel) + (f" #{row.variant}" if row.kernel in several else "")
    return [part for part in (source_text(row.file, row.line), kernel) if part]


def _between(row: FindingRow) -> str:
    """At least and at most what it saves of the same time as `_saved` does."""
    part = 1.0 if math.isnan(row.program_pct) or not row.gain_pct else row.program_pct / row.gain_pct
    return between_text(part * row.gain_low_pct, part * row.gain_high_pct) if row.gain_pct else ""


def _saved(row: FindingRow) -> str:
    """What it saves of the program's time, of the kernel's if the former is not known; "?" if neither is."""
    pct = row.gain_pct if math.isnan(row.program_pct) else row.program_pct
    if math.isnan(pct):
        return "  ? "
    return f"{pct:3.0f}%" if pct == 0 or pct >= 1 else f"{pct:3.1f}%"


def _confidence(rows: list[FindingRow]) -> str:
    return ", ".join(dict.fromkeys(row.confidence for row in rows))
