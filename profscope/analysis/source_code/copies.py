"""Which copies a line waited for, by the records of launches that kept spans of both."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from profscope.analysis.texts import count_text
from profscope.analysis.timeline.transactions import ended_work
from profscope.schema import Tables

__all__ = ["Flight", "Flights", "flights"]

_PLACES = ["file", "line", "wait_file", "wait_line"]


@dataclass(frozen=True)
class Flight:
    """Asynchronous work of one line that was waited for at one line. ahead: how many iterations of its loop
    before its wait it was issued, in the middle; None where that is not known. others: whether another warp
    waited than the one that issued it.
    """

    scope: str
    line: int
    wait: str
    wait_line: int
    count: int
    ahead: int | None
    others: bool


@dataclass(frozen=True)
class Flights:
    """By place, those that were waited for there, most first."""

    by_place: Mapping[tuple[str, int], list[Flight]]

    def texts(self, file: str, line: int) -> list[str]:
        """ "async copy x, line 16, issued 2 steps before (4,096)"."""
        return [_text(flight) for flight in self.by_place.get((file, line), ())]


def flights(tables: Tables) -> dict[tuple[str, int], Flights]:
    """By kernel and variant."""
    df, launches = tables.df, tables.launches
    issued, op, waited = ended_work(df)
    if not len(issued):
        return {}
    variants = launches.drop_duplicates("launch").set_index("launch")["variant"]
    began, ended = df.iloc[issued], df.iloc[waited]
    steps = began["iteration"].to_numpy(), ended["iteration"].to_numpy()
    table = pd.DataFrame(
        {
            "kernel": began["kernel"].array,
            "variant": variants.reindex(began["launch"]).to_numpy(),
            "scope": df["scope"].iloc[op].array,
            "wait": ended["scope"].array,
            "file": began["file"].array,
            "line": began["line"].to_numpy(),
            "wait_file": ended["file"].array,
            "wait_line": ended["line"].to_numpy(),
            "ahead": np.where((steps[0] >= 0) & (steps[1] >= 0), steps[1] - steps[0], np.nan),
            "others": began["warp"].to_numpy() != ended["warp"].to_numpy(),
        }
    )
    made: dict[tuple[str, int], dict[tuple[str, int], list[Flight]]] = {}
    names = ["kernel", "variant", "scope", "wait", *_PLACES]
    for key, rows in table.groupby(names, sort=False, observed=True):
        place: Any = key
        kernel, variant, scope, wait, _, line, wait_file, wait_line = place
        middle = rows["ahead"].median()
        flight = Flight(
            scope, int(line), wait, int(wait_line), len(rows),
            None if np.isnan(middle) else round(middle), bool(rows["others"].any()),
        )  # fmt: skip
        of_kernel = made.setdefault((kernel, int(variant)), {})
        of_kernel.setdefault((wait_file, int(wait_line)), []).append(flight)
    return {
        key: Flights({place: sorted(each, key=lambda one: -one.count) for place, each in places.items()})
        for key, places in made.items()
    }


def _text(flight: Flight) -> str:
    when = "" if not flight.ahead else f", issued {flight.ahead} step{'s' * (flight.ahead != 1)} before"
    who = " by other warps" * flight.others
    return f"{flight.scope}, line {flight.line}{when}{who} ({count_text(flight.count)})"
