"""Which numbers the kernels had: payloads of scopes, and what probes saw in tensors."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any, Final

import numpy as np
import pandas as pd

from profscope.analysis.answers import answer_frame
from profscope.instrument_passes.manifest import VALUES_OF
from profscope.schema import Tables, payload_names

__all__ = ["value_problems", "values"]

_DTYPES: Final = {
    "kernel": "str",
    "variant": "int32",
    "scope": "str",
    "file": "str",
    "line": "int32",
    "value": "str",
    "spans": "int64",
    "least": "float64",
    "mean": "float64",
    "greatest": "float64",
    "problem": "str",
    "first_launch": "Int64",
    "first_cta": "Int64",
    "first_warp": "Int64",
    "first_iteration": "Int64",
}
_SITE: Final = ["kernel", "variant", "scope", "file", "line"]
_OF_LOOPS: Final = ("stage", "for_iteration")  # columns that the decoder adds, which are no values
_PROBLEMS: Final = {"nans": "nan", "infs": "infinity", "denormals": "denormals", "saturated": "saturation"}
"""By column of a probe, what a count above 0 means; the worst first."""
_SHOWN: Final = {"nan": "NaN"}
_RANK: Final = {name: rank for rank, name in enumerate([*_PROBLEMS.values(), ""])}


def values(tables: Tables) -> pd.DataFrame:
    """One row per scope and value recorded with it: a payload of the scope, or a column of a value probe.

        kernel    scope              line  value  spans  least  mean  greatest  problem  first_cta  ...
        softmax   values of weights    31  nans      64    0.0   2.0     128.0  nan              2

    Rows with a problem come first, NaNs before infinities, denormals and saturation; then in order of source.

    value: the payload's name; of a probe "nans", "infs", "denormals" and "saturated" count elements, "min"
    and "max" are their finite extremes. spans: how many carry one. least, mean, greatest: over these spans.
    problem: "nan", "infinity", "denormals" or "saturation" where a probe counted such an element, else "".
    first_launch, first_cta, first_warp, first_iteration: the earliest span with that problem (of the earliest
    launch, by start_ns); missing without a problem, and first_iteration (NA) outside of loops.

    attrs["first_nan"]: a dict, the row of `prof.df` whose probe was the first to see a NaN; None if none did.
    attrs["not_measured"]: says so where no values were recorded or probed.
    """
    df = tables.df
    variants = tables.launches.set_index("launch")["variant"]
    names = [name for name in payload_names(df) if name not in _OF_LOOPS]
    rows = [row for name in names for row in _rows(df, variants, name)]
    rows.sort(
        key=lambda row: (_RANK[row["problem"]], row["kernel"], row["variant"], row["file"], row["line"])
    )
    missing = [] if rows else [
        "values: none were recorded; give a scope a payload, or add a pass, as in "
        "instrument=['value-probe{classes=mma}']"
    ]  # fmt: skip
    table = answer_frame(rows, _DTYPES, missing)
    table.attrs["first_nan"] = _first_nan(df)
    return table


def value_problems(tables: Tables) -> str:
    """What is wrong in the tensors that were probed, in one line, the worst first: "NaN in values of acc
    (dot.py:31) and 2 other places, denormals in ... (prof.values())"; "" where nothing is."""
    if not any(name in tables.df for name in _PROBLEMS):
        return ""
    table = values(tables)
    said = []
    for problem, places in table[table["problem"] != ""].groupby("problem", sort=False):
        first, others = places.iloc[0], len(places) - 1
        more = f" and {others} other place{'s' * (others > 1)}" if others else ""
        where = f"{first['scope']} ({PurePath(first['file']).name}:{first['line']})"
        said.append(f"{_SHOWN.get(str(problem), problem)} in {where}{more}")
    return f"{', '.join(said)} (prof.values())" if said else ""


def _rows(df: pd.DataFrame, variants: pd.Series[int], name: str) -> list[dict[str, Any]]:
    """One row for each site whose spans carry the value."""
    carrying = df[df[name].notna()]
    carrying = carrying.assign(variant=carrying["launch"].map(variants))
    rows = []
    for site, own in carrying.groupby(_SITE, observed=True, sort=False):
        numbers = own[name].astype("float64").to_numpy(na_value=np.nan)
        problem = _PROBLEMS.get(name, "") if _is_probe(own).any() else ""
        bad = own[numbers > 0] if problem else own[:0]
        rows.append(
            {
                **dict(zip(_SITE, site, strict=True)),
                "value": name,
                "spans": len(own),
                "least": numbers.min(),
                "mean": numbers.mean(),
                "greatest": numbers.max(),
                "problem": problem if len(bad) else "",
                **_first_place(bad),
            }
        )
    return rows


def _is_probe(df: pd.DataFrame) -> pd.Series[bool]:
    return df["scope"].astype("str").str.startswith(VALUES_OF)


def _first_place(spans: pd.DataFrame) -> dict[str, Any]:
    """Where the earliest of these spans ran, missing where there are none."""
    if spans.empty:
        return dict.fromkeys(("first_launch", "first_cta", "first_warp", "first_iteration"), pd.NA)
    first = spans.loc[_earliest(spans)]
    iteration = int(first["iteration"])
    return {
        "first_launch": int(first["launch"]),
        "first_cta": int(first["cta"]),
        "first_warp": int(first["warp"]),
        "first_iteration": iteration if iteration >= 0 else pd.NA,
    }


def _earliest(spans: pd.DataFrame) -> Any:
    """The label of the row that began first in the earliest launch; of rows that began together the upper."""
    of_first = spans[spans["launch"] == spans["launch"].min()]
    return of_first["start_ns"].idxmin()


def _first_nan(df: pd.DataFrame) -> dict[str, Any] | None:
    if "nans" not in df:
        return None
    rows = df[(df["nans"].fillna(0) > 0) & _is_probe(df)]
    if rows.empty:
        return None
    return {str(name): None if pd.isna(value) else value for name, value in df.loc[_earliest(rows)].items()}
