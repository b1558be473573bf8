"""The table of differences of two profiles."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd

from profscope.analysis.comparing.caveats import notes_on, option_notes, unit_of
from profscope.analysis.comparing.chance import discoveries
from profscope.analysis.comparing.figures import Side
from profscope.analysis.comparing.floors import floor_of
from profscope.analysis.comparing.pairs import Pair, paired
from profscope.analysis.comparing.places import Lines
from profscope.analysis.comparing.tested import LAUNCH, Operand, alone, tested
from profscope.schema import Tables

__all__ = ["DTYPES", "differences"]

DTYPES: Final[dict[str, Any]] = {
    "kernel": "str",
    "variant_a": "Int32",
    "variant_b": "Int32",
    "scope": "str",
    "kind": "str",
    "file": "str",
    "line_a": "int32",
    "line_b": "int32",
    "call_path": "str",
    "status": "str",
    "significant": "bool",
    "change": "float64",
    "percent": "float64",
    "low": "float64",
    "high": "float64",
    "self_a": "float64",
    "self_b": "float64",
    "total_a": "float64",
    "total_b": "float64",
    "count_a": "float64",
    "count_b": "float64",
    "launches_a": "int64",
    "launches_b": "int64",
}
"""The columns of the table."""

_ORDER: Final = ("kernel", "group", "row", "async", "noise", "change")


def differences(a: Tables, b: Tables) -> pd.DataFrame:
    """The table that `profscope.diff` returns. Raises DiffError."""
    unit, notes = unit_of(a, b)
    sides = Side(a, unit), Side(b, unit)
    sources = [tables.metadata.get("sources") or [] for tables in (a, b)]
    lines = Lines(*sources)
    if not all(sources):
        notes.append("a profile has no source texts: lines are matched by number, and edits are not followed")
    notes += option_notes(a, b)
    parts: list[pd.DataFrame] = []
    not_measured: list[str] = []
    for pair in paired(a, b):
        part, noted, missing = _compared(pair, sides, lines)
        parts.append(part.assign(variant_a=pair.variant_a, variant_b=pair.variant_b))
        notes += [*noted, *notes_on(a, b, pair)]
        not_measured += missing
    table = _in_order(_judged(pd.concat(parts, ignore_index=True)))
    table = table[list(DTYPES)].astype(DTYPES)
    table.attrs = {"unit": unit, "emulated": a.emulated, "notes": notes, "not_measured": not_measured}
    return table


def _compared(
    pair: Pair, sides: tuple[Side, Side], lines: Lines
) -> tuple[pd.DataFrame, list[str], list[str]]:
    """The rows of a pair, notes on them, and what was not measured."""
    kernel, variants = pair.kernel, (pair.variant_a, pair.variant_b)
    for side, variant, other in zip(sides, variants, reversed(variants), strict=True):
        if variant is not None and other is None:
            durations = side.durations(kernel, variant, max(side.keeps(kernel, variant), default="spans"))
            return alone(kernel, durations, in_b=side is sides[1]), [], []
    numbers = [variant for variant in variants if variant is not None]
    kept = _kept(*(side.keeps(kernel, number) for side, number in zip(sides, numbers, strict=True)))
    a, b = (
        Operand(side.figures(kernel, number, keeps), side.durations(kernel, number, keeps))
        for side, number, keeps in zip(sides, numbers, kept, strict=True)
    )
    emulated, unit = sides[0].tables.emulated, sides[0].unit
    single = a.is_single or b.is_single
    floor = floor_of(emulated=emulated, same_build=pair.same_build, single=single)
    notes, missing = [], []
    if not emulated:
        notes.append(f"{kernel}: within {floor.text} a change is no effect: {floor.why}")
    if kept[0] != kept[1]:
        notes.append(
            f"{kernel}: the first kept {kept[0]}, the second {kept[1]}: what recording costs differs, too"
        )
    if unit == "cycles" and not emulated and len(a.durations.ns) and len(b.durations.ns):
        times = " and ".join(f"{np.median(each.durations.ns) / 1000:,.1f} us" for each in (a, b))
        notes.append(f"{kernel}: in time, its launches took {times}")
    if single and not emulated:
        missing.append(
            f"{kernel}: how much launches vary: one side has a single one that can be compared; "
            "CTAs are, with a higher floor; record several launches, of which the first does not count"
        )
    for which, operand in (("first", a), ("second", b)):
        launches, took = len(operand.figures.launches), len(operand.durations.took)
        if operand.figures.places.empty:
            missing.append(f"{kernel}: rows: no launch of the {which} tells what each row took in it")
        elif launches < took:
            notes.append(f"{kernel}: rows of the {which} are of its newest {launches} of {took} launches")
    return tested(kernel, a, b, lines, floor, exact=emulated), notes, missing


def _kept(a: set[str], b: set[str]) -> tuple[str, str]:
    """What the launches to compare keep: like with like where that can be; sums first, as most launches do
    where some do."""
    both = max(a & b, default=None)
    return (both, both) if both else (max(a, default="spans"), max(b, default="spans"))


def _judged(table: pd.DataFrame) -> pd.DataFrame:
    """With `significant`, over all rows, and a status that follows it."""
    significant = discoveries(table["probability"].to_numpy(np.float64))
    status = table["status"].where((table["status"] != "same") | ~significant, "changed")
    return table.assign(significant=significant, status=status)


def _in_order(table: pd.DataFrame) -> pd.DataFrame:
    """Kernels by the change of their launches, and within one the launches first; then rows by change, those
    that are news before the others, and behind all what is in flight, which takes no time of a warp."""
    size = table["change"].abs()
    group = table.groupby(["kernel", "variant_a", "variant_b"], sort=False, dropna=False).ngroup()
    is_launch = table["kind"] == LAUNCH
    of_launch: dict[Any, float] = dict(zip(group[is_launch], size[is_launch], strict=True))
    keys = pd.DataFrame(
        {
            "kernel": -group.map(of_launch).fillna(0.0),
            "group": group,
            "row": ~is_launch,
            "async": table["kind"] == "async",
            "noise": ~table["significant"],
            "change": -size,
        }
    )
    return table.loc[keys.sort_values(list(_ORDER), kind="stable").index].reset_index(drop=True)
