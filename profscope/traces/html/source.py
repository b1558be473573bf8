"""The source with its time in the margin: plain text, and behind each line its evidence.

A line unfolds to its scopes, what it waits for, and its instructions.
"""

from __future__ import annotations

import keyword
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from profscope.analysis.cause import gain_text
from profscope.analysis.model.entries import KernelEntry
from profscope.analysis.model.lines import NO_SAMPLES, SAMPLES, SPANS
from profscope.analysis.source_code.annotated import Annotated, Line
from profscope.analysis.texts import NO_TIME, Child, Markup, joined, source_text, tag
from profscope.traces.html.figures import count_text, duration_text, percent_text, table

__all__ = ["coloured", "source_of"]

_WORD: Final = re.compile(
    r"(?P<comment>#.*)|(?P<string>\"\"\".*?(?:\"\"\"|$)|\"[^\"]*\"|'[^']*')"
    r"|(?P<word>\b(?:" + "|".join(keyword.kwlist) + r")\b)|(?P<call>\btl\.\w+|\bgl\.\w+)"
)
_WITNESSES: Final = {
    SAMPLES: "share of the PC samples of the bare kernel",
    SPANS: "share of the warps' time: self time of this line, by spans",
}
_HOT: Final = 0.10
_MOST_HOT: Final = 6
_WORTH_A_BUTTON: Final = 0.02
_WORTH_A_ROW: Final = 0.0005  # of what has no source line
_MOST_CODE: Final = 12
_SCOPES: Final = ("scope", "count", "total", "self", "stages")
_CODE: Final = ("SASS at", "instruction", "samples", "stalls")


def source_of(source: Annotated | None, entry: KernelEntry) -> Markup:
    """The functions of a kernel, that itself first; then lines without a known text. source: None if
    nothing is known of its lines."""
    blocks: list[Child] = [tag("h2", "Source")]
    known = [] if source is None else [each for block in source.blocks for each in block.lines if _told(each)]
    if source is None or not known:
        blocks.append(tag("p", "Nothing is known of the lines of this kernel.", class_="none"))
        return joined(blocks)
    witnesses = [name for name in _WITNESSES if any(line.shares[name] is not None for line in known)]
    about = (
        f"Percent of the kernel's time by {' and by '.join(witnesses)}. "
        "Open a line for what it does, waits for and costs."
    )
    blocks.append(tag("p", about if witnesses else "No time was kept by line.", class_="lead"))
    missing = () if entry.lines is None else entry.lines.not_measured
    told = [text for text in missing if not text.startswith(NO_SAMPLES)]  # which stands below, once
    blocks += [tag("p", f"{text[:1].upper()}{text[1:]}.", class_="lead") for text in told]
    blocks.append(_hottest(known))
    notes = _findings_by_line(entry)
    style = f"source w{len(witnesses)}"
    for block in source.blocks:
        if block.function:
            head = _head(f"{block.function}, {source_text(block.file, block.lines[0].line)}", witnesses)
            rows = [_line(line, notes, witnesses, source.unit) for line in block.lines]
            blocks.append(tag("div", head, *rows, class_=style))
    homeless = [line for block in source.blocks if not block.function for line in block.lines]
    homeless = [line for line in homeless if line.line or (line.share or 0.0) >= _WORTH_A_ROW]
    if homeless:
        has_texts = any(block.function for block in source.blocks)
        title = "Elsewhere: places without source text"
        head = _head(title if has_texts else "The profile has no source texts: places only", witnesses)
        rows = [_line(line, notes, witnesses, source.unit, is_homeless=True) for line in homeless]
        blocks.append(tag("div", head, *rows, class_=style))
    if any(line.self_mean == 0 for line in known):
        blocks.append(tag("p", NO_TIME, class_="dim"))
    return joined(blocks)


def _told(line: Line) -> bool:
    """Whether anything is known of a line."""
    return bool(line.share is not None or line.scopes or line.code or line.waits_for)


def _hottest(known: Sequence[Line]) -> Markup | None:
    """Buttons that lead to the lines with most time; those of the file that has most are called by number."""
    time_of: defaultdict[str, float] = defaultdict(float)
    for line in known:
        time_of[line.file] += line.share or 0.0
    main = max(time_of, key=time_of.__getitem__)
    top = sorted((line for line in known if line.line), key=lambda line: -(line.share or 0.0))[:_MOST_HOT]
    buttons = []
    for line in top:
        share, place = line.share or 0.0, source_text(line.file, line.line)
        if share >= _WORTH_A_BUTTON:
            text = f"{f'line {line.line}' if line.file == main else place}: {100 * share:.0f} %"
            place_of = {"data_file": line.file, "data_line": line.line}
            buttons.append(tag("button", text, type="button", class_="go-line", **place_of))  # type: ignore[arg-type]
    return tag("p", "Most time: ", *buttons, class_="hottest") if len(buttons) > 1 else None


def _head(title: str, witnesses: Sequence[str]) -> Markup:
    """Titles of the columns, that of the code among them."""
    counted = "spans of the scope with most self time at the line, in all launches"
    alone = "self time of one of these spans: it less the spans in it"
    return tag(
        "div",
        *(tag("span", f"{name} %", class_="of", title=_WITNESSES[name]) for name in witnesses),
        tag("span", ""),
        tag("span", title, class_="file"),
        tag("span", "count", class_="n", title=counted),
        tag("span", "self", class_="n", title=alone),
        tag("span", "waits for"),
        class_="line head",
    )


def _findings_by_line(entry: KernelEntry) -> dict[str, list[str]]:
    """By place, file names without folders: those of a binary may be of another copy of the program."""
    notes = defaultdict(list)
    for own in entry.findings:
        notes[source_text(own.file, own.line)].append(f"{own.finding} {gain_text(own.gain.expected)}")
    return notes


def _line(
    line: Line,
    notes: dict[str, list[str]],
    witnesses: Sequence[str],
    unit: str,
    *,
    is_homeless: bool = False,
) -> Markup:
    """is_homeless: its place stands where its text would."""
    where = source_text(line.file, line.line)
    chips = [tag("mark", note) for note in notes.get(where, ())]
    shown = [tag("em", where or "no source line")] if is_homeless else coloured(line.text)
    code = tag("code", *shown, *([" "] if chips else []), *chips)
    shares = [_share(line.shares[name]) for name in witnesses]
    place = tag("span", str(line.line or ""), class_="no")
    identity = {"data_file": line.file, "data_line": line.line}
    if not _told(line):
        empty = [tag("span", "")] * 3
        return tag("div", *shares, place, code, *empty, class_="line bare", **identity)  # type: ignore[arg-type]
    count = "" if line.count is None else count_text(line.count)
    each = "" if line.self_mean is None else duration_text(line.self_mean, unit)
    cells = [tag("span", text, class_="n") for text in (count, each)]
    waits = tag("span", line.waits_for or "; ".join(line.flights), class_="wait")
    summary = tag("summary", *shares, place, code, *cells, waits, class_="line")
    classes = "row hot" if (line.share or 0.0) >= _HOT else "row"
    return tag("details", summary, _details(line, unit), class_=classes, **identity)  # type: ignore[arg-type]


def _share(share: float | None) -> Markup:
    if not share:
        return tag("span", "", class_="share")
    if share < _WORTH_A_ROW:
        return tag("span", "<0.1", class_="share dim")
    return tag("span", tag("i", style=f"--share:{100 * share:.2f}%"), f"{100 * share:.1f}", class_="share")


def coloured(text: str) -> Iterator[Child]:
    """A line of Python with its words marked up."""
    at = 0
    for match in _WORD.finditer(text):
        yield text[at : match.start()]
        yield tag("span", match[0], class_=f"t-{match.lastgroup}")
        at = match.end()
    yield text[at:] or " "


def _details(line: Line, unit: str) -> Markup:
    """All that is known of a line, in a block."""
    rows = [
        (
            each.scope,
            count_text(each.count),
            duration_text(each.total, unit),
            duration_text(each.each, unit),
            each.stages,
        )
        for each in line.scopes
    ]
    parts = [_table(_SCOPES, rows), _waits(line), _instructions(line)]
    goes = tag("button", "Find it in the timeline", type="button", class_="go-search",
               data_file=line.file, data_line=line.line)  # fmt: skip
    return tag("div", *parts, goes if line.scopes else None, class_="more")


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup | None:
    if not rows:
        return None
    return table(heads, (tag("tr", *(tag("td", cell) for cell in row)) for row in rows))


def _waits(line: Line) -> Markup | None:
    texts = [f"waits for {line.waits_for}"] * bool(line.waits_for)
    texts += [f"stalls: {line.stalls}"] * bool(line.stalls)
    texts += [f"waited for {flight}" for flight in line.flights]
    texts += [
        f"{percent_text(call.share or 0.0)} in {call.function or 'what is called'}, inlined here"
        for call in line.calls
    ]
    return tag("div", tag("h4", "Waits"), tag("ul", *(tag("li", text) for text in texts))) if texts else None


def _instructions(line: Line) -> Markup | None:
    """The instructions of the line at which the sampler found warps, most often first."""
    found = sorted((each for each in line.code if each.samples), key=lambda each: -each.samples)
    rows = [
        (f"0x{each.number:04x}", " ".join(each.text.split()), count_text(each.samples), each.stalls)
        for each in found[:_MOST_CODE]
    ]
    if not rows:
        return None
    left = tag("p", f"{len(found) - len(rows)} more", class_="dim") if len(found) > len(rows) else None
    return tag("div", tag("h4", "Instructions"), _table(_CODE, rows), left)
