"""One configuration of a kernel as the causes of findings see it: its spans as arrays, its CTAs, its sites.

Of a configuration's launches that lost nothing the newest are analysed, up to `MOST_SPANS` spans, and of a
larger launch the CTAs of some SMs: shares of time settle long before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.analysis.answers import Answer
from profscope.analysis.kernels.devices import Peak, max_resident_ctas, peak_of, sm_count_of
from profscope.analysis.op_labels import op_class
from profscope.analysis.spans.corrections import are_corrected, record_cost, weighed
from profscope.analysis.spans.ctas import Shape, ctas_of_spans, every_cta, launch_durations, shape_of
from profscope.analysis.spans.rows import (
    Floats,
    Ints,
    grid_scales,
    group_keys,
    group_numbers,
    not_samples,
    own_times,
    sites,
)
from profscope.analysis.spans.summing import SummedSpans
from profscope.analysis.summary import works
from profscope.analysis.variants import variant_entry
from profscope.schema import Tables

__all__ = [
    "MOST_SPANS",
    "KernelAnalysis",
    "SkippedKernel",
    "Spans",
    "kernel_analyses",
]

DURATION: Final = "duration_cycles"
"""The column of the table of spans that findings take for how long a span was."""

_OF_SPANS: Final = ("parent", "warp", "start_cycle", DURATION, "iteration")
_Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Spans:
    """Synchronous spans, marks left out, each array of shape (rows,), in order of launch, CTA, warp and time.

    site: row of the judged `sites`. cta: row of `ctas`. warp: a number for each warp of each CTA, from 0,
    without gaps. start, end: cycles of the SM's clock, as they were read; duration, own: without recording
    cost, if known (`corrections`); own: without the spans inside. parent: row here, -1 at a root. row: that
    of the profile's table.
    """

    site: Ints
    cta: Ints
    warp: Ints
    start: Ints
    end: Ints
    duration: Ints
    own: Ints
    parent: Ints
    iteration: Ints
    row: Ints

    def __len__(self) -> int:
        return len(self.site)


@dataclass(frozen=True, eq=False)
class KernelAnalysis:
    """A kernel's configuration.

    launches: rows of the table of launches that are judged. sites: scope, kind, file, line, call_path and
    cls, the class of the op ("" for other kinds). ctas: launch, cta, sm, start_ns, end_ns and cycles, of
    all recorded CTAs of the judged launches. whole: whether these are all CTAs of the grids.
    """

    kernel: str
    variant: int
    tables: Tables
    launches: pd.DataFrame
    sites: pd.DataFrame
    spans: Spans
    ctas: pd.DataFrame
    whole: bool

    @property
    def emulated(self) -> bool:
        return self.tables.emulated

    @property
    def peak(self) -> Peak | None:
        return peak_of(self.tables.metadata)

    @property
    def sm_count(self) -> int:
        """SMs of the device; if unknown, those that were seen."""
        return sm_count_of(self.tables.metadata) or int(self.ctas["sm"].nunique())

    @property
    def room(self) -> int:
        """CTAs that fit on an SM; 0 if unknown."""
        return max_resident_ctas(self.tables.metadata, self.kernel, self.variant)

    @cached_property
    def shape(self) -> Shape | None:
        """How launches filled the device; None if the times of their CTAs are unknown."""
        known = len(self.tables.ctas) > 0
        ctas = every_cta(self.tables, self.launches) if known else self.ctas if self.whole else None
        return None if ctas is None else shape_of(ctas, self.sm_count, self.room)

    @cached_property
    def durations(self) -> pd.Series[float]:
        """By index of its launches, how long they took in the unit of the tables; missing if unknown."""
        return launch_durations(self.tables)[self.launches.index]

    @cached_property
    def place(self) -> tuple[str, int]:
        """File and line of the kernel."""
        lines = self.sites["line"].tolist()
        kernels = (at for at, kind in enumerate(self._texts["kind"]) if kind == "kernel" and lines[at] > 0)
        first = next(kernels, 0)
        return str(self.sites["file"].iloc[first]), int(lines[first])

    def at(self, site: int) -> tuple[str, int]:
        """File and line of a site, those of the kernel where it has none."""
        row = self.sites.iloc[site]
        return (str(row["file"]), int(row["line"])) if row["line"] > 0 else self.place

    @cached_property
    def warp_cycles(self) -> float:
        """The time of all warps: the sum of the spans that have none around."""
        return float(self.spans.duration[self.spans.parent < 0].sum()) or 1.0

    def of_class(self, *classes: str) -> _Bools:
        """By span: whether it is an op of these classes."""
        return self._among("cls", classes)

    def of_kind(self, *kinds: str) -> _Bools:
        """By span: whether it is of these kinds."""
        return self._among("kind", kinds)

    def _among(self, column: str, values: tuple[str, ...]) -> _Bools:
        """By span: whether its site has one of these values."""
        found = self._asked.get((column, *values))
        if found is None:
            of_sites = np.array([value in values for value in self._texts[column]], np.bool_)
            found = self._asked[column, *values] = of_sites.take(self.spans.site)
            found.flags.writeable = False  # as the next who asks gets the same
        return found

    @cached_property
    def _asked(self) -> dict[tuple[str, ...], _Bools]:
        """What `_among` has said: causes ask the same again and again."""
        return {}

    @cached_property
    def _texts(self) -> dict[str, list[str]]:
        """Columns of the sites: they are asked again and again, and are few."""
        return {name: self.sites[name].tolist() for name in ("cls", "kind")}

    @cached_property
    def for_dots(self) -> _Bools:
        """By span: whether it waits for a dot, by its name or by the asynchronous work that it ended.

        That is work of the tensor cores, and no waiting for data.
        """
        named = self.sites["scope"].str.startswith("dot wait").to_numpy()[self.spans.site]
        rows, (_, ended) = self.spans.row, self.dots_in_flight
        waits = np.zeros(int(rows[-1] - rows[0]) + 1, np.bool_)
        waits[ended - rows[0]] = True
        return np.asarray(named | waits[rows - rows[0]], np.bool_)

    @cached_property
    def dots_in_flight(self) -> tuple[Ints, Ints]:
        """Rows of the profile's table, from the first to the last that is judged.

        The asynchronous dots that a wait ended, and these waits.
        """
        df = self.tables.df
        first, last = int(self.spans.row[0]), int(self.spans.row[-1]) + 1
        flights = first + np.flatnonzero(df["wait"].to_numpy()[first:last] >= 0)
        if not len(flights):
            return flights, flights
        of_dots = np.array([op_class(scope) == "mma" for scope in df["scope"].cat.categories], np.bool_)
        flights = flights[of_dots[df["scope"].cat.codes.to_numpy()[flights]]]
        return flights, df["wait"].to_numpy()[flights]

    def total(self, values: NDArray[Any], rows: _Bools | slice = slice(None)) -> Floats:
        """Values of spans summed by site, float64 of shape (sites,)."""
        return np.bincount(self.spans.site[rows], values[rows], len(self.sites)).astype(np.float64)

    @cached_property
    def configuration(self) -> dict[str, Any]:
        """The entry of metadata["variants"], {} if there is none."""
        return variant_entry(self.tables.metadata, self.kernel, self.variant)

    def build(self, name: str) -> dict[str, Any]:
        """The resources of the "bare" or "instrumented" binary, {} if unknown."""
        builds = self.configuration.get("builds") or []
        return next((each for each in builds if each.get("build") == name), {})

    @cached_property
    def work(self) -> pd.DataFrame:
        """scope, kind, file, line, call_path, cls, and bytes and flops of one launch, on average."""
        about = (self.tables.metadata.get("kernels") or {}).get(self.kernel) or {}
        for entry in works(about):
            if entry["variant"] == self.variant and entry["launches"]:
                table = pd.DataFrame(entry["scopes"])
                table = table if len(table) else pd.DataFrame(columns=["scope", "bytes", "flops"])
                each = table[["bytes", "flops"]] / entry["launches"]
                return table.assign(
                    bytes=each["bytes"], flops=each["flops"], cls=[op_class(s) for s in table["scope"]]
                )
        return pd.DataFrame(columns=["scope", "kind", "file", "line", "call_path", "bytes", "flops", "cls"])

    @cached_property
    def launch_ns(self) -> float:
        """The median launch, first recorded time to last."""
        return float((self.launches["end_ns"] - self.launches["start_ns"]).median())


class SkippedKernel(NamedTuple):
    """A configuration that cannot be judged, and why."""

    kernel: str
    variant: int
    why: str

    @property
    def answer(self) -> Answer:
        """The answer of any question for this configuration."""
        return Answer([], [f"{self.kernel}: {self.why}"])


MOST_SPANS: Final = 300_000


def kernel_analyses(
    tables: Tables, known: SummedSpans | None = None
) -> Iterator[KernelAnalysis | SkippedKernel]:
    """Each configuration of each kernel.

    known: sums of the summary; they are not computed again.
    """
    launches, df = tables.launches, tables.df
    # What is asked of each launch, once for all: a profile may have hundreds of kernels.
    of_launch, of_cta = df["launch"].to_numpy(), df["cta"].to_numpy()
    begin = np.searchsorted(of_launch, launches["launch"].to_numpy(), "left")
    end = np.searchsorted(of_launch, launches["launch"].to_numpy(), "right")
    rows = end - begin
    rows[rows > 0] *= of_cta[begin[rows > 0]] >= 0  # other tools' spans may be of whole launches
    lossless = ((launches["dropped"] == 0) & (launches["unfinished"] == 0)).to_numpy()
    sound, cold = (rows > 0) & lossless, launches["cold"].to_numpy(np.bool_)
    launches = launches.assign(begin=begin, rows=rows, scale=grid_scales(launches))
    number, configurations = group_numbers(launches)
    for at, (kernel, variant) in enumerate(group_keys(configurations)):
        own = np.flatnonzero((number == at) & sound)
        if not len(own):
            yield SkippedKernel(kernel, variant, _why_none(tables, launches[number == at]))
            continue
        warm = own[~cold[own]]
        newest = (warm if len(warm) else own)[::-1]
        few = newest[np.cumsum(rows[newest]) <= MOST_SPANS]
        chosen = few if len(few) else newest[:1]
        yield _judged(tables, kernel, variant, launches.iloc[chosen[::-1]], known)


def _why_none(tables: Tables, every: pd.DataFrame) -> str:
    if (every["rows"] == 0).all():
        if len(tables.sums):
            return f"the rank whose spans are read did not record it; rank={every['rank'].iloc[0]} did"
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
    columns = {name: tables.df[name].to_numpy()[chosen] for name in _OF_SPANS}
    parent = columns["parent"]
    place = parent - rows[0] if _is_range(rows) else np.searchsorted(rows, parent)
    inside = np.where(parent >= 0, place, -1)
    if known is not None and (are_corrected(tables) or record_cost(tables.metadata) is None):
        site, table = known.sites(chosen)
        taken = known.durations.cycles[chosen].astype(np.int64)
    else:
        part = tables.df.iloc[chosen]
        site, table = sites(part)
        taken = weighed(part.assign(parent=inside), tables.metadata)[DURATION].to_numpy()
    kinds = table["kind"].tolist()
    table["cls"] = [op_class(s) if k == "op" else "" for s, k in zip(table["scope"], kinds, strict=True)]
    synchronous, is_span = (
        np.array([kind not in others for kind in kinds], np.bool_)[site]
        for others in (("async",), ("async", "mark"))
    )
    own, kept = own_times(taken, inside, synchronous), np.flatnonzero(is_span)
    number = np.cumsum(is_span) - 1
    inside = np.where(inside >= 0, number[inside], -1)[kept]
    warp_of = columns["warp"][kept]
    cta = cta[kept]
    new = np.ones(len(cta), np.bool_)
    new[1:] = (warp_of[1:] != warp_of[:-1]) | (cta[1:] != cta[:-1])
    warp = np.cumsum(new) - 1
    start, duration = columns["start_cycle"][kept], taken[kept]
    end = start + columns[DURATION][kept]
    spans = Spans(
        site=site[kept],
        cta=cta,
        warp=warp,
        start=start,
        end=end,
        duration=duration,
        own=own[kept],
        parent=inside,
        iteration=columns["iteration"][kept].astype(np.int64),
        row=rows[kept],
    )
    return spans, table


def _is_range(rows: Ints) -> bool:
    """Whether ascending numbers leave none out."""
    return len(rows) > int(rows[-1]) - int(rows[0])
