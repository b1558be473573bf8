"""Launches as the GPU's own work: Perfetto's `gpu_slice`, a hardware queue for each stream.

Fields of perfetto/protos/perfetto/trace/gpu/gpu_render_stage_event.proto and interned_data.proto.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pandas as pd

from profscope.traces.overview import launch_args
from profscope.traces.perfetto.layout import packet
from profscope.traces.perfetto.protobuf import field, varint
from profscope.traces.tracks import device_word, interval_slots, row_devices

__all__ = ["queue_packets"]

_SEQUENCE: Final = 4
_STARTS_AFRESH: Final = 1
"""TracePacket.SEQ_INCREMENTAL_STATE_CLEARED."""

_COMPUTE: Final = 2
_BLOCK_EVENTS: Final = 1 << 14


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
    yield packet(field(10, _SEQUENCE), field(13, _STARTS_AFRESH), field(12, specifications))
    packets = []
    times = zip(start.tolist(), (end - start).tolist(), queues, device.tolist(), rows, strict=True)
    for number, (begin, duration, queue, gpu, row) in enumerate(times):
        said = {"launch": int(row["launch"]), **launch_args(row)}
        extra = b"".join(field(6, field(1, name) + field(2, str(value))) for name, value in said.items())
        event = field(1, number) + field(2, duration) + field(13, queue) + field(14, names[row["kernel"]])
        event += field(11, gpu) + field(10, int(row["launch"])) + extra
        packets.append(packet(b"\x40" + varint(begin), field(10, _SEQUENCE), field(53, event)))
        if len(packets) >= _BLOCK_EVENTS:
            yield b"".join(packets)
            packets = []
    yield b"".join(packets)
