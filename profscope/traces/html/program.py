"""The program around the kernels: what its scopes took, what ran on the GPUs, and where both are drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd

from profscope.analysis.program.gpu_gaps import gpu_gaps
from profscope.analysis.program.gpu_time import gpu_time
from profscope.analysis.program.host_scopes import host_scopes
from profscope.analysis.spans.rows import Ints
from profscope.analysis.texts import Child, Markup, joined, tag
from profscope.schema import CALL_ARROW, Tables
from profscope.traces.around_tracks import AroundTracks, around_tracks
from profscope.traces.html.figures import count_text, duration_text, percent_text, table

__all__ = ["drawn_around", "program_of"]

MOST_DRAWN: Final = 60_000
"""Host scopes and events of the timeline: of more the longest are kept."""

_LONGEST_NAME: Final = 160
_NOT_DRAWN: Final = (
    "Not in the timeline: the offset between the clocks of the host and of the launches is unknown."
)
_MOST_ROWS: Final = 40
_MOST_KERNELS: Final = 12
_SCOPES: Final = ("scope", "count", "mean", "total", "self", "launches each")
_OF_THE_GPU: Final = {"gpu_ns": "on the GPU", "triton_ns": "of that Triton"}
_GPU: Final = ("share of GPU time", "what", "name", "count", "total")


def program_of(tables: Tables, *, is_drawn: bool) -> Markup | None:
    """The section; None where nothing was recorded around the kernels. is_drawn: in the timeline, too."""
    if not len(tables.host) and not len(tables.events):
        return None
    on_gpu = gpu_time(tables)
    said: list[str] = [] if is_drawn else [_NOT_DRAWN]
    blocks: list[Child] = [tag("h2", "Program"), _of_gpus(tables, on_gpu)]
    if len(tables.host):
        scopes = host_scopes(tables)
        said += scopes.attrs["not_measured"]
        blocks.append(_scopes(scopes, {} if tables.emulated else _OF_THE_GPU))
    if len(on_gpu):
        blocks.append(_kernels(on_gpu))
    blocks += [tag("p", text, class_="dim") for text in dict.fromkeys(said)]
    return tag("section", *blocks, id="program")


def _of_gpus(tables: Tables, on_gpu: pd.DataFrame) -> Markup | None:
    """How long each GPU was busy, and what part of that was Triton's."""
    facts = []
    devices = gpu_gaps(tables).attrs["devices"]
    ranks = {rank for rank, _ in devices}
    for (rank, device), gpu in devices.items():
        name = f"GPU {device}" + (f" of rank {rank}" if len(ranks) > 1 else "")
        busy, idle = (duration_text(gpu[key], "ns") for key in ("busy_ns", "idle_ns"))
        facts.append((name, f"busy {busy}, idle {idle} ({percent_text(gpu['idle_share'])})"))
    if len(on_gpu):
        ran = int(on_gpu.loc[on_gpu["what"] == "Triton", "total_ns"].sum())
        share = percent_text(on_gpu.attrs["triton_share"])
        facts.append(("Triton's kernels", f"{share} of GPU time, {duration_text(ran, 'ns')}"))
    if not facts:
        return None
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", text)) for name, text in facts), class_="facts")


def _scopes(scopes: pd.DataFrame, of_gpu: Mapping[str, str]) -> Markup:
    """The tree of the host's scopes; a column for each of their values. of_gpu: columns of GPU time."""
    metrics = [str(name) for name in scopes.columns[list(scopes.columns).index("triton_ns") + 1 :]]
    rows = []
    for row in scopes.head(_MOST_ROWS).to_dict("records"):
        name = str(row["path"]).rsplit(CALL_ARROW, 1)[-1]
        times = [duration_text(float(row[f"{each}_ns"]), "ns") for each in ("mean", "total", "self")]
        ran = [duration_text(float(row[each]), "ns") if row[each] else "" for each in of_gpu]
        values = ["" if pd.isna(row[each]) else f"{float(row[each]):.6g}" for each in metrics]
        cells = [count_text(int(row["count"])), *times, f"{row['launches_each']:,.4g}", *ran, *values]
        head = tag("th", name, scope="row", style=f"padding-left:{int(row['depth']) * 1.4:.1f}em")
        rows.append(tag("tr", head, *(tag("td", cell, class_="n") for cell in cells)))
    heads = [*_SCOPES, *of_gpu.values(), *(f"mean {name}" for name in metrics)]
    about = "Times of the host's clock; mean and total are of whole scopes, self is less those inside."
    about += " On the GPU: what was launched inside, added up." if of_gpu else ""
    return _table("Scopes of the host", about, heads, rows, len(scopes), "scope")


def _kernels(on_gpu: pd.DataFrame) -> Markup:
    rows = []
    for row in on_gpu.head(_MOST_KERNELS).to_dict("records"):
        share = float(row["share"])
        bar = tag("i", style=f"--share:{100 * share:.2f}%")
        cells = (
            tag("td", bar, percent_text(share), class_="share"),
            tag("td", str(row["what"])),
            tag("th", str(row["name"]), scope="row", class_="long"),
            tag("td", count_text(int(row["count"])), class_="n"),
            tag("td", duration_text(float(row["total_ns"]), "ns"), class_="n"),
        )
        rows.append(tag("tr", *cells))
    about = (
        "All kernels and copies, from start to end. Elsewhere in this report a launch is a little shorter: "
        "from its first record to its last."
    )
    return _table("On the GPU", about, list(_GPU), rows, len(on_gpu), "name")


def _table(title: str, about: str, heads: list[str], rows: list[Markup], count: int, one: str) -> Markup:
    left = count - len(rows)
    return joined(
        [
            tag("h3", title),
            tag("p", about, class_="lead"),
            tag("div", table(heads, rows), class_="wide", tabindex=0, role="region", aria_label=title),
            tag("p", f"{count_text(left, f'more {one}')}", class_="dim") if left > 0 else None,
        ]
    )


def drawn_around(
    tables: Tables, launches: pd.DataFrame, first_ns: int
) -> tuple[dict[str, Any], dict[str, Ints]]:
    """What the timeline has of it: names, kinds and tracks; and the columns of its bars, track by track.

    launches: those of the page; first_ns: when its axis begins. begin: since then; launch: the row among
    these launches, -1 where it is none. Nothing if its time by the GPU's clock is unknown.
    """
    known = around_tracks(tables)
    if known is None:
        return {"names": [], "kinds": [], "tracks": [], "left": 0}, {}
    kept = _kept(known)
    tracks = [(track, track.rows[kept[track.rows]]) for track in known.tracks]
    tracks = [(track, rows) for track, rows in tracks if len(rows)]
    rows = np.concatenate([rows for _, rows in tracks]) if tracks else np.zeros(0, np.int64)
    name, names = pd.factorize(pd.Series([known.name[row][:_LONGEST_NAME] for row in rows], dtype="str"))
    kind, kinds = pd.factorize(pd.Series([known.kind[row] for row in rows], dtype="str"))
    row_of = pd.Series(np.arange(len(launches)), launches["launch"].to_numpy())
    launched = np.append(np.full(len(tables.host), -1), tables.events["launch"].to_numpy())[rows]
    columns: dict[str, Ints] = {
        "around_begin": known.start_ns[rows] - first_ns,
        "around_duration": known.end_ns[rows] - known.start_ns[rows],
        "around_name": name.astype(np.int64),
        "around_kind": kind.astype(np.int64),
        "around_launch": row_of.reindex(launched).fillna(-1).to_numpy(np.int64),
    }
    about = [{"process": track.process, "name": track.name, "count": len(own)} for track, own in tracks]
    left = len(known.start_ns) - len(rows)
    return {"names": list(names), "kinds": list(kinds), "tracks": about, "left": left}, columns


def _kept(known: AroundTracks) -> np.ndarray:
    """By row, whether there is room for it."""
    kept = np.ones(len(known.start_ns), np.bool_)
    if len(kept) > MOST_DRAWN:
        kept[np.argsort(known.start_ns - known.end_ns, kind="stable")[MOST_DRAWN:]] = False
    return kept
