"""A part of a profile, as a profile: some launches, or some CTAs, SMs or warps of them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.analysis.answers import EVIDENCE_LEFT_OUT
from profscope.analysis.summary import works
from profscope.analysis.texts import kernel_of_note, ranges_of
from profscope.errors import TraceError
from profscope.schema import LAUNCH_DTYPES, MEASURED_DTYPES, Tables
from profscope.traces.trace_filter import SAMPLES_OF_RANK, TraceFilter

__all__ = ["selected"]


def selected(tables: Tables, only: TraceFilter) -> Tables:
    """The tables of the spans and launches that are asked for alone.

    Where a part of each launch is asked for, launches without a span in it go, and the others have its times
    and its count of CTAs; their records, drops and bytes stay those of the whole launch. Such figures are
    never scaled up to the grid, and metadata["part"] says which part it is. Samples, counts, counters and
    experiments are of all launches of a variant together. So there are none if some of these, or a part of
    each, are asked for, as with a rank, unless they were read of that one (`SAMPLES_OF_RANK`);
    metadata[EVIDENCE_LEFT_OUT] says so.

    Raises TraceError where there is nothing of the sort, naming what there is.
    """
    if only.is_all:
        return tables
    launches, parts = _chosen_launches(tables.launches, only), only.inside
    kept = tables.df["launch"].isin(launches["launch"]).to_numpy()
    for name, value in parts.items():
        numbers = tables.df[name].to_numpy()
        if kept.any() and (numbers[kept] < 0).all():
            raise TraceError(f"{name} {value}: this trace does not have the {name} of a span")
        if not (kept & (numbers == value)).any():
            raise TraceError(f"no spans for {name} {value}; there are: {_ranges(numbers[kept])}")
        kept = kept & (numbers == value)
    df = _kept_spans(tables.df, kept)
    ctas = tables.ctas[_of_part(tables.ctas, launches, parts)].reset_index(drop=True)
    if parts:
        launches = _cut_to(launches, df)
    of_all = only.rank is None or only.rank == tables.metadata.get(SAMPLES_OF_RANK)
    is_whole = not parts and of_all and only.launch is only.variant is None
    metadata = _metadata(tables, launches, is_whole, parts)
    cut = _cut_groups(tables.launches, launches, only, of_all)
    launches = launches.reset_index(drop=True).assign(host=np.int64(-1))  # host scopes are of all launches
    measured, left_out = {}, set()
    for name in MEASURED_DTYPES:
        own = _measured(getattr(tables, name), launches)
        of_cut = [key in cut for key in zip(own["kernel"], own["variant"], strict=True)]
        left_out |= set(zip(own["kernel"][of_cut], own["variant"][of_cut].tolist(), strict=True))
        measured[name] = own[~np.array(of_cut, np.bool_)].reset_index(drop=True)
    if left_out:
        part = str(replace(only, kernels=None, variant=None))
        metadata[EVIDENCE_LEFT_OUT] = {"part": part, "kernels": [list(key) for key in sorted(left_out)]}
    return Tables(
        df, launches, metadata, ctas=ctas, sums=_sums_beyond(tables.sums, launches, df, parts), **measured
    )


def _sums_beyond(
    sums: pd.DataFrame, launches: pd.DataFrame, df: pd.DataFrame, parts: dict[str, int]
) -> pd.DataFrame:
    """Those of the launches; none if the span table has all spans that are asked for."""
    own = sums[sums["launch"].isin(launches["launch"])]
    is_whole = bool(parts) or bool(own["launch"].isin(df["launch"]).all())
    return own.iloc[:0].reset_index(drop=True) if is_whole else own.reset_index(drop=True)


def _cut_groups(
    launches: pd.DataFrame, chosen: pd.DataFrame, only: TraceFilter, of_all: bool
) -> set[tuple[str, int]]:
    """The kernels and variants of which some launches, or a part of each, are not chosen: of whole launches,
    all of them together, their evidence is."""
    groups = chosen.groupby(["kernel", "variant"], observed=True).size()
    if only.inside:
        return set(groups.index)
    if of_all and only.launch is None:
        return set()
    every = launches.groupby(["kernel", "variant"], observed=True).size()
    return set(groups.index[groups.to_numpy() < every.reindex(groups.index).to_numpy()])


def _of_part(ctas: pd.DataFrame, launches: pd.DataFrame, parts: dict[str, int]) -> NDArray[np.bool_]:
    """Which CTAs are of these launches, and of the part of each that is asked for; a warp is no CTA."""
    own = ctas["launch"].isin(launches["launch"]).to_numpy() & ("warp" not in parts)
    for name in parts.keys() & {"cta", "sm"}:
        own = own & (ctas[name].to_numpy() == parts[name])
    return np.asarray(own, np.bool_)


def _measured(table: pd.DataFrame, launches: pd.DataFrame) -> pd.DataFrame:
    """What was measured of these launches, which are all of their kernels' variants."""
    groups = set(zip(launches["kernel"], launches["variant"], strict=True))
    keys = zip(table["kernel"], table["variant"], strict=True)
    return table[np.array([key in groups for key in keys], np.bool_)].reset_index(drop=True)


def _chosen_launches(launches: pd.DataFrame, only: TraceFilter) -> pd.DataFrame:
    if only.kernels is not None:
        names = sorted(set(launches["kernel"].astype("str")))
        matching = [name for name in names if re.search(only.kernels, name)]
        if not matching:
            raise TraceError(f"no kernel matches {only.kernels!r}; there are: {', '.join(names) or 'none'}")
        launches = launches[launches["kernel"].isin(matching)]
    for name in ("variant", "rank", "launch"):
        value = getattr(only, name)
        if value is None:
            continue
        if name not in launches.columns or (launches[name] < 0).all():
            raise TraceError(f"{name} {value}: this trace does not tell the {name}s of a kernel apart")
        if not (launches[name] == value).any():
            raise TraceError(f"no {name} {value}; there are: {_ranges(launches[name].to_numpy())}")
        launches = launches[launches[name] == value]
    return launches


def _kept_spans(df: pd.DataFrame, kept: NDArray[np.bool_]) -> pd.DataFrame:
    """The rows to keep; the rows that they name are numbered as in the new table, -1 for one that goes."""
    if kept.all():  # as of a file that was read in part
        return df
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


def _metadata(
    tables: Tables, launches: pd.DataFrame, is_whole: bool, parts: dict[str, int]
) -> dict[str, Any]:
    """The metadata of the kernels that are left, and notes on them or on none.

    What their ops moved and computed is known of all launches together only; a part of a launch is no sample.
    """
    about = tables.metadata.get("kernels") or {}
    kernels: dict[str, Any] = {}
    for name in launches["kernel"].astype("str").unique():
        kernels[name] = dict(about.get(name) or {})
        if not is_whole:
            kernels[name]["work"] = [_nothing_moved(work) for work in works(kernels[name])]
        if parts:
            kernels[name]["recorded"] = {**(kernels[name].get("recorded") or {}), "sample": False}
    gone = set(tables.launches["kernel"].astype("str")) - set(kernels)
    notes = [note for note in tables.metadata.get("notes") or () if kernel_of_note(str(note)) not in gone]
    part = {"part": {**(tables.metadata.get("part") or {}), **parts}} if parts else {}
    return {**tables.metadata, "kernels": kernels, "notes": notes} | part


def _nothing_moved(work: dict[str, Any]) -> dict[str, Any]:
    """A kernel's entry "work" that says no more than what its spans measure."""
    scopes = [{**row, "bytes": 0, "flops": 0} for row in work["scopes"]]
    return {**work, "launches": 0, "ns": 0, "scopes": scopes}


def _ranges(values: NDArray[Any], most: int = 8) -> str:
    """Distinct numbers as ranges: "0-3, 7"."""
    texts = [str(low) if low == high else f"{low}-{high}" for low, high in ranges_of(values.tolist())]
    return ", ".join(texts[:most]) + (", ..." if len(texts) > most else "") or "none"
