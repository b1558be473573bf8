"""The kernels: how often each was launched and how long its launches took."""

from dataclasses import dataclass

from rich.text import Text

from profscope.profiles import Profile
from viewer.grid import Column, grid
from viewer.units import count_text, duration_text, printable, share_text

__all__ = ["KernelRow", "make_kernels", "render_kernels"]


@dataclass(frozen=True)
class KernelRow:
    """A kernel's launches, each from first recorded time to last, in `unit`; share is of all launches."""

    kernel: str
    unit: str
    launches: int
    ctas: int
    total: float
    mean: float
    min: float
    max: float
    share: float | None


def make_kernels(profile: Profile, unit: str) -> list[KernelRow]:
    """A row per kernel, the one whose launches took longest first; cycles follow from each launch's clock.

    All views have their kernels in this order.
    """
    launches = profile.launches
    duration = (launches["end_ns"] - launches["start_ns"]).astype("float64")
    if unit == "cycles":
        duration = duration * launches["clock_ghz"].fillna(0.0)
    everything = float(duration.sum())
    rows = []
    for kernel, mine in duration.groupby(launches["kernel"], sort=False):
        rows.append(
            KernelRow(
                kernel=str(kernel),
                unit=unit,
                launches=len(mine),
                ctas=int(launches.loc[mine.index, "ctas"].sum()),
                total=float(mine.sum()),
                mean=float(mine.mean()),
                min=float(mine.min()),
                max=float(mine.max()),
                share=float(mine.sum() / everything) if everything else None,
            )
        )
    return sorted(rows, key=lambda row: (-row.total, row.kernel))


def render_kernels(rows: list[KernelRow], width: int, most: int) -> list[Text]:
    """The table's lines; the `most` longest-running kernels (0: all)."""
    columns = [Column("kernel", "name"), Column("launches"), Column("CTAs", spare=3), Column("total")]
    columns += [Column("share"), Column("mean", spare=1), Column("min", spare=4), Column("max", spare=2)]
    shown = rows[: most or None]
    cells = []
    for row in shown:
        total, *times = [duration_text(value, row.unit) for value in (row.total, row.mean, row.min, row.max)]
        counts = [count_text(row.launches), count_text(row.ctas) if row.ctas else "-"]
        name = printable(row.kernel)
        cells.append([name, *counts, total, share_text(row.share), *times])
    lines = grid(columns, cells, [""] * len(cells), width)
    if len(shown) < len(rows):
        lines.append(Text(f"{len(rows) - len(shown)} more kernels; --top 0 shows them", style="dim"))
    return lines
