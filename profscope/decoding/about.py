"""What a profile says of each kernel beside its spans: who was recorded, and what work its ops did.

A site's `bytes` and `flops` are those of one execution by one CTA, so the warps that execute it together
share them. Masks are not known: where lanes are masked off, the figures are upper bounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from instrument_passes.analyses.opclasses import OPS
from instrument_passes.manifest import Span
from profscope.decoding.decode import DecodedLaunch
from profscope.decoding.gaps import KIND as GAP
from profscope.decoding.launch import TimedLaunch

__all__ = ["about_kernel", "selection_notes", "unfinished_notes"]

_SHOWN_IDS: Final = 8
_SHOWN_LAUNCHES: Final = 4


def about_kernel(launches: Sequence[TimedLaunch], variants: Mapping[int, int]) -> dict[str, Any]:
    """A kernel's entry in the metadata, from its launches; JSON-able. variants: by launch.

    sites: how many sites its programs have. measure: what spans on loads end with, "issue" or "latency".
    in_flight: asynchronous operations paired with the wait that ended them; unpaired: those without one.
    work: see `_work`, one for each variant, its trials apart; recorded: see `_recorded`.
    """
    manifests = dict.fromkeys(launch.manifest for launch in launches)
    spans = [span for manifest in manifests for section in manifest.sections for span in section.spans]
    latency = any(_measures(span) == "data" for span in spans)
    return {
        "sites": len(spans),
        "measure": "latency" if latency else "issue",
        "in_flight": sum(_in_flight(launch.decoded) for launch in launches),
        "unpaired": sum(launch.decoded.unpaired for launch in launches),
        "work": [
            {"variant": variant, "trial": trial, **_work(of_group)}
            for (variant, trial), of_group in _groups(launches, variants).items()
        ],
        "recorded": _recorded(launches),
    }


def selection_notes(launches: Sequence[TimedLaunch]) -> list[str]:
    """What the reader of one kernel's figures must know about who recorded, one line each."""
    recorded = sum(len(launch.decoded.headers) for launch in launches)
    grid = sum(launch.raw.ctas for launch in launches)
    manifest = launches[-1].manifest
    kernel, selection = manifest.kernel, manifest.selection
    notes = []
    if recorded < grid:
        ids = ", ".join(map(str, selection.ids[:_SHOWN_IDS]))
        ids += ", ..." if len(selection.ids) > _SHOWN_IDS else ""
        which = {
            "stride": "at regular distances in the grid",
            "first": "the first wave: those that started before any on their SM had ended",
            "list": f"those that ctas= lists: {ids}",
            "sms": f"those that ran on SM {ids}",
        }[selection.ctas]
        notes.append(f"{kernel}: {recorded} of {grid} CTAs were recorded, {which}")
    refused = sum(launch.decoded.refused for launch in launches)
    if refused:
        notes.append(f"{kernel}: {refused} CTAs ran on these SMs and found no room; memory= gives more")
    if selection.warps:
        warps = ", ".join(map(str, selection.warps))
        notes.append(
            f"{kernel}: of the {manifest.warps} warps of a CTA only {warps} recorded; "
            "bytes and flops are missing"
        )
    return notes


def unfinished_notes(launches: Sequence[TimedLaunch]) -> list[str]:
    """Which of one kernel's launches have CTAs without an end: a line for each, beyond a few one for all."""
    cut_short = [launch for launch in launches if launch.unfinished]
    shown, more = cut_short[:_SHOWN_LAUNCHES], cut_short[_SHOWN_LAUNCHES:]
    named = [(f"launch {launch.raw.index}", [launch]) for launch in shown]
    if more:
        named.append((f"{len(more)} more launches, {more[0].raw.index} to {more[-1].raw.index}", more))
    return [_unfinished_note(name, of_name) for name, of_name in named]


def _unfinished_note(name: str, launches: Sequence[TimedLaunch]) -> str:
    chosen = sum(len(launch.decoded.headers) for launch in launches)
    those = "CTAs" if chosen == sum(launch.raw.ctas for launch in launches) else "CTAs that were to record"
    return (
        f"{launches[0].manifest.kernel}: {name}: {sum(launch.unfinished for launch in launches)} of {chosen} "
        f"{those} wrote nothing, or did not come to their end; they are not in the figures"
    )


def _recorded(launches: Sequence[TimedLaunch]) -> dict[str, Any]:
    """ctas of grid_ctas CTAs, over all launches; warps: those of a CTA, or None for all. unfinished: CTAs
    that were to record and did not come to their end. sample: whether the ctas + unfinished CTAs were chosen
    so that they speak for the grid: totals of a launch times its grid_ctas / (ctas + unfinished) estimate all
    but its unfinished CTAs, for which nothing stands."""
    warps = launches[-1].manifest.selection.warps
    return {
        "ctas": sum(len(launch.decoded.headers) - launch.unfinished for launch in launches),
        "unfinished": sum(launch.unfinished for launch in launches),
        "grid_ctas": sum(launch.raw.ctas for launch in launches),
        "warps": list(warps) if warps else None,
        "sample": all(launch.manifest.selection.is_sample for launch in launches),
    }


def _groups(
    launches: Sequence[TimedLaunch], variants: Mapping[int, int]
) -> dict[tuple[int, bool], list[TimedLaunch]]:
    """Launches by variant and by whether they are an autotuner's trials."""
    groups: dict[tuple[int, bool], list[TimedLaunch]] = {}
    for launch in launches:
        groups.setdefault((variants[launch.raw.index], launch.raw.mark.trial), []).append(launch)
    return groups


def _work(launches: Sequence[TimedLaunch]) -> dict[str, Any]:
    """What ops did in `launches` launches, those without a gap in their records, which took `ns` in all.

    scopes: for every op, what the end of its spans means (see `_measures`), bytes and flops.
    """
    scopes: dict[tuple[str, str, int, str], dict[str, Any]] = {}
    whole = [launch for launch in launches if launch.is_whole]
    for launch in launches:
        decoded = launch.decoded
        scale = launch.raw.ctas / max(1, len(decoded.headers)) if launch.is_whole else 0.0
        for span, executions in zip(decoded.sites, _executions(launch), strict=True):
            if span.kind == "op":
                row = scopes.setdefault(
                    (span.name, span.file, span.line, span.call_path),
                    {"measures": _measures(span), "bytes": 0.0, "flops": 0.0},
                )
                row["bytes"] += span.bytes * executions * scale
                row["flops"] += span.flops * executions * scale
    return {
        "launches": len(whole),
        "ns": sum(launch.end_ns - launch.start_ns for launch in whole),
        "scopes": [
            {"scope": name, "kind": "op", "file": file, "line": line, "call_path": path}
            | {"measures": row["measures"]}
            | {column: round(row[column]) for column in ("bytes", "flops")}
            for (name, file, line, path), row in scopes.items()
        ],
    }


def _in_flight(decoded: DecodedLaunch) -> int:
    asynchronous = np.array([site.kind == "async" for site in decoded.sites], np.bool_)
    return int(decoded.counts[asynchronous].sum())


def _executions(launch: TimedLaunch) -> npt.NDArray[np.float64]:
    """How often CTAs executed each site: its spans over the warps that execute it together."""
    decoded = launch.decoded
    warps = np.ones(len(decoded.sites))
    of_sections = [section.warps for section in launch.manifest.sections for _ in section.spans]
    recorded = [site.kind not in ("async", GAP) for site in decoded.sites]  # those come extra
    warps[recorded] = of_sections
    return (decoded.counts - np.bincount(decoded.span[decoded.idle], minlength=len(warps))) / warps


def _measures(span: Span) -> str:
    """What the end of a site's spans means: the op's "issue", its "completion", the arrival of its "data"."""
    if span.kind != "op" or span.op not in OPS:
        return ""
    if span.name.endswith(" latency"):
        return "data"
    # A warp_group_dot that waits for itself is shown as another op than one that is only issued.
    synchronous = span.op == "ttng.warp_group_dot" and not span.name.startswith(OPS[span.op].label)
    return "completion" if OPS[span.op].completes or synchronous else "issue"
