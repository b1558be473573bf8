"""A profile in a few lines of HTML, as a notebook shows it below a cell.

It has no script and no style sheet: notebooks that are not trusted, and GitHub, take both away. Colours are
those of the notebook, dark or light, with some transparency.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pandas as pd

from profscope.analysis.findings import findings
from profscope.analysis.launch_durations import took
from profscope.analysis.lines import lines
from profscope.analysis.markup import Child, Markup, joined, tag
from profscope.analysis.report_sections import clipped
from profscope.analysis.verdict import verdict
from profscope.schema import Tables
from profscope.traces.html.figures import count_text, duration_text, percent_text, place_text

__all__ = ["overview"]

_MOST_SPANS: Final = 3_000_000
"""Of more, a cell would take seconds to say what is found in them."""
_KERNELS, _FINDINGS, _LINES, _LETTERS = 5, 3, 5, 80
_QUIET: Final = "opacity: 0.75"
_LEFT: Final = "text-align: left; white-space: nowrap; color: inherit"
_SHARES: Final = (
    ("share_samples", "of samples"),
    ("self_share", "of time, by spans"),
)


def overview(tables: Tables, held: str) -> Markup:
    """The verdict, kernels, what holds them back, and the lines that take most time. held: what there is."""
    head = tag("p", tag("b", "profscope"), " ", held, _device(tables))
    if tables.launches.empty:
        return tag("div", head)
    parts: list[Child] = [head, Markup(verdict(tables)._repr_html_())]
    kernels = _heaviest(tables)
    if len(kernels) > 1:
        parts.append(_kernels(kernels, tables))
    if len(tables.df) > _MOST_SPANS:
        parts.append(tag("p", "prof.findings() and prof.lines() say more, and take a while.", style=_QUIET))
    else:
        said = findings(tables)
        parts.append(_findings(said, several=len(kernels) > 1))
        parts += [_lines(tables, kernels.iloc[0])] if len(kernels) else []
        parts.append(_missing(said.attrs["not_measured"]))
    parts.append(
        tag("p", tag("code", "prof.show()"), " has the whole report, ", tag("code", "prof.plot"), " figures.",
            style=_QUIET)
    )  # fmt: skip
    return tag("div", *parts)


def _device(tables: Tables) -> str:
    device = tables.metadata.get("device")
    name = device.get("name") if isinstance(device, dict) else None
    return f", {name}" if name and not tables.emulated else ""


def _heaviest(tables: Tables) -> pd.DataFrame:
    """Kernels and variants, the greatest first: kernel, variant, name, launches, total, median."""
    key = ["kernel", "variant"]
    launches = tables.launches
    durations = took(tables, tables.unit)[launches.index].groupby([launches[name] for name in key])
    counts = launches.groupby(key, sort=False).size()
    table = pd.DataFrame(
        {"launches": counts, "total": durations.sum(min_count=1), "median": durations.median()}
    )
    table = table.rename_axis(key).reset_index()
    several = table["kernel"].duplicated(keep=False)
    numbered = table["kernel"] + " #" + table["variant"].astype("str")
    table["name"] = table["kernel"].mask(several, numbered)
    return table.sort_values("total", ascending=False, kind="stable")


def _kernels(kernels: pd.DataFrame, tables: Tables) -> Markup:
    whole = float(kernels["total"].sum()) or 1.0
    rows = []
    for row in kernels[:_KERNELS].to_dict("records"):
        total = row["total"]
        median = "" if tables.emulated or pd.isna(row["median"]) else duration_text(row["median"], "ns")
        share = "" if pd.isna(total) else percent_text(total / whole)
        rows.append((share, clipped(row["name"], _LETTERS), count_text(int(row["launches"])), median))
    left = len(kernels) - len(rows)
    heads = ("share of time", "kernel", "launches", "median launch")
    return joined([_table(heads, rows), tag("p", f"and {left} more", style=_QUIET) if left > 0 else None])


def _findings(said: pd.DataFrame, *, several: bool) -> Markup:
    """What holds the kernels back; where there is nothing, what is known of them."""
    if said.empty:
        clean = list(dict.fromkeys(said.attrs["clean"].values()))
        return joined(tag("p", text) for text in clean[:_FINDINGS])
    items = []
    for row in said[:_FINDINGS].to_dict("records"):
        gain = f"up to {row['program_pct']:.0f} %: " if row["program_pct"] > 0 else ""
        of = f" of {clipped(row['kernel'], _LETTERS)}" if several else ""
        items.append(
            tag("li", tag("b", gain, str(row["finding"])), f" at {_place(row)}{of}. {row['evidence']}. ",
                tag("i", "Try: "), str(row["advice"]))
        )  # fmt: skip
    left = len(said) - len(items)
    more = tag("p", f"and {left} more in prof.findings()", style=_QUIET) if left > 0 else None
    return joined(
        [
            tag("p", "What holds it back, and how much of the kernels' time fixing it saves at most:"),
            tag("ul", *items),
            more,
        ]
    )


def _lines(tables: Tables, kernel: pd.Series[Any]) -> Markup:
    """The lines of a kernel, a row of `_heaviest`, that take most time, by the witness that there is."""
    table = lines(tables)
    table = table[(table["kernel"] == kernel["kernel"]) & (table["variant"] == kernel["variant"])]
    column, by = next(
        ((name, by) for name, by in _SHARES if name in table and (table[name].fillna(0) > 0).any()), ("", "")
    )
    if not column:
        return Markup("")
    top = table[table[column].notna() & (table[column] > 0)].sort_values(
        column, ascending=False, kind="stable"
    )
    rows = [
        (percent_text(float(row[column])), _place(row), clipped(str(row["source"]).strip(), _LETTERS))
        for row in top[:_LINES].to_dict("records")
    ]
    return _table((by, "line", clipped(kernel["name"], _LETTERS)), rows, code=2)


def _place(row: dict[Any, Any]) -> str:
    return clipped(place_text(str(row["file"]), int(row["line"])), _LETTERS // 2)


def _missing(said: list[str]) -> Markup:
    if not said:
        return Markup("")
    items = (tag("li", text) for text in said)
    return tag("details", tag("summary", "What could not be judged"), tag("ul", *items), style=_QUIET)


def _table(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]], *, code: int = -1) -> Markup:
    """code: the column that is source."""
    top = tag("tr", *(tag("th", head, style=_LEFT) for head in heads))
    body = (
        tag(
            "tr",
            *(
                tag("td", tag("code", cell) if at == code else cell, style=_LEFT)
                for at, cell in enumerate(row)
            ),
        )
        for row in rows
    )
    return tag("table", tag("thead", top), tag("tbody", *body))
