"""What the reader of a diff must know beside its rows; and in which unit it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from profscope.analysis.comparing.chance import NO_FLOOR, Floor
from profscope.analysis.comparing.figures import Side
from profscope.analysis.comparing.operands import Operand
from profscope.analysis.comparing.pairs import Pair
from profscope.analysis.texts import count_text
from profscope.errors import DiffError
from profscope.schema import Tables

__all__ = ["Said", "joined", "missing_of", "notes_on", "option_notes", "unit_of"]

_SAME_CLOCK: Final = 0.02
_OPTIONS: Final = ("instrument", "measure", "ctas")
_SHOWN: Final = 3
_SIDES: Final = ("first", "second")


def unit_of(a: Tables, b: Tables) -> tuple[str, list[str]]:
    """The unit in which two profiles can be compared, and a note where it is not the usual one.

    "ns" on a GPU, and "cycles" on the emulator, between GPUs, and where the clocks were not alike. Raises
    DiffError where one profile is of the emulator and the other is not.
    """
    if a.emulated != b.emulated:
        one, other = ("first", "second") if a.emulated else ("second", "first")
        raise DiffError(
            f"the {one} profile is EMULATED, the {other} is not: cycles of a cost "
            "model and GPU time cannot be compared"
        )
    if a.emulated:
        return "cycles", []
    names = [str((tables.metadata.get("device") or {}).get("name") or "unknown") for tables in (a, b)]
    clocks = [
        float(np.nanmedian(tables.launches["clock_ghz"]))
        if tables.launches["clock_ghz"].notna().any()
        else np.nan
        for tables in (a, b)
    ]
    text = " and ".join(f"{clock:.3f} GHz" for clock in clocks)
    if not np.isfinite(clocks).all():
        return "ns", []
    if names[0] != names[1]:
        return "cycles", [f"the GPUs differ, {names[0]} and {names[1]}, with {text}: cycles are compared"]
    if abs(clocks[0] - clocks[1]) > _SAME_CLOCK * max(clocks):
        return "cycles", [
            f"the clocks differ, {text}: cycles are compared; "
            "time that memory takes does not follow the clock"
        ]
    return "ns", []


class Said(NamedTuple):
    """Something said of a kernel."""

    kernel: str
    text: str


def joined(said: Sequence[Said]) -> list[str]:
    """What is said, each thing once, behind the names of the kernels that it is said of."""
    kernels: dict[str, dict[str, None]] = {}
    for each in said:
        kernels.setdefault(each.text, {})[each.kernel] = None
    lines = []
    for text, names in kernels.items():
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        lines.append(f"{', '.join(list(names)[:_SHOWN])}{more}: {text}")
    return lines


def notes_on(side_a: Side, side_b: Side, pair: Pair, a: Operand, b: Operand, floor: Floor) -> list[Said]:
    """What is not the same on both sides of a pair, or makes its figures less sure."""
    launches = [
        side.all_launches(pair.kernel, group)
        for side, group in ((side_a, pair.a), (side_b, pair.b))
        if group is not None
    ]
    notes = _unlike(*launches)
    if floor is not NO_FLOOR:
        notes.append(f"within {floor.text} a change is no effect: {floor.why}")
    is_gpu_in_cycles = side_a.unit == "cycles" and not side_a.tables.emulated
    if is_gpu_in_cycles and len(a.durations.ns) and len(b.durations.ns):
        times = " and ".join(f"{np.median(each.durations.ns) / 1000:,.1f} us" for each in (a, b))
        notes.append(f"in time, its launches took {times}")
    return [Said(pair.kernel, note) for note in notes]


def missing_of(pair: Pair, a: Operand, b: Operand, *, emulated: bool) -> list[Said]:
    """What could not be told of a pair, and why."""
    missing = []
    if (a.is_single or b.is_single) and not emulated:
        missing.append(
            "how much launches vary: a side has a single one that can be compared; CTAs are, with a higher "
            "floor; record several launches, of which the first does not count"
        )
    if a.lost != b.lost:
        missing.append(
            "which rows have changed: the two lost different numbers of records, and rows differ by these; "
            "a larger memory= makes room"
        )
    for which, operand in zip(_SIDES, (a, b), strict=True):
        if operand.figures.places.empty:
            missing.append(f"rows: no launch of the {which} tells what each row took in it")
        if not len(operand.durations.took):
            missing.append(f"launches as a whole: the {which} does not say how long any took")
    return [Said(pair.name, text) for text in missing]


def _unlike(a: pd.DataFrame, b: pd.DataFrame) -> list[str]:
    """Of two groups of launches what is not the same, and what each has lost."""
    notes = []
    warps = [sorted(set(each["num_warps"].tolist())) for each in (a, b)]
    if warps[0] != warps[1]:
        notes.append(
            f"the CTAs have {_listed(warps[0])} and {_listed(warps[1])} warps: "
            "times of rows are sums over warps"
        )
    for which, each in zip(_SIDES, (a, b), strict=True):
        dropped, unfinished = int(each["dropped"].sum()), int(each["unfinished"].sum())
        if dropped:
            notes.append(
                f"the {which} lost {count_text(dropped, 'record')}: rows in loops are of their newest "
                "iterations; a larger memory= makes room"
            )
        if unfinished:
            notes.append(
                f"in the {which}, {count_text(unfinished, 'CTA')} did not come to the end and count in no "
                "figure"
            )
    return notes


def option_notes(a: Tables, b: Tables) -> list[str]:
    """Options of the sessions that make their figures differ."""
    options = [tables.metadata.get("options") or {} for tables in (a, b)]
    unlike = [name for name in _OPTIONS if options[0].get(name) != options[1].get(name)]
    if not unlike or not all(options):
        return []
    texts = [", ".join(f"{name}={each.get(name)!r}" for name in unlike) for each in options]
    return [f"recorded differently, {texts[0]} and {texts[1]}: what recording costs differs, too"]


def _listed(numbers: list[int]) -> str:
    return " or ".join(map(str, numbers))
