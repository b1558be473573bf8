"""Fetched buffers to the tables of a profile: decode, fit clocks, fill rows, say what is missing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from profscope.decoding.about import (
    about_kernel,
    left_out_notes,
    nan_notes,
    selection_notes,
    unfinished_notes,
    wrapped_notes,
)
from profscope.decoding.alike import alike
from profscope.decoding.clocks import Clocks
from profscope.decoding.decode import DecodedLaunch, decode
from profscope.decoding.folding import Folded, FoldedProgram
from profscope.decoding.gaps import NAME
from profscope.decoding.in_flight import with_transactions
from profscope.decoding.launch import TimedLaunch
from profscope.decoding.raw import RawLaunch
from profscope.decoding.stacks import check_grid
from profscope.decoding.sum_tables import in_launch_order, sum_tables
from profscope.decoding.tables import span_table
from profscope.decoding.timebase import TimeBase, fit, launch_clocks
from profscope.decoding.variants import about_sources, about_variants, number_variants, rounding_notes
from profscope.errors import RecordError
from profscope.schema import Tables, launches_frame
from profscope.threads import worker_pool

__all__ = ["assemble"]

_NO_SPANS: Final = (
    "no launch kept its spans: there is no timeline and there are no percentiles, and transactions() and "
    "first_nan() are empty"
)


def assemble(
    launches: Sequence[RawLaunch],
    metadata: dict[str, Any],
    notes: Sequence[str] = (),
    folded: Folded | None = None,
) -> Tables:
    """Decode launches into the tables of a profile. metadata: what is known of the session (backend, device,
    versions; "bare": what bare binaries of its kernels take, by key). folded: launches that kept sums and
    whose buffers are gone; where it is None, those among `launches` are folded here.

    A launch whose buffer cannot be decoded is left out, and a note says why.
    """
    with worker_pool(os.cpu_count()) as pool:
        if folded is None:
            folded = Folded()
            folded.add(alike(raw for raw in launches if raw.manifest.keeps == "sums"), pool)
        launches = [raw for raw in launches if raw.manifest.keeps == "spans"]
        outcomes = list(zip(launches, pool.map(_decode, launches), strict=True))
        damaged = [f"launch {raw.index}: {each}" for raw, each in outcomes if isinstance(each, RecordError)]
        good = [(raw, each) for raw, each in outcomes if not isinstance(each, RecordError)]
        raws, decoded = [raw for raw, _ in good], [each for _, each in good]
        bases = _time_bases(raws, decoded, folded)
        parts = [
            (raw.index, raw.manifest.kernel, each, base)
            for raw, each, base in zip(raws, decoded, bases, strict=True)
        ]
        spans = span_table(parts, pool)
        ends = np.cumsum([len(each.span) for each in decoded], dtype=np.int64)
        of_launch = [spans.iloc[end - len(each.span) : end] for each, end in zip(decoded, ends, strict=True)]
        timed = list(pool.map(_timed, raws, decoded, bases, of_launch))
    programs = folded.programs()
    # A program stands where its first launch does.
    mixed: list[RawLaunch | FoldedProgram] = [*raws, *programs]
    told_apart = sorted(mixed, key=attrgetter("index"))
    numbers = number_variants(told_apart)
    variants = {each.index: variant for each, variant in zip(told_apart, numbers, strict=True)}
    described = about_variants(told_apart, numbers, metadata.get("bare", {}))
    kernels: dict[str, tuple[list[TimedLaunch], list[FoldedProgram]]] = {}
    for configured in told_apart:
        kernels.setdefault(configured.manifest.kernel, ([], []))
    for launch in timed:
        kernels[launch.manifest.kernel][0].append(launch)
    for program in programs:
        kernels[program.manifest.kernel][1].append(program)
    said = [*notes, *damaged, *folded.notes]
    for kernel in sorted(kernels):
        said += _notes(kernel, *kernels[kernel])
    tables = sum_tables(programs, variants, _clocks(raws, decoded, folded, programs), metadata["backend"])
    rows = [
        {**_launch_row(launch, metadata["backend"]), "variant": variants[launch.raw.index]}
        for launch in timed
    ]
    own = launches_frame({name: [row[name] for row in rows] for name in rows[0]} if rows else None)
    frame = in_launch_order([own, *tables.launches])
    frame["rank"] = np.int32((metadata.get("job") or {}).get("rank", -1))
    said += _cold_notes(frame)
    if programs and not raws:
        said.append(_NO_SPANS)
    said += rounding_notes(described)
    about = {
        "kernels": {kernel: about_kernel(*of_kernel, variants) for kernel, of_kernel in kernels.items()},
        "variants": described,
        "sources": about_sources(told_apart),
    }
    beside = {name: value for name, value in metadata.items() if name != "bare"}
    told = {**beside, "notes": said, **about}
    return Tables(spans, frame, told, tables.sums, tables.spreads, tables.numbers)


def _cold_notes(launches: pd.DataFrame) -> list[str]:
    cold = int(launches["cold"].sum())
    return [
        f"{cold} launches began with colder caches than bare ones do (launches['cold']): right before, "
        "zeroing memory for their records took up more than a quarter of the L2 cache"
    ] * bool(cold)


def _time_bases(
    launches: Sequence[RawLaunch], decoded: Sequence[DecodedLaunch], folded: Folded
) -> list[TimeBase]:
    """One for each launch; launches share what they know of the clocks with those on the same device only."""
    base_of: dict[int, TimeBase] = {}
    for device in {raw.device for raw in launches}:
        mine = [at for at, raw in enumerate(launches) if raw.device == device]
        headers = [decoded[at].headers for at in mine]
        base_of |= zip(mine, fit(headers, folded.clocks(device)), strict=True)
    return [base_of[at] for at in range(len(launches))]


def _clocks(
    launches: Sequence[RawLaunch],
    decoded: Sequence[DecodedLaunch],
    folded: Folded,
    programs: Sequence[FoldedProgram],
) -> dict[int, Clocks]:
    """What all launches say of the clocks, by device; of those that folded launches ran on."""
    devices = {program.device for program in programs}
    headers: dict[int, list[npt.NDArray[np.void]]] = {device: [] for device in devices}
    for raw, each in zip(launches, decoded, strict=True):
        if raw.device in devices:
            headers[raw.device].append(each.headers)
    return {
        device: folded.clocks(device).with_launches(launch_clocks(of_device))
        for device, of_device in headers.items()
    }


def _decode(raw: RawLaunch) -> DecodedLaunch | RecordError:
    try:
        decoded = decode(raw.buffer, raw.manifest)
        check_grid(raw, decoded.grid_x, decoded.grid_y)
        return with_transactions(decoded)
    except RecordError as error:
        return error


def _timed(raw: RawLaunch, decoded: DecodedLaunch, base: TimeBase, spans: pd.DataFrame) -> TimedLaunch:
    """spans: the launch's rows. Where there are none, the clocks in the headers tell the time: they are read
    a little inside of what spans would say."""
    if len(spans):
        starts = spans["start_ns"].to_numpy()
        ends = starts + spans["duration_ns"].to_numpy()
    else:
        written = _written(decoded)
        sm = written["sm"].astype(np.int32)
        starts, ends = (
            base.to_ns(written[name].astype(np.int64), sm) for name in ("start_clock", "end_clock")
        )
    start_ns, end_ns = (int(starts.min()), int(ends.max())) if len(starts) else (0, 0)
    return TimedLaunch(raw, decoded, base, start_ns, end_ns)


def _written(decoded: DecodedLaunch) -> npt.NDArray[np.void]:
    """The headers of the CTAs that came to their end."""
    written: npt.NDArray[np.void] = decoded.headers[decoded.headers["start_clock"] != 0]
    return written


def _launch_row(launch: TimedLaunch, backend: str) -> dict[str, Any]:
    raw, decoded = launch.raw, launch.decoded
    written = _written(decoded)
    cluster = int(written["cluster_rank"].max()) + 1 if len(written) else 1
    return {
        "launch": raw.index,
        "kernel": raw.manifest.kernel,
        "grid_x": decoded.grid_x // cluster,  # the header counts the CTAs of all clusters
        "grid_y": decoded.grid_y,
        "grid_z": raw.ctas // (decoded.grid_x * decoded.grid_y),
        "num_ctas": cluster,
        "num_warps": raw.manifest.warps,
        "ctas": len(written),
        "unfinished": launch.unfinished,
        "device": raw.device,
        "stream": raw.stream,
        "backend": backend,
        "records": decoded.records,
        "dropped": decoded.dropped,
        "profile_bytes": raw.buffer.nbytes,
        "start_ns": launch.start_ns,
        "end_ns": launch.end_ns,
        "clock_ghz": launch.base.clock_ghz,
        "ns_uncertainty": launch.base.uncertainty_ns,
        **raw.mark._asdict(),
    }


def _files_of_a_copy(launches: Sequence[TimedLaunch | FoldedProgram]) -> list[str]:
    """Where Triton ran the binary of another copy of the function, whose lines are alike."""
    said: dict[str, None] = {}
    for launch in launches:
        build = launch.build
        own = build.sources[0].file if build is not None and build.sources else ""
        spans = (span for section in launch.manifest.sections for span in section.spans)
        compiled = next((span.file for span in spans if span.kind == "kernel"), "")
        if own and compiled and own != compiled:
            said[
                f"{launch.manifest.kernel}: file names {compiled}, which its binary was compiled from; what "
                f"was launched is a copy of that function in {own}"
            ] = None
    return list(said)


def _notes(kernel: str, launches: Sequence[TimedLaunch], programs: Sequence[FoldedProgram]) -> list[str]:
    """What the reader of a kernel's figures must know, one line each."""
    decoded = [launch.decoded for launch in launches]
    notes = []
    if not programs and not any(each.sites for each in decoded):
        notes.append(f"{kernel}: instrument= finds nothing to record in it")
    notes += _files_of_a_copy([*launches, *programs])
    dropped, records = sum(each.dropped for each in decoded), sum(each.records for each in decoded)
    if dropped:
        notes.append(
            f"{kernel}: the oldest {dropped} of {records + dropped} records were overwritten; figures of "
            f"loops cover their newest iterations only, and the time before is {NAME!r}; buffer= holds more"
        )
    unmatched = sum(each.unmatched for each in decoded)
    if unmatched:
        notes.append(f"{kernel}: {unmatched} spans began but did not end and are left out")
    notes += selection_notes(launches, programs)
    notes += unfinished_notes(launches, programs)
    notes += wrapped_notes(programs)
    notes += left_out_notes(programs)
    notes += nan_notes(programs)
    unpaired = sum(each.unpaired for each in decoded)
    if unpaired:
        notes.append(f"{kernel}: {unpaired} asynchronous operations began that no recorded wait ended")
    notes += [anomaly for each in decoded for anomaly in each.anomalies]
    manifests = [*(each.manifest for each in launches), *(each.manifest for each in programs)]
    said = dict.fromkeys(note for manifest in manifests for note in manifest.notes)
    return notes + [f"{kernel}: {note}" for note in said]
