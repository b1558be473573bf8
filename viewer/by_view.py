"""`profscope view TRACE --by cta`: a table with a row for each launch, SM, CTA, warp, line, scope, ..."""

import argparse
from collections.abc import Iterator
from typing import Literal

from rich.text import Text

from profscope.analysis.scopes.by import OF_LAUNCHES, OF_SCOPES, ByRow, make_rows
from profscope.analysis.scopes.table import RowFilter
from profscope.analysis.spans.corrections import are_corrected
from profscope.analysis.spans.summing import summed_spans
from profscope.analysis.summary import summary_of
from profscope.errors import OptionError, TraceError
from profscope.profiles import Profile
from profscope.viewer.grid import Column, grid, heading
from profscope.viewer.header import EMULATED
from profscope.viewer.outlet import TABLES, noted, print_json, print_lines, print_rows, text_width
from profscope.viewer.units import (
    NO_TIME,
    count_text,
    duration_text,
    printable,
    share_text,
)

__all__ = ["show"]

OF_PLACES = {
    "sm": "of a span",
    "cta": "of a span",
    "warp": "of a span",
    "rank": "of a launch: it is from one process, or from a job without known ranks",
}
"""What a trace need not know, and then has as -1, and of what."""

MOST_ROWS = 20


def show(profile: Profile, options: argparse.Namespace) -> None:
    """Print it. Raises OptionError for a choice of rows that whole warps know nothing of, TraceError where
    there is no row, or none that says of what it is."""
    if options.by not in OF_SCOPES and (options.line or options.scope):
        raise OptionError(
            f"--by {options.by} counts whole warps; --line and --scope work with --by {', '.join(OF_SCOPES)}"
        )
    chosen, unit = RowFilter(options.line, options.scope), profile.tables.unit
    rows = make_rows(profile.tables, options.by, unit, chosen, options.sort)
    _check_told(rows, profile, options.by)
    if options.format == "json":
        print_json([vars(row) for row in rows[: options.top or None]])
        return
    if options.format in TABLES:
        print_rows([{**vars(row), "unit": unit} for row in rows[: options.top or None]], options.format)
        return
    width = text_width(options.width)
    lines = [Text(EMULATED, style="bold black on yellow")] if profile.emulated else []
    top = MOST_ROWS if options.top is None else options.top
    corrected = are_corrected(profile.tables)
    whole = rows if chosen.are_all else make_rows(profile.tables, options.by, unit, RowFilter(), None)
    about = [
        f"share: {'self time over' if options.by in OF_SCOPES else 'of'} the warp time {_whose(whole)}",
        "cycles" if unit == "cycles" else "times of the GPU",
    ]
    lines += _render(rows, options.by, unit, top, width, about, corrected=corrected)
    for note in _notes(profile, options.by):
        lines += noted(note, width)
    print_lines(lines, width)


def _check_told(rows: list[ByRow], profile: Profile, by: str) -> None:
    one = by.upper() if by in ("sm", "cta") else by
    if not rows:
        raise TraceError(f"--by {by} has no row: no spans were recorded")
    if by in OF_PLACES and all(row.key == "-1" for row in rows):
        raise TraceError(f"--by {by}: this trace does not have the {one} {OF_PLACES[by]}")


def _whose(rows: list[ByRow]) -> str:
    """The kernels that shares are of: those of all rows, also if --line or --scope shows a few."""
    return "of all kernels" if len({row.kernel for row in rows}) > 1 else "of the kernel"


def _notes(profile: Profile, by: str) -> Iterator[str]:
    """What the rows are not of."""
    of_scopes = summary_of(profile.tables, summed_spans(profile.tables), ordered=False)
    is_part = len(profile.tables.df) and (of_scopes["sampled"] < 1).any()
    if by not in (*OF_SCOPES, *OF_LAUNCHES) and is_part:
        yield "Recorded CTAs only; nothing is scaled up to the grid."


def _render(
    rows: list[ByRow], by: str, unit: str, top: int, width: int, about: list[str], *, corrected: bool
) -> list[Text]:
    """about: what the shares and the times are."""
    of_scopes = by in OF_SCOPES
    kernels = len({row.kernel for row in rows}) > 1 and by != "kernel"
    shown = rows[: top or None]

    def text(value: float | None) -> str:
        return "-" if value is None else duration_text(value, unit)

    columns = {
        by: [_key_text(row.key, by) for row in shown],
        **({"kernel": [printable(row.kernel) for row in shown]} if kernels else {}),
        **(
            {
                "launch": [str(row.launch) for row in shown],
                "SM": [_key_text(str(row.sm), "sm") for row in shown],
            }
            if by == "cta"
            else {}
        ),
        **(
            {}
            if of_scopes or by == "cta"
            else {"CTAs": ["-" if row.ctas is None else count_text(row.ctas) for row in shown]}
        ),
        "spans" if of_scopes else "warps": [count_text(row.count) for row in shown],
        **(
            {"duration": [text(row.duration) for row in shown]}
            if any(row.duration is not None for row in shown)
            else {}
        ),
        ("total" if of_scopes else "warp time"): [text(row.total) for row in shown],
        **({"self": [text(row.self) for row in shown]} if of_scopes else {}),
        "share": [share_text(row.share) for row in shown],
        "mean": [text(row.mean) for row in shown],
        "max": [text(row.max) for row in shown],
    }
    spare = {"kernel": 4, "mean": 1, "max": 2, "total": 3}
    heads = [Column(name, _holds(name, by, cells), spare.get(name, 0)) for name, cells in columns.items()]
    cells = [list(row) for row in zip(*columns.values(), strict=True)]
    about = [
        *about,
        "recording time subtracted" if corrected else "as read",
        *(["scaled up to the grid from the CTAs that recorded"] if any(row.scaled for row in rows) else []),
        *(["duration: as read"] if corrected and any(row.duration is not None for row in rows) else []),
    ]
    lines = heading(f"by {by}", about, width)
    lines += grid(heads, cells, [""] * len(cells), width)
    if len(shown) < len(rows):
        more = count_text(len(rows) - len(shown), "more row")
        lines.append(Text(f"{more}; --top 0 shows them", style="dim"))
    if any(row.self == 0 for row in shown):
        lines += noted(NO_TIME, width)
    return lines


def _holds(name: str, by: str, cells: list[str]) -> Literal["name", "kernel", "number"]:
    """What a column has; of what rows are grouped by, numbers or names."""
    if name == "kernel":
        return "kernel"
    return "name" if name in ("scope", "line", by) and not _is_number(cells) else "number"


def _key_text(key: str, by: str) -> str:
    return "-" if by in OF_PLACES and key == "-1" else printable(key) or "(none known)"


def _is_number(cells: list[str]) -> bool:
    return all(cell.lstrip("-").isdecimal() for cell in cells)
