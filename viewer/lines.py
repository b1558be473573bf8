"""The lines: where each source line's time goes by spans, sums and samples, and why it waits."""

from collections.abc import Hashable
from dataclasses import dataclass, fields
from typing import Any

import pandas as pd
from rich.text import Text

from profscope.analysis.line_rows import configurations
from profscope.profiles import Profile
from viewer.cells import wrap
from viewer.grid import Column, grid, heading
from viewer.units import count_text, printable, share_text

__all__ = ["LineRow", "LineTable", "make_lines", "render_lines"]

_SHARES = {
    "self_share": "spans",
    "share_sums": "sums",
    "share_samples": "samples",
    "share_samples_recorded": "recorded",
}


@dataclass(frozen=True)
class LineRow:
    """A row of `Profile.lines()`; what is missing there is None."""

    file: str
    line: int
    call_path: str
    source: str
    self_share: float | None
    share_sums: float | None
    share_samples: float | None
    share_samples_low: float | None
    share_samples_high: float | None
    share_samples_recorded: float | None
    samples: int
    stalls: str
    waits_for: str
    bytes: int | None
    flops: int | None


@dataclass(frozen=True)
class LineTable:
    """The lines of a kernel's variant; `omitted` ones were left out."""

    kernel: str
    variant: int
    samples: int
    rows: list[LineRow]
    omitted: int
    not_measured: list[str]


def make_lines(profile: Profile, top: int) -> list[LineTable]:
    """A table for each kernel and variant, its `top` lines (0: all).

    What was not measured is in the first.
    """
    lines = profile.lines()
    texts = lines.attrs["not_measured"]
    tables: list[LineTable] = []
    for (kernel, variant), own in configurations(lines):
        records = own.head(top or len(own)).to_dict("records")
        rows = [_row(row) for row in records]
        omitted = len(own) - len(rows)
        samples = int(own["samples"].sum())
        tables.append(LineTable(kernel, int(variant), samples, rows, omitted, texts if not tables else []))
    return tables


def _row(row: dict[Hashable, Any]) -> LineRow:
    figures: dict[str, Any] = {
        each.name: None if pd.isna(row[each.name]) else row[each.name] for each in fields(LineRow)
    }
    return LineRow(**figures)


def render_lines(table: LineTable, width: int) -> list[Text]:
    """The table's lines, the first a title."""
    shares = {
        name: head
        for name, head in _SHARES.items()
        if any(getattr(row, name) is not None for row in table.rows)
    }
    columns = [
        Column("line"),
        *(Column(head) for head in shares.values()),
        Column("source", "name", spare=1),
        Column("stalls", "name", spare=3),
        Column("waits for", "name", spare=2),
    ]
    rows = [
        [
            str(row.line or ""),
            *(share_text(getattr(row, name)) for name in shares),
            printable(row.source or row.call_path),
            printable(row.stalls),
            printable(row.waits_for),
        ]
        for row in table.rows
    ]
    name = printable(table.kernel) + (f" #{table.variant}" if table.variant else "")
    lines = [
        *heading(name, ["lines", f"{count_text(table.samples)} samples"], width),
        *grid(columns, rows, [""] * len(rows), width),
    ]
    if table.omitted:
        lines.append(Text(f"{table.omitted} more lines; --top 0 shows them", style="dim"))
    for text in table.not_measured:
        lines += [Text(line, style="dim") for line in wrap(printable(text).split(" "), width)]
    return lines
