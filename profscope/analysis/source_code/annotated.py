"""The source with its time in the margin: the text of a kernel's functions, and the evidence of each line.

Shares, stalls and waits are those of `Profile.lines()`, counts and means those of `Profile.summary()`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd

from profscope.analysis.line_rows import CONFIGURATION, GAP, configurations, placed, witnesses
from profscope.analysis.lines import lines_of
from profscope.analysis.model.labels import Group, differs_text, groups_of
from profscope.analysis.model.lines import SAMPLES, SPANS, merged_line, total_of, witness_of
from profscope.analysis.op_labels import stages_of
from profscope.analysis.source_code.listings import Instruction, Listing, listings
from profscope.analysis.sources import SourceLines, Step, Text, file_with_source, steps_of, texts_of
from profscope.analysis.spans.rows import SITE_COLUMNS, sites
from profscope.analysis.timeline.transactions import copies_waited_for
from profscope.schema import Tables

__all__ = [
    "SHARE_COLUMNS",
    "Annotated",
    "Block",
    "Call",
    "Line",
    "LineScope",
    "Sums",
    "annotate",
    "stages_by_place",
]

_Below = tuple[tuple[Step, ...], dict[str, Any]]
"""The rest of a way, from the function that is called, and the row at its end."""

SHARE_COLUMNS = {SAMPLES: "share_samples", SPANS: "self_share"}
"""The columns of `Profile.lines()` that have the shares by each witness."""


@dataclass(frozen=True)
class LineScope:
    """A row of `Profile.summary()` that stands at a line, call paths that lead there taken together; times in
    the view's unit. each: self time of one of its spans. stages: of its loop, if that is pipelined."""

    scope: str
    kind: str
    count: int
    total: int
    self: int
    each: float
    stages: str


@dataclass(frozen=True)
class Line:
    """A line of the text. share: of the time, by the witness of the view, None if it has none; inside: of
    functions called and inlined there. count: spans of the scope with the most self time; self_mean: their
    mean self time.

    shares: by each witness. stalls and waits_for: as in `Profile.lines()`, of all paths to the line. flights:
    the copies it waited for, and when these were issued. code: its instructions.
    """

    file: str
    line: int
    text: str
    share: float | None
    inside: float | None
    count: int | None
    self_mean: float | None
    samples: int
    shares: dict[str, float | None]
    scopes: list[LineScope]
    stalls: str
    waits_for: str
    flights: list[str]
    code: list[Instruction]
    calls: list["Call"]


@dataclass(frozen=True)
class Call:
    """A function that was inlined at a line: its lines that took time there, and the functions it called."""

    function: str
    share: float | None
    lines: list[Line]


@dataclass(frozen=True)
class Block:
    """A function's text; function "" has only lines, without text."""

    function: str
    file: str
    share: float | None
    lines: list[Line]


@dataclass(frozen=True)
class Annotated:
    """The functions of a kernel's variant, the kernel itself first. witness: what shares are by: "samples"
    or "spans". form: of the code behind the lines, "" if none was asked for. notes: what could not be
    told; no_code: why there is none of that code, "" if there is some. label and differs: as of its
    `Group`.
    """

    kernel: str
    variant: int
    label: str
    differs: str
    unit: str
    witness: str
    samples: int
    form: str
    blocks: list[Block]
    notes: list[str]
    no_code: str


class Sums(NamedTuple):
    """The inputs of lines: `Profile.lines()`, `Profile.summary()`, and by place the stages of its loop."""

    lines: pd.DataFrame
    summary: pd.DataFrame
    stages: dict[tuple[Any, ...], str]


def annotate(
    tables: Tables, disk: SourceLines, form: str = "", most: int = 5, sums: Sums | None = None
) -> tuple[list[Annotated], int]:
    """The `most` kernels and variants that took longest (0: all), and how many others there are.

    disk: for lines whose text the profile has not. form: "ttgir", "ptx" or "sass", to have that code behind
    the lines; "" has none. sums: of the tables, if known.
    """
    unit = tables.unit
    lines, summary, stages = sums or _sums(tables)
    places = zip(*(summary[name].tolist() for name in SITE_COLUMNS), strict=True)
    scopes = summary.assign(stages=[stages.get(place, "") for place in places])
    scopes = placed(scopes[~scopes["kind"].isin(["async", GAP])])
    copies = copies_waited_for(tables)
    texts = texts_of(tables)
    of_scopes = {key: list(_records(own)) for key, own in scopes.groupby(CONFIGURATION)}
    groups = list(configurations(lines))
    labels = groups_of(tables)
    made = []
    for at, (key, own) in enumerate(groups[: most or None]):
        kernel, variant = str(key[0]), int(key[1])
        witness = witness_of(own)
        listing = listings(tables, kernel, variant, form) if form else Listing({}, [])
        rows = list(_records(own)), of_scopes.get(key, [])
        maker = _Maker(kernel, *rows, unit, witness, copies.get(key, {}), listing, texts, disk)
        notes = lines.attrs.get("not_measured", []) if not at else []
        group = labels.get((kernel, variant), Group(kernel, variant))
        made.append(
            Annotated(
                kernel=kernel,
                variant=variant,
                label=group.label,
                differs=differs_text(group.differs),
                unit=unit,
                witness=witness,
                samples=int(own["samples"].sum()),
                form=form,
                blocks=maker.blocks(),
                notes=[*notes, *(listing.notes if listing.code else [])],
                no_code="" if listing.code else "; ".join(listing.notes),
            )
        )
    return made, len(groups) - len(made)


def _sums(tables: Tables) -> Sums:
    known, (site, table) = witnesses(tables), sites(tables.df)
    stages = stages_by_place(table, stages_of(tables.df, site, len(table)))
    return Sums(lines_of(tables, known), known.summary, stages)


def stages_by_place(table: pd.DataFrame, stages: list[str]) -> dict[tuple[Any, ...], str]:
    """By SITE_COLUMNS. table: of sites; stages: of each."""
    return dict(zip(zip(*(table[name].tolist() for name in SITE_COLUMNS), strict=True), stages, strict=True))


def _records(table: Any) -> Iterator[dict[str, Any]]:
    yield from table.to_dict("records")


def _has_time(row: dict[str, Any], timed: set[tuple[Any, Any]]) -> bool:
    """Whether spans or samples say something of a row of lines(): of others only instructions are counted."""
    return bool(row["samples"]) or (row["file"], row["line"]) in timed


class _Maker:
    """Makes the lines of one kernel and variant from their rows of lines() and summary()."""

    def __init__(
        self,
        kernel: str,
        rows: list[dict[str, Any]],
        scopes: list[dict[str, Any]],
        unit: str,
        witness: str,
        copies: dict[tuple[str, int], list[str]],
        listing: Listing,
        texts: list[Text],
        disk: SourceLines,
    ) -> None:
        self._kernel, self._unit, self._witness, self._copies = kernel, unit, witness, copies
        self._texts, self._disk, self._listing = texts, disk, listing
        self._known = {text.file for text in texts}
        root = next(((row["file"], row["line"]) for row in scopes if row["kind"] == "kernel"), ("", 0))
        self._root = file_with_source(str(root[0]), self._known), int(root[1])
        timed = {(row["file"], row["line"]) for row in scopes}
        self._samples = sum(int(row["samples"]) for row in rows)
        self._rows = [(self._steps(row), row) for row in rows if _has_time(row, timed)]
        self._scopes = [(self._steps(row), row) for row in scopes]

    def _steps(self, row: dict[str, Any]) -> tuple[Step, ...]:
        """The way to a row's line, each step in the file whose text is known."""
        own = file_with_source(str(row["file"]), self._known)
        *steps, last = steps_of(own, int(row["line"]), str(row["call_path"]))
        return *(self._in_file(step, self._root[0] if not at else own) for at, step in enumerate(steps)), last

    def _in_file(self, step: Step, likely: str) -> Step:
        """A step has its file's name alone: the file of the function that it names; of several `likely`."""
        fitting = [text for text in self._texts if step.is_in(text.file) and text.holds(text.file, step.line)]
        named = {text.file for text in fitting if text.is_called(step.function)}
        files = named or {text.file for text in fitting} or ({likely} if step.is_in(likely) else {step.file})
        return step._replace(file=likely if likely in files else min(files))

    def blocks(self) -> list[Block]:
        """The kernel's function first, then the others by what they took; then what no text is known of."""
        made = []
        taken: set[tuple[str, int]] = set()
        named = {step.place for steps, _ in self._rows for step in steps}
        for text in self._texts:
            inside = {place for place in named if text.holds(*place)}
            if inside:
                lines = [self._line(text.file, number, own) for number, own in text.lines()]
                made.append(
                    (text, Block(text.name, text.file, total_of(line.share for line in lines), lines))
                )
                taken |= {(text.file, number) for number, _ in text.lines()}
        made.sort(key=lambda each: (not self._is_kernel(each[0]), -(each[1].share or 0)))
        rest: dict[str, list[Line]] = {}
        for place in sorted({steps[-1].place for steps, _ in self._rows} - taken):
            rest.setdefault(place[0], []).append(self._line(*place, self._known_text(*place)))
        others = [Block("", file, total_of(line.share for line in own), own) for file, own in rest.items()]
        return [*(block for _, block in made), *others]

    def _is_kernel(self, text: Text) -> bool:
        return text.holds(*self._root) if self._root[1] else text.is_called(self._kernel)

    def _known_text(self, file: str, line: int) -> str:
        own = (str(row["source"]) for steps, row in self._rows if steps[-1].place == (file, line))
        return next(own, "") or self._disk(file, line)

    def _line(self, file: str, number: int, text: str) -> Line:
        """A line with all paths to it taken together."""
        own = [row for steps, row in self._rows if steps[-1].place == (file, number)]
        scopes = [row for steps, row in self._scopes if steps[-1].place == (file, number)]
        below = []
        for steps, row in self._rows:
            at = next((at for at, step in enumerate(steps[:-1]) if step.place == (file, number)), None)
            if at is not None:
                below.append((steps[at + 1 :], row))
        return self._made(file, number, text, own, scopes, below)

    def _made(
        self,
        file: str,
        number: int,
        text: str,
        own: list[dict[str, Any]],
        scopes: list[dict[str, Any]],
        below: list[_Below],
    ) -> Line:
        told = self._told(scopes)
        entry = merged_line("", "", own, None, self._samples) if own else None
        return Line(
            file=file,
            line=number,
            text=text,
            share=None if entry is None else entry.share,
            inside=total_of(row[SHARE_COLUMNS[self._witness]] for _, row in below),
            count=told[0].count if told else None,
            self_mean=told[0].each if told else None,
            samples=0 if entry is None else entry.samples,
            shares={
                SAMPLES: None if entry is None else entry.share_samples,
                SPANS: None if entry is None else entry.self_share,
            },
            scopes=told,
            stalls="" if entry is None else entry.stalls_text,
            waits_for="" if entry is None else entry.waits_for,
            flights=self._copies.get((file, number), []),
            code=self._listing.code.get((file, number), []),
            calls=self._calls(below),
        )

    def _told(self, rows: list[dict[str, Any]]) -> list[LineScope]:
        """Scopes at a line, that of most self time first."""
        together: dict[tuple[str, str], list[int]] = {}
        stages: dict[tuple[str, str], list[str]] = {}
        for row in rows:
            key = str(row["scope"]), str(row["kind"])
            stages.setdefault(key, []).extend(filter(None, row["stages"].split(", ")))
            sums = together.setdefault(key, [0, 0, 0])
            for at, name in enumerate(("count", f"total_{self._unit}", f"self_{self._unit}")):
                sums[at] += int(row[name])
        told = [
            LineScope(*key, count, total, own, own / count, ", ".join(dict.fromkeys(stages[key])))
            for key, (count, total, own) in together.items()
            if count
        ]
        return sorted(told, key=lambda scope: -scope.self)

    def _calls(self, below: list[_Below]) -> list[Call]:
        """What is led to from one line, by function."""
        functions: dict[str, list[_Below]] = {}
        for steps, row in below:
            functions.setdefault(steps[0].function, []).append((steps, row))
        calls = []
        for name, rows in functions.items():
            places: dict[tuple[str, int], list[_Below]] = {}
            for steps, row in rows:
                places.setdefault(steps[0].place, []).append((steps, row))
            lines = []
            for (file, number), there in sorted(places.items()):
                own = [row for steps, row in there if len(steps) == 1]
                paths = {row["call_path"] for row in own}
                scopes = [
                    row
                    for steps, row in self._scopes
                    if steps[-1].place == (file, number) and row["call_path"] in paths
                ]
                further = [(steps[1:], row) for steps, row in there if len(steps) > 1]
                lines.append(self._made(file, number, self._text(file, number), own, scopes, further))
            calls.append(Call(name, total_of(row[SHARE_COLUMNS[self._witness]] for _, row in rows), lines))
        return sorted(calls, key=lambda call: -(call.share or 0))

    def _text(self, file: str, number: int) -> str:
        for text in self._texts:
            if text.holds(file, number):
                return dict(text.lines())[number]
        return self._known_text(file, number)
