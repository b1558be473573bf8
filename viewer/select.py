"""What of a profile is shown, chosen once, before any view; and whose timeline is drawn."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.analysis.notes import kernel_of_note
from profscope.analysis.work import works
from profscope.errors import TraceError
from profscope.profiles import Profile
from profscope.schema import LAUNCH_DTYPES

__all__ = ["Choice", "Selection", "choose_cta", "select"]


@dataclass(frozen=True)
class Selection:
    """What is asked for; None: everything. kernel: a regular expression that a name matches somewhere."""

    kernel: str | None = None
    variant: int | None = None
    rank: int | None = None
    launch: int | None = None
    cta: int | None = None
    sm: int | None = None
    warp: int | None = None

    @property
    def chosen(self) -> dict[str, Any]:
        """What is asked for, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @property
    def of_launches(self) -> Selection:
        """The launches that are asked for, whole: what is judged where a part of each is shown."""
        return replace(self, cta=None, sm=None, warp=None)


def select(profile: Profile, selection: Selection) -> Profile:
    """A profile of the spans and launches that are asked for alone.

    Where a part of each launch is asked for, launches without a span in it go, and the others have its times
    and its count of CTAs; their records, drops and bytes stay those of the whole launch. Such figures are
    never scaled up to the grid. Sums and samples are of all launches of a variant together, so there are none
    where a launch or a part of one is asked for.

    Raises TraceError where there is nothing of the sort, naming what there is.
    """
    if not selection.chosen:
        return profile
    launches = _chosen_launches(profile.launches, selection)
    kept = profile.tables.df["launch"].isin(launches["launch"]).to_numpy()
    parts = {name: value for name in ("cta", "sm", "warp") if (value := getattr(selection, name)) is not None}
    for name, value in parts.items():
        numbers = profile.tables.df[name].to_numpy()
        if kept.any() and (numbers[kept] < 0).all():
            raise TraceError(f"--{name} {value}: this trace does not say which {name} a span is of")
        if not (kept & (numbers == value)).any():
            raise TraceError(f"no spans for {name} {value}; there are: {_ranges(numbers[kept])}")
        kept = kept & (numbers == value)
    df = _kept_spans(profile.tables.df, kept)
    if parts:
        launches = _cut_to(launches, df)
    is_whole = not parts and selection.launch is selection.rank is selection.variant is None
    metadata = _metadata(profile, launches, is_whole, bool(parts))
    launches = launches.reset_index(drop=True)
    if parts or selection.launch is not None or selection.rank is not None:
        return Profile(df, launches, metadata)
    return Profile(df, launches, metadata, *_chosen_sums(profile, launches))


def _chosen_sums(profile: Profile, launches: pd.DataFrame) -> list[pd.DataFrame]:
    """The sums, spreads, numbers and samples of these launches, which are all of their kernels' variants."""
    groups = set(zip(launches["kernel"], launches["variant"], strict=True))
    sums, *others = (
        table[_in_groups(table, groups)]
        for table in (profile.sums, profile.spreads, profile.numbers, profile.samples)
    )
    row = np.append(np.full(len(profile.sums), -1), -1)  # the last is where -1 looks
    row[sums.index] = np.arange(len(sums))
    sums = sums.assign(parent=row[sums["parent"].to_numpy()])
    return [table.reset_index(drop=True) for table in (sums, *others)]


def _in_groups(table: pd.DataFrame, groups: set[tuple[str, int]]) -> NDArray[np.bool_]:
    keys = zip(table["kernel"], table["variant"], strict=True)
    return np.array([key in groups for key in keys], np.bool_)


def _chosen_launches(launches: pd.DataFrame, selection: Selection) -> pd.DataFrame:
    if selection.kernel is not None:
        names = sorted(set(launches["kernel"].astype("str")))
        matching = [name for name in names if re.search(selection.kernel, name)]
        if not matching:
            raise TraceError(
                f"no kernel matches {selection.kernel!r}; there are: {', '.join(names) or 'none'}"
            )
        launches = launches[launches["kernel"].isin(matching)]
    for name in ("variant", "rank", "launch"):
        value = getattr(selection, name)
        if value is None:
            continue
        if name not in launches.columns:
            raise TraceError(f"--{name} {value}: this trace does not tell the {name}s of a kernel apart")
        if not (launches[name] == value).any():
            raise TraceError(f"no {name} {value}; there are: {_ranges(launches[name].to_numpy())}")
        launches = launches[launches[name] == value]
    return launches


def _kept_spans(df: pd.DataFrame, kept: NDArray[np.bool_]) -> pd.DataFrame:
    """The rows to keep; the rows that they name are numbered as in the new table, -1 for one that goes."""
    row = np.append(np.where(kept, np.cumsum(kept) - 1, -1), -1)  # the last is where -1 looks
    rows = df[kept].reset_index(drop=True)
    return rows.assign(**{name: row[rows[name].to_numpy()] for name in ("parent", "wait")})


def _cut_to(launches: pd.DataFrame, df: pd.DataFrame) -> pd.DataFrame:
    """The launches that the spans are of, with their times and their count of CTAs."""
    spans = df.assign(end_ns=df["start_ns"] + df["duration_ns"]).groupby("launch")
    launches = launches[launches["launch"].isin(df["launch"])]
    figures = spans.agg(ctas=("cta", "nunique"), start_ns=("start_ns", "min"), end_ns=("end_ns", "max"))
    figures["unfinished"] = 0  # CTAs without an end have no part in a cut
    figures = figures.loc[launches["launch"]].astype({name: LAUNCH_DTYPES[name] for name in figures.columns})
    return launches.assign(**{name: figures[name].to_numpy() for name in figures.columns})


def _metadata(profile: Profile, launches: pd.DataFrame, is_whole: bool, is_part: bool) -> dict[str, Any]:
    """The metadata of the kernels that are left, and notes on them or on none.

    What their ops moved and computed is known of all launches together only; a part of a launch is no sample.
    """
    about = profile.metadata.get("kernels") or {}
    kernels: dict[str, Any] = {}
    for name in launches["kernel"].astype("str").unique():
        kernels[name] = dict(about.get(name) or {})
        if not is_whole:
            kernels[name]["work"] = [_nothing_moved(work) for work in works(kernels[name])]
        if is_part:
            kernels[name]["recorded"] = {**(kernels[name].get("recorded") or {}), "sample": False}
    gone = set(profile.launches["kernel"].astype("str")) - set(kernels)
    notes = [note for note in profile.metadata.get("notes") or () if kernel_of_note(str(note)) not in gone]
    return {**profile.metadata, "kernels": kernels, "notes": notes}


def _nothing_moved(work: dict[str, Any]) -> dict[str, Any]:
    """A kernel's entry "work" that says no more than what its spans measure."""
    scopes = [{**row, "bytes": 0, "flops": 0} for row in work["scopes"]]
    return {**work, "launches": 0, "ns": 0, "scopes": scopes}


@dataclass(frozen=True)
class Choice:
    """One CTA of one launch: which it is, and its rank by duration among `candidates` CTAs of that kernel."""

    kernel: str
    launch: int
    cta: int
    rank: int
    candidates: int


def choose_cta(df: pd.DataFrame, kernels: Sequence[str]) -> Choice | None:
    """The CTA of median duration of the first of these kernels that has any; None if none has."""
    roots = df[(df["depth"] == 0) & (df["kind"] != "async") & (df["cta"] >= 0)]
    present = set(roots["kernel"].astype("str"))
    kernel = next((name for name in kernels if name in present), None)
    if kernel is None:
        return None
    roots = roots[roots["kernel"] == kernel]
    end = roots["start_ns"] + roots["duration_ns"]
    ctas = roots.assign(end=end).groupby(["launch", "cta"]).agg(start=("start_ns", "min"), end=("end", "max"))
    duration = (ctas["end"] - ctas["start"]).sort_values(kind="stable")
    rank = (len(duration) - 1) // 2
    launch, cta = duration.index[rank]
    return Choice(kernel, int(launch), int(cta), rank, len(duration))


def _ranges(values: NDArray[Any], most: int = 8) -> str:
    """Distinct numbers as ranges: "0-3, 7"."""
    ranges: list[list[int]] = []
    for number in sorted(set(values.tolist())):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    texts = [str(low) if low == high else f"{low}-{high}" for low, high in ranges]
    return ", ".join(texts[:most]) + (", ..." if len(texts) > most else "") or "none"
