"""The spans that determine a CTA's time, and how much earlier it would end if one were shorter."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from profscope.analysis.answers import Answer, joined_frame
from profscope.analysis.kernels.kernel_analysis import KernelAnalysis, SkippedKernel, kernel_analyses
from profscope.analysis.kernels.replay import replay_of
from profscope.schema import Tables

__all__ = ["PATH_DTYPES", "critical_path", "median_cta", "path_of"]

PATH_DTYPES: Final = {
    "kernel": "str",
    "variant": "int32",
    "launch": "int32",
    "cta": "int32",
    "scope": "str",
    "kind": "str",
    "file": "str",
    "line": "int32",
    "call_path": "str",
    "cycles": "int64",
    "share": "float64",
    "earlier_pct": "float64",
}
_MOST_SPANS: Final = 20_000  # of a CTA; a larger one takes too long to run again
_SHORTER: Final = 0.75  # of what a scope takes, if it is tried
_REPLAYED: Final = 8  # sites whose shortening is tried


def critical_path(tables: Tables) -> pd.DataFrame:
    """One row per kernel, configuration and scope on the way through the CTA of median length that ends last.

    The way is walked back from the CTA's end: through the ops and loops of a warp; at a barrier to the warp
    that came last; at a wait that waited to the asynchronous work that it waited for, whose time in flight
    counts as that of the op that started it. Columns: kernel, variant, launch, cta; scope, kind, file, line,
    call_path; cycles on the way; share, their part of the CTA's time, 0 to 1; earlier_pct, by how many
    percent of its time the CTA would end earlier if all that scope does, in every warp, took a quarter less:
    the CTA is replayed with its dependences, so that another path may become the last one. Missing behind the
    8 heaviest rows.

    attrs["not_measured"]: list of str, which kernels have no rows, and why.
    """
    return joined_frame(map(path_of, kernel_analyses(tables)), PATH_DTYPES)


def path_of(analysis: KernelAnalysis | SkippedKernel) -> Answer:
    """The rows of `critical_path` of one configuration."""
    if isinstance(analysis, SkippedKernel):
        return analysis.answer
    cta = median_cta(analysis)
    if cta < 0:
        return Answer([], [f"{analysis.kernel}: its CTAs have more than {_MOST_SPANS:,} spans each"])
    return Answer(_rows(analysis, cta), [])


def median_cta(analysis: KernelAnalysis) -> int:
    """The row in `analysis.ctas` of the CTA of median length among those with spans; -1 if it has too many
    of them."""
    known, counts = np.unique(analysis.spans.cta, return_counts=True)
    cycles = analysis.ctas["cycles"].to_numpy()[known]
    at = int(np.argsort(cycles, kind="stable")[(len(cycles) - 1) // 2])
    return int(known[at]) if counts[at] <= _MOST_SPANS else -1


def _rows(analysis: KernelAnalysis, cta: int) -> list[dict[str, Any]]:
    replay = replay_of(analysis, cta)
    path = sorted(replay.path().items(), key=lambda item: -item[1])
    whole = replay.run({})
    about = analysis.ctas.iloc[cta]
    rows = []
    for at, (site, cycles) in enumerate(path):
        place = analysis.sites.iloc[site]
        earlier = np.nan
        if at < _REPLAYED:
            earlier = 100 * (1 - replay.run({site: _SHORTER}) / max(1.0, whole))
        rows.append(
            {name: place[name] for name in ("scope", "kind", "file", "line", "call_path")}
            | {"kernel": analysis.kernel, "variant": analysis.variant}
            | {"launch": about["launch"], "cta": about["cta"], "cycles": cycles}
            | {"share": cycles / max(1, replay.cycles), "earlier_pct": earlier}
        )
    return rows
