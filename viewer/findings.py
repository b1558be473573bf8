"""The findings: what holds the kernels back, what mending it can bring, and what to try."""

from collections.abc import Iterator, Sequence

from rich.text import Text

from profscope.analysis.cause import between_text
from profscope.analysis.findings import OF_THE_EMULATOR
from profscope.analysis.model.entries import KernelFinding
from viewer.cells import words, wrap
from viewer.units import count_text, printable, source_text

__all__ = ["render_findings"]

MOST_FINDINGS = 5
"""Kinds of findings shown as text: those that can bring most."""

TITLE = "What holds the kernels back, and how much of their time it costs"

MOST_PLACES = 3
"""Of each, the places that are shown."""


def render_findings(
    rows: Sequence[KernelFinding],
    width: int,
    most: int = MOST_FINDINGS,
    title: str = TITLE,
) -> list[Text]:
    """What holds the kernels back, `most` of it (0: all): its gain at most, where, the evidence, and what to
    try; what several kernels have in common once."""
    lines = [Text(line, style="bold") for line in wrap(title.split(), width)]
    alike: dict[tuple[str, str], list[KernelFinding]] = {}
    for row in rows:
        alike.setdefault((row.own.finding, row.own.advice), []).append(row)
    groups = list(alike.values())
    for own in groups[: most or None]:
        lines += _group(own, width, MOST_PLACES if most else 0)
    if most and len(groups) > most:
        left = sum(map(len, groups[most:]))
        lines.append(
            Text(f"{count_text(left, 'more finding')}; --show findings --top 0 has them", style="dim")
        )
    return lines


def _group(rows: list[KernelFinding], width: int, most: int) -> Iterator[Text]:
    """Findings of one kind with one advice: a heading with what the first saves, and below it each place."""
    first = rows[0]
    heading = [first.own.finding, *(_place(first) if len(rows) == 1 else [f"in {len(rows)} places"])]
    known = [text for text in (_between(first), f"confidence: {_confidence(rows)}") if text]
    for at, text in enumerate(wrap([*heading, f"({', '.join(known)})"], width - 6)):
        yield Text(f"{_saved(first)}  {text}" if not at else f"      {text}", style="bold")
    told = ""
    for row in rows[: most or None]:
        evidence = row.own.evidence.removesuffix(OF_THE_EMULATOR)  # the first line says that
        said = words("as above" if evidence == told else evidence)
        if len(rows) == 1:
            yield from (Text(f"      {line}") for line in wrap(said, width - 6))
        else:
            *place, kernel = _place(row)
            for at, line in enumerate(wrap([*place, f"{kernel}:", *said], width - 12)):
                yield Text(f"{'' if at else f'{_saved(row):>9}':9}   {line}")
        told = evidence
    if most and len(rows) > most:
        yield Text(f"            {len(rows) - most} more; --show findings --top 0 has them", style="dim")
    for line in wrap(words(f"Try: {first.own.advice}."), width - 6):
        yield Text(f"      {line}")


def _place(row: KernelFinding) -> list[str]:
    """Where it is: the line, and the kernel."""
    return [part for part in (source_text(row.own.file, row.own.line), printable(row.kernel.name)) if part]


def _between(row: KernelFinding) -> str:
    """At least and at most what it saves of the same time as `_saved` does."""
    own = row.own
    part = own.program_pct / own.gain_pct if own.program_pct is not None and own.gain_pct else 1.0
    return between_text(part * own.gain.low, part * own.gain.high) if own.gain_pct else ""


def _saved(row: KernelFinding) -> str:
    """What it saves of the program's time, of the kernel's if the former is not known; "?" if neither is."""
    pct = row.own.gain_pct if row.own.program_pct is None else row.own.program_pct
    if pct is None:
        return "  ? "
    return f"{pct:3.0f}%" if pct == 0 or pct >= 1 else f"{pct:3.1f}%"


def _confidence(rows: list[KernelFinding]) -> str:
    return ", ".join(dict.fromkeys(row.own.confidence for row in rows))
