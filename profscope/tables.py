"""Decoded launches to the tidy table: one row per span, strings categorical, sorted, parents resolved."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from instrument_passes.stages import STAGES
from profscope.decode import DecodedLaunch
from profscope.schema import SPAN_DTYPES
from profscope.timebase import TimeBase

__all__ = ["span_table", "time_order"]

Ints = npt.NDArray[np.int64]
# Spans that are looked at together: what is worked out about them should stay in a core's own cache.
_BLOCK_SPANS = 1 << 15
# Launch index, kernel, decoded launch, time base.
Part = tuple[int, str, DecodedLaunch, TimeBase]


def span_table(launches: Sequence[Part], pool: ThreadPoolExecutor) -> pd.DataFrame:
    """The span table of Profile.df. Launches are sorted and filled in side by side, into their own rows."""
    sites = [site for _, _, decoded, _ in launches for site in decoded.sites]
    site_base = np.cumsum([0, *(len(decoded.sites) for _, _, decoded, _ in launches)])
    row_base = np.cumsum([0, *(len(decoded.span) for _, _, decoded, _ in launches)])
    rows = int(row_base[-1])
    texts = {
        "kernel": [kernel for _, kernel, decoded, _ in launches for _ in decoded.sites],
        "scope": [site.name for site in sites],
        "kind": [site.kind for site in sites],
        "file": [site.file for site in sites],
    }
    coded = {name: _codes(values) for name, values in texts.items()}
    lines = np.array([site.line for site in sites], np.int32)
    columns: dict[str, npt.NDArray[np.generic]] = {
        name: np.empty(rows, coded[name][0].dtype if name in coded else dtype)
        for name, dtype in SPAN_DTYPES.items()
    }

    payloads = _PayloadColumns(launches, rows)
    stages = np.array([STAGES.index(site.stage) if site.stage else -1 for site in sites], np.int8)
    stage = np.empty(rows if (stages >= 0).any() else 0, np.int8)

    def fill(index: int) -> None:
        launch, _, decoded, base = launches[index]
        first = int(row_base[index])
        mine = {name: values[first : int(row_base[index + 1])] for name, values in columns.items()}
        order = time_order(decoded)
        site = decoded.span[order] + site_base[index]
        for name, (codes, _) in coded.items():
            mine[name][:] = codes[site]
        mine["line"][:] = lines[site]
        if len(stage):
            stage[first : int(row_base[index + 1])] = stages[site]
        mine["launch"][:] = launch
        for name in ("cta", "sm", "warp", "iteration", "depth"):
            mine[name][:] = getattr(decoded, name)[order]
        rank = np.empty(len(decoded.span) + 1, np.int64)
        rank[:-1][order] = np.arange(first, first + len(decoded.span))
        rank[-1] = -1  # where a parent of -1 looks
        mine["parent"][:] = rank[decoded.parent[order]]
        mine["wait"][:] = -1 if decoded.wait is None else rank[decoded.wait[order]]
        payloads.fill(decoded, rank)
        start, end, sm = decoded.start_cycle[order], decoded.end_cycle[order], decoded.sm[order]
        mine["start_cycle"][:] = start
        mine["duration_cycles"][:] = end - start
        start_ns = base.to_ns(start, sm)
        mine["start_ns"][:] = start_ns
        mine["duration_ns"][:] = base.to_ns(end, sm) - start_ns

    for _ in pool.map(fill, range(len(launches))):
        pass
    return pd.DataFrame(
        {
            name: _categorical(values, coded[name][1]) if name in coded else values
            for name, values in columns.items()
        }
        | payloads.series()
        | ({"stage": _categorical(stage, list(STAGES))} if len(stage) else {}),
        copy=False,
    )


class _PayloadColumns:
    """One column a name: Int32, missing where a span carries none; float64, NaN there, if a value is f32."""

    def __init__(self, launches: Sequence[Part], rows: int) -> None:
        kinds: dict[str, bool] = {}
        for _, _, decoded, _ in launches:
            for payload in decoded.payloads:
                kinds[payload.name] = kinds.get(payload.name, False) or payload.values.dtype == np.float32
        self._values = {
            name: np.full(rows, np.nan) if floating else np.zeros(rows, np.int32)
            for name, floating in sorted(kinds.items())
        }
        self._missing = {name: np.ones(rows, np.bool_) for name, floating in kinds.items() if not floating}

    def fill(self, decoded: DecodedLaunch, rank: Ints) -> None:
        """Put a launch's values into the rows its spans got."""
        for payload in decoded.payloads:
            rows = rank[payload.rows]
            self._values[payload.name][rows] = payload.values
            if payload.name in self._missing:
                self._missing[payload.name][rows] = False

    def series(self) -> dict[str, Any]:
        return {
            name: pd.arrays.IntegerArray(values, self._missing[name]) if name in self._missing else values
            for name, values in self._values.items()
        }


def _codes(values: Sequence[str]) -> tuple[npt.NDArray[np.signedinteger[npt.NBitBase]], list[str]]:
    """Category codes, of the smallest dtype as pandas has them, and the categories, sorted."""
    names = sorted(set(values))
    index = {name: i for i, name in enumerate(names)}
    return np.array([index[value] for value in values], np.min_scalar_type(-max(1, len(names)))), names


def _categorical(codes: Any, names: list[str]) -> Any:
    dtype: Any = pd.CategoricalDtype(pd.Index(names, dtype=str))
    return pd.Categorical.from_codes(codes, dtype=dtype, validate=False)


def time_order(decoded: DecodedLaunch) -> Ints | slice:
    """The spans by CTA, warp, start; ties (shared clock reads) by site, as numbered in program order.

    A slice where they stand in that order already, as they do where clocks were read in program order.
    """
    if _in_time_order(decoded):
        return slice(None)
    start = decoded.start_cycle - decoded.start_cycle.min()
    bits = [int(a.max()).bit_length() for a in (decoded.cta, decoded.warp, start, decoded.span)]
    if sum(bits) > 63:
        return np.lexsort((decoded.span, start, decoded.warp, decoded.cta))
    key = decoded.cta.astype(np.int64)
    for values, width in zip((decoded.warp, start, decoded.span), bits[1:], strict=True):
        key = (key << width) | values
    return np.argsort(key, kind="stable")


def _in_time_order(decoded: DecodedLaunch) -> bool:
    for begin in range(0, len(decoded.span) - 1, _BLOCK_SPANS):
        here, there = slice(begin, begin + _BLOCK_SPANS), slice(begin + 1, begin + _BLOCK_SPANS + 1)
        size = min(_BLOCK_SPANS, len(decoded.span) - 1 - begin)
        good = np.zeros(size, bool)
        equal = np.ones(size, bool)
        for column in (decoded.cta, decoded.warp, decoded.start_cycle, decoded.span):
            before, after = column[here][:size], column[there]
            good |= equal & (before < after)
            equal &= before == after
        if not (good | equal).all():
            return False
    return True
