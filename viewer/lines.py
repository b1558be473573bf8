"""The lines: where each source line's time goes by spans and samples, and why it waits."""

from collections.abc import Hashable
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any

import pandas as pd
from rich.text import Text

from profscope.analysis.line_rows import configurations, witnesses
from profscope.analysis.lines import lines_alone
from profscope.profiles import Profile
from viewer.cells import fit_end, wrap
from viewer.filters import Rows
from viewer.grid import Column, grid, heading
from viewer.groups import make_groups
from viewer.units import count_text, printable, share_text, source_text

__all__ = ["LineRow", "LineTable", "make_lines", "render_lines"]

_SHARES = {
    "self_share": "spans",
    "share_samples": "samples",
    "share_samples_recorded": "recorded",
}

_WIDE = 120
"""Below this, the text of a line is worth more than its stalls and what recording has changed."""


_LONGEST_PLACE = 20


@dataclass(frozen=True)
class LineRow:
    """A row of `Profile.lines()`; what is missing there is None."""

    file: str
    line: int
    call_path: str
    source: str
    self_share: float | None
    share_samples: float | None
    share_samples_low: float | None
    share_samples_high: float | None
    share_samples_recorded: float | None
    samples: int
    stalls: str
    waits_for: str
    bytes_at_most: int | None
    flops: int | None


@dataclass(frozen=True)
class LineTable:
    """The lines of a kernel's variant; `omitted` ones were left out. label: as of its `Group`."""

    kernel: str
    variant: int
    label: str
    samples: int
    rows: list[LineRow]
    omitted: int
    not_measured: list[str]


def make_lines(
    profile: Profile,
    top: int,
    kernels: int = 0,
    chosen: Rows | None = None,
    summary: pd.DataFrame | None = None,
) -> list[LineTable]:
    """A table for each kernel and variant, its `top` lines (0: all); of the first `kernels` (0: all).

    What was not measured is in the first. chosen: which lines are shown. summary: the profile's, where it is
    known.
    """
    chosen = chosen or Rows()
    lines, _ = lines_alone(profile.tables, witnesses(profile.tables, summary))
    texts = lines.attrs["not_measured"]
    lines.attrs = {}  # pandas copies them, deeply, with whatever is asked of a table
    groups = make_groups(profile)
    tables: list[LineTable] = []
    for (kernel, variant), own in islice(configurations(lines), kernels or None):
        every = chosen.chosen([_row(row) for row in own.to_dict("records")])
        rows = every[: top or None]
        omitted = len(every) - len(rows)
        label = groups[kernel, int(variant)].label if (kernel, variant) in groups else ""
        samples = int(own["samples"].sum())
        tables.append(
            LineTable(kernel, int(variant), label, samples, rows, omitted, texts if not tables else [])
        )
    return tables


def _row(row: dict[Hashable, Any]) -> LineRow:
    figures: dict[str, Any] = {
        each.name: None if pd.isna(row[each.name]) else row[each.name] for each in fields(LineRow)
    }
    return LineRow(**figures)


def _sampled(samples: int) -> str:
    return f" by spans, and by {count_text(samples)} samples" if samples else ""


def _place(row: LineRow, own_files: set[str]) -> str:
    """The line, and its file where that is not the kernel's: "16", "standard.py:290"."""
    if not row.line or row.file in own_files:
        return str(row.line or "")
    return fit_end(source_text(row.file, row.line), _LONGEST_PLACE)


def render_lines(table: LineTable, width: int) -> list[Text]:
    """The table's lines, the first a title."""
    shares = {
        name: head
        for name, head in _SHARES.items()
        if any(getattr(row, name) is not None for row in table.rows)
        and (width >= _WIDE or name != "share_samples_recorded")
    }
    own_files = {row.file for row in table.rows if not row.call_path}
    columns = [
        Column("line"),
        *(Column(head) for head in shares.values()),
        Column("source", "name", spare=1),
    ]
    why = {
        name: spare
        for name, spare in (("stalls", 3), ("waits_for", 2))
        if any(getattr(row, name) for row in table.rows) and (width >= _WIDE or name != "stalls")
    }
    columns += [Column(name.replace("_", " "), "name", spare=spare) for name, spare in why.items()]
    rows = [
        [
            _place(row, own_files),
            *(share_text(getattr(row, name)) for name in shares),
            printable(row.source or row.call_path or ("" if row.line else "(of no line)")),
            *(printable(getattr(row, name)) for name in why),
        ]
        for row in table.rows
    ]
    name = printable(table.kernel) + table.label
    lines = [
        *heading(
            name,
            [
                "lines by their own time",
                f"share of warp time{_sampled(table.samples)}",
                *(["recorded: by samples of launches that recorded"] * ("share_samples_recorded" in shares)),
            ],
            width,
        ),
        *grid(columns, rows, [""] * len(rows), width),
    ]
    if table.omitted:
        lines.append(Text(f"{count_text(table.omitted, 'more line')}; --top 0 shows them", style="dim"))
    for text in table.not_measured:
        lines += [Text(line, style="dim") for line in wrap(printable(text).split(" "), width)]
    return lines
