"""The timeline of one CTA: a row of cells per warp, each cell the scope that took most of its time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.cells import cell_len
from rich.text import Text

from profscope.analysis.model.labels import Group, named
from profscope.analysis.scope_colours import FRAMES, INK, site_colours
from profscope.analysis.spans.ctas import ctas_with_spans
from profscope.analysis.spans.rows import narrow_sites, sites
from profscope.profiles import Profile
from profscope.schema import Tables
from profscope.viewer.grid import fit, heading, pad
from profscope.viewer.option_types import Zoom
from profscope.viewer.units import STEPS, duration_text, printable, share_text

__all__ = [
    "LABEL_WIDTH",
    "Choice",
    "Timeline",
    "choose_cta",
    "make_timeline",
    "render_timeline",
    "scale_text",
]

LABEL_WIDTH = 10
LONGEST_SCOPE = 28
TICK_CELLS = 12

FRAME_SYMBOLS = {"kernel": ".,_", "loop": "-=~+*#%&@$", "iteration": ":;|!^/", "gap": "`"}
"""What holds other scopes gets punctuation, for the time that is its own; so does what is not recorded. The
rest get letters."""

SPARE_SYMBOLS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
LAST_SYMBOL = "?"


@dataclass(frozen=True)
class LegendEntry:
    """A scope that is drawn; share is of the drawn warps' time, None for work in flight and for marks.
    colour: as in reports and figures, "" for scopes around others."""

    symbol: str
    scope: str
    kind: str
    file: str
    line: int
    share: float | None
    colour: str


@dataclass(frozen=True)
class Lane:
    """A row: a symbol per cell, a space where nothing ran. `scope` is "" for a warp's own row."""

    warp: int
    scope: str
    cells: str


@dataclass(frozen=True)
class Choice:
    """One CTA of one launch: which it is, and its rank by duration among `candidates` CTAs of that kernel;
    label is that of its `Group`."""

    kernel: str
    label: str
    launch: int
    cta: int
    rank: int
    candidates: int


@dataclass(frozen=True)
class Timeline(Choice):
    """It, drawn from `begin` to `end`: times in `unit` since its start; `duration` is all of it."""

    sm: int
    unit: str
    duration: int
    begin: int
    end: int
    lanes: list[Lane]
    legend: list[LegendEntry]


def choose_cta(tables: Tables, groups: Sequence[Group]) -> Choice | None:
    """The CTA of median duration of the first of these groups that has any; None if none has."""
    ctas = ctas_with_spans(tables)
    for group in groups if len(ctas) else ():
        own = ctas[(ctas["kernel"] == group.kernel) & (ctas["variant"] == group.variant)]
        if len(own):
            rank = (len(own) - 1) // 2
            chosen = own.sort_values("ns", kind="stable").iloc[rank]
            return Choice(
                group.kernel, group.label, int(chosen["launch"]), int(chosen["cta"]), rank, len(own)
            )
    return None


def make_timeline(
    profile: Profile,
    choice: Choice,
    unit: str,
    cells: int,
    zoom: Zoom | None,
    known: pd.DataFrame | None = None,
) -> Timeline:
    """Draw a CTA's warps in `cells` cells: all of its time, or the part in `zoom`.

    known: the profile's sites, where the caller has them.

    Raises TraceError if that is no part of it.
    """
    df = profile.tables.df
    rows = df[(df["launch"] == choice.launch) & (df["cta"] == choice.cta)]
    start = rows["start_ns" if unit == "ns" else "start_cycle"].to_numpy()
    start = start - start.min()
    end = start + rows[f"duration_{unit}"].to_numpy()
    synchronous = (rows["kind"] != "async").to_numpy()
    duration = int(end[synchronous].max())
    begin, finish = 0, max(duration, 1)
    if zoom is not None:
        clocks = profile.launches["clock_ghz"][profile.launches["launch"] == choice.launch]
        begin, finish = zoom.within(duration, unit, float(clocks.iloc[0]))
    known = narrow_sites(df)[1] if known is None else known
    lanes, legend = _draw_lanes(rows, start, end, _Canvas(begin, finish, cells), known)
    sm = int(rows["sm"].iloc[0])
    return Timeline(**vars(choice), sm=sm, unit=unit, duration=duration, begin=begin, end=finish, lanes=lanes,
                    legend=legend)  # fmt: skip


def _draw_lanes(
    rows: pd.DataFrame, start: NDArray[np.int64], end: NDArray[np.int64], canvas: _Canvas, known: pd.DataFrame
) -> tuple[list[Lane], list[LegendEntry]]:
    """Draw the warps of one CTA, and tell what the symbols mean.

    rows: of the span table; start and end: theirs, in the canvas's time. known: the profile's sites, by which
    scopes have their colours.
    """
    site, table = sites(rows)
    kind = rows["kind"].to_numpy()
    synchronous = kind != "async"
    busy = np.zeros(len(table), np.float64)
    symbols = _symbols(table)
    lanes: list[Lane] = []
    for number in np.unique(rows["warp"]).tolist():
        mine = (rows["warp"] == number).to_numpy()
        at = np.flatnonzero(mine & synchronous & (kind != "mark"))
        own = site[at].tolist()
        weights = canvas.weigh(((b, e, own[i]) for b, e, i in _innermost(start[at], end[at])), len(table))
        busy += weights.sum(axis=0)
        lanes.append(Lane(number, "", _text(weights, symbols)))
        for beside in np.unique(site[mine & ((kind == "async") | (kind == "mark"))]).tolist():
            at = np.flatnonzero(mine & (site == beside))
            weights = canvas.weigh(((start[i], max(end[i], start[i] + 1), beside) for i in at), len(table))
            lanes.append(Lane(number, str(table["scope"].iloc[beside]), _text(weights, symbols)))
    drawn = "".join(lane.cells for lane in lanes)
    return lanes, _legend_entries(table, symbols, site_colours(table, known), busy, drawn)


@dataclass(frozen=True)
class _Canvas:
    """The drawn time, cut into equal cells."""

    begin: int
    end: int
    cells: int

    def weigh(self, segments: Iterator[tuple[int, int, int]], count: int) -> NDArray[np.float64]:
        """How much of each cell each of `count` sites takes, in cells, shape (cells, count)."""
        weights = np.zeros((self.cells, count))
        scale = self.cells / (self.end - self.begin)
        for begin, end, site in segments:
            low = max((begin - self.begin) * scale, 0.0)
            high = min((end - self.begin) * scale, float(self.cells))
            if low >= high:
                continue
            first, last = int(low), int(np.ceil(high))
            if last - first == 1:
                weights[first, site] += high - low
                continue
            weights[first, site] += first + 1 - low
            weights[first + 1 : last - 1, site] += 1
            weights[last - 1, site] += high - (last - 1)
        return weights


def _innermost(start: NDArray[np.int64], end: NDArray[np.int64]) -> Iterator[tuple[int, int, int]]:
    """Cut nested spans, in pre-order, into (begin, end, span) pieces, each of the innermost span then."""
    stack: list[int] = []
    ends: list[int] = end.tolist()
    now = 0
    for at, begin in enumerate(start.tolist()):
        while stack and ends[stack[-1]] <= begin:
            inner = stack.pop()
            yield now, ends[inner], inner
            now = max(now, ends[inner])
        if stack:
            yield now, begin, stack[-1]
        now = max(now, begin)
        stack.append(at)
    while stack:
        inner = stack.pop()
        yield now, ends[inner], inner
        now = max(now, ends[inner])


def _text(weights: NDArray[np.float64], symbols: list[str]) -> str:
    return "".join(symbols[row.argmax()] if row.any() else " " for row in weights)


def _symbols(table: pd.DataFrame) -> list[str]:
    """A symbol per site; once they run out the rest share one."""
    symbols: list[str] = []
    for kind, scope in zip(table["kind"], table["scope"], strict=True):
        letters = [char for char in scope if char.isascii() and char.isalnum()]
        words = scope.split()
        initials = (word[0].upper() for word in words)
        wanted = FRAME_SYMBOLS.get(kind) or (*letters[:1], *initials, *letters, *SPARE_SYMBOLS)
        allowed = FRAME_SYMBOLS.get(kind, SPARE_SYMBOLS)
        free = (char for char in wanted if char in allowed and char not in symbols)
        symbols.append(next(free, LAST_SYMBOL))
    return symbols


def _legend_entries(
    table: pd.DataFrame, symbols: list[str], colours: list[str], busy: NDArray[np.float64], drawn: str
) -> list[LegendEntry]:
    total = busy.sum()
    entries = []
    for at, symbol in enumerate(symbols):
        place = table.iloc[at]
        beside = place["kind"] in ("async", "mark")
        if busy[at] or (beside and symbol in drawn):
            share = None if beside else float(busy[at] / total)
            source = {name: str(place[name]) for name in ("scope", "kind", "file")}
            colour = "" if place["kind"] in FRAMES else colours[at]
            entries.append(LegendEntry(symbol, **source, line=int(place["line"]), share=share, colour=colour))
    return sorted(entries, key=lambda entry: -(entry.share or 0))


def render_timeline(timeline: Timeline, width: int, said: Sequence[str] = ()) -> list[Text]:
    """Lines of a timeline whose lanes have `width - LABEL_WIDTH` cells. said: of its times, in the title."""
    styles = _symbol_styles(timeline.legend)
    lines = heading(printable(named(timeline.kernel, timeline.label)), [*_title(timeline), *said], width)
    scale = scale_text(timeline.begin, timeline.end, timeline.unit, width - LABEL_WIDTH)
    lines.append(Text(" " * LABEL_WIDTH + scale, style="dim"))
    for lane in timeline.lanes:
        label = f"  {_lane_name(lane.scope)}" if lane.scope else f"warp {lane.warp}"
        line = Text(pad(fit(label, LABEL_WIDTH - 1), LABEL_WIDTH), style="dim")
        for symbol, cells in groupby(lane.cells):
            line.append("".join(cells), style=styles.get(symbol, "default"))
        lines.append(line)
    return [*lines, *_render_legend(timeline.legend, width)]


def _lane_name(scope: str) -> str:
    """The name of a lane below its warp's: of "async copy k in flight" what tells it from others."""
    return printable(scope.removeprefix("async ").removesuffix(" in flight"))


def _title(timeline: Timeline) -> list[str]:
    unit = "" if timeline.unit == "ns" else " cycles"
    place = f"CTA {timeline.cta} on SM {timeline.sm}"
    parts = [f"launch {timeline.launch}", f"{place}: {duration_text(timeline.duration, timeline.unit)}{unit}"]
    return parts + ([f"the median of {timeline.candidates:,} CTAs"] if timeline.candidates > 1 else [])


def scale_text(begin: int, end: int, unit: str, cells: int) -> str:
    """Ticks at round times, labelled in one unit: "|0us     |0.5us"."""
    length = end - begin
    least = length * TICK_CELLS / cells
    step = next(size for size in _round_numbers() if size >= least)
    name, scale = next((name, size) for name, size in reversed(STEPS[unit]) if end >= size or size == 1)
    line = ""
    for time in range(-(-begin // step) * step, end + 1, step):
        at = (time - begin) * cells // length
        label = f"|{time / scale:g}{name}" if time else "|0"
        if at + len(label) <= cells:
            line = line.ljust(at) + label
    return line


def _round_numbers() -> Iterable[int]:
    power = 1
    while True:
        yield from (power, 2 * power, 5 * power)
        power *= 10


def _symbol_styles(legend: list[LegendEntry]) -> dict[str, str]:
    """The style of each letter of a legend; a terminal of few colours shows the nearest of its own."""
    return {
        entry.symbol: f"{INK} on {entry.colour}"
        for entry in legend
        if entry.colour and entry.symbol.isalnum()
    }


def _render_legend(legend: list[LegendEntry], width: int) -> list[Text]:
    """Entries in columns, read down."""
    styles = _symbol_styles(legend)
    texts = []
    for entry in legend:
        is_named_by_line = not entry.line or entry.scope.endswith(f" L{entry.line}")
        name = printable(entry.scope) + ("" if is_named_by_line else f":{entry.line}")
        own = " itself" if entry.kind in ("kernel", "loop", "iteration") else ""
        share = (
            "in flight"
            if entry.kind == "async"
            else "mark"
            if entry.kind == "mark"
            else share_text(entry.share)
        )
        texts.append((entry.symbol, f"{fit(name, LONGEST_SCOPE)}{own} {share}"))
    widest = max((cell_len(text) for _, text in texts), default=0) + 4
    columns = max(width // widest, 1)
    rows = -(-len(texts) // columns)
    lines = []
    for row in range(rows):
        line = Text()
        for symbol, text in texts[row::rows]:
            line.append(symbol, style=styles.get(symbol, "default"))
            line.append(f" {pad(text, widest - 2)}", style="default")
        line.rstrip()
        lines.append(line)
    return lines
