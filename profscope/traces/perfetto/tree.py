"""The tracks of a trace: GPU, kernel, SM, CTA slot, warp; and what is drawn on those above the warps.

Tracks with spans have the number of their place in `Drawing`, from 1; those above them come after.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.traces.around_tracks import AroundTracks, Track
from profscope.traces.overview import SUMMARY, Bars, launch_args
from profscope.traces.perfetto.packets import TIMESTAMP, Drawing, event_places, nested_depth
from profscope.traces.perfetto.protobuf import field, long_varints, packet
from profscope.traces.tracks import (
    Tracks,
    device_word,
    drawn_name,
    interval_slots,
    root_spans,
    row_devices,
    warp_name,
)

__all__ = [
    "around_packets",
    "queue_packets",
    "tree",
]

Key = tuple[int, ...]
_SEQUENCE: Final = 3


def tree(
    df: pd.DataFrame,
    tracks: Tracks,
    drawing: Drawing,
    bars: dict[Key, Bars],
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
                yield track_packet(groups[key], name, parent, len(groups))
                yield from _filled(groups[key], bars.get(key))
            parent = groups[key]
        name = warp_name(warp, *roots[number]) if warp >= 0 else f"kernels {slot}"
        name += f" lane {lane}" if lane else ""
        yield track_packet(number + 1, name, parent, 2 * number)
        for uuid, scope in lanes[number]:
            yield track_packet(uuid, f"{name}: {scope}", parent, 2 * number + 1)


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


# Track events said in full, for the few that are no spans: absolute times, names as text, a track each.

Ints = NDArray[np.int64]
EXPLICIT: Final = 3
"""TrackDescriptor.child_ordering: by rank."""

_BLOCK_EVENTS: Final = 1 << 14
_SLICE_BEGIN, _SLICE_END = 1, 2


def track_packet(uuid: int, name: str, parent: int, rank: int) -> bytes:
    """A track; those in it are shown by their ranks, and those of one name as one."""
    parents = field(5, parent) if parent else b""
    order = field(11, EXPLICIT) + field(12, rank)
    return packet(field(60, field(1, uuid) + field(2, name) + parents + order))


def slice_text(name: str, kind: str, args: Mapping[str, object]) -> bytes:
    """What an event that begins a slice says of it: category, name, annotations."""
    said = [(name, value if type(value) in (int, float) else str(value)) for name, value in args.items()]
    return field(22, kind) + field(23, name) + b"".join(_annotation(*each) for each in said)


def slice_packets(sequence: int, uuid: int, start: Ints, end: Ints, said: Sequence[bytes]) -> Iterator[bytes]:
    """The slices of a track, in order of start, the longest first: they nest. said: `slice_text` of each."""
    at_begin, at_end = event_places(nested_depth(start, end))
    order = np.empty(2 * len(start), np.int64)
    order[at_begin], order[at_end] = np.arange(len(start)), np.arange(len(start)) + len(start)
    times = long_varints(TIMESTAMP, np.append(start, end)[order])
    on_track = field(11, uuid)
    begins = {id(text): field(11, field(9, _SLICE_BEGIN) + on_track + text) for text in said}
    ends = field(11, field(9, _SLICE_END) + on_track)
    events = (begins[id(said[each])] if each < len(said) else ends for each in order.tolist())
    yield from _blocks(sequence, zip(times, events, strict=True))


def _blocks(sequence: int, events: Iterable[tuple[bytes, bytes]]) -> Iterator[bytes]:
    packets: list[bytes] = []
    own = field(10, sequence)
    for time, event in events:
        packets.append(packet(time, own, event))
        if len(packets) >= _BLOCK_EVENTS:
            yield b"".join(packets)
            packets = []
    yield b"".join(packets)


@lru_cache(_BLOCK_EVENTS, typed=True)  # CTAs of one launch say the same
def _annotation(name: str, value: Any) -> bytes:
    """A DebugAnnotation of an event: name, and an int, a float or a string."""
    number = {int: 4, float: 5}.get(type(value), 6)
    return field(4, field(10, name) + field(number, value))


_HOST_SEQUENCE: Final = 2
_FIRST_HOST_UUID: Final = 1 << 40
"""Above all numbers of tracks with spans."""


def around_packets(drawn: AroundTracks) -> Iterator[bytes]:
    """The packets, track by track."""
    processes: dict[str, int] = {}
    for number, track in enumerate(drawn.tracks):
        if track.process not in processes:
            processes[track.process] = _FIRST_HOST_UUID + len(drawn.tracks) + len(processes)
            yield track_packet(processes[track.process], track.process, 0, len(processes))
        yield track_packet(_FIRST_HOST_UUID + number, track.name, processes[track.process], number)
        start, end = drawn.start_ns[track.rows], drawn.end_ns[track.rows]
        yield from slice_packets(_HOST_SEQUENCE, _FIRST_HOST_UUID + number, start, end, _said(drawn, track))


def _said(drawn: AroundTracks, track: Track) -> list[bytes]:
    """By row; events that say the same share it."""
    texts: dict[tuple[str, str, int], bytes] = {}
    said = []
    for row in track.rows.tolist():
        key = drawn.name[row], drawn.kind[row], id(drawn.args[row])
        if key not in texts:
            texts[key] = slice_text(drawn.name[row], drawn.kind[row], drawn.args[row])
        said.append(texts[key])
    return said


# Launches as the GPU's own work: Perfetto's `gpu_slice`, a hardware queue for each stream.
#
# Fields of perfetto/protos/perfetto/trace/gpu/gpu_render_stage_event.proto and interned_data.proto.

_QUEUE_SEQUENCE: Final = 4
_STARTS_AFRESH: Final = 1
"""TracePacket.SEQ_INCREMENTAL_STATE_CLEARED."""

_COMPUTE: Final = 2


def queue_packets(launches: pd.DataFrame) -> Iterator[bytes]:
    """The packets of all launches whose times are known; none where there are none."""
    launches = launches[launches["end_ns"] > launches["start_ns"]].sort_values("start_ns", kind="stable")
    if not len(launches):
        return
    device, word = row_devices(launches, launches), device_word(launches)
    several = len(np.unique(device)) > 1
    start, end = (launches[name].to_numpy() for name in ("start_ns", "end_ns"))
    streams = np.stack([device, launches["stream"].to_numpy(np.int64)])
    stream = np.unique(streams, axis=1, return_inverse=True)[1].reshape(-1)
    lane = interval_slots(stream, start, end - 1)  # one may begin as another ends
    names: dict[str, int] = {}
    queues = []
    rows: list[dict[Any, Any]] = launches.to_dict("records")
    for row, gpu, at in zip(rows, device.tolist(), lane.tolist(), strict=True):
        name = f"{word} {gpu} " * several + f"stream {row['stream']}" + f" lane {at}" * (at > 0)
        queues.append(names.setdefault(name, len(names) + 1))
        names.setdefault(row["kernel"], len(names) + 1)
    specifications = b"".join(
        field(24, field(1, iid) + field(2, name) + field(4, _COMPUTE)) for name, iid in names.items()
    )
    yield packet(field(10, _QUEUE_SEQUENCE), field(13, _STARTS_AFRESH), field(12, specifications))

    def events() -> Iterator[bytes]:
        about = zip((end - start).tolist(), queues, device.tolist(), rows, strict=True)
        for number, (duration, queue, gpu, row) in enumerate(about):
            said = {"launch": int(row["launch"]), **launch_args(row)}
            extra = b"".join(field(6, field(1, name) + field(2, str(value))) for name, value in said.items())
            event = field(1, number) + field(2, duration) + field(13, queue) + field(14, names[row["kernel"]])
            event += field(11, gpu) + field(10, int(row["launch"])) + extra
            yield field(53, event)

    yield from _blocks(_QUEUE_SEQUENCE, zip(long_varints(TIMESTAMP, start), events(), strict=True))
