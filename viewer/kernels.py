"""The kernels: how often each was launched and how long its launches took."""

from collections.abc import Sequence

from rich.text import Text

from profscope.analysis.model.entries import KernelEntry
from profscope.analysis.model.labels import differs_text
from viewer.cells import wrap
from viewer.grid import Column, grid, heading
from viewer.units import count_text, duration_text, printable, share_text

__all__ = ["render_kernels"]

_TIMES = {"median": 0, "p25": 4, "p75": 2}
"""Of launches, and which short lines leave out first."""


def render_kernels(
    kernels: Sequence[KernelEntry], unit: str, width: int, most: int, said: Sequence[str] = ()
) -> list[Text]:
    """The table's lines; the `most` longest-running kernels (0: all). said: of their times, in the title."""
    columns = [
        Column("kernel", "kernel"),
        Column("launches"),
        Column("CTAs", spare=3),
        Column("total", spare=1),
    ]
    columns += [Column("share"), *(Column(name, spare=spare) for name, spare in _TIMES.items())]
    shown = kernels[: most or None]
    with_label = any(entry.label for entry in shown)
    if with_label:  # not behind the name, which may be cut
        columns[1:1] = [Column("variant"), Column("configuration", "name", spare=5)]
    cells = []
    for entry in shown:
        names = [printable(entry.kernel)]
        names += [entry.label, differs_text(entry.differs)] if with_label else []
        ctas = entry.ctas.recorded
        counts = [count_text(entry.launches), count_text(ctas) if ctas else "-"]
        cells.append([*names, *counts, *_times(entry, unit)])
    in_cycles = ["cycles"] if unit == "cycles" else []
    lines = heading("kernels", ["launches from their first record to their last", *in_cycles, *said], width)
    lines += grid(columns, cells, [""] * len(cells), width)
    if len(shown) < len(kernels):
        lines.append(Text(f"{len(kernels) - len(shown)} more kernels; --top 0 shows them", style="dim"))
    for entry in shown:
        if entry.untimed:
            many = count_text(entry.untimed, "launch", "launches")
            why = f"{many} without records or without an end, in no time."
            lines += [Text(line) for line in wrap(f"{printable(entry.name)}: {why}".split(" "), width)]
    return lines


def _times(entry: KernelEntry, unit: str) -> list[str]:
    """Total, share, and the columns of _TIMES."""
    time = entry.time
    if time is None:
        return [duration_text(0, unit), share_text(entry.share), *["-"] * len(_TIMES)]
    each = [duration_text(getattr(time, name), unit) for name in _TIMES]
    return [duration_text(time.total, unit), share_text(entry.share), *each]
