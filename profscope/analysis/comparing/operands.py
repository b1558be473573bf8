"""One side of a comparison, its launches as a whole and row by row; then the rows of one pair of variants,
the figures for testing their change, and caveats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from profscope.analysis.comparing.chance import NO_FLOOR, Floor, Sample, sample_of_ctas, sample_of_launches
from profscope.analysis.comparing.pairs import COMPARED, GRID, LaunchGroup, Pair
from profscope.analysis.comparing.places import Lines, matched
from profscope.analysis.spans.corrections import weighed
from profscope.analysis.spans.ctas import busiest_sms
from profscope.analysis.spans.rows import (
    SITE_COLUMNS,
    Floats,
    Ints,
    OfLaunches,
    counted,
    grid_scales,
    launch_scales,
    numbered,
    self_times,
    sites,
)
from profscope.analysis.texts import count_text
from profscope.errors import DiffError
from profscope.schema import Tables

__all__ = [
    "LAUNCH",
    "PLACE_COLUMNS",
    "Durations",
    "Figures",
    "Operand",
    "Said",
    "Side",
    "joined",
    "missing_of",
    "notes_on",
    "of_launches",
    "of_one_side",
    "of_rows",
    "option_notes",
    "unit_of",
]

PLACE_COLUMNS = SITE_COLUMNS[1:]


@dataclass(frozen=True, eq=False)
class Figures:
    """Some launches of one variant, in a unit; of each row and launch, scaled up to the launch's grid.

    places      PLACE_COLUMNS, one row each
    count       how often it ran; float64 of shape (rows, launches), as the next two
    total, own  its time, and its time less that of the spans inside (of async spans: none)
    launches    the launches that these are of: rows of the table of launches
    ctas        own, of async spans total, by CTA and not scaled, float64 of shape (rows, CTAs): of a single
                launch
    scale       of that launch, what its CTAs' times are scaled up with
    """

    places: pd.DataFrame
    count: Floats
    total: Floats
    own: Floats
    launches: pd.DataFrame
    ctas: Floats | None = None
    scale: float = 1.0

    @property
    def warp_time(self) -> float:
        """All of a launch's warps together: its self times."""
        return float(self.own.sum(axis=0).mean()) if self.own.size else 0.0


class Durations(NamedTuple):
    """Whole launches' times, shape (launches,), and the same in ns."""

    took: Floats
    ns: Floats


class Side:
    """One of two profiles, asked for figures in one unit, "ns" or "cycles". corrected: rows are of the spans'
    corrected durations. bare: launches as a whole are of bare times, which a test's baseline has."""

    def __init__(self, tables: Tables, unit: str, *, corrected: bool = False, bare: bool = False) -> None:
        self.tables = tables
        self._corrected = corrected
        self._bare = bare
        self.unit = unit
        self._scales = launch_scales(tables)

    def all_launches(self, kernel: str, group: LaunchGroup | None) -> pd.DataFrame:
        """The launches of a group that count; none if there is none."""
        if group is None:
            return self.tables.launches.iloc[:0]
        return self._groups.get((kernel, group.variant, *group.grid), self.tables.launches.iloc[:0])

    @cached_property
    def _groups(self) -> dict[tuple[Any, ...], pd.DataFrame]:
        launches = self.tables.launches
        real = launches[counted(launches)]
        return dict(iter(real.groupby(["kernel", "variant", *GRID], sort=False, observed=True)))

    @property
    def ctas(self) -> int | tuple[int, ...] | None:
        """The option that chose the recorded CTAs; None in another tool's trace."""
        chosen = (self.tables.metadata.get("options") or {}).get("ctas")
        return chosen if chosen is None or isinstance(chosen, int) else tuple(chosen)

    def warm(self, launches: pd.DataFrame) -> pd.DataFrame:
        """The launches to compare: if there are others, neither cold ones nor the variant's first, whose
        caches are cold, too. The emulator has no caches."""
        if self.tables.emulated:
            return launches
        warm = launches[~launches["cold"] & ~launches["launch"].isin(self._first_launches)]
        return warm if len(warm) else launches

    @cached_property
    def _first_launches(self) -> pd.Series[int]:
        launches = self.tables.launches
        real = launches[counted(launches)]
        return real.groupby(["kernel", "variant"], observed=True)["launch"].min()

    def durations(self, launches: pd.DataFrame) -> Durations:
        """How long launches took as a whole, but for those whose times are not known."""
        ns = (launches["end_ns"] - launches["start_ns"]).to_numpy(np.float64)
        if self.tables.emulated:  # exact, as the timer that counts ns is not
            took = self._busiest_sms.reindex(launches["launch"]).to_numpy(np.float64)
        else:
            clock = launches["clock_ghz"].to_numpy(np.float64) if self.unit == "cycles" else 1.0
            took = np.where(ns > 0, ns * clock, np.nan)
        known = np.isfinite(took)
        return Durations(np.asarray(took[known], np.float64), ns[known])

    def compared_durations(self, launches: pd.DataFrame) -> Durations:
        """Those that a comparison of launches of one group is made of: of bare launches, or of these."""
        if not self._bare or launches.empty:
            return self.durations(launches)
        kernel, variant, *grid = launches.iloc[0][["kernel", "variant", *GRID]]
        entries = (self.tables.metadata.get("variants") or {}).get(kernel) or []
        key = next((each.get("key") for each in entries if each["variant"] == variant), None)
        timed = self.tables.metadata["bare_times"].get(kernel) or []
        own = (each["times"] for each in timed if (each["key"], each["grid"]) == (key, grid))
        times = np.asarray(next(own, []), np.float64)
        in_cycles = self.unit == "cycles" and not self.tables.emulated
        return Durations(times * float(launches["clock_ghz"].median()) if in_cycles else times, times)

    @cached_property
    def _busiest_sms(self) -> pd.Series[float]:
        return busiest_sms(self.tables)

    @cached_property
    def spans(self) -> _AddedUp:
        """All spans, added up once."""
        tables = self.tables
        df = weighed(tables.df, tables.metadata) if self._corrected else tables.df
        return _AddedUp.of(df, tables.launches, f"duration_{self.unit}")

    def figures(self, launches: pd.DataFrame) -> Figures:
        """The figures of launches of one of the kernel's groups."""
        spans, at = self.spans, launches.index.to_numpy()
        cells = spans.cells[spans.cells["launch"].isin(at)]
        site, row = np.unique(cells["site"].to_numpy(), return_inverse=True)
        column = np.searchsorted(at, cells["launch"].to_numpy())
        scale = self._scales[at]
        figures = {}
        for name in ("count", "total", "own"):
            values = np.zeros((len(site), len(at)))
            values[row, column] = cells[name]
            figures[name] = values * scale
        places = spans.places.iloc[site].reset_index(drop=True)
        ctas = spans.by_cta(int(at[0]), site) if len(at) == 1 else None
        scale_of_one = float(scale[0]) if len(scale) else 1.0
        return Figures(places, **figures, launches=launches, ctas=ctas, scale=scale_of_one)


class _AddedUp(NamedTuple):
    """places: PLACE_COLUMNS of each site. cells: for each site and launch that has spans there, how many, and
    their time in all and by themselves; a launch is its row of the table of launches. By span, its site,
    launch and CTA, and its own time, if it is in flight all of it."""

    places: pd.DataFrame
    cells: pd.DataFrame
    site: Ints
    launch: Ints
    cta: Ints
    took: Ints

    @classmethod
    def of(cls, df: pd.DataFrame, launches: pd.DataFrame, column: str) -> _AddedUp:
        site, places = sites(df)
        launch = OfLaunches(launches, np.arange(len(launches)), -1).of(df["launch"].to_numpy())
        total, own = df[column].to_numpy(), self_times(df, column)
        each = max(1, len(launches))
        number, first = numbered(site * each + launch, len(places) * each)
        sums = (np.bincount(number, values, len(first)) for values in (None, total, own))
        cells = pd.DataFrame(dict(zip(("count", "total", "own"), sums, strict=True)))
        took = np.where(df["kind"] == "async", total, own)
        shown = places[list(PLACE_COLUMNS)]
        cells = cells.assign(site=site[first], launch=launch[first])
        return cls(shown, cells, site, launch, df["cta"].to_numpy(), took)

    def by_cta(self, launch: int, chosen: Ints) -> Floats:
        """What some sites took in one launch, by site and CTA."""
        rows = np.flatnonzero(self.launch == launch)
        cta, ctas = pd.factorize(self.cta[rows])
        cell = np.searchsorted(chosen, self.site[rows]) * len(ctas) + cta
        figures = np.bincount(cell, self.took[rows], len(chosen) * len(ctas)).astype(np.float64)
        return figures.reshape(len(chosen), len(ctas))


LAUNCH = "launch"
"""The kind of the row that compares whole launches."""

_BUILDERS: Final = {"profscope": "profscope", "triton": "Triton", "torch": "torch"}
_NO_TIME = Sample(np.zeros(1), np.zeros(1), np.ones(1))


@dataclass(frozen=True, eq=False)
class Operand:
    """One side of a pair: figures of its rows, and times of whole launches."""

    figures: Figures
    durations: Durations

    @property
    def lost(self) -> float:
        """Records that a launch lost, on average over those that the figures are of."""
        dropped = self.figures.launches["dropped"]
        return float(dropped.mean()) if len(dropped) else 0.0

    @property
    def is_single(self) -> bool:
        """Whether one launch is all there is."""
        return len(self.figures.launches) < 2 and len(self.durations.took) < 2

    @property
    def is_sampled(self) -> bool:
        """Whether a launch recorded only some of its CTAs: other ones than the next."""
        return bool((grid_scales(self.figures.launches) != 1).any())


def _rows(
    columns: dict[str, Any], a: Sample, b: Sample, floor: Floats, *, comparable: bool = True
) -> pd.DataFrame:
    """Rows of the table but for what tests tell; and what these need: samples of either side, `mean_a` to
    `freedom_b`, and `floor`, the size of change that is none. comparable: whether a change can be told."""
    samples = {
        f"{name}_{side}": values
        for side, sample in zip("ab", (a, b), strict=True)
        for name, values in sample._asdict().items()
    }
    return pd.DataFrame(columns | samples | {"floor": floor, "comparable": comparable})


def of_one_side(pair: Pair, durations: Durations) -> pd.DataFrame:
    """The row of launches that are in one profile only."""
    took = sample_of_launches(durations.took[None, :]).mean if len(durations.took) else np.zeros(1)
    sample = _without_noise(Sample(took, took, took))
    a, b = (_NO_TIME, sample) if pair.a is None else (sample, _NO_TIME)
    launches = [0 if each is _NO_TIME else len(durations.took) for each in (a, b)]
    status = "appeared" if pair.a is None else "gone"
    return _rows(_launch_columns(pair, a, b, launches, status), a, b, np.zeros(1))


def of_launches(pair: Pair, a: Durations, b: Durations, floor: Floor, *, exact: bool) -> list[pd.DataFrame]:
    """The row of a pair's launches; none if their times are unknown. exact: whether figures have no noise,
    like the emulator's of launches with all CTAs."""
    if not len(a.took) or not len(b.took):
        return []
    samples = [sample_of_launches(each.took[None, :]) for each in (a, b)]
    size = floor.relative * np.maximum(samples[0].mean, samples[1].mean)
    of_a, of_b = (_without_noise(each) if exact else each for each in samples)
    columns = _launch_columns(pair, of_a, of_b, [len(a.took), len(b.took)], "same")
    return [_rows(columns, of_a, of_b, size)]


def _launch_columns(pair: Pair, a: Sample, b: Sample, launches: Sequence[int], status: str) -> dict[str, Any]:
    place = {"scope": [pair.kernel], "kind": [LAUNCH], "file": [""], "call_path": [""], "status": [status]}
    figures: dict[str, Any] = {"line_a": [0], "line_b": [0]}
    for side, sample, count in zip("ab", (a, b), launches, strict=True):
        figures |= {f"self_{side}": sample.mean, f"total_{side}": sample.mean}
        figures |= {f"count_{side}": [float(count > 0)], f"launches_{side}": [count]}
    return _of_pair(pair, 1) | place | figures


def of_rows(
    pair: Pair, of_a: Operand, of_b: Operand, lines: Lines, floor: Floor, *, exact: bool
) -> list[pd.DataFrame]:
    """The other rows of a pair; none if a side has no figures, or if one side lost more records than the
    other: rows then differ by the losses."""
    a, b = of_a.figures, of_b.figures
    if a.places.empty or b.places.empty:
        return []
    pairs = matched(a.places, b.places, lines)
    rows = [np.array([-1 if each[at] is None else each[at] for each in pairs], np.int64) for at in (0, 1)]
    in_a, in_b = (row >= 0 for row in rows)
    columns = _of_pair(pair, len(pairs))
    for name in ("scope", "kind", "file", "call_path"):
        columns[name] = np.where(in_b, _texts(b.places, name, rows[1]), _texts(a.places, name, rows[0]))
    columns["status"] = np.where(in_a & in_b, "same", np.where(in_b, "appeared", "gone"))
    samples = []
    for side, figures, row in zip("ab", (a, b), rows, strict=True):
        own, total = _taken(figures.own, row), _taken(figures.total, row)
        line = figures.places["line"].to_numpy(np.int64)
        columns[f"line_{side}"] = np.where(row >= 0, line[row], 0)
        columns[f"self_{side}"] = sample_of_launches(own).mean
        columns[f"total_{side}"] = sample_of_launches(total).mean
        columns[f"count_{side}"] = _taken(figures.count, row).mean(axis=1)
        columns[f"launches_{side}"] = np.full(len(row), len(figures.launches))
        if a.ctas is not None and b.ctas is not None and figures.ctas is not None:
            sample = sample_of_ctas(_taken(figures.ctas, row), figures.scale)
        else:
            in_flight = (columns["kind"] == "async")[:, None]
            sample = sample_of_launches(np.where(in_flight, total, own))
        samples.append(_without_noise(sample) if exact else sample)
    size = floor.relative * np.maximum(samples[0].mean, samples[1].mean)
    size += floor.share * max(a.warp_time, b.warp_time)
    return [_rows(columns, samples[0], samples[1], size, comparable=of_a.lost == of_b.lost)]


def _of_pair(pair: Pair, rows: int) -> dict[str, Any]:
    about: dict[str, Any] = dict(zip(COMPARED, pair.names, strict=True))
    about |= {"configuration": pair.configuration, "differs": pair.differs}
    numbers = {name: pd.array([about.pop(name)] * rows, "Int32") for name in ("variant_a", "variant_b")}
    return numbers | {name: [value] * rows for name, value in about.items()}


def _texts(places: pd.DataFrame, name: str, rows: Ints) -> Any:
    return places[name].astype("object").to_numpy()[rows]


def _without_noise(sample: Sample) -> Sample:
    return Sample(sample.mean, np.zeros(len(sample.mean)), np.ones(len(sample.mean)))


def _taken(figures: Floats, rows: Ints) -> Floats:
    """The figures of rows; zeros for a row that is not there, -1."""
    with_none = np.vstack([figures, np.zeros((1, figures.shape[1]))])
    return np.asarray(with_none[rows], np.float64)


_SAME_CLOCK: Final = 0.02
_OPTIONS: Final = ("instrument", "measure", "ctas")
_SHOWN: Final = 3
_SIDES: Final = ("first", "second")


def unit_of(a: Tables, b: Tables) -> tuple[str, list[str]]:
    """The unit in which two profiles can be compared, and a note if it is not the usual one: "ns" on a GPU;
    "cycles" on the emulator, between GPUs, and if clocks differ. Raises DiffError if one profile is of the
    emulator and the other is not.
    """
    if a.emulated != b.emulated:
        one, other = ("first", "second") if a.emulated else ("second", "first")
        raise DiffError(
            f"the {one} profile is EMULATED, the {other} is not: cycles of a cost "
            "model and GPU time cannot be compared"
        )
    if a.emulated:
        return "cycles", []
    names = [str((tables.metadata.get("device") or {}).get("name") or "unknown") for tables in (a, b)]
    clocks = [
        float(np.nanmedian(tables.launches["clock_ghz"]))
        if tables.launches["clock_ghz"].notna().any()
        else np.nan
        for tables in (a, b)
    ]
    text = " and ".join(f"{clock:.3f} GHz" for clock in clocks)
    if not np.isfinite(clocks).all():
        return "ns", []
    if names[0] != names[1]:
        return "cycles", [f"the GPUs differ, {names[0]} and {names[1]}, with {text}: cycles are compared"]
    if abs(clocks[0] - clocks[1]) > _SAME_CLOCK * max(clocks):
        return "cycles", [
            f"the clocks differ, {text}: cycles are compared; "
            "time that memory takes does not follow the clock"
        ]
    return "ns", []


class Said(NamedTuple):
    """Something said of a kernel."""

    kernel: str
    text: str


def joined(said: Sequence[Said]) -> list[str]:
    """Each text once, behind the names of its kernels."""
    kernels: dict[str, dict[str, None]] = {}
    for each in said:
        kernels.setdefault(each.text, {})[each.kernel] = None
    lines = []
    for text, names in kernels.items():
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        lines.append(f"{', '.join(list(names)[:_SHOWN])}{more}: {text}")
    return lines


def notes_on(side_a: Side, side_b: Side, pair: Pair, a: Operand, b: Operand, floor: Floor) -> list[Said]:
    """Notes on differences between the sides of a pair, and on its less certain figures."""
    launches = [
        side.all_launches(pair.kernel, group)
        for side, group in ((side_a, pair.a), (side_b, pair.b))
        if group is not None
    ]
    notes = _unlike(*launches)
    if floor is not NO_FLOOR:
        versions = _versions(side_a.tables, side_b.tables)
        notes.append(f"a change below {floor.text} counts as noise: {floor.why}{versions}")
    is_gpu_in_cycles = side_a.unit == "cycles" and not side_a.tables.emulated
    if is_gpu_in_cycles and len(a.durations.ns) and len(b.durations.ns):
        times = (
            f"{np.median(each.durations.ns) / 1000:,.1f} us in {name}"
            for name, each in zip("AB", (a, b), strict=True)
        )
        notes.append(f"median launch {', '.join(times)}")
    return [Said(pair.kernel, note) for note in notes]


def _versions(a: Tables, b: Tables) -> str:
    """ " (Triton 3.6.0 and 3.7.1)": what has built the kernels, if it is not the same; else ""."""
    versions = {name: (a.metadata.get(key), b.metadata.get(key)) for key, name in _BUILDERS.items()}
    told = [
        f"{name} {one or 'unknown'} and {other or 'unknown'}"
        for name, (one, other) in versions.items()
        if one != other
    ]
    return f" ({', '.join(told)})" if told else ""


def missing_of(pair: Pair, a: Operand, b: Operand, *, emulated: bool) -> list[Said]:
    """Facts of a pair that are missing, with reasons."""
    missing = []
    if (a.is_single or b.is_single) and not emulated:
        missing.append(
            "how much launches vary: a side has only one that can be compared, so CTAs are compared, with a "
            "higher floor; record several launches, the first does not count"
        )
    if a.lost != b.lost:
        missing.append(
            "which rows have changed: the two lost different numbers of records, and rows differ by these; "
            "a larger memory= makes room"
        )
    for which, operand in zip(_SIDES, (a, b), strict=True):
        if operand.figures.places.empty:
            missing.append(f"rows: no launch of the {which} has the time of each row")
        if not len(operand.durations.took):
            missing.append(f"launches as a whole: the {which} has no launch with a known time")
    return [Said(pair.name, text) for text in missing]


def _unlike(a: pd.DataFrame, b: pd.DataFrame) -> list[str]:
    """Of two groups of launches what is not the same, and what each has lost."""
    notes = []
    warps = [sorted(set(each["num_warps"].tolist())) for each in (a, b)]
    if warps[0] != warps[1]:
        notes.append(
            f"the CTAs have {_listed(warps[0])} and {_listed(warps[1])} warps: "
            "times of rows are sums over warps"
        )
    for which, each in zip(_SIDES, (a, b), strict=True):
        dropped, unfinished = int(each["dropped"].sum()), int(each["unfinished"].sum())
        if dropped:
            notes.append(
                f"the {which} lost {count_text(dropped, 'record')}: rows in loops are of their newest "
                "iterations; a larger memory= makes room"
            )
        if unfinished:
            notes.append(f"in the {which}, {count_text(unfinished, 'CTA')} did not finish and are left out")
    return notes


def option_notes(a: Tables, b: Tables) -> list[str]:
    """Options of the sessions that make their figures differ."""
    options = [tables.metadata.get("options") or {} for tables in (a, b)]
    unlike = [name for name in _OPTIONS if options[0].get(name) != options[1].get(name)]
    if not unlike or not all(options):
        return []
    texts = [", ".join(f"{name}={each.get(name)!r}" for name in unlike) for each in options]
    return [f"recorded differently, {texts[0]} and {texts[1]}: what recording costs differs, too"]


def _listed(numbers: list[int]) -> str:
    return " or ".join(map(str, numbers))
