"""The table of differences of two profiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd

from profscope.analysis.comparing.caveats import (
    Said,
    joined,
    missing_of,
    notes_on,
    option_notes,
    unit_of,
)
from profscope.analysis.comparing.chance import Sample, benjamini_hochberg, compared
from profscope.analysis.comparing.counters import counter_changes, counter_text
from profscope.analysis.comparing.figures import Side
from profscope.analysis.comparing.floors import Floor, floor_of
from profscope.analysis.comparing.operands import (
    LAUNCH,
    Operand,
    Rows,
    of_launches,
    of_one_side,
    of_rows,
)
from profscope.analysis.comparing.pairs import COMPARED, Pair, paired
from profscope.analysis.comparing.places import Lines
from profscope.analysis.comparing.program import ComparedKernel, program
from profscope.analysis.corrections import are_corrected
from profscope.errors import DiffError
from profscope.schema import Tables
from profscope.threads import worker_pool

__all__ = ["DTYPES", "differences"]

DTYPES: Final[dict[str, Any]] = {
    "kernel": "str",
    "variant_a": "Int32",
    "variant_b": "Int32",
    "grid_a": "str",
    "grid_b": "str",
    "configuration": "str",
    "differs": "str",
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

_SAMPLE: Final = ("mean", "variance", "freedom")
_ORDER: Final = ("kernel", "group", "row", "async", "noise", "change")


def differences(a: Tables, b: Tables) -> pd.DataFrame:
    """The table that `profscope.diff` returns. Raises DiffError."""
    unit, notes = unit_of(a, b)
    corrected = are_corrected(a) and are_corrected(b)
    sides = Side(a, unit, corrected=corrected), Side(b, unit, corrected=corrected)
    with worker_pool(2) as pool:  # beside each other: numpy lets threads run
        list(pool.map(Side.add_up, sides))
    sources = [tables.metadata.get("sources") or [] for tables in (a, b)]
    lines = Lines(*sources)
    if not all(sources):
        notes.append("a profile has no source texts: lines are matched by number, and edits are not followed")
    notes += option_notes(a, b)
    parts: list[Rows] = []
    noted: list[Said] = []
    missing: list[Said] = []
    groups: list[ComparedKernel] = []
    counters: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for pair in paired(a, b):
        changes = counter_changes(pair, a, b)
        if changes and counters.setdefault(pair.names[:3], changes) is changes:  # once, whatever the grids
            noted.append(Said(pair.name, counter_text(changes)))
        operands = _operands(pair, sides)
        if isinstance(operands, str):
            parts += _alone(pair, sides)
            groups.append(ComparedKernel(pair, operands))
            if pair.a and pair.b:
                missing.append(Said(pair.name, operands))
            continue
        of_a, of_b = operands
        floor = _floor(pair, sides, single=of_a.is_single or of_b.is_single)
        exact = a.emulated and not (of_a.is_sampled or of_b.is_sampled)
        whole = of_launches(pair, of_a.durations, of_b.durations, floor, exact=exact)
        groups.append(ComparedKernel(pair, "" if whole else "how long its launches took is not known"))
        parts += whole
        parts += of_rows(pair, of_a, of_b, lines, floor, exact=exact)
        noted += notes_on(*sides, pair, of_a, of_b, floor)
        missing += missing_of(pair, of_a, of_b, emulated=a.emulated)
    if not parts:
        why = "; ".join(joined([Said(each.pair.name, each.why_not) for each in groups]))
        raise DiffError(f"the kernels of both profiles cannot be compared: {why}")
    table = _in_order(_judged(parts))
    table = table[list(DTYPES)].astype(DTYPES)
    durations = "corrected" if corrected else "raw"
    table.attrs = {"unit": unit, "emulated": a.emulated, "durations": durations}
    table.attrs |= {"notes": notes + joined(noted), "not_measured": joined(missing)}
    table.attrs["counters"] = [row for rows in counters.values() for row in rows]
    table.attrs["program"] = program(*sides, groups, table)
    return table


def _floor(pair: Pair, sides: tuple[Side, Side], *, single: bool) -> Floor:
    """The size of change that is none."""
    return floor_of(emulated=sides[0].tables.emulated, same_build=pair.same_build, single=single)


def _alone(pair: Pair, sides: tuple[Side, Side]) -> list[Rows]:
    """The row of launches that one side has; none if both have them."""
    if pair.a is not None and pair.b is not None:
        return []
    side, group = (sides[0], pair.a) if pair.b is None else (sides[1], pair.b)
    assert group is not None
    return [of_one_side(pair, side.durations(side.warm(side.all_launches(pair.kernel, group))))]


def _operands(pair: Pair, sides: tuple[Side, Side]) -> tuple[Operand, Operand] | str:
    """Both sides' launches with the same part recorded; in words why there are none to compare."""
    if pair.a is None or pair.b is None:
        return f"only in {'A' if pair.b is None else 'B'}"
    a, b = (
        side.by_recorded_part(side.all_launches(pair.kernel, group))
        for side, group in zip(sides, (pair.a, pair.b), strict=True)
    )
    part = max(a.keys() & b.keys(), key=lambda each: (min(len(a[each]), len(b[each])), each), default=None)
    if part is None:
        texts = [" or ".join(each) or "nothing" for each in (a, b)]
        return f"the first recorded {texts[0]}, the second {texts[1]}: record both with the same options"
    return _operand(pair, sides[0], a[part]), _operand(pair, sides[1], b[part])


def _operand(pair: Pair, side: Side, launches: pd.DataFrame) -> Operand:
    launches = side.warm(launches)
    return Operand(side.figures(pair.kernel, launches), side.durations(launches))


def _judged(parts: Sequence[Rows]) -> pd.DataFrame:
    """The rows with what tests tell of them, all at once, and a status that follows it."""
    columns = {name: np.concatenate([part.columns[name] for part in parts]) for name in parts[0].columns}
    a, b = (
        Sample(*(np.concatenate([getattr(each, name) for each in side]) for name in _SAMPLE))
        for side in ([part.a for part in parts], [part.b for part in parts])
    )
    test = compared(a, b, np.concatenate([part.floor for part in parts]))
    comparable = np.concatenate([np.full(len(part.floor), part.comparable) for part in parts])
    significant = benjamini_hochberg(np.where(comparable, test.probability, 1.0))
    status = np.where((columns["status"] == "same") & significant, "changed", columns["status"])
    with np.errstate(divide="ignore", invalid="ignore"):
        percent = np.where(a.mean > 0, 100 * test.change / a.mean, np.nan)
    told = {"change": test.change, "low": test.low, "high": test.high, "percent": percent}
    return pd.DataFrame(columns | told | {"status": status, "significant": significant})


def _in_order(table: pd.DataFrame) -> pd.DataFrame:
    """Kernels by the change of their launches, and within one the launches first; then rows by change, those
    that are news before the others, and behind all what is in flight, which takes no time of a warp."""
    size = table["change"].abs()
    group = table.groupby(list(COMPARED), sort=False, dropna=False).ngroup()
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
