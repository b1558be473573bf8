"""The kernels: how often each was launched and how long its launches took."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from profscope.analysis.launch_durations import took
from profscope.analysis.span_rows import GROUP_COLUMNS
from profscope.profiles import Profile
from viewer.cells import wrap
from viewer.grid import Column, grid, heading
from viewer.groups import Group, differs_text, make_groups
from viewer.units import count_text, duration_text, printable, share_text

__all__ = ["KernelRow", "make_kernels", "render_kernels"]


@dataclass(frozen=True, kw_only=True)
class KernelRow(Group):
    """A group's launches, each from first recorded time to last, in `unit`. share: of all launches.

    untimed: launches without records, or with CTAs that did not come to their end, whose times nobody knows.
    They count as launches, and in no time; mean, min and max are None where there are no others.
    """

    unit: str
    launches: int
    untimed: int
    ctas: int
    total: float
    mean: float | None
    min: float | None
    max: float | None
    share: float | None


def make_kernels(profile: Profile, unit: str) -> list[KernelRow]:
    """A row per kernel and variant, the one whose launches took longest first.

    All views have their kernels in this order.
    """
    launches = profile.launches
    timed = took(profile.tables, unit).dropna()
    everything = float(timed.sum())
    groups = make_groups(profile).values()
    rows = []
    for group, (_, of_group) in zip(groups, launches.groupby(list(GROUP_COLUMNS), sort=False), strict=True):
        mine = timed[timed.index.isin(of_group.index)]
        rows.append(
            KernelRow(
                **group.identity,
                unit=unit,
                launches=len(of_group),
                untimed=len(of_group) - len(mine),
                ctas=int(of_group["ctas"].sum()),
                total=float(mine.sum()),
                mean=float(mine.mean()) if len(mine) else None,
                min=float(mine.min()) if len(mine) else None,
                max=float(mine.max()) if len(mine) else None,
                share=float(mine.sum() / everything) if everything else None,
            )
        )
    return sorted(rows, key=lambda row: (-row.total, row.kernel, row.variant))


def render_kernels(rows: list[KernelRow], width: int, most: int, said: Sequence[str] = ()) -> list[Text]:
    """The table's lines; the `most` longest-running kernels (0: all). said: of their times, in the title."""
    columns = [Column("kernel", "kernel"), Column("launches"), Column("CTAs", spare=3), Column("total")]
    columns += [Column("share"), Column("mean", spare=1), Column("min", spare=4), Column("max", spare=2)]
    shown = rows[: most or None]
    with_label = any(row.label for row in shown)
    if with_label:  # not behind the name, which may be cut
        columns[1:1] = [Column("variant"), Column("configuration", "name", spare=5)]
    cells = []
    for row in shown:
        times = [
            "-" if value is None else duration_text(value, row.unit) for value in (row.mean, row.min, row.max)
        ]
        counts = [count_text(row.launches), count_text(row.ctas) if row.ctas else "-"]
        total = [duration_text(row.total, row.unit), share_text(row.share)]
        names = [printable(row.kernel), *([row.label.strip(), differs_text(row)] if with_label else [])]
        cells.append([*names, *counts, *total, *times])
    unit = ["cycles"] if any(row.unit == "cycles" for row in shown) else []
    lines = heading("kernels", ["launches from their first record to their last", *unit, *said], width)
    lines += grid(columns, cells, [""] * len(cells), width)
    if len(shown) < len(rows):
        lines.append(Text(f"{len(rows) - len(shown)} more kernels; --top 0 shows them", style="dim"))
    for row in shown:
        if row.untimed:
            said = "without records or without an end, in no total, mean, min or max."
            note = f"{row.heading}: {count_text(row.untimed)} {said}"
            lines += [Text(line) for line in wrap(note.split(" "), width)]
    return lines
