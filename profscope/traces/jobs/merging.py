"""Several profiles as one: the parts that the ranks of a job wrote, or any that are to be seen together.

Launches keep their order within a part and get numbers of their own where two parts use the same. A kernel's
configurations are those of the same key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
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
    sums_frame,
)
from profscope.traces.jobs.merging_metadata import merged_kernels, merged_measured, merged_notes
from profscope.traces.jobs.stack import Part, Stack, moved_rows, stacked
from profscope.traces.jobs.times import Aligned, aligned, around_together
from profscope.traces.trace_filter import SAMPLES_OF_RANK

__all__ = ["OF_RANKS", "launch_offsets", "merged", "merged_stack"]

Ints = NDArray[np.int64]
OF_RANKS: Final = (
    "notes", "kernels", "variants", "sources", "code", "baseline", "budget", "building", "sampler",
    "evidence", "program", "job", "host_clock", "ranks", SAMPLES_OF_RANK,
)  # fmt: skip
"""Entries of the metadata that are merged or kept for each rank; of the others the first part's stand."""


def merged(parts: Sequence[Part], notes: Sequence[str] = (), samples_of: int | None = None) -> Tables:
    """One profile of one or more parts, of different ranks. notes: what is to be said of them besides.
    samples_of: the rank that all is of which is known of its launches together only, like samples, and the
    metadata say so; None for that of all ranks.

    Raises TraceError where some were emulated and others not.
    """
    return merged_stack(stacked(parts), notes, samples_of)


def merged_stack(stack: Stack, notes: Sequence[str] = (), samples_of: int | None = None) -> Tables:
    """As `merged`, of parts whose tables are stacked already."""
    _check(stack)
    if samples_of not in stack.ranks:
        samples_of = None
    times = aligned(stack)
    variants, numbers = _variants(stack)
    offsets = launch_offsets(stack)
    summed = [rank for rank in stack.ranks if samples_of in (None, rank)]
    metadata = _metadata(stack, times, numbers, variants, [*notes, *times.notes])
    metadata["kernels"] = {
        name: about
        for chosen in (None, summed)
        for name, about in merged_kernels(stack.told(chosen), variants).items()
    }
    if samples_of is not None:
        metadata[SAMPLES_OF_RANK] = samples_of
    host, events = around_together(stack, offsets, times.hosts)
    launches = _launches(stack, times.parts, offsets, variants)
    shift = OfLaunches(launches, np.concatenate(times.parts), 0)
    dfs = [_shifted(df, offset, shift) for df, offset in zip(stack.dfs, offsets, strict=True)]
    sums = stack.frames["sums"]
    sums = sums.assign(launch=sums["launch"] + stack.by_row("sums", offsets))
    return Tables(
        _spans([df for df in dfs if len(df)] or dfs[:1]),
        launches,
        metadata,
        host=host,
        events=events,
        ctas=_ctas(stack, offsets, launches, shift),
        sums=sums_frame({str(name): sums[name] for name in sums}),
        **_measured(stack, summed, variants),
    )


def _check(stack: Stack) -> None:
    told = dict(zip(stack.emulated, stack.names, strict=True))
    if len(told) > 1:
        raise TraceError(
            f"{told[True]} was emulated and {told[False]} was not: their cycles and times cannot be in one "
            "profile"
        )


def launch_offsets(stack: Stack) -> list[int]:
    """What is added to the numbers of each part's launches: nothing where no two parts use the same."""
    numbers = stack.column("launches", "launch")
    every = stack.frames["launches"]["launch"]
    if every.is_unique:
        return [0] * len(numbers)
    return [0, *np.cumsum([int(own.max(initial=-1)) + 1 for own in numbers])[:-1].tolist()]


def _variants(stack: Stack) -> tuple[dict[tuple[int, str, int], int], dict[str, list[Any]]]:
    """By rank, kernel and its own number, a variant's number in the whole; and how each is described.

    Those of one key are one; where no key is known, those of one number.
    """
    numbers: dict[tuple[int, str, int], int] = {}
    keys: dict[str, list[Any]] = {}
    described: dict[str, list[Any]] = {}
    columns = zip(*(stack.column("launches", name) for name in ("kernel", "variant")), strict=True)
    for rank, told, (kernels, variants) in zip(stack.ranks, stack.metadata, columns, strict=True):
        about = told.get("variants") or {}
        for kernel, number in sorted({*zip(kernels, variants.tolist(), strict=True)}):
            known = next((each for each in about.get(kernel, ()) if each.get("variant") == number), None)
            key = (known or {}).get("key") or number
            of_kernel = keys.setdefault(kernel, [])
            if key not in of_kernel:
                of_kernel.append(key)
                if known is not None:
                    described.setdefault(kernel, []).append(known | {"variant": len(of_kernel) - 1})
            numbers[rank, kernel, number] = of_kernel.index(key)
    return numbers, described


def _launches(
    stack: Stack,
    shifts: Sequence[Ints],
    offsets: Sequence[int],
    variants: Mapping[tuple[int, str, int], int],
) -> pd.DataFrame:
    """All launches, with the numbers and times that they have in the whole, and their ranks. shifts: by part,
    ns to add to the times of each launch."""
    launches, shift = stack.frames["launches"], np.concatenate(shifts)
    rank = stack.by_row("launches", stack.ranks)
    moved = launches.assign(
        launch=launches["launch"] + stack.by_row("launches", offsets),
        variant=_numbered(launches, rank, variants),
        start_ns=launches["start_ns"] + shift,
        end_ns=launches["end_ns"] + shift,
        rank=rank,
        host=moved_rows(launches["host"], stack.by_row("launches", stack.begins("host"))),
    )
    return launches_frame({str(name): moved[name] for name in moved})


def _numbered(
    table: pd.DataFrame, rank: Ints, variants: Mapping[tuple[int, str, int], int]
) -> NDArray[np.int32]:
    """By row, the number that its variant has in the whole."""
    keys = pd.DataFrame({"rank": rank, "kernel": table["kernel"].array, "variant": table["variant"].array})
    number = keys.groupby(["rank", "kernel", "variant"], sort=False, observed=True).ngroup().to_numpy()
    _, first = np.unique(number, return_index=True)
    groups = keys.iloc[first]
    own = [
        variants.get((of_rank, str(kernel), variant), variant)
        for of_rank, kernel, variant in zip(*(groups[name].tolist() for name in keys), strict=True)
    ]
    return np.array(own, np.int32)[number]


def _shifted(df: pd.DataFrame, offset: int, shift: OfLaunches[np.int64]) -> pd.DataFrame:
    """A part's spans with the numbers of launches and times that they have in the whole."""
    if not len(df):
        return df
    launch = (df["launch"].to_numpy() + offset).astype(np.int32)
    return df.assign(start_ns=df["start_ns"].to_numpy() + shift.of(launch), launch=launch)


def _ctas(
    stack: Stack, offsets: Sequence[int], launches: pd.DataFrame, shift: OfLaunches[np.int64]
) -> pd.DataFrame:
    """launches: as numbered in the whole; shift: ns to add, by such a number."""
    ctas = stack.frames["ctas"]
    launch = ctas["launch"].to_numpy() + stack.by_row("ctas", offsets)
    variant = OfLaunches(launches, launches["variant"].to_numpy(), 0)
    ns = shift.of(launch)
    moved = ctas.assign(
        variant=variant.of(launch),
        launch=launch,
        start_ns=ctas["start_ns"] + ns,
        end_ns=ctas["end_ns"] + ns,
    )
    return ctas_frame({str(name): moved[name] for name in moved})


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


def _measured(
    stack: Stack, ranks: Sequence[int], variants: Mapping[tuple[int, str, int], int]
) -> dict[str, pd.DataFrame]:
    """What was measured on these ranks. Of a configuration's counters and experiments those of the first
    stand."""

    def together(name: str) -> pd.DataFrame:
        rank = stack.by_row(name, stack.ranks)
        table = stack.frames[name].assign(variant=_numbered(stack.frames[name], rank, variants))
        return table.set_axis(pd.Index(rank, name="rank"))[np.isin(rank, ranks)]

    samples, counts, counters, experiments = map(together, MEASURED_DTYPES)
    figures = [*list(COUNT_DTYPES)[list(COUNT_DTYPES).index("executed") :]]
    tables = {
        "samples": _added_up(samples, ["samples"]),
        "counts": _added_up(counts, figures),
        "counters": counters.drop_duplicates(["kernel", "variant", "counter"]),
        "experiments": _of_first_rank(experiments),
    }
    return {
        name: measured_frame(name, {str(column): table[column].array for column in table})
        for name, table in tables.items()
    }


def _of_first_rank(table: pd.DataFrame) -> pd.DataFrame:
    """Of each configuration the rows of the first rank that has some: rows of one run are compared."""
    rank = table.index.to_series().reset_index(drop=True)
    own = table.reset_index(drop=True)
    return own[rank == rank.groupby([own["kernel"], own["variant"]]).transform("min")]


def _added_up(table: pd.DataFrame, figures: list[str]) -> pd.DataFrame:
    """Figures at one place, once: those of the bare binary are of no launch, and so of several ranks."""
    if not len(table):
        return table
    keys = [name for name in table if name not in figures]
    return table.groupby(keys, sort=False, observed=True)[figures].sum().reset_index()[list(table)]


def _metadata(
    stack: Stack,
    times: Aligned,
    described: dict[str, list[Any]],
    variants: dict[tuple[int, str, int], int],
    notes: Sequence[str],
) -> dict[str, Any]:
    first = stack.metadata[0]
    own_notes = merged_notes({rank: told.get("notes") or () for rank, told in stack.told().items()})
    sources = {str(each): each for each in _entries(stack, "sources")}
    code = {(each["kernel"], each["key"]): each for each in _entries(stack, "code")}
    ranks = [
        {"rank": rank, "part": name, "launches": launches, **clock}
        | {each: told[each] for each in ("program", "job", "device") if each in told}
        for rank, name, launches, told, clock in zip(
            stack.ranks, stack.names, stack.lengths["launches"], stack.metadata, times.clocks, strict=True
        )
    ]
    return {
        **{name: value for name, value in first.items() if name not in OF_RANKS},
        "notes": [*notes, *own_notes],
        "variants": described,
        "sources": list(sources.values()),
        "code": list(code.values()),
        **merged_measured(stack.told(), variants),
        "ranks": ranks,
    }


def _entries(stack: Stack, name: str) -> Iterator[Any]:
    """Those of a list in the metadata; parts of a large job share one."""
    lists = {id(own): own for told in stack.metadata if (own := told.get(name))}
    return chain.from_iterable(lists.values())
