"""The parts of a job, their tables one upon the other: work on a thousand small tables takes far longer than
on one with their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.schema import Tables, events_frame

__all__ = ["STACKED", "Part", "Stack", "moved_rows", "stacked"]

Ints = NDArray[np.int64]
STACKED: Final = tuple(each.name for each in fields(Tables) if each.name not in ("df", "metadata"))
"""The tables of which there is one of all parts. Spans are far more, and stay by part."""


@dataclass(frozen=True, eq=False)
class Part:
    """A profile, where it came from, and its rank."""

    tables: Tables
    name: str
    rank: int

    @property
    def metadata(self) -> Mapping[str, Any]:
        return self.tables.metadata


@dataclass(frozen=True, eq=False)
class Stack:
    """Parts in order of rank; all lists have an entry for each.

    names: where they came from. dfs: their spans. frames: by name of STACKED, the rows of all; lengths: how
    many of these each part has.
    """

    ranks: Sequence[int]
    names: Sequence[str]
    metadata: Sequence[Mapping[str, Any]]
    dfs: Sequence[pd.DataFrame]
    frames: Mapping[str, pd.DataFrame]
    lengths: Mapping[str, Sequence[int]]

    def begins(self, name: str) -> Ints:
        """By part, the first of its rows."""
        return np.cumsum([0, *self.lengths[name]])[:-1]

    def by_row(self, name: str, values: Sequence[int] | Ints) -> Ints:
        """By row of a table, the value of its part."""
        return np.repeat(np.asarray(values, np.int64), self.lengths[name])

    def column(self, name: str, column: str) -> list[NDArray[Any]]:
        """By part, its values in a column of a table."""
        return np.split(self.frames[name][column].to_numpy(), self.begins(name)[1:])

    @property
    def emulated(self) -> list[bool]:
        return [told.get("backend") == "emulator" for told in self.metadata]

    def told(self, ranks: Sequence[int] | None = None) -> dict[int, Mapping[str, Any]]:
        """By rank, its metadata; of all, or of these."""
        every = dict(zip(self.ranks, self.metadata, strict=True))
        return every if ranks is None else {rank: every[rank] for rank in ranks}


def stacked(parts: Sequence[Part]) -> Stack:
    """One part or more, of different ranks, in any order."""
    parts = sorted(parts, key=lambda part: part.rank)
    tables = [part.tables for part in parts]
    return Stack(
        [part.rank for part in parts],
        [part.name for part in parts],
        [each.metadata for each in tables],
        [each.df for each in tables],
        {name: _together(name, [getattr(each, name) for each in tables]) for name in STACKED},
        {name: [len(getattr(each, name)) for each in tables] for name in STACKED},
    )


def _together(name: str, frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    if name != "events":
        return pd.concat(frames, ignore_index=True)
    columns = {
        column: pd.api.types.union_categoricals([frame[column] for frame in frames])
        if frames[0][column].dtype == "category"
        else np.concatenate([frame[column].to_numpy() for frame in frames])
        for column in map(str, frames[0])
    }
    return events_frame(columns)


def moved_rows(rows: pd.Series[Any], by: Ints) -> Ints:
    """Numbers of rows or launches, moved; -1 is none."""
    own = rows.to_numpy(np.int64)
    return np.where(own < 0, own, own + by)
