"""What a profile says of each kernel beside its spans: who was recorded, and what work its ops did.

A site's `bytes` and `flops` are those of one execution by one CTA, so the warps that execute it together
share them. Masks are not known: where lanes are masked off, the figures are upper bounds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from instrument_passes.analyses.opclasses import OPS
from instrument_passes.dialect import PROBED
from instrument_passes.manifest import Span
from profscope.decoding.clocks import Clocks
from profscope.decoding.cta_shapes import about_shapes
from profscope.decoding.executions import folded_executions
from profscope.decoding.folding import FoldedProgram, are_whole
from profscope.decoding.gaps import KIND as GAP
from profscope.decoding.launch import TimedBundle
from profscope.decoding.left_out_ctas import how_far_off

__all__ = [
    "about_kernel",
    "kept_notes",
    "left_out_notes",
    "nan_notes",
    "selection_notes",
    "unfinished_notes",
    "wrapped_notes",
]

_NANS: Final = PROBED[0]  # of the columns of a probe
_SHOWN_IDS: Final = 8
_SHOWN_LAUNCHES: Final = 4
_SHOWN_SCOPES: Final = 4


def about_kernel(
    launches: Sequence[TimedBundle],
    programs: Sequence[FoldedProgram],
    variants: Mapping[int, int],
    clocks: Mapping[int, Clocks],
) -> dict[str, Any]:
    """A kernel's entry in the metadata, from its launches; JSON-able. programs: those of its launches that
    are folded; variants: by launch, and by the first launch of each program; clocks: by device.

    sites: how many sites its programs have. measure: what spans on loads end with, "issue" or "latency".
    in_flight: asynchronous operations paired with the wait that ended them; unpaired: those without one.
    work: see `_work`, one for each variant, its trials apart; recorded: see `_recorded`. shapes: see
    `cta_shapes.about_shapes`, one for each variant that has some.
    """
    manifests = dict.fromkeys(each.manifest for each in _both(launches, programs))
    spans = [span for manifest in manifests for section in manifest.sections for span in section.spans]
    latency = any(_measures(span) == "data" for span in spans)
    groups: dict[tuple[int, bool], tuple[list[TimedBundle], list[FoldedProgram]]] = {}
    for launch in launches:
        key = variants[launch.index], launch.bundle.trial
        groups.setdefault(key, ([], []))[0].append(launch)
    for program in programs:
        groups.setdefault((variants[program.index], program.trial), ([], []))[1].append(program)
    return {
        "sites": len(spans),
        "measure": "latency" if latency else "issue",
        "in_flight": sum(_in_flight(launch.decoded.sites, launch.decoded.counts) for launch in launches)
        + sum(_in_flight(program.layout.sites, program.seen.count) for program in programs),
        "unpaired": sum(launch.decoded.unpaired for launch in launches),
        "work": [
            {"variant": variant, "trial": trial, **_work(*of_group)}
            for (variant, trial), of_group in groups.items()
        ],
        "recorded": _recorded(launches, programs),
        "shapes": [
            {"variant": variant, **shape}
            for (variant, trial), (_, folded) in groups.items()
            if not trial and (shape := _shape(folded, clocks)) is not None
        ],
    }


def _shape(programs: Sequence[FoldedProgram], clocks: Mapping[int, Clocks]) -> dict[str, Any] | None:
    """Of one configuration."""
    step_ns = max((clocks[program.device].step for program in programs), default=0)
    return about_shapes((shape for program in programs for shape in program.shapes), step_ns)


def _both(
    launches: Sequence[TimedBundle], programs: Sequence[FoldedProgram]
) -> list[TimedBundle | FoldedProgram]:
    return [*launches, *programs]


def selection_notes(launches: Sequence[TimedBundle], programs: Sequence[FoldedProgram]) -> list[str]:
    """What the reader of one kernel's figures must know about who recorded, one line each."""
    rows = [program.launches for program in programs]
    recorded = sum(len(launch.decoded.headers) for launch in launches) + _sum(rows, "chosen")
    grid = sum(launch.grid_ctas for launch in launches) + _sum(rows, "grid_ctas")
    manifest = _both(launches, programs)[-1].manifest
    kernel, selection = manifest.kernel, manifest.selection
    notes = []
    if recorded < grid:
        ids = ", ".join(map(str, selection.ids[:_SHOWN_IDS]))
        ids += ", ..." if len(selection.ids) > _SHOWN_IDS else ""
        which = {
            "spread": "spread over the grid",
            "stride": "at regular distances in the grid",
            "first": "the first wave: those that started before any on their SM had ended",
            "list": f"those that ctas= lists: {ids}",
            "sms": f"those that ran on SM {ids}",
        }[selection.ctas]
        off = how_far_off(launches, programs) if selection.ctas == "spread" else ""
        estimated = f"; {off}" if off else ""
        notes.append(f"{kernel}: {recorded} of {grid} CTAs were recorded, {which}{estimated}")
    refused = sum(launch.decoded.refused for launch in launches) + _sum(rows, "refused")
    if refused:
        notes.append(f"{kernel}: {refused} CTAs ran on these SMs and found no room; memory= gives more")
    if selection.warps:
        warps = ", ".join(map(str, selection.warps))
        notes.append(
            f"{kernel}: of the {manifest.warps} warps of a CTA only {warps} recorded; "
            "bytes and flops are missing"
        )
    return notes


class _CutShort(NamedTuple):
    """A launch with CTAs without an end: how many of those chosen to record, in a grid of so many."""

    launch: int
    unfinished: int
    chosen: int
    grid: int


def unfinished_notes(launches: Sequence[TimedBundle], programs: Sequence[FoldedProgram]) -> list[str]:
    """Which of one kernel's launches have CTAs without an end: a line for each, beyond a few one for all."""
    cut_short: list[_CutShort] = []
    for bundle in launches:
        figures = zip(bundle.unfinished.tolist(), bundle.recorded.tolist(), bundle.bundle.raws, strict=True)
        cut_short += [_CutShort(raw.index, missing, of, raw.ctas) for missing, of, raw in figures if missing]
    for program in programs:
        rows = program.launches
        rows = rows[rows["ended"] < rows["chosen"]]
        columns = rows["launch"], rows["chosen"] - rows["ended"], rows["chosen"], rows["grid_ctas"]
        cut_short += map(_CutShort, *(column.tolist() for column in columns))
    cut_short.sort()
    shown, more = cut_short[:_SHOWN_LAUNCHES], cut_short[_SHOWN_LAUNCHES:]
    named = [(f"launch {each.launch}", [each]) for each in shown]
    if more:
        named.append((f"{len(more)} more launches, {more[0].launch} to {more[-1].launch}", more))
    kernel = _both(launches, programs)[0].manifest.kernel
    return [_unfinished_note(f"{kernel}: {name}", of_name) for name, of_name in named]


def _unfinished_note(name: str, launches: Sequence[_CutShort]) -> str:
    chosen = sum(launch.chosen for launch in launches)
    those = "CTAs" if chosen == sum(launch.grid for launch in launches) else "CTAs that were to record"
    return (
        f"{name}: {sum(launch.unfinished for launch in launches)} of {chosen} "
        f"{those} wrote nothing, or did not come to their end; they are not in the figures"
    )


def kept_notes(kernels: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Of which kernels not all launches kept spans. kernels: by name, how many kept "spans" and "sums"."""
    return [
        f"{name}: {_kept(counts['spans'], sum(counts.values()))}"
        for name, counts in kernels.items()
        if counts["sums"]
    ]


def _kept(spans: int, launches: int) -> str:
    if not spans:
        return "its launch kept sums" if launches == 1 else f"all {launches} launches kept sums"
    others = "the other" if launches - spans == 1 else "the others"
    return f"{spans} of {launches} launches kept spans, {others} sums"


def wrapped_notes(programs: Sequence[FoldedProgram]) -> list[str]:
    """How many CTAs of one kernel ran for so long that their sums may have overflowed."""
    wrapped = _sum([program.launches for program in programs], "wrapped")
    if not wrapped:
        return []
    ctas, they = ("CTA", "it is") if wrapped == 1 else ("CTAs", "they are")
    return [
        f"{programs[0].manifest.kernel}: {wrapped} {ctas} may have run for more than 2^32 cycles, which sums "
        f"have no room for; {they} in no sum"
    ]


def left_out_notes(programs: Sequence[FoldedProgram]) -> list[str]:
    """Of how many warps of one kernel the time in flight of some asynchronous work is not known."""
    warps: Counter[str] = Counter()
    for program in programs:
        for site, left_out in zip(program.layout.sites, program.left_out.tolist(), strict=True):
            warps[site.name] += left_out
    return [
        f"{programs[0].manifest.kernel}: {count} warps are not in the sums of {name!r}: some was under way "
        "when they ended, or its time may not have fitted 32 bits"
        for name, count in warps.items()
        if count
    ]


def nan_notes(programs: Sequence[FoldedProgram]) -> list[str]:
    """Where values of one kernel's launches that kept sums were NaNs, by probes: no row says so."""
    scopes: dict[str, None] = {}
    for program in programs:
        payloads = program.layout.payloads
        most = program.numbers.columns(payloads)["greatest"]
        for payload, greatest in zip(payloads, most, strict=True):
            if payload.name == _NANS and greatest > 0:
                scopes[program.layout.sites[payload.site].name] = None
    if not scopes:
        return []
    names = ", ".join(map(repr, list(scopes)[:_SHOWN_SCOPES]))
    more = f" and {len(scopes) - _SHOWN_SCOPES} more" * (len(scopes) > _SHOWN_SCOPES)
    return [
        f"{programs[0].manifest.kernel}: launches that kept sums had NaNs in {names}{more}: see numbers; "
        "first_nan() knows those that kept spans only"
    ]


def _sum(parts: Sequence[npt.NDArray[np.void]], name: str) -> int:
    """Of a column over all rows, dtype `folding.ROW`."""
    return sum(int(rows[name].sum()) for rows in parts)


def _recorded(launches: Sequence[TimedBundle], programs: Sequence[FoldedProgram]) -> dict[str, Any]:
    """ctas of grid_ctas CTAs, over all launches; warps: those of a CTA, or None for all. unfinished: CTAs
    that were to record and did not come to their end. sample: whether the ctas + unfinished CTAs were chosen
    so that they speak for the grid: totals of a launch times its grid_ctas / (ctas + unfinished) estimate all
    but its unfinished CTAs, for which nothing stands."""
    rows = [program.launches for program in programs]
    chosen, ended, grid = (_sum(rows, name) for name in ("chosen", "ended", "grid_ctas"))
    selections = [each.manifest.selection for each in _both(launches, programs)]
    unfinished = sum(int(launch.unfinished.sum()) for launch in launches)
    return {
        "ctas": sum(len(launch.decoded.headers) for launch in launches) - unfinished + ended,
        "unfinished": unfinished + chosen - ended,
        "grid_ctas": sum(launch.grid_ctas for launch in launches) + grid,
        "warps": list(selections[-1].warps) or None,
        "sample": all(selection.is_sample for selection in selections),
    }


def _work(launches: Sequence[TimedBundle], programs: Sequence[FoldedProgram]) -> dict[str, Any]:
    """What ops did in `launches` launches, those without a gap in their records, which took `ns` in all.

    scopes: for every op, what the end of its spans means (see `_measures`), bytes and flops.
    """
    scopes: dict[tuple[str, str, int, str], dict[str, Any]] = {}
    count, ns = 0, 0
    for bundle in launches:
        kept, took_ns = bundle.are_whole, bundle.end_ns - bundle.start_ns
        scale = bundle.bundle.raws[0].ctas / np.maximum(1, bundle.recorded) * kept
        _add_work(scopes, bundle.decoded.sites, (_executions(bundle) * scale[:, None]).sum(axis=0))
        count, ns = count + int(kept.sum()), ns + int(took_ns[kept].sum())
    for program in programs:
        _add_work(scopes, program.layout.sites, folded_executions(program))
        whole = program.launches[are_whole(program.manifest, program.launches)]
        count, ns = count + len(whole), ns + int((whole["end_ns"] - whole["start_ns"]).sum())
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
    return (timed.bundle.counts() - timed.bundle.counts(decoded.idle)) / warps


def _measures(span: Span) -> str:
    """What the end of a site's spans means: the op's "issue", its "completion", the arrival of its "data"."""
    if span.kind != "op" or span.op not in OPS:
        return ""
    if span.name.endswith(" latency"):
        return "data"
    # A warp_group_dot that waits for itself is shown as another op than one that is only issued.
    synchronous = span.op == "ttng.warp_group_dot" and not span.name.startswith(OPS[span.op].label)
    return "completion" if OPS[span.op].completes or synchronous else "issue"
