"""`profscope view TRACE --by cta`: a table with a row for each launch, SM, CTA, warp, line, scope, ..."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd
from rich.console import Console
from rich.text import Text

from profscope.analysis.line_rows import GAP
from profscope.analysis.spans.corrections import are_corrected
from profscope.analysis.spans.rows import (
    launch_scales,
    not_samples,
)
from profscope.analysis.spans.summing import summed_spans
from profscope.analysis.summary import summary_of
from profscope.errors import OptionError, TraceError
from profscope.profiles import Profile
from viewer.filters import Rows
from viewer.grid import Column, grid, heading
from viewer.header import EMULATED
from viewer.outlet import TABLES, noted, print_json, print_lines, print_rows
from viewer.units import (
    NO_TIME,
    count_text,
    duration_text,
    printable,
    share_text,
    source_text,
)
from viewer.warps import whole_warps

__all__ = ["ByRow", "make_rows", "show"]

OF_SCOPES = ("line", "scope", "kind")
"""Rows of these are sums of the summary's rows; of the others sums over whole warps. Both are without what
recording took, where that is known."""

OF_LAUNCHES = ("kernel", "variant", "launch", "rank")
"""What whole launches have a part in: where some of their CTAs recorded, the time of all is estimated."""

OF_PLACES = {
    "sm": "a span is of",
    "cta": "a span is of",
    "warp": "a span is of",
    "rank": "a launch is of: it is of one process, or of a job whose ranks are not known",
}
"""What a trace need not know, and then has as -1."""

MOST_ROWS = 20
NOT_RECORDED = "not recorded"


@dataclass(frozen=True)
class ByRow:
    """total: warp time, of scopes their durations; self: of scopes that less what is inside. scaled: whether
    both, and the count of spans, are estimates for whole grids. count: of the warps that recorded, or of
    spans. share: of the warp time of all that is shown. mean, max: of a warp, or of a span. took: from first
    start to last end as they were read, None where that means nothing.
    """

    kernel: str
    key: str
    launch: int | None
    sm: int | None
    ctas: int | None
    count: int
    total: int
    self: int
    scaled: bool
    share: float
    mean: float
    max: int | None
    took: int | None


def show(profile: Profile, options: argparse.Namespace, unit: str) -> None:
    """Print it. Raises OptionError for a choice of rows that whole warps know nothing of, TraceError where
    there is no row, or none that says of what it is."""
    if options.by not in OF_SCOPES and (options.line or options.scope):
        raise OptionError(
            f"--by {options.by} is of whole warps; --line and --scope go with --by {', '.join(OF_SCOPES)}"
        )
    chosen = Rows(options.line, options.scope)
    rows = make_rows(profile, options.by, unit, chosen, options.sort)
    _check_told(rows, profile, options.by)
    if options.format == "json":
        print_json([vars(row) for row in rows[: options.top or None]])
        return
    if options.format in TABLES:
        print_rows([{**vars(row), "unit": unit} for row in rows[: options.top or None]], options.format)
        return
    width = Console(width=options.width).width
    lines = [Text(EMULATED, style="bold black on yellow")] if profile.emulated else []
    top = MOST_ROWS if options.top is None else options.top
    corrected = are_corrected(profile.tables)
    whole = rows if chosen.are_all else make_rows(profile, options.by, unit, Rows(), None)
    about = [
        f"share: {'self time over' if options.by in OF_SCOPES else 'of'} the warp time {_whose(whole)}",
        _times(unit, emulated=profile.emulated),
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
        raise TraceError(f"--by {by}: this trace does not say which {one} {OF_PLACES[by]}")


def _whose(rows: list[ByRow]) -> str:
    """Of which kernels the shares are: of those of all rows, also where --line or --scope shows a few."""
    return "of all kernels" if len({row.kernel for row in rows}) > 1 else "of the kernel"


def _times(unit: str, *, emulated: bool) -> str:
    if unit == "cycles":
        return "cycles"
    return "times of the cost model" if emulated else "times of the GPU"


def _notes(profile: Profile, by: str) -> Iterator[str]:
    """What the rows are not of."""
    of_scopes = summary_of(profile.tables, summed_spans(profile.tables), ordered=False)
    is_part = len(profile.tables.df) and (of_scopes["sampled"] < 1).any()
    if by not in (*OF_SCOPES, *OF_LAUNCHES) and is_part:
        yield "Of the CTAs that recorded alone: nothing is scaled up to the grid."


def make_rows(profile: Profile, by: str, unit: str, chosen: Rows, sort: str | None) -> list[ByRow]:
    """All rows, the one of most time first: of CTAs the slowest, of scopes that of most self time."""
    rows = _of_scopes(profile, by, unit, chosen) if by in OF_SCOPES else _of_warps(profile, by, unit)
    if sort == "name":
        return sorted(rows, key=lambda row: (row.kernel, len(row.key) if row.key.isdecimal() else 0, row.key))
    name = sort or ("took" if by == "cta" else "self" if by in OF_SCOPES else "total")
    return sorted(rows, key=lambda row: -(getattr(row, name) or 0))


def _of_warps(profile: Profile, by: str, unit: str) -> list[ByRow]:
    """Sums over whole warps."""
    table = _warps(profile, by, unit)
    everything = float(table["estimate"].sum())
    # A launch's or a CTA's; and SMs have clocks of their own, so cycles are compared within a CTA alone.
    key = {"cta": ["kernel", "launch", "cta"], "launch": ["kernel", "launch"]}.get(by, ["kernel", by])
    rows = []
    for names, own in table.groupby(list(dict.fromkeys(key)), sort=True):
        took, ctas = None, None
        if by == "cta" or (by == "launch" and unit == "ns"):
            took = int(own["end"].max() - own["start"].min())
        label: Any = names if isinstance(names, tuple) else (names,)
        if by != "cta" and (own["cta"] >= 0).any():
            ctas = len(own[["launch", "cta"]].drop_duplicates())
        total = round(own["estimate"].sum())
        rows.append(
            ByRow(
                kernel=str(label[0]),
                key=str(label[-1]),
                launch=int(own["launch"].iloc[0]) if by in ("cta", "launch") else None,
                sm=int(own["sm"].iloc[0]) if by in ("cta", "sm") else None,
                ctas=ctas,
                count=len(own),
                total=total,
                self=total,
                scaled=bool((own["estimate"] != own["length"]).any()),
                share=total / everything if everything else 0.0,
                mean=float(own["length"].mean()),
                max=int(own["length"].max()),
                took=took,
            )
        )
    return rows


def _warps(profile: Profile, by: str, unit: str) -> pd.DataFrame:
    """What rows add up: whole warps, one a row. length: in all; estimate: that, for `OF_LAUNCHES` of the
    whole grid."""
    scale = pd.Series(launch_scales(profile.tables), profile.launches["launch"])
    table = whole_warps(profile, unit)
    of_launch = profile.launches.drop_duplicates("launch").set_index("launch")[["variant", "rank"]]
    table = table.join(of_launch, on="launch")
    return table.assign(estimate=table["length"] * (table["launch"].map(scale) if by in OF_LAUNCHES else 1.0))


def _of_scopes(profile: Profile, by: str, unit: str, chosen: Rows) -> list[ByRow]:
    """Sums over rows of the summary."""
    summary = summary_of(profile.tables, summed_spans(profile.tables))
    summary = summary[summary["kind"] != "async"]
    everything = int(summary[f"self_{unit}"].sum())
    if not chosen.are_all:
        places = zip(summary["file"], summary["line"], summary["scope"], strict=True)
        summary = summary[[chosen.has(str(file), int(line), str(scope)) for file, line, scope in places]]
        chosen.check(profile)
    if by == "line":  # time that no record covers is at none
        summary = summary.assign(
            file=summary["file"].astype("str").mask(summary["kind"] == GAP, NOT_RECORDED),
            line=summary["line"].mask(summary["kind"] == GAP, 0),
        )
    unscaled = not_samples(profile.metadata)
    key = ["kernel", "file", "line"] if by == "line" else ["kernel", by]
    rows = []
    for names, own in summary.groupby(key, observed=True, sort=False):
        label: Any = names
        count, total, self_time = (
            int(own[name].sum()) for name in ("count", f"total_{unit}", f"self_{unit}")
        )
        longest = own[f"max_{unit}"].max()
        rows.append(
            ByRow(
                kernel=str(label[0]),
                key=source_text(str(label[1]), int(label[2])) if by == "line" else str(label[1]),
                launch=None,
                sm=None,
                ctas=None,
                count=count,
                total=total,
                self=self_time,
                scaled=bool((own["sampled"] < 1).any()) and str(label[0]) not in unscaled,
                share=self_time / everything if everything else 0.0,
                mean=total / count if count else 0.0,
                max=None if pd.isna(longest) else int(longest),
                took=None,
            )
        )
    return rows


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
        **({"took": [text(row.took) for row in shown]} if any(row.took is not None for row in shown) else {}),
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
        "without what recording took" if corrected else "as they were read",
        *(["scaled up to the grid from the CTAs that recorded"] if any(row.scaled for row in rows) else []),
        *(["took: as it was read"] if corrected and any(row.took is not None for row in rows) else []),
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
