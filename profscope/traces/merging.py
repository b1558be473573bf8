"""Several profiles as one: the parts that the ranks of a job wrote, or any that are to be seen together.

Launches keep their order within a part and get numbers of their own where two parts use the same. A kernel's
configurations are those of the same key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.analysis.spans.rows import OfLaunches
from profscope.errors import TraceError
from profscope.schema import (
    COUNT_DTYPES,
    MEASURED_DTYPES,
    SPAN_DTYPES,
    Tables,
    ctas_frame,
    launches_frame,
    measured_frame,
    payload_names,
    spans_frame,
)
from profscope.traces.merging_metadata import merged_kernels, merged_measured, merged_notes
from profscope.traces.rank_times import Aligned, OnRank0, aligned, around_together, numbered_around
from profscope.traces.trace_filter import SAMPLES_OF_RANK

__all__ = ["Part", "merged"]

Ints = NDArray[np.int64]
_OWN: Final = (
    "notes", "kernels", "variants", "sources", "code", "baseline", "budget", "building", "sampler",
    "evidence", "program", "job", "host_clock", "ranks", SAMPLES_OF_RANK,
)  # fmt: skip
"""Entries of the metadata that are merged or kept for each rank; of the others the first part's stand."""


@dataclass(frozen=True, eq=False)
class Part:
    """A profile, where it came from, and its rank."""

    tables: Tables
    name: str
    rank: int


def merged(parts: Sequence[Part], notes: Sequence[str] = (), samples_of: int | None = None) -> Tables:
    """One profile of one or more parts, of different ranks. notes: what is to be said of them besides.
    samples_of: the rank that all is of which is known of its launches together only, like samples, and the
    metadata say so; None for that of all ranks.

    Raises TraceError where some were emulated and others not.
    """
    parts = sorted(parts, key=lambda part: part.rank)
    _check(parts)
    if samples_of not in {part.rank for part in parts}:
        samples_of = None
    times = aligned({part.rank: part.tables for part in parts})
    variants, numbers = _variants(parts)
    offsets = _launch_offsets(parts)
    own = [
        _renumbered(part, each, on_rank_0, variants, offset)
        for part, each, on_rank_0, offset in zip(parts, times.parts, times.hosts, offsets, strict=True)
    ]
    host, events, own = around_together(own)
    summed = [part for part in parts if samples_of in (None, part.rank)]
    of_ranks = [tables for part, tables in zip(parts, own, strict=True) if part in summed]
    metadata = _metadata(parts, times, numbers, variants, [*notes, *times.notes])
    metadata["kernels"] = {
        name: about
        for chosen in (parts, summed)
        for name, about in merged_kernels(_told(chosen), variants).items()
    }
    if samples_of is not None:
        metadata[SAMPLES_OF_RANK] = samples_of
    return Tables(
        _spans([tables.df for tables in own]),
        launches_frame(_columns([tables.launches for tables in own])),
        metadata,
        host=host,
        events=events,
        ctas=ctas_frame(_columns([tables.ctas for tables in own])),
        **_measured(of_ranks),
    )


def _check(parts: Sequence[Part]) -> None:
    emulated = [part for part in parts if part.tables.emulated]
    if emulated and len(emulated) < len(parts):
        other = next(part for part in parts if not part.tables.emulated)
        raise TraceError(
            f"{emulated[0].name} was emulated and {other.name} was not: their cycles and times cannot be in "
            "one profile"
        )


def _columns(tables: Sequence[pd.DataFrame]) -> dict[str, Any]:
    table = pd.concat(tables, ignore_index=True)
    return {str(name): table[name] for name in table}


def _launch_offsets(parts: Sequence[Part]) -> list[int]:
    """What is added to the numbers of each part's launches: nothing where no two parts use the same."""
    numbers = [part.tables.launches["launch"].to_numpy(np.int64) for part in parts]
    every = np.concatenate(numbers)
    if len(np.unique(every)) == len(every):
        return [0] * len(parts)
    return [0, *np.cumsum([int(own.max(initial=-1)) + 1 for own in numbers])[:-1].tolist()]


def _variants(parts: Sequence[Part]) -> tuple[dict[tuple[int, str, int], int], dict[str, list[Any]]]:
    """By rank, kernel and its own number, a variant's number in the whole; and how each is described.

    Those of one key are one; where no key is known, those of one number.
    """
    numbers: dict[tuple[int, str, int], int] = {}
    keys: dict[str, list[Any]] = {}
    described: dict[str, list[Any]] = {}
    for part in parts:
        about = part.tables.metadata.get("variants") or {}
        used = part.tables.launches[["kernel", "variant"]].drop_duplicates()
        for kernel, number in sorted(zip(used["kernel"], used["variant"].tolist(), strict=True)):
            known = next((each for each in about.get(kernel, ()) if each.get("variant") == number), None)
            key = (known or {}).get("key") or number
            of_kernel = keys.setdefault(kernel, [])
            if key not in of_kernel:
                of_kernel.append(key)
                if known is not None:
                    described.setdefault(kernel, []).append(known | {"variant": len(of_kernel) - 1})
            numbers[part.rank, kernel, number] = of_kernel.index(key)
    return numbers, described


def _renumbered(
    part: Part, times: Ints, on_rank_0: OnRank0, variants: dict[tuple[int, str, int], int], offset: int
) -> Tables:
    """A part's tables with the numbers and times that they have in the whole. times: ns to add, by launch."""

    def numbered(table: pd.DataFrame, launch_offset: int) -> pd.DataFrame:
        pairs = zip(table["kernel"], table["variant"].tolist(), strict=True)
        own = [variants.get((part.rank, kernel, number), number) for kernel, number in pairs]
        table = table.assign(variant=np.array(own, np.int32))
        if "launch" in table and launch_offset:
            launch = table["launch"].to_numpy()
            moved = np.where(launch < 0, launch, launch + launch_offset).astype(launch.dtype)
            table = table.assign(launch=moved)
        return table

    tables = part.tables
    launches, df = tables.launches, tables.df
    shift = pd.Series(times, launches["launch"].to_numpy())
    if len(df):
        df = df.assign(
            start_ns=df["start_ns"].to_numpy() + shift.reindex(df["launch"]).to_numpy(np.int64),
            launch=(df["launch"].to_numpy() + offset).astype(np.int32),
        )
    launches = launches.assign(
        start_ns=launches["start_ns"] + times,
        end_ns=launches["end_ns"] + times,
        rank=np.full(len(launches), part.rank, np.int32),
    )
    launches = numbered(launches, offset)
    measured: dict[str, Any] = {name: numbered(getattr(tables, name), offset) for name in MEASURED_DTYPES}
    return replace(
        tables,
        df=df,
        launches=launches,
        ctas=_ctas(tables.ctas, launches, shift, offset),
        **measured,
        **numbered_around(tables, part.rank, offset, on_rank_0),
    )


def _ctas(ctas: pd.DataFrame, launches: pd.DataFrame, shift: pd.Series[Any], offset: int) -> pd.DataFrame:
    """launches: as numbered in the whole, `offset` above their own; shift: ns to add, by own number."""
    launch = ctas["launch"].to_numpy()
    ns = shift.reindex(launch).to_numpy(np.int64)
    variant = OfLaunches(launches, launches["variant"].to_numpy(), 0).of(launch + offset)
    return ctas.assign(
        variant=variant.astype(np.int32),
        launch=(launch + offset).astype(np.int32),
        start_ns=ctas["start_ns"] + ns,
        end_ns=ctas["end_ns"] + ns,
    )


def _spans(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Span tables one upon the other; rows that they name are numbered anew."""
    begins = np.cumsum([0, *map(len, frames)])
    columns: dict[str, Any] = {}
    for name, dtype in SPAN_DTYPES.items():
        each = [frame[name] for frame in frames]
        if dtype == "category":
            columns[name] = pd.api.types.union_categoricals(each, ignore_order=True)
        elif name in ("parent", "wait"):
            rows = [column.to_numpy() for column in each]
            moved = [np.where(own < 0, -1, own + begin) for own, begin in zip(rows, begins, strict=False)]
            columns[name] = np.concatenate(moved)
        else:
            columns[name] = np.concatenate([column.to_numpy() for column in each])
    df = spans_frame(columns)
    for name in dict.fromkeys(name for frame in frames for name in payload_names(frame)):
        df[name] = _payload([frame.get(name) for frame in frames], [len(frame) for frame in frames])
    return df


def _payload(columns: Sequence[pd.Series[Any] | None], lengths: Sequence[int]) -> Any:
    """A column of values, missing in parts that have none; as float64 where parts differ in kind."""
    kinds = {str(column.dtype) for column in columns if column is not None}
    if "category" in kinds:
        known = [column for column in columns if column is not None]
        texts = dict.fromkeys(value for column in known for value in column.astype("category").cat.categories)
        values = [
            np.full(length, None) if column is None else column.astype(object).to_numpy()
            for column, length in zip(columns, lengths, strict=True)
        ]
        return pd.Categorical(np.concatenate(values), categories=list(texts))
    kind: Any = kinds.pop() if len(kinds) == 1 else "float64"
    numbers = [
        pd.Series([np.nan] * length, dtype=kind) if column is None else column.astype(kind)
        for column, length in zip(columns, lengths, strict=True)
    ]
    return pd.concat(numbers, ignore_index=True).array


def _measured(parts: Sequence[Tables]) -> dict[str, pd.DataFrame]:
    """What was measured in several parts. Of a configuration's counters and experiments the first part's
    stand."""
    samples, counts, counters, experiments = (
        pd.concat([getattr(tables, name) for tables in parts], keys=range(len(parts)), names=["part", "row"])
        for name in MEASURED_DTYPES
    )
    figures = [*list(COUNT_DTYPES)[list(COUNT_DTYPES).index("executed") :]]
    tables = {
        "samples": _added_up(samples, ["samples"]),
        "counts": _added_up(counts, figures),
        "counters": counters.drop_duplicates(["kernel", "variant", "counter"]),
        "experiments": _of_first_part(experiments),
    }
    return {name: measured_frame(name, _columns([table])) for name, table in tables.items()}


def _of_first_part(table: pd.DataFrame) -> pd.DataFrame:
    """Of each configuration the rows of the first part that has some: rows of one run are compared."""
    part = table.index.get_level_values("part").to_series(table.index)
    return table[part == part.groupby([table["kernel"], table["variant"]]).transform("min")]


def _added_up(table: pd.DataFrame, figures: list[str]) -> pd.DataFrame:
    """Figures at one place, once: those of the bare binary are of no launch, and so of several ranks."""
    if not len(table):
        return table
    keys = [name for name in table if name not in figures]
    return table.groupby(keys, sort=False, observed=True)[figures].sum().reset_index()[list(table)]


def _metadata(
    parts: Sequence[Part],
    times: Aligned,
    described: dict[str, list[Any]],
    variants: dict[tuple[int, str, int], int],
    notes: Sequence[str],
) -> dict[str, Any]:
    first = parts[0].tables.metadata
    own_notes = merged_notes({rank: told.get("notes") or () for rank, told in _told(parts).items()})
    sources = {str(each): each for part in parts for each in part.tables.metadata.get("sources") or ()}
    code = {
        (each["kernel"], each["key"]): each
        for part in parts
        for each in part.tables.metadata.get("code") or ()
    }
    ranks = [
        {"rank": part.rank, "part": part.name, "launches": len(part.tables.launches), **clock}
        | {
            name: told[name]
            for name in ("program", "job", "device")
            if name in (told := part.tables.metadata)
        }
        for part, clock in zip(parts, times.clocks, strict=True)
    ]
    return {
        **{name: value for name, value in first.items() if name not in _OWN},
        "notes": [*notes, *own_notes],
        "variants": described,
        "sources": list(sources.values()),
        "code": list(code.values()),
        **merged_measured(_told(parts), variants),
        "ranks": ranks,
    }


def _told(parts: Sequence[Part]) -> dict[int, dict[str, Any]]:
    """By rank, its metadata."""
    return {part.rank: part.tables.metadata for part in parts}
