"""Two profiles side by side, their sources aligned line by line: a page of its own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import groupby, zip_longest
from typing import Any, Final

import pandas as pd

from profscope.analysis.comparing.differences import program_text
from profscope.analysis.comparing.pairs import COMPARED, heading_text
from profscope.analysis.texts import Child, Markup, joined, source_text, tag
from profscope.analysis.trust_rules import DISTRUST
from profscope.traces.html.document import json_block, page_of
from profscope.traces.html.figures import duration_text
from profscope.traces.html.source import coloured

__all__ = ["comparison_page", "side_by_side"]

_LAUNCH: Final = "launch"
_CHANGE: Final = "of self time of a launch, all warps together; what is more than noise"
_BESIDE: Final = (
    "Beside a line stands what it takes more or less in a launch, added up over all warps, where that is "
    "more than noise. So it may be many times what the launch as a whole gained or lost."
)
_AROUND: Final = 4  # lines that stay open before and behind a changed one
_CHANGED: Final = (
    "recording has changed what its launches take, and with that perhaps the difference. Times of bare "
    "launches (session(baseline=)) tell."
)
_FEW: Final = 3  # unchanged ones that are not worth a fold


def comparison_page(
    table: pd.DataFrame,
    names: tuple[str, str],
    sources: tuple[list[dict[str, Any]], list[dict[str, Any]]],
    says: Sequence[tuple[str, str, str]],
    distrusted: Sequence[str] = (),
) -> str:
    """The whole file. table: what `profscope.diff` returns; sources: `metadata["sources"]` of either side;
    says: what became of each kernel, in a line, the table of its rows as text, and what differs in its code;
    distrusted: the sides, "A"
    and "B", whose verdict forbids trust."""
    unit = str(table.attrs["unit"])
    sections: list[Child] = [
        tag("h1", "What has changed"),
        tag("p", tag("b", "A"), f" {names[0]} · ", tag("b", "B"), f" {names[1]}", class_="lead"),
        tag(
            "p",
            f"Time of all recorded launches: {program_text(table.attrs['program'], unit)}.",
            class_="lead",
        ),
    ]
    if distrusted:
        told = f'The verdict of {" and of ".join(distrusted)} is "{DISTRUST}": {_CHANGED}'
        sections.append(tag("p", told, class_="verdict bad"))
    groups = table.groupby(list(COMPARED), sort=False, dropna=False)
    for said_of, (_, rows) in zip(says, groups, strict=True):
        sections.append(tag("section", _kernel(rows, unit, sources, said_of, is_doubtful=bool(distrusted))))
    said = [*table.attrs["notes"], *table.attrs["not_measured"]]
    notes = tag("ul", *(tag("li", text) for text in dict.fromkeys(said)), class_="notes")
    sections.append(tag("section", tag("h2", "Notes"), notes, id="notes"))
    links = (("findings", "Changes"), ("notes", "Notes"))
    facts = json_block("facts", {})
    emulated = bool(table.attrs["emulated"])
    return page_of("What has changed · profscope", links, sections, facts, "", emulated=emulated)


def _kernel(
    rows: pd.DataFrame,
    unit: str,
    sources: tuple[list[dict[str, Any]], list[dict[str, Any]]],
    says: tuple[str, str, str],
    *,
    is_doubtful: bool,
) -> Markup:
    records: list[dict[str, Any]] = rows.to_dict("records")  # type: ignore[assignment]
    launch = [row for row in records if row["kind"] == _LAUNCH]
    others = [row for row in records if row["kind"] != _LAUNCH]
    first = records[0]
    parts: list[Child] = [tag("h2", heading_text(first["kernel"], first["configuration"], first["differs"]))]
    parts += [tag("p", f"{says[0]}.", class_=f"verdict {_tone(row, is_doubtful)}") for row in launch]
    beside = [_side_by_side(others, unit, pair) for pair in _functions(records[0]["kernel"], others, sources)]
    parts += [tag("p", _BESIDE, class_="lead")] if beside else []
    summary = tag("summary", "All rows, of a launch, all its warps together")
    table = tag("div", tag("pre", says[1]), class_="wide")
    rows_of = tag("details", summary, table, class_="quiet", open=not beside)
    parts += [*beside, rows_of]
    if says[2]:
        code = tag("div", tag("pre", says[2]), class_="wide")
        parts.append(
            tag("details", tag("summary", "What differs in the compiled code"), code, class_="quiet")
        )
    return joined(parts)


def _tone(row: dict[str, Any], is_doubtful: bool) -> str:
    if row["status"] != "changed" or is_doubtful:
        return "plain"
    return "bad" if row["change"] > 0 else "good"


def _functions(
    kernel: str, rows: list[dict[str, Any]], sources: tuple[list[dict[str, Any]], list[dict[str, Any]]]
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The texts of one name on both sides in which something took time, the kernel's own first."""
    sides = [{str(each["name"]): each for each in texts} for texts in sources]
    both = [name for name in sides[0] if name in sides[1]]
    for name in sorted(both, key=lambda each: each.rsplit(".", 1)[-1] != kernel):
        pair = sides[0][name], sides[1][name]
        if any(_is_in(row, pair) for row in rows):
            yield pair


def _is_in(row: dict[str, Any], pair: tuple[dict[str, Any], dict[str, Any]]) -> bool:
    """Whether a row's line stands in a text; files go by their names without folders."""
    source, line = (pair[1], row["line_b"]) if row["line_b"] else (pair[0], row["line_a"])
    here = range(int(source["line"]), int(source["line"]) + len(str(source["text"]).splitlines()))
    return int(line) in here and source_text(str(row["file"]), 0) == source_text(str(source["file"]), 0)


def _side_by_side(
    rows: list[dict[str, Any]], unit: str, pair: tuple[dict[str, Any], dict[str, Any]]
) -> Markup:
    texts = [str(source["text"]).splitlines() for source in pair]
    first = [int(source["line"]) for source in pair]
    changes: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:  # asynchronous work takes no time of a warp
        if row["kind"] != "async" and _is_in(row, pair):
            changes["b" if row["line_b"] else "a", int(row["line_b"] or row["line_a"])].append(row)
    heads = (
        tag("span", f"{name}, {source_text(str(s['file']), int(s['line']))}", class_="file")
        for name, s in zip("AB", pair, strict=True)
    )
    blank = tag("span", "")
    head = tag(
        "div",
        tag("span", "change" if unit == "ns" else "cycles", class_="n", title=_CHANGE),
        *(part for each in heads for part in (blank, each)),
        class_="line head",
    )
    lines: list[tuple[bool, Markup]] = []
    for a, b in side_by_side(texts[0], texts[1]):
        own = [] if b is None else changes.pop(("b", first[1] + b), [])
        own += [] if a is None else changes.pop(("a", first[0] + a), [])
        cells = [_change(own, unit)]
        for at, text, begin in ((a, texts[0], first[0]), (b, texts[1], first[1])):
            cells.append(tag("span", "" if at is None else str(begin + at), class_="no"))
            cells.append(tag("code", *(() if at is None else coloured(text[at]))))
        edited = a is None or b is None or texts[0][a].strip() != texts[1][b].strip()
        line = tag("div", *cells, class_="line edited" if edited else "line")
        lines.append((edited or any(row["significant"] for row in own), line))
    return tag("div", head, *_folded(lines), class_="source pair")


def _folded(lines: Sequence[tuple[bool, Markup]]) -> Iterator[Markup]:
    """The lines in order; those far from any that has changed are folded, so that a change is seen at once.

    lines: each with whether it has changed. Where none has, all stand open.
    """
    changed = [at for at, (is_changed, _) in enumerate(lines) if is_changed]
    near = {at for each in changed for at in range(each - _AROUND, each + _AROUND + 1)} or {
        *range(len(lines))
    }
    for is_near, group in groupby(enumerate(lines), key=lambda each: each[0] in near):
        own = [line for _, (_, line) in group]
        if is_near or len(own) <= _FEW:
            yield from own
        else:
            summary = tag("summary", f"{len(own)} lines without a change", class_="line fold")
            yield tag("details", summary, *own)


def side_by_side(before: Sequence[str], after: Sequence[str]) -> Iterator[tuple[int | None, int | None]]:
    """Lines beside each other, in the order of both; None where the other side has none."""
    for _, a, a_end, b, b_end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        yield from zip_longest(range(a, a_end), range(b, b_end))


def _change(rows: list[dict[str, Any]], unit: str) -> Markup:
    """The change of a line's time, of what is more than noise."""
    real = [row for row in rows if row["significant"]]
    if not rows:
        return tag("span", "", class_="n")
    if not real:
        return tag("span", "noise", class_="n dim")
    change = sum(float(row["change"]) for row in real)
    text = _signed(change, unit).removesuffix("cycles").rstrip()
    return tag("span", text, class_=f"n {'slower' if change > 0 else 'faster'}")


def _signed(value: float, unit: str) -> str:
    return ("+" if value > 0 else "") + duration_text(value, unit)
