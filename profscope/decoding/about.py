"""A profile's metadata of each kernel: recorded CTAs and warps, and the work of its ops.

A site's `bytes` and `flops` are those of one execution by one CTA, so the warps that execute it together
share them. Masks are not known: where lanes are masked off, the figures are upper bounds.

If only some CTAs of a launch recorded, two figures say how far its totals may be off. How the recorded CTAs
differ gives the standard error of an estimate from them. That knows nothing of CTAs unlike all of these: one
CTA in a thousand may take longer than all others together, and be left out. How many such CTAs there may be
follows from how many were recorded.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from profscope.decoding.bundles import TimedBundle
from profscope.decoding.gaps import KIND as GAP
from profscope.instrument_passes.manifest import Span
from profscope.instrument_passes.ops import OPS
from profscope.instrument_passes.records import MAX_STAMPED
from profscope.instrument_passes.selection import FEWEST

__all__ = ["about_kernel", "most_unseen", "selection_notes", "unfinished_notes"]

_SHOWN_IDS: Final = 8
_MISSED: Final = 0.05  # the chance to see none, at which something may still be there
_LEAST_SHOWN: Final = 0.001


def about_kernel(launches: Sequence[TimedBundle], variants: Mapping[int, int]) -> dict[str, Any]:
    """A kernel's entry in the metadata, from its launches; JSON-able. variants: by launch.

    sites: how many sites its programs have. measure: what spans on loads end with, "issue" or "latency".
    in_flight: asynchronous operations paired with the wait that ended them; unpaired: those without one.
    work: see `_work`, one for each variant; recorded: see `_recorded`.
    """
    manifests = dict.fromkeys(each.manifest for each in launches)
    spans = [span for manifest in manifests for section in manifest.sections for span in section.spans]
    latency = any(_measures(span) == "data" for span in spans)
    groups: dict[int, list[TimedBundle]] = {}
    for launch in launches:
        groups.setdefault(variants[launch.index], []).append(launch)
    return {
        "sites": len(spans),
        "measure": "latency" if latency else "issue",
        "in_flight": sum(_in_flight(launch.decoded.sites, launch.decoded.counts) for launch in launches),
        "unpaired": sum(launch.decoded.unpaired for launch in launches),
        "work": [{"variant": variant, **_work(of_group)} for variant, of_group in groups.items()],
        "recorded": _recorded(launches),
    }


def selection_notes(launches: Sequence[TimedBundle]) -> list[str]:
    """Notes on the recorded CTAs and launches of one kernel, one line each."""
    recorded = sum(len(launch.decoded.headers) for launch in launches)
    grid = sum(launch.grid_ctas for launch in launches)
    manifest = launches[-1].manifest
    kernel, selection = manifest.kernel, manifest.selection
    notes = []
    if recorded < grid:
        ids = ", ".join(map(str, selection.ids[:_SHOWN_IDS]))
        ids += ", ..." if len(selection.ids) > _SHOWN_IDS else ""
        which = f"those that ctas= lists: {ids}" if ids else "spread over the grid"
        off = "" if ids else _how_far_off(launches)
        estimated = f"; {off}" if off else ""
        notes.append(f"{kernel}: {recorded} of {grid} CTAs were recorded, {which}{estimated}")
    return notes + [f"{kernel}: prof.ctas has {what}" for what in _incomplete(launches)]


def _incomplete(launches: Sequence[TimedBundle]) -> list[str]:
    """What prof.ctas has where CTAs of one kernel's launches have neither records nor a stamp."""
    left_out = [
        bundle.manifest
        for bundle in launches
        for raw, recorded in zip(bundle.raws, bundle.recorded.tolist(), strict=True)
        if recorded < raw.ctas and bundle.manifest.stamps_of(raw.ctas) < raw.ctas
    ]
    half = MAX_STAMPED // 2
    found = {
        f"recorded CTAs, and the first and last {half:,} of each launch": any(e.stamps for e in left_out),
        "recorded CTAs only, because it was built without stamps": not all(e.stamps for e in left_out),
    }
    return [what for what, is_so in found.items() if is_so]


class _Sample(NamedTuple):
    """Of the launches of one grid. recorded: CTAs of a launch, of so many in the grid. variation: the
    standard deviation of their times over the mean, which divides by as many as there are."""

    recorded: float
    grid: float
    variation: float


def _how_far_off(launches: Sequence[TimedBundle]) -> str:
    """Of one kernel's launches, by those of which it is worst; "" if no CTA of any came to its end."""
    samples = _samples(launches)
    if not samples:
        return ""
    fewest = min(sample.recorded for sample in samples)
    if fewest < FEWEST:
        recorded = "one CTA of a launch is" if fewest <= 1 else f"{fewest:.0f} CTAs of a launch are"
        return f"{recorded} too few to say how far its totals may be off"
    error = max(map(_standard_error, samples))
    unseen = max(most_unseen(round(sample.recorded), round(sample.grid)) / sample.grid for sample in samples)
    shown = f"of {error:.1%}" if error >= _LEAST_SHOWN else f"below {_LEAST_SHOWN:.1%}"
    return (
        f"by how these differ, a launch's totals have a standard error {shown}; up to {unseen:.1%} of its "
        "CTAs could be slower than any recorded (95% upper bound)"
    )


def most_unseen(recorded: int, grid: int) -> int:
    """The most CTAs of a grid of so many that may all have been left out, with 95 % confidence: of more than
    these, at least one is recorded with that chance, as CTAs are drawn without replacement.
    """

    def ways(others: int) -> float:
        """To draw the recorded CTAs from so many, as a logarithm."""
        return math.lgamma(others + 1) - math.lgamma(others - recorded + 1)

    least = ways(grid) + math.log(_MISSED)
    return bisect_left(range(grid - recorded), True, key=lambda most: ways(grid - most - 1) < least)


def _standard_error(sample: _Sample) -> float:
    """Of what CTAs drawn at random say of the time of all, relative to it: variation * sqrt((1 - sampled) /
    recorded) (Cochran, Sampling Techniques, 1977, equation 2.20, whose variation divides by one less than
    there are)."""
    return sample.variation * math.sqrt((1 - sample.recorded / sample.grid) / (sample.recorded - 1))


def _samples(launches: Sequence[TimedBundle]) -> list[_Sample]:
    """Of launches that left CTAs out."""
    samples = []
    for bundle in launches:
        headers = bundle.decoded.headers
        cycles = (headers["end_clock"] - headers["start_clock"])[headers["end_clock"] != 0].astype(np.float64)
        if len(cycles):
            spread = float(np.std(cycles)) / max(1.0, float(np.mean(cycles)))
            samples.append(_Sample(len(headers) / len(bundle), bundle.grid_ctas / len(bundle), spread))
    return [sample for sample in samples if 0 < sample.recorded < sample.grid]


def unfinished_notes(launches: Sequence[TimedBundle]) -> list[str]:
    """A line on those of one kernel's launches that have CTAs without an end."""
    cut_short = sorted(
        (raw.index, missing, chosen, raw.ctas)
        for bundle in launches
        for missing, chosen, raw in zip(
            bundle.unfinished.tolist(), bundle.recorded.tolist(), bundle.raws, strict=True
        )
        if missing
    )
    if not cut_short:
        return []
    numbers, *figures = zip(*cut_short, strict=True)
    unfinished, chosen, grid = map(sum, figures)
    which = f"launch {numbers[0]}"
    if len(numbers) > 1:
        which = f"{len(numbers)} launches, {numbers[0]} to {numbers[-1]}"
    those = "CTAs" if chosen == grid else "CTAs that were to record"
    return [
        f"{launches[0].manifest.kernel}: {which}: {unfinished} of {chosen} {those} wrote nothing, or did not "
        "come to their end; they are not in the figures"
    ]


def _recorded(launches: Sequence[TimedBundle]) -> dict[str, Any]:
    """ctas of grid_ctas CTAs, over all launches. unfinished: CTAs
    that were to record and did not come to their end. sample: whether the ctas + unfinished CTAs were chosen
    so that they speak for the grid: totals of a launch times its grid_ctas / (ctas + unfinished) estimate all
    but its unfinished CTAs, for which nothing stands."""
    selections = [each.manifest.selection for each in launches]
    unfinished = sum(int(launch.unfinished.sum()) for launch in launches)
    return {
        "ctas": sum(len(launch.decoded.headers) for launch in launches) - unfinished,
        "unfinished": unfinished,
        "grid_ctas": sum(launch.grid_ctas for launch in launches),
        "sample": all(selection.is_sample for selection in selections),
    }


def _work(launches: Sequence[TimedBundle]) -> dict[str, Any]:
    """What ops did in `launches` launches, those without a gap in their records, which took `ns` in all.

    scopes: for every op, what the end of its spans means (see `_measures`), bytes and flops.
    """
    scopes: dict[tuple[str, str, int, str], dict[str, Any]] = {}
    count, ns = 0, 0
    for bundle in launches:
        kept, took_ns = bundle.are_whole, bundle.end_ns - bundle.start_ns
        scale = bundle.raws[0].ctas / np.maximum(1, bundle.recorded) * kept
        _add_work(scopes, bundle.decoded.sites, (_executions(bundle) * scale[:, None]).sum(axis=0))
        count, ns = count + int(kept.sum()), ns + int(took_ns[kept].sum())
    return {
        "launches": count,
        "ns": ns,
        "scopes": [
            {"scope": name, "kind": "op", "file": file, "line": line, "call_path": path}
            | {"measures": row["measures"]}
            | {column: round(row[column]) for column in ("bytes", "flops")}
            for (name, file, line, path), row in scopes.items()
        ],
    }


def _add_work(
    scopes: dict[tuple[str, str, int, str], dict[str, Any]],
    sites: Sequence[Span],
    executions: npt.NDArray[np.float64],
) -> None:
    for span, times in zip(sites, executions.tolist(), strict=True):
        if span.kind == "op":
            row = scopes.setdefault(
                (span.name, span.file, span.line, span.call_path),
                {"measures": _measures(span), "bytes": 0.0, "flops": 0.0},
            )
            row["bytes"] += span.bytes * times
            row["flops"] += span.flops * times


def _in_flight(sites: Sequence[Span], counts: npt.NDArray[np.int64]) -> int:
    asynchronous = np.array([site.kind == "async" for site in sites], np.bool_)
    return int(counts[asynchronous].sum())


def _executions(timed: TimedBundle) -> npt.NDArray[np.float64]:
    """How often CTAs executed each site: its spans over the warps that execute it together. Shape (launches,
    sites)."""
    decoded = timed.decoded
    warps = np.ones(len(decoded.sites))
    of_sections = [section.warps for section in timed.manifest.sections for _ in section.spans]
    recorded = [site.kind not in ("async", GAP) for site in decoded.sites]  # those come extra
    warps[recorded] = of_sections
    return (timed.counts() - timed.counts(decoded.idle)) / warps


def _measures(span: Span) -> str:
    """What the end of a site's spans means: the op's "issue", its "completion", the arrival of its "data"."""
    if span.kind != "op" or span.op not in OPS:
        return ""
    if span.name.endswith(" latency"):
        return "data"
    # A warp_group_dot that waits for itself is shown as another op than one that is only issued.
    synchronous = span.op == "ttng.warp_group_dot" and not span.name.startswith(OPS[span.op].label)
    return "completion" if OPS[span.op].completes or synchronous else "issue"
