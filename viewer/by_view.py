"""`profscope view TRACE --by cta`: a table with a row for each launch, SM, CTA, warp, line, scope, ..."""

import argparse
from dataclasses import dataclass
from typing import Any

import pandas as pd
from rich.console import Console
from rich.text import Text

from profscope.analysis.corrections import are_corrected, weighed
from profscope.errors import OptionError
from profscope.profiles import Profile
from viewer.filters import Rows
from viewer.grid import Column, grid, heading
from viewer.header import EMULATED
from viewer.outlet import TABLES, noted, print_json, print_lines, print_rows
from viewer.units import count_text, duration_text, printable, share_text, source_text

__all__ = ["ByRow", "make_rows", "show"]

OF_SCOPES = ("line", "scope", "kind")
"""Rows of these are sums of the summary's rows; of the others sums over whole warps. Both are without what
recording took, where that is known."""

MOST_ROWS = 20


@dataclass(frozen=True)
class ByRow:
    """total: warp time, of scopes their durations; self: of scopes that less what is inside. count: of warps,
    or of spans. share: of the warp time of all that is shown. took: from first start to last end as they were
    read, None where that means nothing.
    """

    kernel: str
    key: str
    launch: int | None
    sm: int | None
    ctas: int | None
    count: int
    total: int
    self: int
    share: float
    mean: float
    max: int | None
    took: int | None


def show(profile: Profile, options: argparse.Namespace, unit: str) -> None:
    """Print it. Raises OptionError for a choice of rows that whole warps know nothing of."""
    if options.by not in OF_SCOPES and (options.line or options.scope):
        raise OptionError(
            f"--by {options.by} is of whole warps; --line and --scope go with --by {', '.join(OF_SCOPES)}"
        )
    rows = make_rows(profile, options.by, unit, Rows(options.line, options.scope), options.sort)
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
    lines += _render(rows, options.by, unit, top, width, corrected=corrected)
    sums = int((profile.launches["keeps"] == "sums").sum())
    if sums and options.by not in OF_SCOPES:
        kept = "launch that kept sums is" if sums == 1 else "launches that kept sums are"
        lines += noted(f"{count_text(sums)} {kept} not among these: sums are of no single warp.", width)
    if options.by not in OF_SCOPES and len(profile.tables.df) and (profile.summary()["sampled"] < 1).any():
        lines += noted("Of the CTAs that recorded alone: nothing is scaled up to the grid.", width)
    print_lines(lines, width)


def make_rows(profile: Profile, by: str, unit: str, chosen: Rows, sort: str | None) -> list[ByRow]:
    """All rows, the one of most time first: of CTAs the slowest, of scopes that of most self time."""
    rows = _of_scopes(profile, by, unit, chosen) if by in OF_SCOPES else _of_warps(profile, by, unit)
    if sort == "name":
        return sorted(rows, key=lambda row: (row.kernel, len(row.key) if row.key.isdecimal() else 0, row.key))
    name = sort or ("took" if by == "cta" else "self" if by in OF_SCOPES else "total")
    return sorted(rows, key=lambda row: -(getattr(row, name) or 0))


def _of_warps(profile: Profile, by: str, unit: str) -> list[ByRow]:
    """Sums over spans that are of whole warps."""
    df, launches = profile.tables.df, profile.launches
    start, length = ("start_ns" if unit == "ns" else "start_cycle"), f"duration_{unit}"
    is_root = ((df["depth"] == 0) & (df["kind"] != "async")).to_numpy()
    roots = df[is_root]
    weighs = are_corrected(profile.tables)  # as the summary does
    weighed_roots = weighed(df, profile.metadata)[is_root] if weighs else roots
    known = launches.drop_duplicates("launch").set_index("launch")
    table = pd.DataFrame(
        {
            "kernel": roots["kernel"].astype("str").to_numpy(),
            "launch": roots["launch"].to_numpy(),
            **{name: roots[name].to_numpy() for name in ("sm", "cta", "warp")},
            **{name: known[name].reindex(roots["launch"]).to_numpy() for name in ("variant", "rank")},
            "start": roots[start].to_numpy(),
            "end": (roots[start] + roots[length]).to_numpy(),
            "length": weighed_roots[length].to_numpy(),
        }
    )
    everything = int(table["length"].sum())
    # A launch's or a CTA's; and SMs have clocks of their own, so cycles are compared within a CTA alone.
    key = {"cta": ["kernel", "launch", "cta"], "launch": ["kernel", "launch"]}.get(by, ["kernel", by])
    rows = []
    for names, own in table.groupby(list(dict.fromkeys(key)), sort=True):
        took = (
            int(own["end"].max() - own["start"].min())
            if by == "cta" or (by == "launch" and unit == "ns")
            else None
        )
        label: Any = names if isinstance(names, tuple) else (names,)
        rows.append(
            ByRow(
                kernel=str(label[0]),
                key=str(label[-1]),
                launch=int(own["launch"].iloc[0]) if by in ("cta", "launch") else None,
                sm=int(own["sm"].iloc[0]) if by in ("cta", "sm") else None,
                ctas=None if by == "cta" or (own["cta"] < 0).all() else _ctas(own),
                count=len(own),
                total=int(own["length"].sum()),
                self=int(own["length"].sum()),
                share=float(own["length"].sum() / everything) if everything else 0.0,
                mean=float(own["length"].mean()),
                max=int(own["length"].max()),
                took=took,
            )
        )
    return rows


def _ctas(rows: pd.DataFrame) -> int:
    return len(rows[["launch", "cta"]].drop_duplicates())


def _of_scopes(profile: Profile, by: str, unit: str, chosen: Rows) -> list[ByRow]:
    """Sums over rows of the summary, autotuners' trials left out."""
    summary = profile.summary()
    summary = summary[~summary["trial"] & (summary["kind"] != "async")]
    everything = int(summary[f"self_{unit}"].sum())
    if not chosen.are_all:
        places = zip(summary["file"], summary["line"], summary["scope"], strict=True)
        summary = summary[[chosen.has(str(file), int(line), str(scope)) for file, line, scope in places]]
        chosen.check(profile)
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
                share=self_time / everything if everything else 0.0,
                mean=total / count if count else 0.0,
                max=None if pd.isna(longest) else int(longest),
                took=None,
            )
        )
    return rows


def _render(rows: list[ByRow], by: str, unit: str, top: int, width: int, *, corrected: bool) -> list[Text]:
    of_scopes = by in OF_SCOPES
    kernels = len({row.kernel for row in rows}) > 1 and by != "kernel"
    shown = rows[: top or None]

    def text(value: float | None) -> str:
        return "-" if value is None else duration_text(value, unit)

    columns = {
        by: [printable(row.key) or "(none known)" for row in shown],
        **({"kernel": [printable(row.kernel) for row in shown]} if kernels else {}),
        **(
            {"launch": [str(row.launch) for row in shown], "SM": [str(row.sm) for row in shown]}
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
    heads = [
        Column(
            name,
            "name" if name in ("kernel", "scope", "line", by) and not _is_number(cells) else "number",
            spare.get(name, 0),
        )
        for name, cells in columns.items()
    ]
    cells = [list(row) for row in zip(*columns.values(), strict=True)]
    about = [
        "share: self time over all warp time" if of_scopes else "whole warps",
        "cycles" if unit == "cycles" else "times of the GPU",
        "without what recording took" if corrected else "as they were read",
    ]
    if corrected and any(row.took is not None for row in rows):
        about.append("took: as it was read")
    lines = heading(f"by {by}", about, width)
    lines += grid(heads, cells, [""] * len(cells), width)
    if len(shown) < len(rows):
        more = count_text(len(rows) - len(shown), "more row")
        lines.append(Text(f"{more}; --top 0 shows them", style="dim"))
    return lines


def _is_number(cells: list[str]) -> bool:
    return all(cell.lstrip("-").isdecimal() for cell in cells)
