"""Decoded launches to the tidy table: one row per span, strings categorical, sorted, parents resolved."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from instrument_passes.analyses.loop_stages import STAGES
from profscope.decoding.columns import BLOCK_SPANS
from profscope.decoding.decode import DecodedLaunch
from profscope.decoding.timebase import TimeBase
from profscope.schema import SPAN_DTYPES

__all__ = ["span_table", "time_order"]

Ints = npt.NDArray[np.int64]
# Launch index, kernel, decoded launch, time base.
Part = tuple[int, str, DecodedLaunch, TimeBase]


def span_table(launches: Sequence[Part], pool: Executor) -> pd.DataFrame:
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
        "call_path": [site.call_path for site in sites],
    }
    coded = {name: _codes(values) for name, values in texts.items()}
    lines = np.array([site.line for site in sites], np.int32)
    columns: dict[str, npt.NDArray[Any]] = {
        name: np.empty(rows, coded[name][0].dtype if name in coded else dtype)
        for name, dtype in SPAN_DTYPES.items()
    }

    payloads = _PayloadColumns(launches, rows)
    stages = np.array([STAGES.index(site.stage) if site.stage else -1 for site in sites], np.int8)
    if (stages >= 0).any():
        columns["stage"] = np.empty(rows, np.int8)
    of_site: dict[str, npt.NDArray[Any]] = {name: codes for name, (codes, _) in coded.items()} | {
        "line": lines,
        "stage": stages,
    }

    def fill(index: int) -> None:
        first, end = int(row_base[index]), int(row_base[index + 1])
        mine = {name: values[first:end] for name, values in columns.items()}
        known = {
            name: values[site_base[index] : site_base[index + 1]]
            for name, values in of_site.items()
            if name in mine
        }
        launch, _, decoded, base = launches[index]
        order = time_order(decoded)
        rank = _rank(order, len(decoded.span), first)
        mine["launch"][:] = launch
        for begin in range(0, end - first, BLOCK_SPANS):
            block = slice(begin, min(begin + BLOCK_SPANS, end - first))
            here = {name: values[block] for name, values in mine.items()}
            _fill(here, known, decoded, base, block if isinstance(order, slice) else order[block], rank)
        payloads.fill(decoded, rank)

    for _ in pool.map(fill, range(len(launches))):
        pass
    stage = columns.pop("stage", None)
    return pd.DataFrame(
        {
            name: _categorical(values, coded[name][1]) if name in coded else values
            for name, values in columns.items()
        }
        | payloads.series()
        | ({"stage": _categorical(stage, list(STAGES))} if stage is not None else {}),
        copy=False,
    )


def _rank(order: Ints | slice, spans: int, first: int) -> Ints:
    """The row of every span, and behind them -1, where a parent of -1 looks. first: of the launch's rows."""
    rank = np.empty(spans + 1, np.int64)
    rank[:-1][order] = np.arange(first, first + spans)
    rank[-1] = -1
    return rank


def _fill(
    here: dict[str, npt.NDArray[Any]],
    of_site: dict[str, npt.NDArray[Any]],
    decoded: DecodedLaunch,
    base: TimeBase,
    at: Ints | slice,
    rank: Ints,
) -> None:
    """Some rows of a launch. here: the columns' parts; of_site: what sites say; at: the spans, in order."""
    site = decoded.span[at].astype(np.intp)
    for name, values in of_site.items():
        here[name][:] = values.take(site)
    for name in ("cta", "sm", "warp", "iteration", "depth"):
        here[name][:] = getattr(decoded, name)[at]
    here["parent"][:] = rank.take(decoded.parent[at])
    here["wait"][:] = -1 if decoded.wait is None else rank.take(decoded.wait[at])
    start, end, sm = decoded.start_cycle[at], decoded.end_cycle[at], here["sm"]
    here["start_cycle"][:] = start
    np.subtract(end, start, out=here["duration_cycles"])
    here["start_ns"][:] = base.to_ns(start, sm)
    np.subtract(base.to_ns(end, sm), here["start_ns"], out=here["duration_ns"])


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
            rows = rank.take(payload.rows)
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
    """The spans by CTA, warp, start.

    A slice where they stand in that order already, as they do where clocks were read in program order. Else
    ties (shared clock reads) are ordered by site, as numbered in program order.
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
