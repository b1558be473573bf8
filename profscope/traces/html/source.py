"""The source with its time in the margin: plain text, and behind each line what is known of it.

A line unfolds to its scopes, what they wait for, its stalls, and its instructions.
"""

from __future__ import annotations

import keyword
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pandas as pd

from profscope.analysis.cause import gain_text
from profscope.analysis.line_rows import GAP
from profscope.analysis.model.lines import NO_SAMPLES
from profscope.analysis.sources import file_with_source
from profscope.analysis.texts import NO_TIME, Child, Markup, joined, source_text, tag
from profscope.schema import Tables
from profscope.traces.html.figures import count_text, duration_text, percent_text
from profscope.traces.html.kernels import Kernel
from profscope.traces.html.sites import Pairing, Sites

__all__ = ["coloured", "source_of"]

_WORD: Final = re.compile(
    r"(?P<comment>#.*)|(?P<string>\"\"\".*?(?:\"\"\"|$)|\"[^\"]*\"|'[^']*')"
    r"|(?P<word>\b(?:" + "|".join(keyword.kwlist) + r")\b)|(?P<call>\btl\.\w+|\bgl\.\w+)"
)
_WITNESSES: Final = (
    ("share_samples", "samples", "of the hardware's samples of the bare kernel stand here"),
    ("self_share", "spans", "of the warps' time is self time of this line, by spans"),
)
_HOT: Final = 0.10
_MOST_HOT: Final = 6
_WORTH_A_BUTTON: Final = 0.02
_WORTH_A_ROW: Final = 0.0005  # of what has no source line


@dataclass
class _Function:
    """A text of the profile, and the lines of it that are known."""

    name: str
    file: str
    first: int
    lines: list[str]
    known: dict[int, LineFigures] = field(default_factory=dict)


def source_of(kernel: Kernel, tables: Tables, sites: Sites, unit: str) -> Markup:
    """The functions of a kernel, that itself first; then lines whose text nobody knows."""
    witnesses = [each for each in _WITNESSES if len(kernel.lines) and kernel.lines[each[0]].notna().any()]
    figures = figures_of(kernel, sites, [each[0] for each in witnesses])
    functions, homeless = _functions(kernel, tables, figures)
    notes = _findings_by_line(kernel)
    blocks: list[Child] = [tag("h2", "Source")]
    if not figures:
        blocks.append(tag("p", "Nothing is known of the lines of this kernel.", class_="none"))
        return joined(blocks)
    names = " and by ".join(name for _, name, _ in witnesses)
    about = f"Percent of the kernel's time by {names}. Open a line for what it does, waits for and costs."
    blocks.append(tag("p", about if witnesses else "No time was kept by line.", class_="lead"))
    missing = () if kernel.entry.lines is None else kernel.entry.lines.not_measured
    told = [text for text in missing if not text.startswith(NO_SAMPLES)]  # which stands below, once
    blocks += [tag("p", f"{text[:1].upper()}{text[1:]}.", class_="lead") for text in told]
    blocks.append(_hottest(figures))
    for function in functions:
        head = _head(f"{function.name}, {source_text(function.file, function.first)}", witnesses)
        rows = [
            _line(kernel, function.file, number, text, function.known.get(number), notes, witnesses, unit)
            for number, text in enumerate(function.lines, function.first)
        ]
        blocks.append(tag("div", head, *rows, class_=f"source w{min(2, len(witnesses))}"))
    if homeless:
        rows = [
            _line(kernel, own.file, own.line, None, own, notes, witnesses, unit)
            for own in homeless
            if own.line or own.share >= _WORTH_A_ROW
        ]
        title = (
            "Elsewhere: places without source text"
            if functions
            else "The profile has no source texts: places only"
        )
        block = tag("div", _head(title, witnesses), *rows, class_=f"source w{min(2, len(witnesses))}")
        blocks.append(block if rows else None)
    if any(own.has_no_time(unit) for own in figures):
        blocks.append(tag("p", NO_TIME, class_="dim"))
    return joined(blocks)


def _hottest(figures: list[LineFigures]) -> Markup | None:
    """Buttons that lead to the lines with most time; those of the file that has most are called by number."""
    time_of: defaultdict[str, float] = defaultdict(float)
    for own in figures:
        time_of[own.file] += own.share
    main = max(time_of, key=time_of.__getitem__, default="")
    top = sorted((own for own in figures if own.line), key=lambda own: -own.share)[:_MOST_HOT]
    buttons = [
        tag("button", f"{_called(own, main)}: {100 * own.share:.0f} %", type="button", class_="go-line",
            data_file=own.file, data_line=own.line)
        for own in top
        if own.share >= _WORTH_A_BUTTON
    ]  # fmt: skip
    return tag("p", "Most time: ", *buttons, class_="hottest") if len(buttons) > 1 else None


def _called(own: LineFigures, main: str) -> str:
    return f"line {own.line}" if own.file == main else source_text(own.file, own.line)


def _functions(
    kernel: Kernel, tables: Tables, figures: Iterable[LineFigures]
) -> tuple[list[_Function], list[LineFigures]]:
    texts = [
        _Function(str(each["name"]), str(each["file"]), int(each["line"]), str(each["text"]).splitlines())
        for each in tables.metadata.get("sources") or []
    ]
    files = {function.file for function in texts}
    homeless = []
    for own in figures:
        file = file_with_source(own.file, files)
        around = [f for f in texts if f.file == file and f.first <= own.line < f.first + len(f.lines)]
        if around:  # the innermost: a function inside another is a text of its own
            min(around, key=lambda function: len(function.lines)).known[own.line] = own
        else:
            homeless.append(own)
    shown = [function for function in texts if function.known]
    shown.sort(key=lambda function: function.name.rsplit(".", 1)[-1] != kernel.kernel)
    return shown, homeless


def _head(title: str, witnesses: list[tuple[str, str, str]]) -> Markup:
    """Titles of the columns, that of the code among them."""
    shares = [
        tag("span", f"{name} %", class_="of", title=f"the part that {why}") for _, name, why in witnesses[:2]
    ]
    return tag(
        "div",
        *shares,
        tag("span", ""),
        tag("span", title, class_="file"),
        tag(
            "span",
            "count",
            class_="n",
            title="spans of the scope with most self time at the line, in all launches",
        ),
        tag("span", "self", class_="n", title="self time of one of these spans: it less the spans in it"),
        tag("span", "waits for"),
        class_="line head",
    )


def _findings_by_line(kernel: Kernel) -> dict[str, list[str]]:
    """By place, file names without folders: those of a binary may be of another copy of the program."""
    notes = defaultdict(list)
    for own in kernel.entry.findings:
        notes[source_text(own.file, own.line)].append(f"{own.finding} {gain_text(own.gain.expected)}")
    return notes


def _line(
    kernel: Kernel,
    file: str,
    number: int,
    text: str | None,
    own: LineFigures | None,
    notes: dict[str, list[str]],
    witnesses: list[tuple[str, str, str]],
    unit: str,
) -> Markup:
    chips = [tag("mark", note) for note in notes.get(source_text(file, number), ())]
    shown = coloured(text) if text is not None else [tag("em", source_text(file, number) or "no source line")]
    code = tag("code", *shown, *([" "] if chips else []), *chips)
    shares = [_share(own, name) for name, _, _ in witnesses[:2]]
    place = tag("span", str(number or ""), class_="no")
    identity = {"data_file": file, "data_line": number}
    if own is None:
        empty = [tag("span", ""), tag("span", ""), tag("span", "")]
        return tag("div", *shares, place, code, *empty, class_="line bare", **identity)  # type: ignore[arg-type]
    cells = [tag("span", each, class_="n") for each in own.count_and_self(unit)]
    summary = tag(
        "summary", *shares, place, code, *cells, tag("span", own.wait_text, class_="wait"), class_="line"
    )
    classes = "row hot" if own.share >= _HOT else "row"
    return tag("details", summary, details_of(kernel, own, unit), class_=classes, **identity)  # type: ignore[arg-type]


def _share(own: LineFigures | None, name: str) -> Markup:
    share = None if own is None else own.shares.get(name)
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


_MOST: Final = 12
_ISSUED: Final = "selected"
_SASS: Final = ("SASS at", "instruction", "samples", "stalls", "because of")
_PTX: Final = ("PTX number", *_SASS[1:])
_HEADS: Final = ("scope", "share", "count", "self", "mean", "p50", "p99", "longest", "stage", "called by")


def details_of(kernel: Kernel, own: LineFigures, unit: str) -> Markup:
    """All of it, in a block."""
    parts = [_scopes(own, unit), _waits(own, unit), _stalls(own), _instructions(kernel, own)]
    shown = [part for part in parts if part is not None]
    goes = tag("button", "Find it in the timeline", type="button", class_="go-search",
               data_file=own.file, data_line=own.line)  # fmt: skip
    return tag("div", *shown, goes if own.scopes else None, class_="more")


def _scopes(own: LineFigures, unit: str) -> Markup | None:
    if not own.scopes:
        return None
    rows = [tag("tr", *(tag("td", cell) for cell in _scope(each, unit))) for each in own.scopes]
    heads = (tag("th", head, scope="col") for head in _HEADS)
    return tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *rows))


def _scope(figures_of_scope: ScopeFigures, unit: str) -> list[str]:
    """Its share and count, the self time of a span, and what whole spans took."""
    row = figures_of_scope.row
    in_flight = row["kind"] == "async"
    each = None if in_flight else float(row[f"self_{unit}"] or 0) / max(1, int(row["count"]))
    figures = [each, *(row[f"{name}_{unit}"] for name in ("mean", "p50", "p99", "max"))]
    times = ["" if figure is None else duration_text(float(figure), unit) for figure in figures]
    share = "in flight" if in_flight else percent_text(float(row["share"] or 0))
    return [
        str(row["scope"]),
        share,
        count_text(int(row["count"])),
        *times,
        figures_of_scope.stages,
        str(row["call_path"]),
    ]


def _waits(own: LineFigures, unit: str) -> Markup | None:
    texts = []
    for each in own.scopes:
        for pairing, scope, line in each.pairings:
            in_flight = duration_text(pairing.in_flight, unit)
            waiting = duration_text(pairing.waiting, unit)
            if each.row["site"] == pairing.wait:
                texts.append(
                    f"{each.row['scope']} ends {scope}, line {line}: in flight {in_flight}, waits {waiting}"
                )
            else:
                ended = f"{each.row['scope']} is ended by {scope}, line {line}"
                texts.append(f"{ended}, after {in_flight}; that waits {waiting}")
    texts += [str(row["waits_for"]) for row in own.rows if row["waits_for"]]
    items = (tag("li", text) for text in dict.fromkeys(texts))
    return tag("div", tag("h4", "Waits"), tag("ul", *items)) if texts else None


def _stalls(own: LineFigures) -> Markup | None:
    counts: Counter[str] = Counter()
    for row in own.rows:
        for stall, count in row["stall_counts"] or []:
            counts[stall] += count
    total = sum(counts.values())
    if not total:
        return None
    bars = [
        tag("li", _bar(count / total), tag("span", percent_text(count / total)), f" {stall}")
        for stall, count in counts.most_common(_MOST)
        if stall != _ISSUED
    ]  # fmt: skip
    title = f"Why warps do not go on here ({count_text(total, 'sample')})"
    return tag("div", tag("h4", title), tag("ul", *bars, class_="bars")) if bars else None


def _bar(share: float) -> Markup:
    return tag("i", style=f"--share:{100 * share:.1f}%")


def _instructions(kernel: Kernel, own: LineFigures) -> Markup | None:
    """The instructions of the line at which the sampler found warps."""
    rows = kernel.sampled.get((own.file, own.line))
    if not rows:
        return None
    emulated = bool(kernel.launches["backend"].eq("emulator").all())
    cells = [
        tag("tr", *(tag("td", cell) for cell in _instruction(row, emulated=emulated))) for row in rows[:_MOST]
    ]
    left = len(rows) - len(cells)
    heads = (tag("th", head, scope="col") for head in (_PTX if emulated else _SASS))
    return tag(
        "div",
        tag("h4", "Instructions"),
        tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *cells)),
        tag("p", f"{left} more", class_="dim") if left > 0 else None,
    )


def _instruction(row: dict[str, Any], *, emulated: bool) -> list[str]:
    at = str(row["pc"]) if emulated else f"0x{row['pc']:04x}"
    stalls = ", ".join(f"{stall} {percent_text(n / row['samples'])}" for stall, n in row["stalls"][:3])
    blamed = row["blamed"]
    cause = f"{blamed[1] or 'instruction'} at {source_text(blamed[0], blamed[2])}" if blamed else ""
    return [at, row["text"] or str(row["class"]), count_text(row["samples"]), stalls, cause]


@dataclass(frozen=True)
class ScopeFigures:
    """A row of the summary, and what its spans say besides. waits: what it starts or ends, in words."""

    row: dict[str, Any]
    stages: str
    pairings: list[tuple[Pairing, str, int]]
    """Each with the scope and the line of the other side."""


@dataclass
class LineFigures:
    """shares: by column of `lines()`, over all call paths to the line; order: those columns, the one that is
    shown first. rows: those of `lines()`, one for each call path. scopes: the heaviest first."""

    file: str
    line: int
    shares: dict[str, float] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)
    scopes: list[ScopeFigures] = field(default_factory=list)
    order: tuple[str, ...] = ()

    @property
    def share(self) -> float:
        return next((self.shares[name] for name in self.order if name in self.shares), 0.0)

    def count_and_self(self, unit: str) -> tuple[str, str]:
        """In words `_count_and_self`; "" where there are no spans."""
        count, took = self._count_and_self(unit)
        return (count_text(count), duration_text(took / count, unit)) if count else ("", "")

    def has_no_time(self, unit: str) -> bool:
        """Whether there are spans, and what they took is no more than what records did."""
        count, took = self._count_and_self(unit)
        return bool(count) and not took

    def _count_and_self(self, unit: str) -> tuple[int, int]:
        """Of the scope with most self time, all call paths to it together: how many spans there are in all
        launches, and their self time."""
        sums: dict[tuple[str, str], list[int]] = {}
        for each in self.scopes:
            if each.row["kind"] not in ("async", GAP):
                own = sums.setdefault((each.row["scope"], each.row["kind"]), [0, 0])
                own[0] += int(each.row["count"])
                own[1] += int(each.row[f"self_{unit}"] or 0)
        count, took = max(sums.values(), key=lambda own: own[1], default=[0, 0])
        return count, took

    @property
    def wait_text(self) -> str:
        """What the line waits for: by samples where there are some, else by what its waits ended."""
        told = [row["waits_for"] for row in self.rows if row["waits_for"]]
        if told:
            return str(told[0])
        ended = [
            f"{scope}, line {line}"
            for each in self.scopes
            for pairing, scope, line in each.pairings
            if each.row["site"] == pairing.wait and pairing.waiting > 0
        ]
        return "; ".join(dict.fromkeys(ended))


def figures_of(kernel: Kernel, sites: Sites, witnesses: list[str]) -> list[LineFigures]:
    """One for each line of which anything is known, in the order of the file."""
    known: dict[tuple[str, int], LineFigures] = {}

    def at(row: dict[str, Any]) -> LineFigures:
        place = str(row["file"]), int(row["line"])
        return known.setdefault(place, LineFigures(*place, order=tuple(witnesses)))

    for row in _plain(kernel.lines):
        own = at(row)
        own.rows.append(row)
    for line in () if kernel.entry.lines is None else kernel.entry.lines.rows:
        shares = {"share_samples": line.share_samples, "self_share": line.self_share}
        own = at({"file": line.file, "line": line.line})
        own.shares = {name: share for name in witnesses if (share := shares[name]) is not None}
    numbers = _numbers(sites, kernel.kernel)
    pairings = _by_site(sites)
    for row in sorted(_plain(kernel.summary), key=lambda each: -(each["self_ns"] or 0)):
        number = numbers.get(tuple(row[name] for name in _PLACE), -1)
        stages = sites.stages[number] if number >= 0 else ""
        at(row).scopes.append(ScopeFigures({**row, "site": number}, stages, pairings.get(number, [])))
    return [known[place] for place in sorted(known)]


_PLACE = ("scope", "kind", "file", "line", "call_path")


def _plain(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows with None for what is missing."""
    rows: list[dict[str, Any]] = table.to_dict("records")  # type: ignore[assignment]
    return [
        {name: None if not isinstance(v, list | dict) and pd.isna(v) else v for name, v in row.items()}
        for row in rows
    ]


def _numbers(sites: Sites, kernel: str) -> dict[tuple[Any, ...], int]:
    own = sites.table[sites.table["kernel"].astype("str") == kernel]
    places = zip(*(own[name].tolist() for name in _PLACE), strict=True)
    return dict(zip(places, own.index.tolist(), strict=True))


def _by_site(sites: Sites) -> dict[int, list[tuple[Pairing, str, int]]]:
    scopes, lines = sites.table["scope"].astype("str").tolist(), sites.table["line"].tolist()
    told = defaultdict(list)
    for each in sites.pairings:
        told[each.issue].append((each, scopes[each.wait], int(lines[each.wait])))
        told[each.wait].append((each, scopes[each.issue], int(lines[each.issue])))
    return told
