"""What probes saw in tensors (the pass value-probe), where, and what first."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from instrument_passes.span_columns import VALUES_OF
from profscope.analysis.kernel_analysis import KernelAnalysis
from profscope.analysis.span_rows import Floats

__all__ = ["ADVICE", "Seen", "first_seen", "probed"]

ADVICE: Final = {
    "nan": "look for 0 / 0, inf - inf, or a masked load without `other` before this line",
    "infinity": "scale before this line, or compute it in float32",
    "denormals": "scale before this line (as losses are scaled for float16), or use bfloat16 or float32, "
    "which have smaller numbers",
    "saturation": "scale before this line, or use a type with larger numbers: bfloat16 or float32",
}
"""By finding, what to try."""


class Seen(NamedTuple):
    """The first span of a kernel that saw what was looked for.

    file, line, text: where, and "values of x has 5 in CTA 0, iteration 3, the first of 8 spans that saw one".
    """

    file: str
    line: int
    text: str


def probed(judged: KernelAnalysis, column: str) -> Floats:
    """By span: what a probe says there, NaN where none says anything: a payload of that name is not a
    probe's. All NaN where the profile has no such column."""
    df = judged.tables.df
    if column not in df:
        return np.full(len(judged.spans), np.nan)
    values = np.asarray(df[column].astype("float64").to_numpy(na_value=np.nan)[judged.spans.row], np.float64)
    is_probe = judged.sites["scope"].str.startswith(VALUES_OF).to_numpy(np.bool_)
    return np.where(is_probe[judged.spans.site], values, np.nan)


def first_seen(judged: KernelAnalysis, column: str) -> Seen | None:
    """The earliest span whose probe counted one; None where none did."""
    counts = probed(judged, column)
    seen = np.flatnonzero(counts > 0)
    if not len(seen):
        return None
    rows = judged.spans.row[seen]
    first = int(seen[np.argmin(judged.tables.df["start_ns"].to_numpy()[rows])])
    site, iteration = int(judged.spans.site[first]), int(judged.spans.iteration[first])
    step = f", iteration {iteration}" if iteration >= 0 else ""
    cta = int(judged.ctas["cta"].iloc[judged.spans.cta[first]])
    text = (
        f"{judged.sites['scope'].iloc[site]} has {int(counts[first]):,} in CTA {cta}{step}, the first of "
        f"{len(seen):,} spans that saw one"
    )
    return Seen(*judged.at(site), text)
