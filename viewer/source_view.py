"""`profscope view TRACE --source`: the lines that were asked for, the time in the margin, notes below."""

import argparse
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from rich.cells import cell_len
from rich.text import Text

from profscope.analysis.model.labels import named
from profscope.analysis.model.missing import FRAMES
from profscope.analysis.scopes.table import ends_with
from profscope.analysis.source_code.annotated import (
    SHARE_COLUMNS,
    Annotated,
    Block,
    Line,
    LineScope,
    annotate,
)
from profscope.analysis.source_code.listings import FORMS
from profscope.analysis.sources import SourceLines
from profscope.errors import OptionError, TraceError
from profscope.profiles import Profile
from profscope.progress import working
from profscope.viewer.grid import fit, heading, pad, words, wrap
from profscope.viewer.header import EMULATED
from profscope.viewer.option_types import Place
from profscope.viewer.outlet import noted, print_json, print_lines, print_rows, text_width
from profscope.viewer.units import NO_TIME, count_text, duration_text, printable, share_text, source_text

__all__ = ["AROUND", "MOST_CODE", "Wanted", "render_annotated", "show_source", "wanted"]

MOST_KERNELS = 5


AROUND = 4
"""Lines that are shown before and behind one that was asked for."""

_BAR = 6

_EIGHTHS = " ▏▎▍▌▋▊▉█"

_WITH_BAR, _WITH_COUNTS = 72, 52
"""From these widths on: narrower margins leave the text more room."""

_WORTH_A_NOTE = 0.01

_WORTH_A_ROW = 0.0005
"""Of what has no source line: less is shown as 0.0 %."""

MOST_CODE = 12
"""Instructions that are shown of a line, unless it is asked for."""

_HOT, _WARM = 0.2, 0.05


@dataclass(frozen=True)
class Wanted:
    """file: the end of a path, "" for all; line: 0 for all; form: of the code behind the lines."""

    file: str = ""
    line: int = 0
    form: str = ""


def wanted(source: str, line: Place | None) -> Wanted:
    """The request of --source FILE[:LINE] or --source sass, and --line. Raises OptionError if they differ."""
    asked = Wanted(form=source) if source in FORMS else parse_line(source) if source else Wanted()
    if line is None:
        return asked
    if asked.line or (asked.file and line.file and asked.file != line.file):
        raise OptionError(f"--source {source} and --line name two places")
    return replace(asked, file=line.file or asked.file, line=line.line)


def parse_line(text: str) -> Wanted:
    """ "kernels.py:16", "kernels.py" or "16"."""
    if text.isdecimal():
        return Wanted(line=int(text))
    match = re.fullmatch(r"(.+?)(?::(\d+))?", text, re.DOTALL)
    if match is None:
        raise OptionError(f"not a line: {text!r}; write it like kernels.py:16")
    return Wanted(match[1], int(match[2] or 0))


def show_source(profile: Profile, options: argparse.Namespace, disk: SourceLines) -> None:
    """Print it. Raises TraceError for an unknown file or line, naming the known ones."""
    asked = wanted(options.source, options.line)
    is_short = options.format == "table" and not (asked.file or asked.line)
    with working("analysing the trace"):
        made, omitted = annotate(profile.tables, disk, asked.form, MOST_KERNELS if is_short else 0)
    if not made:
        raise TraceError("nothing was recorded of any line; `profscope view` prints notes that may say why")
    if asked.form and all(source.no_code for source in made):
        raise TraceError(made[0].no_code)
    sources = _chosen(made, asked)
    if options.format == "json":
        print_json([asdict(source) for source in sources])
    elif options.format == "csv":
        print_rows([row for source in sources for row in _rows(source)])
    else:
        width = text_width(options.width)
        lines = [Text(EMULATED, style="bold black on yellow")] if profile.emulated else []
        for number, source in enumerate(sources):
            lines += [Text()] if number else []
            if source.no_code:
                lines += noted(source.no_code, width)
                continue
            top = MOST_CODE if options.top is None else options.top
            lines += render_annotated(source, width, at=asked.line, top=top)
        if omitted:
            lines += [Text(), *noted(f"{omitted} more kernels; --kernels shows one of them.", width)]
        print_lines(lines, width)


def _chosen(sources: list[Annotated], asked: Wanted) -> list[Annotated]:
    """The blocks that hold what was asked for."""
    if not (asked.file or asked.line):
        return sources
    chosen = []
    for source in sources:
        blocks = [
            block
            for block in source.blocks
            if ends_with(block.file, asked.file)
            and (not asked.line or any(line.line == asked.line for line in block.lines))
        ]
        if blocks:
            chosen.append(replace(source, blocks=blocks))
    if not chosen:
        there = dict.fromkeys(
            source_text(block.file, block.lines[0].line)
            + (f"-{block.lines[-1].line}" if block.function else "")
            for source in sources
            for block in source.blocks
            if block.file
        )
        name = (
            f"{asked.file}:{asked.line}" if asked.file and asked.line else asked.file or f"line {asked.line}"
        )
        if any(source.kernel == asked.file for source in sources):
            raise TraceError(f"{asked.file} is a kernel, not a file: use --kernels {asked.file} --source")
        raise TraceError(f"nothing is known of {name}; there are: {', '.join(there) or 'none'}")
    return chosen


def _rows(source: Annotated) -> list[dict[str, Any]]:
    """A row for each line; what is inside of calls is in the lines of the functions."""
    rows = []
    for block in source.blocks:
        for line in block.lines:
            about = {"kernel": source.kernel, "variant": source.variant, "function": block.function}
            figures = {
                name: value
                for name, value in asdict(line).items()
                if name not in ("text", "shares", "scopes", "flights", "code", "calls")
            }
            shares = {SHARE_COLUMNS[name]: share for name, share in line.shares.items()}
            rows.append({**about, **figures, **shares, "unit": source.unit, "source": line.text})
    return rows


@dataclass(frozen=True)
class _Form:
    width: int
    unit: str
    digits: int
    top: int


def render_annotated(source: Annotated, width: int, *, at: int = 0, top: int = MOST_CODE) -> list[Text]:
    """The lines, the first a title. at: a line that is asked for, which is shown with those around it and
    with the lines that were inlined there; 0: all. top: instructions of a line, the first ones; 0: all."""
    name = printable(named(source.kernel, source.label))
    share = f"share of warp time by {source.witness}"
    if source.witness == "samples":
        share = f"share of {count_text(source.samples)} samples"
    differs = [source.differs] if source.differs else []
    coded = any(each.samples for block in source.blocks for line in block.lines for each in line.code)
    counted = ["count: of spans; of instructions, of samples"] if coded else []
    lines = heading(name, [*differs, "source", share, *_units(source), *counted], width)
    longest = max((line.line for block in source.blocks for line in block.lines), default=1)
    form = _Form(width, source.unit, len(str(longest)), top)
    head = _margin(form, "line", "share", "count", "self") + "source"
    lines.append(Text(fit(head, width), style="dim"))
    for number, block in enumerate(source.blocks):
        shown = [line for line in block.lines if not at or abs(line.line - at) <= AROUND]
        if not shown or (not block.file and (block.share or 0) < _WORTH_A_ROW):
            continue
        if number or not block.function:
            lines += [Text(), _title(block, form)]
        for line in shown:
            is_asked = 0 < at == line.line
            drawn = [*_line(line, form, 0, every=is_asked, unfold=is_asked)]
            first = 0 if block.file else 1  # the title has all that the line itself has
            lines += drawn[first:]
    no_time = any(line.self_mean == 0 for block in source.blocks for line in block.lines)
    for note in [*([NO_TIME] if no_time else []), *source.notes]:
        lines += noted(note, width)
    return lines


def _units(source: Annotated) -> list[str]:
    return ["self: a span's own time", *(["cycles"] if source.unit == "cycles" else [])]


def _title(block: Block, form: _Form) -> Text:
    """A further function's head, or that of lines without a text."""
    if not block.function and not block.file:
        text = "no source line"
    else:
        place = source_text(block.file, block.lines[0].line)
        text = (
            f"{printable(block.function)}  {place}" if block.function else f"{place}: its text is not known"
        )
    return Text(fit(_margin(form, "", _share(block.share), None, None) + text, form.width), style="bold")


def _margin(form: _Form, number: str, share: str | None, count: str | None, each: str | None) -> str:
    """ " 27.7% ██▏     4,096    421   16  ": what there is room for of it."""
    parts = [pad(share or "", 6, right=True)]
    if form.width >= _WITH_BAR:
        parts.append(pad("", _BAR))
    if form.width >= _WITH_COUNTS:
        parts += [pad(count or "", 6, right=True), pad(each or "", 6, right=True)]
    return " ".join([*parts, pad(number, max(form.digits, 4), right=True)]) + "  "


def _line(
    line: Line, form: _Form, indent: int, *, every: bool = False, unfold: bool = False
) -> Iterator[Text]:
    """every: all that is known of it; unfold: the lines that were inlined there, too."""
    count = None if line.count is None else _count(line.count)
    each = None if line.self_mean is None else duration_text(line.self_mean, form.unit)
    margin = _margin(form, str(line.line or ""), _share(line.share), count, each)
    room = form.width - cell_len(margin) - indent
    share = line.share or 0.0
    style = "bold red" if share >= _HOT else "bold yellow" if share >= _WARM else ""
    drawn = Text(margin, style=style or "dim")
    if form.width >= _WITH_BAR and share:
        drawn = Text.assemble(
            (margin[:7], style), (_bar(share), style or "dim"), (margin[7 + _BAR :], style or "dim")
        )
    drawn.append(" " * indent + fit(printable(line.text), room), style=style if share >= _WARM else "default")
    drawn.rstrip()
    yield drawn
    before = " " * (cell_len(margin) + indent)
    for number, note in enumerate(_notes(line, every)):
        for part, piece in enumerate(wrap(words(note), max(room - 4, 16))):
            mark = "  " if number or part else "└ "
            yield Text(f"{before}{mark}{'  ' * (part > 0)}{piece}", style="cyan")
    yield from _code(line, form, indent, every)
    if unfold:
        yield from _calls(line, form, indent)


def _calls(line: Line, form: _Form, indent: int) -> Iterator[Text]:
    """The functions that were inlined at a line, each with its lines."""
    for call in line.calls:
        margin = _margin(form, "", _share(call.share), None, None)
        place = source_text(call.lines[0].file, call.lines[0].line)
        text = fit(f"in {printable(call.function or place)}:", form.width - cell_len(margin) - indent - 2)
        yield Text(margin + " " * (indent + 2) + text, style="dim")
        for inner in call.lines:
            yield from _line(inner, form, indent + 4, unfold=True)


def _notes(line: Line, every: bool) -> Iterator[str]:
    """What a line is, and what it waits for. every: also where it takes next to no time."""
    if not every and (line.share or 0) < _WORTH_A_NOTE:
        if line.inside:
            yield _inside(line)
        return
    told = line.scopes[: None if every else 3]
    if told:
        more = len(line.scopes) - len(told)
        yield ", ".join([*map(_scope, told), *([f"{more} more"] if more else [])])
    if line.waits_for:
        yield f"waits for {line.waits_for}"
    if line.stalls:
        yield f"stalls: {line.stalls}"
    for flight in line.flights[: None if every else 2]:
        yield f"waited for {flight}"
    if line.inside:
        yield _inside(line)
    if every:
        shares = [
            f"{share_text(share)} by {name}" for name, share in line.shares.items() if share is not None
        ]
        yield f"share: {', '.join(shares)}" if shares else "no time was seen at this line"


def _scope(scope: LineScope) -> str:
    """What holds other spans is said to be: its own time is that of none of them."""
    own = " outside its spans" * (scope.kind in FRAMES)
    stages = f"; {scope.stages}" if scope.stages else ""
    return f"{scope.scope}{own} ({_count(scope.count)}{stages})"


def _inside(line: Line) -> str:
    names = ", ".join(call.function or "what is called" for call in line.calls)
    return f"{share_text(line.inside)} in {names}, inlined here"


def _code(line: Line, form: _Form, indent: int, every: bool) -> Iterator[Text]:
    """The instructions behind a line: the first ones, of sampled code those with most samples."""
    most = len(line.code) if every or not form.top else form.top
    heaviest = sorted(line.code, key=lambda each: -each.samples)[:most]
    shown = [each for each in line.code if each in heaviest]
    for each in shown:
        share = "" if each.share is None else _share(each.share)
        margin = _margin(form, "", share, _count(each.samples) if each.samples else None, None)
        place = f"{each.number:>5x}" if each.is_pc else f"{each.number:>5}"
        text = f"{place}  {printable(' '.join(each.text.split()))}"
        stalls = f"  {each.stalls}" if each.stalls else ""
        room = form.width - cell_len(margin) - indent
        yield Text(
            margin + " " * indent + fit(text + stalls, room),
            style="yellow" if (each.share or 0) >= _WARM else "dim",
        )

    if len(shown) < len(line.code):
        margin = _margin(form, "", None, None, None)
        more = f"{len(line.code) - len(shown)} more; --top 0, or --line {line.line}, shows them"
        yield Text(fit(margin + " " * indent + "       " + more, form.width), style="dim")


def _bar(share: float) -> str:
    """A share as a bar of _BAR cells, in eighths of a cell."""
    eighths = min(round(share * _BAR * 8), _BAR * 8)
    full, rest = divmod(max(eighths, 1), 8)
    return pad("█" * full + (_EIGHTHS[rest] if rest else ""), _BAR)


def _share(share: float | None) -> str:
    return "" if share is None else share_text(share)


def _count(count: int) -> str:
    """At most six cells: "4,096", "1.23M"."""
    return count_text(count) if count < 100_000 else duration_text(count, "cycles")
