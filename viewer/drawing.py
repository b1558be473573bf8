"""Draw a timeline's data as terminal text: title, scale, lanes, legend."""

from collections.abc import Iterable, Sequence
from itertools import groupby

from rich.cells import cell_len
from rich.text import Text

from profscope.analysis.model.labels import named
from profscope.analysis.scope_colours import INK
from viewer.cells import fit, pad
from viewer.grid import heading
from viewer.timeline import LegendEntry, Timeline
from viewer.units import STEPS, duration_text, printable, share_text

__all__ = ["LABEL_WIDTH", "beside", "render_timeline", "symbol_styles"]

LABEL_WIDTH = 10
TICK_CELLS = 12


def render_timeline(timeline: Timeline, width: int, said: Sequence[str] = ()) -> list[Text]:
    """Lines of a timeline whose lanes have `width - LABEL_WIDTH` cells. said: of its times, in the title."""
    styles = symbol_styles(timeline.legend)
    lines = heading(printable(named(timeline.kernel, timeline.label)), [*_title(timeline), *said], width)
    lines.append(Text(" " * LABEL_WIDTH + _scale(timeline, width - LABEL_WIDTH), style="dim"))
    for lane in timeline.lanes:
        label = f"  {beside(lane.scope)}" if lane.scope else f"warp {lane.warp}"
        line = Text(pad(fit(label, LABEL_WIDTH - 1), LABEL_WIDTH), style="dim")
        for symbol, cells in groupby(lane.cells):
            line.append("".join(cells), style=styles.get(symbol, "default"))
        lines.append(line)
    return [*lines, *_legend(timeline.legend, styles, width)]


def beside(scope: str) -> str:
    """The name of a lane below its warp's: of "async copy k in flight" what tells it from others."""
    return printable(scope.removeprefix("async ").removesuffix(" in flight"))


def _title(timeline: Timeline) -> list[str]:
    unit = "" if timeline.unit == "ns" else " cycles"
    place = f"CTA {timeline.cta} on SM {timeline.sm}"
    parts = [f"launch {timeline.launch}", f"{place}: {duration_text(timeline.duration, timeline.unit)}{unit}"]
    return parts + ([f"the median of {timeline.candidates:,} CTAs"] if timeline.candidates > 1 else [])


def _scale(timeline: Timeline, cells: int) -> str:
    """Ticks at round times, labelled in one unit: "|0us     |0.5us"."""
    length = timeline.end - timeline.begin
    least = length * TICK_CELLS / cells
    step = next(size for size in _round_numbers() if size >= least)
    name, scale = next(
        (name, size) for name, size in reversed(STEPS[timeline.unit]) if timeline.end >= size or size == 1
    )
    line = ""
    for time in range(-(-timeline.begin // step) * step, timeline.end + 1, step):
        at = (time - timeline.begin) * cells // length
        label = f"|{time / scale:g}{name}" if time else "|0"
        if at + len(label) <= cells:
            line = line.ljust(at) + label
    return line


def _round_numbers() -> Iterable[int]:
    power = 1
    while True:
        yield from (power, 2 * power, 5 * power)
        power *= 10


def symbol_styles(legend: list[LegendEntry]) -> dict[str, str]:
    """The style of each letter of a legend; a terminal of few colours shows the nearest of its own."""
    return {
        entry.symbol: f"{INK} on {entry.colour}"
        for entry in legend
        if entry.colour and entry.symbol.isalnum()
    }


def _legend(legend: list[LegendEntry], styles: dict[str, str], width: int) -> list[Text]:
    """Entries in columns, read down."""
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
        texts.append((entry.symbol, f"{fit(name, 28)}{own} {share}"))
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
