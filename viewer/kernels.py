"""The kernels: how often each was launched and how long its launches took."""

from dataclasses import dataclass

from rich.text import Text

from profscope.profile import Profile
from viewer.grid import Column, grid
from viewer.units import count_text, duration_text, printable, share_text

__all__ = ["KernelRow", "make_kernels", "render_kernels"]


@dataclass(frozen=True)
class KernelRow:
    """A kernel's launches, each from its first recorded time to its last; share is of all launches' time."""

    kernel: str
    launches: int
    ctas: int
    total_ns: int
    mean_ns: float
    min_ns: int
    max_ns: int
    share: float | None


def make_kernels(profile: Profile) -> list[KernelRow]:
    """A row per kernel, the one whose launches took longest first."""
    launches = profile.launches.assign(duration=profile.launches["end_ns"] - profile.launches["start_ns"])
    everything = int(launches["duration"].sum())
    rows = []
    for kernel, mine in launches.groupby("kernel", sort=False):
        duration = mine["duration"]
        rows.append(
            KernelRow(
                kernel=str(kernel),
                launches=len(mine),
                ctas=int(mine["ctas"].sum()),
                total_ns=int(duration.sum()),
                mean_ns=float(duration.mean()),
                min_ns=int(duration.min()),
                max_ns=int(duration.max()),
                share=float(duration.sum() / everything) if everything else None,
            )
        )
    return sorted(rows, key=lambda row: -row.total_ns)


def render_kernels(rows: list[KernelRow], width: int, most: int) -> list[Text]:
    """The table's lines; the `most` longest-running kernels (0: all)."""
    columns = [Column("kernel", "name")]
    columns += map(Column, ("launches", "CTAs", "total", "share", "mean", "min", "max"))
    shown = rows[: most or None]
    cells = []
    for row in shown:
        times = [duration_text(value, "ns") for value in (row.mean_ns, row.min_ns, row.max_ns)]
        counts = [count_text(row.launches), count_text(row.ctas) if row.ctas else "-"]
        name = printable(row.kernel)
        cells.append([name, *counts, duration_text(row.total_ns, "ns"), share_text(row.share), *times])
    lines = grid(columns, cells, [""] * len(cells), width)
    if len(shown) < len(rows):
        lines.append(Text(f"{len(rows) - len(shown)} more kernels; --top 0 shows them", style="dim"))
    return lines
