"""Bytes moved and floating-point operations per scope: what an op's types say, times how often it ran.

A site's `bytes` and `flops` are those of one execution by one CTA, so the warps that execute it together
share them. Masks are not known: where lanes are masked off, the figures are upper bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd

from instrument_passes.analyses.opclasses import OPS
from instrument_passes.manifest import Manifest, Span
from profscope.analysis.summary import SITE_COLUMNS
from profscope.decoding.decode import DecodedLaunch

__all__ = ["WORK_COLUMNS", "about_kernel", "with_work"]

# What `with_work` adds to a summary.
WORK_COLUMNS: Final = ("measures", "bytes", "flops", "gb_per_s", "tflop_per_s")
# A launch: its manifest, its decoded buffer, the CTAs of its grid, and its duration in ns.
Launch = tuple[Manifest, DecodedLaunch, int, int]


def about_kernel(launches: Sequence[Launch]) -> dict[str, Any]:
    """A kernel's entry in the metadata, from its launches; JSON-able.

    sites: how many sites its programs have. measure: what spans on loads end with, "issue" or "latency".
    in_flight: asynchronous operations paired with the wait that ended them; unpaired: those without one.
    work: what its ops did in `launches` launches, those without a gap in their records, which took `ns` in
    all; `scopes` has, for every op, what the end of its spans means (see `_measures`), bytes and flops.
    """
    manifests = dict.fromkeys(manifest for manifest, _, _, _ in launches)
    spans = [span for manifest in manifests for section in manifest.sections for span in section.spans]
    latency = any(_measures(span) == "data" for span in spans)
    scopes: dict[tuple[str, str, int], dict[str, Any]] = {}
    whole = [launch for launch in launches if _is_whole(*launch[:2])]
    for manifest, decoded, ctas, _ in launches:
        scale = ctas / max(1, len(decoded.headers)) if _is_whole(manifest, decoded) else 0.0
        for span, executions in zip(decoded.sites, _executions(manifest, decoded), strict=True):
            if span.kind == "op":
                row = scopes.setdefault(
                    (span.name, span.file, span.line),
                    {"measures": _measures(span), "bytes": 0.0, "flops": 0.0},
                )
                row["bytes"] += span.bytes * executions * scale
                row["flops"] += span.flops * executions * scale
    return {
        "sites": len(spans),
        "measure": "latency" if latency else "issue",
        "in_flight": sum(_in_flight(decoded) for _, decoded, _, _ in launches),
        "unpaired": sum(decoded.unpaired for _, decoded, _, _ in launches),
        "work": {
            "launches": len(whole),
            "ns": sum(ns for _, _, _, ns in whole),
            "scopes": [
                {"scope": name, "kind": "op", "file": file, "line": line, "measures": row["measures"]}
                | {column: round(row[column]) for column in ("bytes", "flops")}
                for (name, file, line), row in scopes.items()
            ],
        },
    }


def with_work(summary: pd.DataFrame, launches: pd.DataFrame, metadata: dict[str, Any]) -> pd.DataFrame:
    """A summary with WORK_COLUMNS, from the launches and metadata of its profile.

    bytes and flops are missing where the op has none, and where a launch of the kernel lost records. The
    rates divide by the time of the kernel's whole launches; an emulator's profile has none.
    """
    known: dict[tuple[Any, ...], tuple[dict[str, Any], dict[str, Any], str]] = {}
    for kernel, about in (metadata.get("kernels") or {}).items():
        work = about.get("work") or {"scopes": ()}
        for row in work["scopes"]:
            known[kernel, *(row[name] for name in SITE_COLUMNS[1:])] = row, work, kernel
    timed = metadata.get("backend") == "gpu"
    count = launches["kernel"].value_counts()
    columns: dict[str, list[Any]] = {name: [] for name in WORK_COLUMNS}
    keys = zip(*(summary[name].tolist() for name in SITE_COLUMNS), strict=True)
    for found in (known.get(key) for key in keys):
        row, work, kernel = found or ({"measures": "", "bytes": 0, "flops": 0}, {"launches": 0, "ns": 0}, "")
        whole = found is not None and work["launches"] == count.get(kernel)
        columns["measures"].append(row["measures"])
        for name, rate, unit in (("bytes", "gb_per_s", 1.0), ("flops", "tflop_per_s", 1e-3)):
            columns[name].append(row[name] if row[name] and whole else None)
            per_ns = row[name] / work["ns"] if timed and row[name] and work["ns"] else np.nan
            columns[rate].append(per_ns * unit)  # bytes per ns are GB/s
    dtypes = {"measures": "str", "bytes": "Int64", "flops": "Int64"}
    return summary.assign(
        **{
            name: pd.Series(values, summary.index, dtype=dtypes.get(name, "float64"))
            for name, values in columns.items()
        }
    )


def _is_whole(manifest: Manifest, decoded: DecodedLaunch) -> bool:
    """Whether all that the recorded CTAs executed is there, and they speak for the grid."""
    if manifest.selection.warps or not manifest.selection.is_sample:
        return False
    return not decoded.dropped and not decoded.unmatched and bool((decoded.headers["start_clock"] != 0).all())


def _in_flight(decoded: DecodedLaunch) -> int:
    asynchronous = np.array([site.kind == "async" for site in decoded.sites], np.bool_)
    return int(decoded.counts[asynchronous].sum())


def _executions(manifest: Manifest, decoded: DecodedLaunch) -> npt.NDArray[np.float64]:
    """How often CTAs executed each site: its spans over the warps that execute it together."""
    warps = np.ones(len(decoded.sites))
    of_sections = [section.warps for section in manifest.sections for _ in section.spans]
    warps[[site.kind != "async" for site in decoded.sites]] = of_sections  # in-flight intervals come extra
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
