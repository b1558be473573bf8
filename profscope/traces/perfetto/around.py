"""Host scopes and events as Perfetto's track events, on a sequence and on tracks of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from profscope.traces.around_tracks import AroundTracks, Track
from profscope.traces.perfetto.plain import slice_packets, slice_text, track_packet

__all__ = ["around_packets"]

SEQUENCE: Final = 2
FIRST_UUID: Final = 1 << 40
"""Above all numbers of tracks with spans."""


def around_packets(drawn: AroundTracks) -> Iterator[bytes]:
    """The packets, track by track."""
    processes: dict[str, int] = {}
    for number, track in enumerate(drawn.tracks):
        if track.process not in processes:
            processes[track.process] = FIRST_UUID + len(drawn.tracks) + len(processes)
            yield track_packet(processes[track.process], track.process, 0, len(processes))
        yield track_packet(FIRST_UUID + number, track.name, processes[track.process], number)
        start, end = drawn.start_ns[track.rows], drawn.end_ns[track.rows]
        yield from slice_packets(SEQUENCE, FIRST_UUID + number, start, end, _said(drawn, track))


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
