"""Fetched buffers to a Profile: decode launches, fit clocks, build the tables, say what is missing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import Any

import numpy as np
import pandas as pd

from instrument_passes.manifest import Manifest
from profscope.analysis.recorded import about_recorded, selection_notes
from profscope.analysis.work import about_kernel
from profscope.decoding.areas import launch_header
from profscope.decoding.decode import DecodedLaunch, decode
from profscope.decoding.in_flight import with_transactions
from profscope.decoding.raw import RawLaunch
from profscope.decoding.tables import span_table
from profscope.decoding.timebase import TimeBase, fit
from profscope.errors import RecordError
from profscope.profiles import Profile
from profscope.schema import launches_frame

__all__ = ["assemble"]


def assemble(launches: Sequence[RawLaunch], metadata: dict[str, Any], notes: Sequence[str] = ()) -> Profile:
    """Decode launches into a Profile. metadata: what is known of the session (backend, device, versions).

    A launch whose buffer cannot be decoded is left out, and a note says why.
    """
    with ThreadPoolExecutor(os.cpu_count(), "profscope-decode") as pool:
        results = list(zip(launches, pool.map(_decode, launches), strict=True))
        damaged = [f"launch {raw.index}: {found}" for raw, found in results if isinstance(found, RecordError)]
        good = [(raw, found) for raw, found in results if not isinstance(found, RecordError)]
        launches, decoded = [raw for raw, _ in good], [found for _, found in good]
        bases = _time_bases(launches, decoded)
        parts = [
            (raw.index, raw.manifest.kernel, d, base)
            for raw, d, base in zip(launches, decoded, bases, strict=True)
        ]
        spans = span_table(parts, pool)
        ends = np.cumsum([len(d.span) for d in decoded], dtype=np.int64)
        of_launch = [spans.iloc[end - len(d.span) : end] for d, end in zip(decoded, ends, strict=True)]
        rows = list(pool.map(_launch_row, launches, decoded, bases, repeat(metadata["backend"]), of_launch))
    said = [*notes, *damaged, *_notes(launches, decoded)]
    kernels: dict[str, list[tuple[Manifest, DecodedLaunch, int, int]]] = {}
    for raw, d, row in zip(launches, decoded, rows, strict=True):
        took = row["end_ns"] - row["start_ns"]
        kernels.setdefault(raw.manifest.kernel, []).append((raw.manifest, d, raw.ctas, took))
    about = {
        kernel: {**about_kernel(of_kernel), "recorded": about_recorded(of_kernel)}
        for kernel, of_kernel in kernels.items()
    }
    frame = launches_frame({name: [row[name] for row in rows] for name in rows[0]} if rows else None)
    return Profile(spans, frame, {**metadata, "notes": said, "kernels": about})


def _time_bases(launches: Sequence[RawLaunch], decoded: Sequence[DecodedLaunch]) -> list[TimeBase]:
    """One for each launch; launches share what they know of the clocks with those on the same device only."""
    found: dict[int, TimeBase] = {}
    for device in {raw.device for raw in launches}:
        mine = [at for at, raw in enumerate(launches) if raw.device == device]
        found |= zip(mine, fit([decoded[at].headers for at in mine]), strict=True)
    return [found[at] for at in range(len(launches))]


def _decode(raw: RawLaunch) -> DecodedLaunch | RecordError:
    try:
        return with_transactions(decode(raw.buffer, raw.manifest))
    except RecordError as error:
        return error


def _launch_row(
    raw: RawLaunch, decoded: DecodedLaunch, base: TimeBase, backend: str, spans: pd.DataFrame
) -> dict[str, Any]:
    written = decoded.headers[decoded.headers["start_clock"] != 0]
    header = launch_header(raw.buffer)
    grid_x, grid_y = int(header["grid_x"]), int(header["grid_y"])
    cluster = int(written["cluster_rank"].max()) + 1 if len(written) else 1
    # From the spans where there are any: the clocks in the header are read a little inside of theirs.
    start, end = (written[name].astype(np.int64) for name in ("start_clock", "end_clock"))
    sm = written["sm"].astype(np.int32)
    starts, ends = base.to_ns(start, sm), base.to_ns(end, sm)
    if len(spans):
        starts = spans["start_ns"].to_numpy()
        ends = starts + spans["duration_ns"].to_numpy()
    start_ns, end_ns = (int(starts.min()), int(ends.max())) if len(starts) else (0, 0)
    return {
        "launch": raw.index,
        "kernel": raw.manifest.kernel,
        "grid_x": grid_x // cluster,  # the header counts the CTAs of all clusters
        "grid_y": grid_y,
        "grid_z": raw.ctas // (grid_x * grid_y),
        "num_ctas": cluster,
        "num_warps": raw.manifest.warps,
        "ctas": len(written),
        "device": raw.device,
        "stream": raw.stream,
        "backend": backend,
        "records": decoded.records,
        "dropped": decoded.dropped,
        "profile_bytes": raw.buffer.nbytes,
        "start_ns": start_ns,
        "end_ns": end_ns,
        "clock_ghz": base.clock_ghz,
        "ns_uncertainty": base.uncertainty_ns,
        **raw.mark._asdict(),
    }


def _notes(launches: Sequence[RawLaunch], decoded: Sequence[DecodedLaunch]) -> list[str]:
    """What the reader of the figures must know, one line each."""
    notes = []
    for kernel in sorted({raw.manifest.kernel for raw in launches}):
        pairs = [p for p in zip(launches, decoded, strict=True) if p[0].manifest.kernel == kernel]
        mine = [d for _, d in pairs]
        dropped, records = sum(d.dropped for d in mine), sum(d.records for d in mine)
        if dropped:
            notes.append(
                f"{kernel}: the oldest {dropped} of {records + dropped} records were overwritten; figures of "
                "loops cover their newest iterations only; buffer= holds more"
            )
        unmatched = sum(d.unmatched for d in mine)
        if unmatched:
            notes.append(f"{kernel}: {unmatched} spans began but did not end and are left out")
        notes += selection_notes([(raw.manifest, d, raw.ctas, 0) for raw, d in pairs])
        silent = sum(int(np.count_nonzero(d.headers["start_clock"] == 0)) for d in mine)
        if silent:
            notes.append(f"{kernel}: {silent} CTAs wrote nothing, or did not come to their end")
        unpaired = sum(d.unpaired for d in mine)
        if unpaired:
            notes.append(f"{kernel}: {unpaired} asynchronous operations began that no recorded wait ended")
        notes += [anomaly for d in mine for anomaly in d.anomalies]
        said = dict.fromkeys(note for raw, _ in pairs for note in raw.manifest.notes)
        notes += [f"{kernel}: {note}" for note in said]
    return notes
