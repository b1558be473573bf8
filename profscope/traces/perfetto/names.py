"""What a sequence of packets says when it starts on a track: clock, track, and the names events refer to.

Fields of perfetto/protos/perfetto/trace: trace_packet.proto, clock_snapshot.proto and defaults in
trace_packet_defaults.proto;
what is interned is in interned_data/interned_data.proto and track_event/source_location.proto.
"""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.traces.drawn_names import drawn_name
from profscope.traces.perfetto.annotations import Annotation, Texts
from profscope.traces.perfetto.layout import packet
from profscope.traces.perfetto.protobuf import field

__all__ = ["SEQUENCE", "TrackNames", "kinds_of"]

Ints = NDArray[np.int64]
SEQUENCE = 1
"""The number of the sequence that all events belong to."""

CLOCK = 64
"""The first of the clocks that belong to one sequence (64 to 127)."""

BOOTTIME = 6
"""The clock that Perfetto shows; here that of `start_ns`."""

STARTS_AFRESH = 1
"""TracePacket.SEQ_INCREMENTAL_STATE_CLEARED: what the sequence said before no longer holds."""


def kinds_of(sites: pd.DataFrame) -> list[str]:
    """The kinds of sites; events have a kind's place, from 1, as their category."""
    return list(dict.fromkeys(sites["kind"]))


class TrackNames:
    """The names that events of a block refer to, each said on every track that needs it and once a block."""

    def __init__(self, sites: pd.DataFrame, annotations: list[Annotation], origin_ns: int) -> None:
        """A track's clock starts at `origin_ns`."""
        self._origin_ns = origin_ns
        self._common = b"".join(
            [
                *(_interned(1, iid, kind) for iid, kind in enumerate(kinds_of(sites), 1)),
                *(_interned(3, one.iid, one.name) for one in annotations),
            ]
        )
        columns = (sites[name].tolist() for name in ("file", "line", "kernel", "call_path"))
        shown = map(drawn_name, sites["scope"], sites["kind"])
        self._sites = [
            _interned(2, iid, scope) + _interned(4, iid, file, field(3, path or kernel) + field(4, line))
            for iid, (scope, file, line, kernel, path) in enumerate(zip(shown, *columns, strict=True), 1)
        ]
        self._texts = [one for one in annotations if isinstance(one, Texts)]
        self._values = [
            [_interned(29, iid, text) for iid, text in enumerate(one.texts, one.first_iid)]
            for one in self._texts
        ]

    def start(self, track: int) -> bytes:
        """The packet that starts a track: its clock at the origin, and itself what events are on."""
        there = field(1, BOOTTIME) + field(2, self._origin_ns)
        here = field(1, CLOCK) + field(2, 0) + field(3, 1) + field(4, 1)  # incremental, in ns
        clocks = field(1, there) + field(1, here) + field(2, BOOTTIME)
        defaults = field(58, CLOCK) + field(11, field(11, track))
        names = field(12, self._common)
        return packet(
            field(10, SEQUENCE), field(13, STARTS_AFRESH), field(6, clocks), field(59, defaults), names
        )

    def used(self, rows: Ints, site: Ints, first: Ints) -> list[bytes]:
        """For each stretch of a block's rows the packet that names what it uses.

        `site` is each row's; `first` is where in them each stretch begins.
        """
        stretch = np.repeat(np.arange(len(first)), np.diff(first, append=len(rows)))
        needed = [_by_stretch(stretch, site, self._sites, len(first))]
        for one, values in zip(self._texts, self._values, strict=True):
            codes = one.codes[rows].astype(np.int64)
            some = np.flatnonzero(codes >= 0)
            needed.append(_by_stretch(stretch[some], codes[some], values, len(first)))
        return [
            packet(field(10, SEQUENCE), field(12, b"".join(names))) for names in zip(*needed, strict=True)
        ]


def _by_stretch(stretch: Ints, number: Ints, names: list[bytes], stretches: int) -> list[bytes]:
    """For each stretch the names whose numbers occur in it."""
    pairs = stretch * len(names) + number
    # Few pairs are ticked off faster than sorted.
    seen = stretches * len(names)
    distinct = np.unique(pairs) if seen > 1 << 20 else np.flatnonzero(np.bincount(pairs, minlength=seen))
    occurring: list[list[bytes]] = [[] for _ in range(stretches)]
    for pair in distinct.tolist():
        occurring[pair // len(names)].append(names[pair % len(names)])
    return list(map(b"".join, occurring))


def _interned(kind: int, iid: int, name: str, more: bytes = b"") -> bytes:
    return field(kind, field(1, iid) + field(2, name) + more)
