"""The configurations of kernels, taken from a profile's tables to be judged.

Of a configuration's launches that lost nothing the newest are judged, up to `MOST_SPANS` spans, and of a
larger launch the CTAs of some SMs: shares of time settle long before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

import numpy as np
import pandas as pd

from profscope.analysis.clock_cost import record_cost
from profscope.analysis.corrections import are_corrected, weighed
from profscope.analysis.cta_rows import ctas_of_spans
from profscope.analysis.kernel_analysis import DURATION, KernelAnalysis, SkippedKernel, Spans, op_class
from profscope.analysis.span_rows import Ints, grid_scales, not_samples, own_times, sites
from profscope.analysis.summing import SummedSpans
from profscope.schema import Tables

__all__ = ["MOST_SPANS", "kernel_analyses"]

MOST_SPANS: Final = 300_000


def kernel_analyses(
    tables: Tables, only: Collection[tuple[str, int]] | None = None, known: SummedSpans | None = None
) -> Iterator[KernelAnalysis | SkippedKernel]:
    """Each configuration of each kernel, or of these kernels and variants only.

    known: what the summary adds up; what is in it is not worked out again.
    """
    launches, df = tables.launches, tables.df
    # What is asked of each launch, once for all: a profile may have hundreds of kernels.
    of_launch, of_cta = df["launch"].to_numpy(), df["cta"].to_numpy()
    begin = np.searchsorted(of_launch, launches["launch"].to_numpy(), "left")
    end = np.searchsorted(of_launch, launches["launch"].to_numpy(), "right")
    rows = end - begin
    rows[rows > 0] *= of_cta[begin[rows > 0]] >= 0  # other tools' spans may be of whole launches
    lossless = ((launches["dropped"] == 0) & (launches["unfinished"] == 0)).to_numpy()
    launches = launches.assign(
        begin=begin, rows=rows, sound=(rows > 0) & lossless, scale=grid_scales(launches)
    )
    for key, every in launches.groupby(["kernel", "variant"], sort=False):
        kernel, variant = str(key[0]), int(every["variant"].iloc[0])
        if only is not None and (kernel, variant) not in only:
            continue
        sound = every[every["sound"]]
        if sound.empty:
            yield SkippedKernel(kernel, variant, _why_none(every))
            continue
        warm = sound[~sound["cold"]]
        chosen = (warm if len(warm) else sound).iloc[::-1]
        chosen = chosen[(chosen["rows"].cumsum() <= MOST_SPANS) | (np.arange(len(chosen)) == 0)].iloc[::-1]
        yield _judged(tables, kernel, variant, chosen, known)


def _why_none(every: pd.DataFrame) -> str:
    if (every["rows"] == 0).all():
        return "it has no spans inside of its launches"
    return "all its launches lost records, or CTAs that did not come to their end"


def _judged(
    tables: Tables, kernel: str, variant: int, launches: pd.DataFrame, known: SummedSpans | None
) -> KernelAnalysis:
    df = tables.df
    begins, counts = launches["begin"].to_numpy(), launches["rows"].to_numpy()
    ctas, first = ctas_of_spans(df, begins, counts)
    last = np.append(first[1:], 0)
    of_launch = np.searchsorted(begins, first, "right") - 1
    ends = (begins + counts)[of_launch]
    last = np.where((last > first) & (last <= ends), last, ends)
    # Whole SMs, so that what ran beside a CTA is there, too.
    sm, sms = pd.factorize(ctas["sm"])
    stride = min(-(-int(counts.sum()) // MOST_SPANS), len(sms))
    chosen = np.flatnonzero(sm % stride == 0)
    # Row numbers of the chosen CTAs, and the CTA of each.
    lengths = (last - first)[chosen]
    cta = np.repeat(chosen, lengths)
    offset = np.repeat(np.cumsum(lengths) - lengths, lengths)
    rows = first[cta] + np.arange(len(cta)) - offset
    spans, table = _spans(tables, cta, rows, known)
    whole = bool((launches["scale"] == 1).all()) and kernel not in not_samples(tables.metadata)
    return KernelAnalysis(kernel, variant, tables, launches, table, spans, ctas, whole)


def _spans(tables: Tables, cta: Ints, rows: Ints, known: SummedSpans | None) -> tuple[Spans, pd.DataFrame]:
    """The synchronous spans of the rows `rows` of the table, and their sites."""
    chosen = slice(int(rows[0]), int(rows[-1]) + 1) if _is_range(rows) else rows
    part = tables.df.iloc[chosen]
    parent = part["parent"].to_numpy()
    place = parent - rows[0] if _is_range(rows) else np.searchsorted(rows, parent)
    inside = np.where(parent >= 0, place, -1)
    if known is not None and (are_corrected(tables) or record_cost(tables.metadata) is None):
        site, table = known.sites(chosen)
        taken = known.durations.cycles[chosen].astype(np.int64)
    else:
        site, table = sites(part)
        taken = weighed(part.assign(parent=inside), tables.metadata)[DURATION].to_numpy()
    table = table.assign(
        cls=[op_class(s) if k == "op" else "" for s, k in zip(table["scope"], table["kind"], strict=True)]
    )
    synchronous = (table["kind"] != "async").to_numpy()
    own = own_times(taken, inside, synchronous[site])
    kept = ~table["kind"].isin(("async", "mark")).to_numpy()[site]
    number = np.cumsum(kept) - 1
    inside = np.where(inside >= 0, number[inside], -1)[kept]
    warp_of = part["warp"].to_numpy()[kept]
    cta = cta[kept]
    new = np.ones(len(cta), np.bool_)
    new[1:] = (warp_of[1:] != warp_of[:-1]) | (cta[1:] != cta[:-1])
    warp = np.cumsum(new) - 1
    start, duration = part["start_cycle"].to_numpy()[kept], taken[kept]
    end = start + part[DURATION].to_numpy()[kept]
    spans = Spans(
        site=site[kept],
        cta=cta,
        warp=warp,
        start=start,
        end=end,
        duration=duration,
        own=own[kept],
        gap=_gaps(start, end, warp, inside),
        parent=inside,
        iteration=part["iteration"].to_numpy()[kept].astype(np.int64),
        row=rows[kept],
    )
    return spans, table.reset_index(drop=True)


def _is_range(rows: Ints) -> bool:
    """Whether ascending numbers leave none out."""
    return len(rows) > int(rows[-1]) - int(rows[0])


def _gaps(start: Ints, end: Ints, warp: Ints, parent: Ints) -> Ints:
    """From the end of each span to the next begin or end of a span of its warp; 0 for one with others
    inside."""
    count = len(start)
    following = np.full(count, np.iinfo(np.int64).max)
    alike = np.zeros(count, np.bool_)
    alike[:-1] = warp[1:] == warp[:-1]
    following[:-1][alike[:-1]] = start[1:][alike[:-1]]
    around = np.where(parent >= 0, end[np.maximum(parent, 0)], end)
    leaf = np.ones(count, np.bool_)
    leaf[parent[parent >= 0]] = False
    gap = np.minimum(following, around) - end
    return np.where(leaf, np.maximum(gap, 0), 0)
