"""The tracks of a trace: GPU, kernel, SM, CTA slot, warp; and what is drawn on those above the warps.

Tracks with spans have the number of their place in `Drawing`, from 1; those above them come after.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pandas as pd

from profscope.analysis.quantities import count_text
from profscope.traces.drawn_counters import Counter
from profscope.traces.drawn_names import drawn_name, root_spans, warp_name
from profscope.traces.overview import FINDING, SUMMARY, Bars
from profscope.traces.perfetto.plain import counter_packets, slice_packets, slice_text, track_packet
from profscope.traces.perfetto.slices import Drawing
from profscope.traces.tracks import Tracks

__all__ = ["findings_of", "tree"]

Key = tuple[int, ...]
_SEQUENCE: Final = 3
_FIRST_UUID: Final = 1 << 39
"""Above all numbers of tracks with spans; those around them have higher ones."""


def tree(
    df: pd.DataFrame,
    tracks: Tracks,
    drawing: Drawing,
    bars: dict[Key, Bars],
    counters: Sequence[Counter],
    naming: tuple[str, bool],
) -> Iterator[bytes]:
    """The packets that name the tracks and fill those above the warps.

    naming: what the numbers of devices are of, and whether an emulator recorded it all.
    """
    device_is, emulated = naming
    mark = " (emulated)" if emulated else ""
    width = len(str(tracks.table["device"].max()))  # Perfetto sorts what is in nothing by name
    lanes = _lanes(df, tracks, drawing)
    roots = root_spans(df, tracks)
    ctas = _slot_names(bars)
    beside: dict[Key, list[tuple[int, Counter]]] = {}
    for rank, counter in enumerate(counters):
        whose = (counter.device, counter.kernel) if counter.kernel >= 0 else (counter.device,)
        beside.setdefault(whose, []).append((rank, counter))
    groups: dict[Key, int] = {}
    numbers = tracks.table[["device", "kernel", "sm", "slot", "warp", "lane"]].to_numpy().tolist()
    for number, (device, kernel, sm, slot, warp, lane) in enumerate(numbers):
        levels: list[tuple[Key, str]] = [((device,), f"{device_is} {device:>{width}}{mark}")]
        levels += [((device, kernel), tracks.kernels[kernel])] if kernel >= 0 else []
        levels += [((device, kernel, sm), f"SM {sm}{mark}")] if sm >= 0 else []
        slot_key = (device, kernel, sm, slot)
        levels += [(slot_key, ctas.get(slot_key, f"CTA slot {slot}"))] if warp >= 0 else []
        parent = 0
        for key, name in levels:
            if key not in groups:
                groups[key] = len(drawing.first) + len(groups)
                yield track_packet(groups[key], name, parent, len(counters) + len(groups))
                yield from _filled(groups[key], bars.get(key))
                for rank, counter in beside.get(key, ()):
                    yield from _counted(counter, groups[key], rank)
            parent = groups[key]
        name = warp_name(warp, *roots[number]) if warp >= 0 else f"kernels {slot}"
        name += f" lane {lane}" if lane else ""
        yield track_packet(number + 1, name, parent, 2 * number)
        for uuid, scope in lanes[number]:
            yield track_packet(uuid, f"{name}: {scope}", parent, 2 * number + 1)


def findings_of(findings: Bars | None, after: int) -> Iterator[bytes]:
    """A track with all findings, and below it one for each; after: how many counters there are."""
    if findings is None:
        return
    top = _FIRST_UUID + after
    yield track_packet(top, "Findings", 0, 0)
    start, end = (np.array([edge]) for edge in (findings.start_ns.min(), findings.end_ns.max()))
    said = [slice_text(count_text(len(findings.name), "finding"), SUMMARY, {})]
    yield from slice_packets(_SEQUENCE, top, start, end, said)
    for row, (name, args) in enumerate(zip(findings.name, findings.args, strict=True)):
        uuid = top + 1 + row
        yield track_packet(uuid, name, top, row)
        start, end = findings.start_ns[[row]], findings.end_ns[[row]]
        yield from slice_packets(_SEQUENCE, uuid, start, end, [slice_text(name, FINDING, args)])


def _counted(counter: Counter, parent: int, rank: int) -> Iterator[bytes]:
    """One of a GPU or of a kernel on it, above all else there; rank: its place among all counters."""
    uuid = _FIRST_UUID + rank
    yield track_packet(uuid, counter.name, parent, rank, unit=counter.unit, description=counter.said)
    yield from counter_packets(_SEQUENCE, uuid, counter.time_ns, counter.value)


def _filled(uuid: int, bars: Bars | None) -> Iterator[bytes]:
    if bars is not None:
        texts = [slice_text(name, SUMMARY, args) for name, args in zip(bars.name, bars.args, strict=True)]
        yield from slice_packets(_SEQUENCE, uuid, bars.start_ns, bars.end_ns, texts)


def _slot_names(bars: dict[Key, Bars]) -> dict[Key, str]:
    """Those of slots that only one CTA had."""
    return {key: each.name[0] for key, each in bars.items() if len(key) == 4 and len(set(each.name)) == 1}


def _lanes(df: pd.DataFrame, tracks: Tracks, drawing: Drawing) -> list[list[tuple[int, str]]]:
    """By track: the numbers of the lanes beside it, and what is in flight on each."""
    lanes: list[list[tuple[int, str]]] = [[] for _ in range(len(tracks.table))]
    opening = drawing.rows[drawing.first[len(lanes) : -1]]
    scopes = df["scope"].iloc[opening].tolist()
    places = tracks.track[tracks.run[opening]].tolist()
    for number, (track, scope) in enumerate(zip(places, scopes, strict=True)):
        lanes[track].append((len(lanes) + number + 1, drawn_name(scope, "async")))
    return lanes
