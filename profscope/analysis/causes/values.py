"""nan, saturation: what probes saw in tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from profscope.analysis.cause import Finding, NotMeasured
from profscope.analysis.judged import Judged

__all__ = ["causes"]

_LARGEST_HALF: Final = 65504.0


def causes(judged: Judged) -> Iterator[Finding | NotMeasured]:
    """A probe saw a NaN, an infinity, or the largest finite float16.

    Gain: 0; such a kernel is wrong rather than slow, so the finding stands whatever else there is.
    Confidence: high; medium for values at the largest float16, which may be meant.
    """
    df = judged.tables.df
    if "nans" not in df:
        return
    rows = judged.spans.row
    for name, column, advice in (
        ("nan", "nans", "look for 0 / 0, inf - inf, or a masked load without `other` before this line"),
        ("infinity", "infs", "scale before this line, or compute it in float32"),
    ):
        seen = df[column].fillna(0).to_numpy()[rows] > 0
        if not seen.any():
            continue
        at = rows[seen][np.argmin(df["start_ns"].to_numpy()[rows[seen]])]
        first = df.iloc[at]
        site = int(judged.spans.site[np.flatnonzero(rows == at)[0]])
        file, line = judged.at(site)
        step = f", iteration {first['iteration']}" if first["iteration"] >= 0 else ""
        yield Finding(
            name,
            file,
            line,
            f"{first['scope']} has {int(first[column])} in CTA {first['cta']}{step}, the first of "
            f"{int(seen.sum())} spans that saw one",
            advice,
            0.0,
            "high",
        )
    extreme = df[["min", "max"]].astype("float64").abs().max(axis=1).fillna(0).to_numpy()[rows]
    full = extreme == _LARGEST_HALF
    if full.any():
        site = int(judged.spans.site[np.flatnonzero(full)[0]])
        file, line = judged.at(site)
        yield Finding(
            "saturation",
            file,
            line,
            f"{judged.sites['scope'].iloc[site]} reaches {_LARGEST_HALF:.0f}, the largest float16, in "
            f"{int(full.sum())} spans",
            "scale before this line, or use bfloat16 or float32",
            0.0,
            "medium",
        )
