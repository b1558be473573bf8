"""Fetched buffers to the tables of a profile: decode, fit clocks, fill rows, note losses."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from profscope.decoding.about import about_kernel, selection_notes, unfinished_notes
from profscope.decoding.build import Mark, RawLaunch
from profscope.decoding.bundles import Bundle, TimedBundle, decoded, groups
from profscope.decoding.gaps import NAME
from profscope.decoding.tables import SpanTable, span_table
from profscope.decoding.timebase import Readings, TimeBase, fit
from profscope.decoding.variants import (
    about_code,
    about_sources,
    about_variants,
    number_variants,
    rounding_notes,
)
from profscope.schema import Tables, ctas_frame, launches_frame
from profscope.threads import worker_pool

__all__ = ["assemble"]


def assemble(launches: Sequence[RawLaunch], metadata: dict[str, Any], notes: Sequence[str] = ()) -> Tables:
    """Decode launches into the tables of a profile. metadata: of the session (backend, device, versions;
    "bare": resources of its kernels' bare binaries, by key).

    A launch whose buffer cannot be decoded is left out, and a note says why.
    """
    with worker_pool(os.cpu_count()) as pool:
        outcomes = list(pool.map(decoded, groups(launches)))
        damaged = sorted(
            (place, f"launch {raw.index}: {error}") for _, wrong in outcomes for (place, raw), error in wrong
        )
        bundles = sorted((bundle for good, _ in outcomes for bundle in good), key=lambda each: each.places[0])
        readings = list(pool.map(Bundle.readings, bundles))
        bases = _time_bases(bundles, readings, (metadata.get("device") or {}).get("clock_khz"))
        bundles = _without_gaps(bundles, len(launches))
        spans = span_table(list(zip(bundles, bases, strict=True)), pool)
    times = cta_times(list(zip(bundles, bases, strict=True)), spans)
    start_ns, end_ns = times.of_launches(len(spans.sizes))
    timed = [
        TimedBundle(**vars(bundle), base=base, start_ns=start_ns[bundle.places], end_ns=end_ns[bundle.places])
        for bundle, base in zip(bundles, bases, strict=True)
    ]
    told_apart = sorted(timed, key=attrgetter("index"))
    numbers = number_variants(told_apart)
    variants = {each.index: variant for each, variant in zip(told_apart, numbers, strict=True)}
    described = about_variants(told_apart, numbers, metadata.get("bare") or {})
    kernels: dict[str, list[TimedBundle]] = {}
    for bundle in told_apart:
        kernels.setdefault(bundle.manifest.kernel, []).append(bundle)
    said = [*notes, *(note for _, note in damaged)]
    for kernel in sorted(kernels):
        said += _notes(kernel, kernels[kernel])
    frame = launches_frame(_launch_columns(timed, variants, metadata["backend"]) if timed else None)
    frame["rank"] = np.int32((metadata.get("job") or {}).get("rank", -1))
    said += _cold_notes(frame)
    said += rounding_notes(described)
    about = {
        "kernels": {kernel: about_kernel(of_kernel, variants) for kernel, of_kernel in kernels.items()},
        "variants": described,
        "sources": about_sources(told_apart),
        "code": about_code(told_apart),
    }
    beside = {name: value for name, value in metadata.items() if name != "bare"}
    told = {**beside, "notes": said, **about}
    return Tables(spans.df, frame, told, ctas=ctas_frame(_cta_columns(times, frame)))


def _cold_notes(launches: pd.DataFrame) -> list[str]:
    cold = int(launches["cold"].sum())
    return [
        f"{cold} launches began with colder caches than bare ones do (launches['cold']): right before, "
        "zeroing memory for their records took up more than a quarter of the L2 cache"
    ] * bool(cold)


def _without_gaps(bundles: Sequence[Bundle], launches: int) -> list[Bundle]:
    """Bundles whose places count the launches that could be decoded, and no others."""
    there = np.zeros(launches, np.int64)
    for bundle in bundles:
        there[bundle.places] = 1
    place = np.cumsum(there) - 1
    return [replace(bundle, places=place[bundle.places]) for bundle in bundles]


def _time_bases(
    bundles: Sequence[Bundle], readings: Sequence[Readings], clock_khz: float | None
) -> list[TimeBase]:
    """One for each bundle; launches share what they know of the clocks with those on the same device only.
    clock_khz: of an emulated device."""
    clock_ghz = None if clock_khz is None else clock_khz / 1e6
    base_of: dict[int, TimeBase] = {}
    for device in {bundle.device for bundle in bundles}:
        mine = [at for at, bundle in enumerate(bundles) if bundle.device == device]
        places = [bundles[at].places for at in mine]
        bases = fit([readings[at] for at in mine], places, clock_ghz)
        base_of |= zip(mine, bases, strict=True)
    return [base_of[at] for at in range(len(bundles))]


def _cta_columns(times: CtaTimes, launches: pd.DataFrame) -> dict[str, Any]:
    """The columns of the table of CTAs. launches: the table of launches, a row for each place."""
    kernel: Any = pd.Categorical(launches["kernel"]).take(times.place)
    return {
        "kernel": kernel,
        **{name: launches[name].to_numpy()[times.place] for name in ("variant", "launch")},
        **{name: getattr(times, name) for name in ("cta", "sm", "start_ns", "end_ns", "start_cycle")},
        "duration_cycles": times.end_cycle - times.start_cycle,
        "recorded": times.recorded,
    }


def _launch_columns(
    timed: Sequence[TimedBundle], variants: Mapping[int, int], backend: str
) -> dict[str, npt.NDArray[Any]]:
    """The columns of the table of launches."""
    places = np.concatenate([each.places for each in timed])
    order = np.argsort(places)
    parts = [_launch_part(each, variants[each.index], backend) for each in timed]
    return {name: np.concatenate([part[name] for part in parts])[order] for name in parts[0]}


def _launch_part(timed: TimedBundle, variant: int, backend: str) -> dict[str, npt.NDArray[Any]]:
    """The columns of a bundle's launches."""
    raws, decoded = timed.raws, timed.decoded
    headers = decoded.headers
    cluster = np.zeros(len(timed), np.int64)
    written = headers["start_clock"] != 0
    np.maximum.at(cluster, timed.launch_of_header[written], headers["cluster_rank"][written])
    cluster += 1
    columns: dict[str, Any] = {
        "launch": [raw.index for raw in raws],
        "kernel": timed.manifest.kernel,
        "grid_x": decoded.grid_x // cluster,  # the header counts the CTAs of all clusters
        "grid_y": decoded.grid_y,
        "grid_z": raws[0].ctas // (decoded.grid_x * decoded.grid_y),
        "num_ctas": cluster,
        "num_warps": timed.manifest.warps,
        "ctas": timed.headers_each(written=True),
        "unfinished": timed.unfinished,
        "device": timed.device,
        "stream": [raw.stream for raw in raws],
        "backend": backend,
        "records": timed.each("records"),
        "dropped": timed.each("dropped"),
        "profile_bytes": [raw.buffer.nbytes for raw in raws],
        "start_ns": timed.start_ns,
        "end_ns": timed.end_ns,
        "clock_ghz": timed.base.clock_ghz,
        "ns_uncertainty": timed.base.uncertainty_ns,
        **{name: [getattr(raw.mark, name) for raw in raws] for name in Mark._fields},
        "variant": variant,
    }
    return {
        name: np.full(len(raws), values, object if isinstance(values, str) else None)
        for name, values in columns.items()
    }


def _notes(kernel: str, launches: Sequence[TimedBundle]) -> list[str]:
    """What the reader of a kernel's figures must know, one line each."""
    decoded = [bundle.decoded for bundle in launches]
    notes = []
    if not any(each.sites for each in decoded):
        notes.append(f"{kernel}: instrument= finds nothing to record in it")
    dropped, records = sum(each.dropped for each in decoded), sum(each.records for each in decoded)
    if dropped:
        notes.append(
            f"{kernel}: the oldest {dropped} of {records + dropped} records were overwritten; figures of "
            f"loops cover their newest iterations only, and the time before is {NAME!r}; "
            "a larger memory= holds more"
        )
    unmatched = sum(each.unmatched for each in decoded)
    if unmatched:
        notes.append(f"{kernel}: {unmatched} spans lack their beginning or their end and are left out")
    notes += selection_notes(launches)
    notes += unfinished_notes(launches)
    unpaired = sum(each.unpaired for each in decoded)
    if unpaired:
        notes.append(f"{kernel}: {unpaired} asynchronous operations began that no recorded wait ended")
    notes += dict.fromkeys(anomaly for each in decoded for anomaly in each.anomalies)
    said = dict.fromkeys(note for each in launches for note in each.manifest.notes)
    return notes + [f"{kernel}: {note}" for note in said]


Ints = npt.NDArray[np.int64]

# When the CTAs of launches began and ended, and on which SM: by their headers and their warps' spans, or by
# their stamps.


_CTA_BITS = 32  # of a key that orders CTAs by launch and linear id


@dataclass(frozen=True)
class CtaTimes:
    """The CTAs that are known and came to their end, by launch and linear id; arrays of shape (CTAs,).

    place: where the launch stands among all that are decoded. Cycles are of the SM's clock64, ns absolute.
    recorded: whether the CTA recorded; others have a stamp.
    """

    place: Ints
    cta: Ints
    sm: Ints
    start_cycle: Ints
    end_cycle: Ints
    start_ns: Ints
    end_ns: Ints
    recorded: npt.NDArray[np.bool_]

    def of_launches(self, launches: int) -> tuple[Ints, Ints]:
        """By launch, when its first CTA began and its last one ended, ns; 0 if none came to its end."""
        start, end = np.zeros(launches, np.int64), np.zeros(launches, np.int64)
        some, first = np.unique(self.place, return_index=True)
        if len(some):
            start[some] = np.minimum.reduceat(self.start_ns, first)
            end[some] = np.maximum.reduceat(self.end_ns, first)
        return start, end


def cta_times(bundles: Sequence[tuple[Bundle, TimeBase]], spans: SpanTable) -> CtaTimes:
    """Times of the CTAs of all bundles, whose spans are in the table.

    A CTA begins with the first of its warps' spans and ends with the last. One thread of it reads the clocks
    of its header; they count if there are no spans of the whole kernel. One thread reads those of a stamp,
    too; its times are the globaltimer's own.
    """
    parts = [_times_of_recorded(bundles, spans), *(_times_of_stamps(*each) for each in bundles)]
    columns = zip(*(vars(part).values() for part in parts), strict=True)
    times = CtaTimes(*map(np.concatenate, columns))
    order = np.argsort(_key(times.place, times.cta), kind="stable")
    return replace(times, **{name: values[order] for name, values in vars(times).items()})


def _times_of_stamps(bundle: Bundle, base: TimeBase) -> CtaTimes:
    stamps, several = bundle.stamped, bundle.decoded.several
    return CtaTimes(
        place=bundle.places[stamps.launch],
        cta=stamps.cta,
        sm=stamps.sm % several.apart.sms if several else stamps.sm,
        start_cycle=stamps.start_cycle,
        end_cycle=stamps.end_cycle,
        start_ns=base.read_to_ns(stamps.start_ns),
        end_ns=base.read_to_ns(stamps.end_ns),
        recorded=np.zeros(len(stamps.cta), np.bool_),
    )


def _times_of_recorded(bundles: Sequence[tuple[Bundle, TimeBase]], spans: SpanTable) -> CtaTimes:
    parts = [_of_headers(bundle) for bundle, _ in bundles]
    places, ctas, sms, starts, ends = (
        np.concatenate([np.zeros(0, np.int64), *(part[at] for part in parts)]) for at in range(5)
    )
    _widen(starts, ends, _key(places, ctas), spans)
    start_ns, end_ns = np.zeros_like(starts), np.zeros_like(ends)
    bounds = np.cumsum([0, *(len(part[0]) for part in parts)]).tolist()
    for (bundle, base), begin, end in zip(bundles, bounds[:-1], bounds[1:], strict=True):
        own, several = slice(begin, end), bundle.decoded.several
        of_bundle = sms[own].astype(np.int32)
        start_ns[own], end_ns[own] = base.to_ns(starts[own], of_bundle), base.to_ns(ends[own], of_bundle)
        if several:
            sms[own] %= several.apart.sms
    return CtaTimes(places, ctas, sms, starts, ends, start_ns, end_ns, np.ones(len(places), np.bool_))


def _key(places: Ints, ctas: Ints) -> Ints:
    return places << _CTA_BITS | ctas


def _of_headers(bundle: Bundle) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """Of each recorded CTA that ended: place, linear id, SM as decoding numbers it, start and end in
    cycles."""
    headers = bundle.decoded.headers
    written = headers["start_clock"] != 0
    launch, headers = bundle.launch_of_header[written], headers[written]
    cta, sm, start, end = (headers[n].astype(np.int64) for n in ("cta", "sm", "start_clock", "end_clock"))
    if bundle.decoded.several:
        cta -= launch * bundle.decoded.several.apart.ctas
    return bundle.places[launch], cta, sm, start, end


def _widen(start: Ints, end: Ints, key: Ints, spans: SpanTable) -> None:
    """Let CTAs cover their outermost spans, and no more where these are of the whole kernel: behind those the
    header waits for the last records. key: see `_key`."""
    df = spans.df
    rows = np.flatnonzero(df["depth"].to_numpy() == 0)
    kind = df["kind"].array[rows]
    rows, kind = rows[np.asarray(kind != "async")], kind[kind != "async"]
    if not len(rows):
        return
    place = np.searchsorted(np.cumsum(spans.sizes), rows, side="right")
    of_row = place << _CTA_BITS | df["cta"].to_numpy()[rows]
    first = np.flatnonzero(np.diff(of_row, prepend=-1))
    order = np.argsort(key, kind="stable")
    at = order[np.searchsorted(key, of_row[first], sorter=order)]
    begin = df["start_cycle"].to_numpy()[rows]
    least = np.minimum.reduceat(begin, first)
    most = np.maximum.reduceat(begin + df["duration_cycles"].to_numpy()[rows], first)
    whole = np.logical_or.reduceat(np.asarray(kind == "kernel"), first)
    start[at] = np.where(whole, least, np.minimum(start[at], least))
    end[at] = np.where(whole, most, np.maximum(end[at], most))
