"""How evenly work is spread: per launch and scope, over CTAs, warps and SMs."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.analysis.spans.pieces import each_piece, pieces
from profscope.analysis.spans.rows import (
    GROUP_COLUMNS,
    SITE_COLUMNS,
    Floats,
    Ints,
    Numbers,
    narrow_sites,
    numbers_of_groups,
)
from profscope.analysis.spans.summing import in_order
from profscope.schema import Tables, empty_frame

__all__ = ["BALANCE_DTYPES", "balance"]

BALANCE_DTYPES = {
    "kernel": "str",
    "variant": "int32",
    "launch": "int64",
    "scope": "str",
    "kind": "str",
    "file": "str",
    "line": "int32",
    "call_path": "str",
    "by": "str",
    "count": "int64",
    "least_cycles": "int64",
    "mean_cycles": "float64",
    "greatest_cycles": "int64",
    "variation": "float64",
}
"""The columns of `balance`, with their pandas dtypes, in order."""

_ALL_LAUNCHES = -1
_BY = {"cta": ("cta",), "warp": ("cta", "warp"), "sm": ("sm",)}
_KEY = [*GROUP_COLUMNS, *SITE_COLUMNS[1:], "launch", "by"]


def balance(tables: Tables) -> pd.DataFrame:
    """How the time of each scope is spread over the CTAs, the warps and the SMs that ran it.

    Columns: kernel, variant, launch; scope, kind, file, line, call_path; by ("cta", "warp" or "sm"),
    and count, how many of them ran the scope; least_cycles, mean_cycles and greatest_cycles, of what each of
    them spent in it altogether; and variation, their standard deviation over their mean (0: all alike). A
    warp here is one of one CTA. An even kernel has a small variation by "cta"; a large one by "sm" and not by
    "cta" says that SMs got different numbers of CTAs.

    Launch -1 stands for all launches of the variant together: each CTA of each launch counts as one, and so
    do its warps and SMs. Behind it come single launches. Figures are of the CTAs that recorded, and came to
    their end.
    """
    rows = _of_spans(tables)
    if not len(rows):
        return empty_frame(BALANCE_DTYPES)
    table = pd.concat([_together(rows), rows], ignore_index=True)
    table["group"] = table.groupby(list(GROUP_COLUMNS), sort=False).ngroup()
    table["among"] = table["by"].map({by: at for at, by in enumerate(_BY)})
    table = table.sort_values(["group", "launch", "among"], kind="stable", ignore_index=True)
    return table[list(BALANCE_DTYPES)].astype(BALANCE_DTYPES)


def _together(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of several launches as one of launch -1."""
    rows = rows.assign(launch=_ALL_LAUNCHES, total=rows["mean_cycles"] * rows["count"])
    by_key = rows.groupby(_KEY, sort=False)
    mean = by_key["total"].transform("sum") / by_key["count"].transform("sum")
    away = rows["mean_cycles"] - mean
    rows["squares"] += away * away * rows["count"]
    table = rows.groupby(_KEY, sort=False).agg(
        count=("count", "sum"),
        total=("total", "sum"),
        squares=("squares", "sum"),
        least_cycles=("least_cycles", "min"),
        greatest_cycles=("greatest_cycles", "max"),
    )
    table["mean_cycles"] = table["total"] / table["count"]
    table["variation"] = _variation(table)
    return table.reset_index()


def _variation(table: pd.DataFrame) -> Floats:
    mean = table["mean_cycles"].to_numpy()
    deviation = np.sqrt(table["squares"].to_numpy() / table["count"].to_numpy())
    return np.asarray(deviation / np.where(mean > 0, mean, 1.0), np.float64)


def _of_spans(tables: Tables) -> pd.DataFrame:
    """A row per launch, scope and `by`, with `squares`."""
    df = tables.df
    site, places = narrow_sites(df)
    group, groups = numbers_of_groups(tables.launches)
    row, took = _by_warp(df, site, len(places))
    launch, of_site = df["launch"].to_numpy()[row], site[row].astype(np.int64)
    parts = []
    for by, columns in _BY.items():
        item, first = _numbered([launch, of_site, *(df[name].to_numpy()[row] for name in columns)])
        parts.append(
            _spread(by, np.bincount(item, took).astype(np.float64), launch[first], of_site[first], row[first])
        )
    table = pd.concat(parts, ignore_index=True)
    at = table.pop("first").to_numpy()
    for name in SITE_COLUMNS:
        of_sites = places[name].astype("int64" if name == "line" else "str").to_numpy()
        table[name] = of_sites[site[at]]
    number = group.of(df["launch"].to_numpy()[at])
    table["variant"] = groups["variant"].to_numpy()[number]
    return table


def _by_warp(df: pd.DataFrame, site: Numbers, sites: int) -> tuple[Ints, Ints]:
    """What each warp spent in each site, and the row of its first span there; in the order of these. A warp
    whose spans stand apart is there more than once."""
    duration = df["duration_cycles"].to_numpy()
    warps = [df[name].to_numpy() for name in ("launch", "cta", "warp")]

    def of_piece(part: slice) -> tuple[Ints, Ints]:
        same = np.logical_and.reduce([of[part][1:] == of[part][:-1] for of in warps])
        warp = np.cumsum(np.append(False, ~same)[: part.stop - part.start])
        key = warp * sites + site[part]
        order, _, begins = in_order(key.astype(np.min_scalar_type(int(key.max(initial=0)))))
        return order[begins] + part.start, np.add.reduceat(duration[part][order], begins)

    found = each_piece(of_piece, pieces(df))
    row, took = (np.concatenate(each) for each in zip(*found, strict=True))
    order = np.argsort(row)
    return row[order], took[order]


def _spread(by: str, took: Floats, launch: NDArray[np.int32], site: Ints, first: Ints) -> pd.DataFrame:
    """Per launch and site the spread of what items took; first: a row of each in the span table."""
    key, first_item = _numbered([launch, site])
    count = np.bincount(key)
    mean = np.bincount(key, took) / count
    away = took - mean[key]
    least, greatest = np.full(len(count), np.inf), np.zeros(len(count))
    np.minimum.at(least, key, took)
    np.maximum.at(greatest, key, took)
    table = pd.DataFrame(
        {
            "launch": launch[first_item].astype(np.int64),
            "by": by,
            "count": count,
            "least_cycles": least,
            "mean_cycles": mean,
            "greatest_cycles": greatest,
            "squares": np.bincount(key, away * away),
            "first": first[first_item],
        }
    )
    return table.assign(variation=_variation(table))


def _numbered(columns: list[NDArray[np.integer]]) -> tuple[Ints, Ints]:
    """Rows numbered by their distinct values, in order of first appearance; and where each first appears."""
    number = np.zeros(len(columns[0]), np.int64)
    for values in columns:
        codes, distinct = pd.factorize(values)
        number, _ = pd.factorize(number * max(1, len(distinct)) + codes)
    first = np.flatnonzero(~pd.Series(number).duplicated().to_numpy())
    return number.astype(np.int64), first
