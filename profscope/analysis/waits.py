"""Which waits are for dots: these are work of the tensor cores, and no waiting for data."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from profscope.analysis.judged import Judged, op_class

__all__ = ["waits_for_dots"]


def waits_for_dots(judged: Judged) -> NDArray[np.bool_]:
    """By span: whether it waits for a dot, by its name or by the asynchronous work that it ended."""
    spans, df = judged.spans, judged.tables.df
    named = judged.sites["scope"].str.startswith("dot wait").to_numpy()[spans.site]
    first, last = int(spans.row[0]), int(spans.row[-1]) + 1
    wait = df["wait"].to_numpy()[first:last]
    ended = np.flatnonzero(wait >= 0)
    if not len(ended):
        return named
    scopes = df["scope"].cat.categories
    of_dots = np.array([op_class(scope) == "mma" for scope in scopes], np.bool_)
    ended = ended[of_dots[df["scope"].cat.codes.to_numpy()[first + ended]]]
    for_dots = np.zeros(last - first, np.bool_)
    for_dots[wait[ended] - first] = True
    return named | for_dots[spans.row - first]
