"""The table of differences of two profiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from profscope.analysis.cause import Quantity
from profscope.analysis.comparing.chance import Floor, Sample, benjamini_hochberg, compared, floor_of
from profscope.analysis.comparing.operands import (
    LAUNCH,
    Operand,
    Said,
    Side,
    joined,
    missing_of,
    notes_on,
    of_launches,
    of_one_side,
    of_rows,
    option_notes,
    unit_of,
)
from profscope.analysis.comparing.pairs import COMPARED, Pair, paired
from profscope.analysis.comparing.places import Lines
from profscope.analysis.findings import OF_THE_EMULATOR
from profscope.analysis.spans.corrections import are_corrected
from profscope.analysis.spans.rows import grid_ctas, grid_scales
from profscope.analysis.texts import count_text, three_digits
from profscope.analysis.variants import rows_of
from profscope.errors import DiffError
from profscope.schema import Tables
from profscope.threads import worker_pool

__all__ = [
    "DTYPES",
    "ComparedKernel",
    "counter_changes",
    "counter_text",
    "differences",
    "program",
    "program_text",
    "row_texts",
    "status_text",
]

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

_ORDER: Final = ("kernel", "group", "row", "async", "noise", "change")


def differences(a: Tables, b: Tables) -> pd.DataFrame:
    """The table that `profscope.diff` returns. Raises DiffError."""
    unit, notes = unit_of(a, b)
    corrected = are_corrected(a) and are_corrected(b)
    bare = all(tables.metadata.get("bare_times") for tables in (a, b))
    sides = Side(a, unit, corrected=corrected, bare=bare), Side(b, unit, corrected=corrected, bare=bare)
    if bare:
        notes.append(f"launches are compared by their bare times{OF_THE_EMULATOR * a.emulated}")
    with worker_pool(2) as pool:  # beside each other: numpy lets threads run
        list(pool.map(lambda side: side.spans, sides))
    sources = [tables.metadata.get("sources") or [] for tables in (a, b)]
    lines = Lines(*sources)
    if not all(sources):
        notes.append("a profile has no source texts: lines are matched by number, and edits are not followed")
    notes += option_notes(a, b)
    parts: list[pd.DataFrame] = []
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
        groups.append(ComparedKernel(pair, "" if whole else "the times of its launches are not known"))
        parts += whole
        parts += of_rows(pair, of_a, of_b, lines, floor, exact=exact)
        noted += notes_on(*sides, pair, of_a, of_b, floor)
        missing += missing_of(pair, of_a, of_b, emulated=a.emulated)
    if not parts:
        why = "; ".join(joined([Said(each.pair.name, each.why_not) for each in groups]))
        raise DiffError(f"the kernels of both profiles cannot be compared: {why}")
    table = _in_order(_tested(parts))
    table = table[list(DTYPES)].astype(DTYPES)
    durations = "corrected" if corrected else "raw"
    table.attrs = {"unit": unit, "emulated": a.emulated, "durations": durations}
    notes += _cold(sides, groups) + joined(noted)
    table.attrs |= {"notes": notes, "not_measured": joined(missing)}
    table.attrs["counters"] = [row for rows in counters.values() for row in rows]
    table.attrs["program"] = program(*sides, groups, table)
    return table


def _cold(sides: tuple[Side, Side], groups: Sequence[ComparedKernel]) -> list[str]:
    """That times of all launches include some that means leave out; nothing if there are none."""
    launches = [
        (side, side.all_launches(each.pair.kernel, group))
        for each in groups
        for side, group in zip(sides, (each.pair.a, each.pair.b), strict=True)
        if group is not None
    ]
    cold = sum(len(own) - len(side.warm(own)) for side, own in launches)
    what = f"{count_text(cold, 'cold launch', 'cold launches')}, such as the first of each kernel"
    return [f"Time includes {what}; means and rows leave them out"] if cold else []


def _floor(pair: Pair, sides: tuple[Side, Side], *, single: bool) -> Floor:
    """The size of change that is none."""
    return floor_of(emulated=sides[0].tables.emulated, same_build=pair.same_build, single=single)


def _alone(pair: Pair, sides: tuple[Side, Side]) -> list[pd.DataFrame]:
    """The row of launches that one side has; none if both have them."""
    if pair.a is not None and pair.b is not None:
        return []
    side, group = (sides[0], pair.a) if pair.b is None else (sides[1], pair.b)
    assert group is not None
    return [of_one_side(pair, side.compared_durations(side.warm(side.all_launches(pair.kernel, group))))]


def _operands(pair: Pair, sides: tuple[Side, Side]) -> tuple[Operand, Operand] | str:
    """Both sides' launches that can be compared; in words why there are none."""
    if pair.a is None or pair.b is None:
        return f"only in {'A' if pair.b is None else 'B'}"
    a, b = of_all = [
        side.all_launches(pair.kernel, group) for side, group in zip(sides, (pair.a, pair.b), strict=True)
    ]
    if not _chose_alike(sides, a, b):
        a, b = (launches[grid_scales(launches) == 1] for launches in of_all)
    if a.empty or b.empty:
        texts = [_recorded_text(side, launches) for side, launches in zip(sides, of_all, strict=True)]
        return f"the first recorded {texts[0]}, the second {texts[1]}: record both with the same ctas="
    return _operand(sides[0], a), _operand(sides[1], b)


def _chose_alike(sides: tuple[Side, Side], a: pd.DataFrame, b: pd.DataFrame) -> bool:
    """Whether one option chose the CTAs that recorded. How many `ctas=64` chooses follows from the grid, and
    each estimate has its own error. A list chooses the same CTAs only if both grids have all of them."""
    if sides[0].ctas != sides[1].ctas:
        return False
    is_list = isinstance(sides[0].ctas, tuple)
    return not is_list or pd.concat([a, b])[["ctas", "unfinished"]].sum(axis=1).nunique() == 1


def _recorded_text(side: Side, launches: pd.DataFrame) -> str:
    """ "8 of 256 CTAs (ctas=64)", of the first launch; "nothing" if there is none."""
    if launches.empty:
        return "nothing"
    first = launches.iloc[[0]]
    chosen = list(side.ctas) if isinstance(side.ctas, tuple) else side.ctas
    recorded, grid = int((first["ctas"] + first["unfinished"]).iloc[0]), int(grid_ctas(first)[0])
    return f"{recorded} of {count_text(grid, 'CTA')} (ctas={chosen})"


def _operand(side: Side, launches: pd.DataFrame) -> Operand:
    launches = side.warm(launches)
    return Operand(side.figures(launches), side.compared_durations(launches))


def _tested(parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The rows with what tests tell of them, all at once, and a status that follows it."""
    table = pd.concat(parts, ignore_index=True)
    a, b = (
        Sample(*(table[f"{name}_{side}"].to_numpy(np.float64) for name in Sample._fields)) for side in "ab"
    )
    test = compared(a, b, table["floor"].to_numpy(np.float64))
    significant = benjamini_hochberg(np.where(table["comparable"], test.probability, 1.0))
    status = table["status"].mask((table["status"] == "same") & significant, "changed")
    with np.errstate(divide="ignore", invalid="ignore"):
        percent = np.where(a.mean > 0, 100 * test.change / a.mean, np.nan)
    told = {"change": test.change, "low": test.low, "high": test.high, "percent": percent}
    return table.assign(**told, status=status, significant=significant)


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


_FLOOR_PCT: Final = 5.0  # between two sessions counters of one binary differ by some percent
_FLOOR_POINTS: Final = 3.0  # of a percentage
_MOST: Final = 4  # that one line names


def counter_changes(pair: Pair, a: Tables, b: Tables) -> list[dict[str, Any]]:
    """The counters of a pair of configurations that differ by more than noise, the greatest change first.

    kernel, variant_a, variant_b, counter, unit; a, b: the values; change: of a percentage b less a in points,
    of all else b over a less 1 in percent, null if a is 0: which no percentage tells, so these come first.
    """
    if pair.a is None or pair.b is None:
        return []
    of_a, of_b = (_values(tables, pair.kernel, group.variant) for tables, group in ((a, pair.a), (b, pair.b)))
    rows = []
    for counter in of_a.keys() & of_b.keys():
        (one, unit), (other, _) = of_a[counter], of_b[counter]
        is_points = unit == "%"
        change = other - one if is_points else 100 * (other / one - 1) if one else None
        floor = _FLOOR_POINTS if is_points else _FLOOR_PCT
        if one != other and (change is None or abs(change) >= floor):
            rows.append(
                {
                    "kernel": pair.kernel, "variant_a": pair.a.variant, "variant_b": pair.b.variant,
                    "counter": counter, "unit": unit, "a": one, "b": other, "change": change,
                }
            )  # fmt: skip
    return sorted(
        rows, key=lambda row: (row["change"] is not None, -abs(row["change"] or 0.0), row["counter"])
    )


def counter_text(changes: list[dict[str, Any]]) -> str:
    """ "counters: dram_read +40 %, l2_hit_rate 80 to 35 %", of the greatest of some changes."""
    shown = [_said(row) for row in changes[:_MOST]]
    more = f"; {len(changes) - len(shown)} more changed" if len(changes) > len(shown) else ""
    return f"counters: {', '.join(shown)}{more}"


def _said(row: dict[str, Any]) -> str:
    if row["unit"] == "%":
        return f"{row['counter']} {row['a']:.0f} to {row['b']:.0f} %"
    if row["change"] is None:
        return f"{row['counter']} 0 to {Quantity(row['b'], row['unit'])}".rstrip()
    return f"{row['counter']} {row['change']:+.0f} %"


def _values(tables: Tables, kernel: str, variant: int) -> dict[str, tuple[float, str]]:
    """By counter, its value and unit; those without a value are left out."""
    own = rows_of(tables.counters, kernel, variant)
    columns = (own[name].tolist() for name in ("counter", "value", "unit"))
    return {
        str(counter): (float(value), str(unit))
        for counter, value, unit in zip(*columns, strict=True)
        if not pd.isna(value)
    }


class ComparedKernel(NamedTuple):
    """A pair, and why its launches cannot be compared: "" if they can."""

    pair: Pair
    why_not: str = ""


def program(a: Side, b: Side, groups: Sequence[ComparedKernel], table: pd.DataFrame) -> dict[str, Any]:
    """Entry "program" of a comparison's attrs.

    launches_a, launches_b: how many were recorded. total_a, total_b: their time. changed_a, changed_b: the
    part of it, 0 to 1, whose time has changed or that was not judged; not_judged_a, not_judged_b: of the
    latter alone.
    not_judged: by group of these its `name`, `why`, and the parts `a` and `b` of the program's time.
    """
    rows = table[(table["kind"] == LAUNCH) & (table["status"] == "changed")]
    changed = set(rows[list(COMPARED)].itertuples(index=False, name=None))
    result: dict[str, Any] = {}
    open_groups: list[dict[str, Any]] = [
        {"name": each.pair.name, "why": each.why_not} for each in groups if each.why_not
    ]
    for name, side in zip("ab", (a, b), strict=True):
        launches = [side.all_launches(each.pair.kernel, getattr(each.pair, name)) for each in groups]
        times = [float(side.durations(own).took.sum()) for own in launches]
        total = sum(times)
        parts = [time / (total or 1.0) for time in times]
        is_open = [bool(each.why_not) for each in groups]
        is_other = [each.pair.names in changed or bool(each.why_not) for each in groups]
        result[f"launches_{name}"] = sum(map(len, launches))
        result[f"total_{name}"] = total
        result[f"changed_{name}"] = float(np.dot(parts, is_other))
        result[f"not_judged_{name}"] = float(np.dot(parts, is_open))
        for group, part in zip(open_groups, np.compress(is_open, parts), strict=True):
            group[name] = float(part)
    return result | {"not_judged": open_groups}


# Words of a comparison that the terminal and the page share.


def program_text(program: Mapping[str, Any], unit: str) -> str:
    """The time of all recorded launches, and the parts of it that changed or were not judged.

    program: entry "program" of a comparison's attrs.
    """
    total_a, total_b = program["total_a"], program["total_b"]
    changed, not_judged = ((program[f"{name}_a"], program[f"{name}_b"]) for name in ("changed", "not_judged"))
    launches = program["launches_a"], program["launches_b"]
    how_many = "" if launches[0] == launches[1] else f", {launches[0]:,} and {launches[1]:,} launches"
    by = f" ({total_b / total_a - 1:+.1%})" if total_a > 0 and not how_many else ""
    same = "no launch changed" if how_many else "nothing changed"
    text = f"{_duration(total_a, unit)} in A, {_duration(total_b, unit)} in B{by}{how_many}; "
    text += f"changed: {_parts(changed)}" if any(changed) else same
    return f"{text} (not judged: {_parts(not_judged)})" if any(not_judged) else text


def _duration(value: float, unit: str) -> str:
    number, name = three_digits(value, unit)
    return f"{number} {name}" if unit == "ns" else f"{number}{name} cycles"


def _parts(parts: tuple[float, float]) -> str:
    return f"{parts[0]:.1%} of A, {parts[1]:.1%} of B"


def row_texts(row: Mapping[Any, Any], unit: str) -> list[str]:
    """A row of `differences` as tables show it behind its scope: line, A, B, change, percent, least, most,
    count and status; of work in flight the total time, else the self time."""
    of, status = "total" if row["kind"] == "async" else "self", row["status"]
    counts = (count_text(round(each)) for each in (row["count_a"], row["count_b"]) if each)
    return [
        ">".join(dict.fromkeys(str(line) for line in (row["line_a"], row["line_b"]) if line)),
        "-" if status == "appeared" else "".join(three_digits(row[f"{of}_a"], unit)),
        "-" if status == "gone" else "".join(three_digits(row[f"{of}_b"], unit)),
        _signed(row["change"], unit),
        "-" if pd.isna(row["percent"]) else f"{row['percent']:+.1f}",
        _signed(row["low"], unit),
        _signed(row["high"], unit),
        ">".join(dict.fromkeys(counts)),
        status_text(status, row["change"], significant=row["significant"]),
    ]


def _signed(value: float, unit: str) -> str:
    return ("+" if value > 0 else "") + "".join(three_digits(value, unit))


def status_text(status: str, change: float, *, significant: bool) -> str:
    """ "noise" for a change within noise. A row that takes no time and is gone is "gone", not "same". status,
    change, significant: as `profscope.diff()` has them."""
    return "noise" if change and not significant else status
