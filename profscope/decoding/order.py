"""Which span stands before which in the table."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from profscope.decoding.columns import BLOCK_SPANS
from profscope.decoding.decode import DecodedLaunch

__all__ = ["time_order"]

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def time_order(decoded: DecodedLaunch) -> Ints | slice:
    """The spans by launch, CTA, warp, start.

    A slice where they stand in that order already, as they do where clocks were read in program order. Else
    ties (shared clock reads) are ordered by site, as numbered in program order, in the launches that are not
    in order.
    """
    if _in_time_order(decoded):
        return slice(None)
    start = decoded.start_cycle - decoded.start_cycle.min()
    site: npt.NDArray[np.integer[Any]] = decoded.span
    if decoded.several:
        site = np.where(_not_in_time_order(decoded)[decoded.cta // decoded.several.apart.ctas], site, 0)
    bits = [int(a.max()).bit_length() for a in (decoded.cta, decoded.warp, start, site)]
    if sum(bits) > 63:
        return np.lexsort((site, start, decoded.warp, decoded.cta))
    key = decoded.cta.astype(np.int64)
    for values, width in zip((decoded.warp, start, site), bits[1:], strict=True):
        key = (key << width) | values
    return np.argsort(key, kind="stable")


def _not_in_time_order(decoded: DecodedLaunch) -> Flags:
    """Of several launches, those whose spans do not stand in order as they come."""
    several = decoded.several
    assert several is not None
    launch = decoded.cta // several.apart.ctas
    by_launch = np.argsort(launch, kind="stable")
    launch = launch[by_launch]
    good, equal = launch[:-1] != launch[1:], np.ones(len(launch) - 1, bool)
    for column in (decoded.cta, decoded.warp, decoded.start_cycle):
        before, after = column[by_launch[:-1]], column[by_launch[1:]]
        good |= equal & (before < after)
        equal &= before == after
    wrong = np.zeros(several.apart.launches, bool)
    wrong[launch[:-1][~(good | equal)]] = True
    return wrong


def _in_time_order(decoded: DecodedLaunch) -> bool:
    for begin in range(0, len(decoded.span) - 1, BLOCK_SPANS):
        here, there = slice(begin, begin + BLOCK_SPANS), slice(begin + 1, begin + BLOCK_SPANS + 1)
        size = min(BLOCK_SPANS, len(decoded.span) - 1 - begin)
        good = np.zeros(size, bool)
        equal = np.ones(size, bool)
        for column in (decoded.cta, decoded.warp, decoded.start_cycle):
            before, after = column[here][:size], column[there]
            good |= equal & (before < after)
            equal &= before == after
        if not (good | equal).all():
            return False
    return True
