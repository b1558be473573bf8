"""What differs in the compiled code of two profiles' kernels, the costliest difference first.

    code_difference(a, b, table)     # the table `profscope.diff(a, b).code`

A row is a fact (`code_facts`) that is not the same on both sides. It costs what its line takes more, and the
lines that wait for its line; if experiments have left the line out on both sides, what they tell counts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pandas as pd

from profscope.analysis.comparing.code_facts import (
    DEPTH,
    INSTRUCTIONS,
    OPS,
    CodeFacts,
    Instruction,
    Place,
    about_facts,
    facts_of,
    place_of,
    ptx_of,
    sass_of,
)
from profscope.analysis.comparing.operands import LAUNCH
from profscope.analysis.comparing.pairs import COMPARED, LaunchGroup, paired
from profscope.analysis.comparing.places import Lines
from profscope.analysis.sources import sampled_code
from profscope.analysis.texts import source_text
from profscope.instrument_passes.errors import IRError, PassError
from profscope.instrument_passes.kept_text import unpacked
from profscope.schema import Tables

__all__ = [
    "CODE_DTYPES", "Change", "KernelChanges", "by_kernel", "code_difference", "compared_key", "ranked_facts",
    "row_text", "share_text",
]  # fmt: skip

CODE_DTYPES: Final[dict[str, str]] = {
    "kernel": "str", "variant_a": "Int32", "variant_b": "Int32", "file": "str", "line": "int32",
    "fact": "str", "a": "str", "b": "str", "change": "float64", "percent": "float64", "basis": "str",
}  # fmt: skip
"""The columns of the table."""

# Facts of one line, the most telling first. What the launch chose comes before them, whatever it costs.
_ORDER: Final = (
    "calls", "mma", "transposed operand", "fp8 promotion", "input precision", "asynchronous", "partitions",
    "iterations ahead", "buffers", "load width", "store width", "load index bits", "store index bits",
    "atomic index bits", "masked", "spill traffic",
    "operand 0", "operand 1", "load layout", "store layout", "atomic layout", "reduce layout",
    "product layout", "shared layout", "elements a thread", "layout conversions", "shared traffic",
    "left in flight", OPS, DEPTH, INSTRUCTIONS,
)  # fmt: skip
_WEAK: Final = (OPS, DEPTH, INSTRUCTIONS)
"""Mostly they follow from other facts, so these come first."""
_RESULTS: Final = ("registers", "spills", "shared_bytes", "ctas_per_sm")
_FEW_INSTRUCTIONS: Final = 0.1
"""Of a line's instructions: fewer more or less explain no change of its time."""
_NONE: Final = "none"
_NO_TEXT: Final = "lines are not compared: a profile has no TTGIR, as session(sources=True) keeps it"


@dataclass(frozen=True)
class Change:
    """A fact that differs. line: in b, or in a if b has it no more; 0 of the kernel as a whole. change: what
    it costs of a launch, percent: of a's launch; None if not known. basis: "time" or "experiment", or ""."""

    file: str
    line: int
    fact: str
    a: str
    b: str
    change: float | None = None
    percent: float | None = None
    basis: str = ""


@dataclass(frozen=True)
class KernelChanges:
    """Of one pair of configurations. percent: by how much a launch of b takes longer; explained: which part
    of that, in the same unit, is at lines whose code differs, or that wait for these; None if not known."""

    compared: tuple[Any, ...]
    changes: list[Change] = field(default_factory=list)
    percent: float | None = None
    explained: float | None = None
    why_not: str = ""


def code_difference(a: Tables, b: Tables, table: pd.DataFrame) -> pd.DataFrame:
    """All pairs of two profiles. table: what `differences(a, b)` returns."""
    found = list(by_kernel(a, b, table))
    rows = [
        dict(zip(COMPARED[:3], each.compared, strict=False)) | vars(change)
        for each in found
        for change in each.changes
    ]
    code = pd.DataFrame(rows, columns=list(CODE_DTYPES)).astype(CODE_DTYPES)
    code.attrs["explained"] = [
        dict(zip(COMPARED, each.compared, strict=True))
        | {"percent": each.percent, "explained": each.explained, "why_not": each.why_not}
        for each in found
    ]
    return code


def by_kernel(
    a: Tables, b: Tables, table: pd.DataFrame, *, significant: bool = False
) -> Iterator[KernelChanges]:
    """Each pair that both profiles have. significant: only those whose launches changed significantly."""
    lines = Lines(a.metadata.get("sources") or [], b.metadata.get("sources") or [])
    rows = {
        compared_key(key): group for key, group in table.groupby(list(COMPARED), sort=False, dropna=False)
    }
    for pair in paired(a, b):
        own = rows.get(pair.names)
        if pair.a is None or pair.b is None or own is None:
            continue
        launch = own[own["kind"] == LAUNCH]
        if significant and not launch["significant"].any():
            continue
        groups = pair.a, pair.b
        texts = [_texts(side, pair.kernel, of) for side, of in zip((a, b), groups, strict=True)]
        why_not = "" if all(texts) else _NO_TEXT
        try:
            facts = [
                _facts(side, pair.kernel, of, {} if why_not else text)
                for side, of, text in zip((a, b), groups, texts, strict=True)
            ]
        except (IRError, PassError, ValueError) as error:
            yield KernelChanges(pair.names, why_not=str(error))
            continue
        costs = _Costs(own, lines, facts, _experiments((a, b), pair.kernel, groups, lines))
        found = costs.ranked(pair.names, list(_changed_facts(facts[0], facts[1], lines)))
        yield replace(found, explained=None, why_not=why_not) if why_not else found


def compared_key(key: Any) -> tuple[Any, ...]:
    """The columns COMPARED of a group of rows, as `Pair.names` has them."""
    return tuple(None if each is pd.NA or each is None else each for each in key)


# The facts of one side.


def _texts(tables: Tables, kernel: str, group: LaunchGroup) -> dict[str, Any]:
    """Of the configuration's binary that recorded; {} if the profile has none."""
    code: list[dict[str, Any]] = tables.metadata.get("code") or []
    return next((each for each in code if (each["kernel"], each["key"]) == (kernel, group.key)), {})


def _facts(tables: Tables, kernel: str, group: LaunchGroup, texts: Mapping[str, Any]) -> CodeFacts:
    """texts: as `_texts` has them; without, of the kernel as a whole alone. Raises IRError or ValueError for
    what cannot be read."""
    builds = {each["build"]: each for each in reversed(group.about.get("builds") or [])}
    bodies = 2 if builds.get("instrumented", {}).get("twin") else 1
    about = about_facts(group.about, builds.get("bare", {}))
    if not texts:
        return facts_of("", about=about)
    sass = sampled_code(tables.metadata, kernel, group.variant)
    if sass is not None:
        rows = [(_opcode(text), file, line) for _, text, file, line in sass]
        instructions: Sequence[Instruction] = list(sass_of(rows))
    else:
        instructions = list(ptx_of(unpacked(texts["ptx"])))
    classes = _classes(tables, kernel, group.variant)
    return facts_of(unpacked(texts["ttgir"]), instructions, classes, about, bodies)


def _opcode(sass: str) -> str:
    words = sass.split()
    return words[1] if words[0].startswith("@") and len(words) > 1 else words[0]


def _classes(tables: Tables, kernel: str, variant: int) -> dict[Place, Counter[str]]:
    """By line, the bare binary's instructions by class; empty without evidence."""
    binaries = (tables.metadata.get("sampler") or {}).get("binaries") or []
    found: dict[Place, Counter[str]] = {}
    for each in binaries:
        if (each["kernel"], each["variant"]) == (kernel, variant) and each["binary"] == "bare":
            for file, line, _, classes in each.get("instructions") or ():
                if line:
                    found.setdefault(place_of(file, line), Counter()).update(classes)
    return found


# What differs.


def _changed_facts(a: CodeFacts, b: CodeFacts, lines: Lines) -> Iterator[Change]:
    """In no order. Instructions are compared if both sides have them."""
    moved = {place: lines.place(*place) for place in {key[:2] for key in a.values} if place[1]}
    of_a = {(*moved.get(key[:2], key[:2]), key[2]): value for key, value in a.values.items()}
    both = [facts.keys() for facts in (_by_place(of_a), _by_place(b.values))]
    gone = {place for place in both[0] ^ both[1] if place[1]}
    has_instructions = all(any(key[2] == INSTRUCTIONS for key in side) for side in (of_a, b.values))
    files = {**a.files, **b.files}
    for file, line, fact in sorted(of_a.keys() | b.values.keys()):
        before, after = of_a.get((file, line, fact), ""), b.values.get((file, line, fact), "")
        is_one_sided = (file, line) in gone
        if before == after or (fact == INSTRUCTIONS and not has_instructions):
            continue
        if is_one_sided and fact not in (OPS, INSTRUCTIONS):
            continue  # the line itself came or went
        if fact == DEPTH:  # of ops that both sides have
            common = _counts(before).keys() & _counts(after).keys()
            before, after = _unlike_counts(before, after, common)
            if before == after:
                continue
        elif fact == INSTRUCTIONS and not is_one_sided:
            before, after = _unlike_counts(before, after)
        yield Change(files.get(file, file), abs(line), fact, before or _NONE, after or _NONE)


def ranked_facts(
    a: CodeFacts, b: CodeFacts, sources_a: Sequence[dict[str, Any]], sources_b: Sequence[dict[str, Any]]
) -> list[Change]:
    """What differs, by what tells most: of kernels that did not run."""
    return sorted(_changed_facts(a, b, Lines(sources_a, sources_b)), key=_rank)


def _by_place(values: Mapping[tuple[str, int, str], str]) -> dict[Place, list[str]]:
    found: dict[Place, list[str]] = {}
    for file, line, fact in values:
        found.setdefault((file, line), []).append(fact)
    return found


def _counts(text: str) -> dict[str, int]:
    """ "integer 12, float 4"."""
    parts = (each.rpartition(" ") for each in re.split("[,;] ", text) if each not in ("", _NONE))
    return {cls: int(count) for cls, _, count in parts}


def _unlike_counts(before: str, after: str, among: Collection[str] | None = None) -> tuple[str, str]:
    """The classes that differ. among: of these alone, all if None."""
    a, b = _counts(before), _counts(after)
    names = [name for name in sorted({**a, **b}) if a.get(name) != b.get(name)]
    names = [name for name in names if among is None or name in among]
    one, other = (", ".join(f"{name} {side[name]}" for name in names if name in side) for side in (a, b))
    return one, other


# What it costs.


class _Costs:
    """Of one pair: its rows of the comparison, and what experiments saved by line, of either side."""

    def __init__(
        self,
        rows: pd.DataFrame,
        lines: Lines,
        facts: Sequence[CodeFacts],
        experiments: Sequence[Mapping[Place, float]],
    ) -> None:
        launch = rows[rows["kind"] == LAUNCH]
        self._took = [float(launch[f"self_{side}"].iloc[0]) if len(launch) else np.nan for side in "ab"]
        self._change = _line_changes(rows[~rows["kind"].isin([LAUNCH, "async"])], lines, self._took)
        self._waiters: dict[Place, set[Place]] = {}
        for side, of in enumerate(facts):
            for place, made in of.waits_for.items():
                for each in made:
                    here, there = (lines.place(*at) if side == 0 else at for at in (each, place))
                    self._waiters.setdefault(here, set()).add(there)
        self._tested = {
            place: experiments[1][place] * self._took[1] - experiments[0][place] * self._took[0]
            for place in experiments[0].keys() & experiments[1].keys()
        }

    def ranked(self, names: tuple[Any, ...], changes: list[Change]) -> KernelChanges:
        """The changes with what each costs, the costliest first."""
        total = self._took[1] - self._took[0]
        known = bool(self._took[0] > 0 and np.isfinite(total))
        percent = 100 / self._took[0] if known else 0.0
        costed = [self._costed(each, total, percent) if known else each for each in changes]
        explained = self._explained(changes, total) * percent if known and self._change else None
        return KernelChanges(names, sorted(costed, key=_rank), total * percent if known else None, explained)

    def _costed(self, change: Change, total: float, percent: float) -> Change:
        place = place_of(change.file, change.line)
        basis = "time"
        if not change.line:
            cost = None if change.fact in _RESULTS else total
        elif place in self._tested:
            cost, basis = self._tested[place], "experiment"
        else:
            cost = sum(self._change.get(each, 0.0) for each in {place, *self._waiters.get(place, ())})
        if cost is None or (change.line and not self._change):
            return change
        return replace(change, change=cost, percent=cost * percent, basis=basis)

    def _explained(self, changes: Sequence[Change], total: float) -> float:
        """Of the change of a launch, what is at lines whose code differs, or that wait for such lines."""
        own = {place_of(each.file, each.line) for each in changes if each.line and self._tells(each)}
        waiting = {each for place in own - self._tested.keys() for each in self._waiters.get(place, ())} - own
        cost = sum(self._tested.get(place, self._change.get(place, 0.0)) for place in own)
        cost += sum(self._change.get(place, 0.0) for place in waiting)
        return min(max(cost / total, 0.0), 1.0) * total if total else 0.0

    def _tells(self, change: Change) -> bool:
        """Whether a fact can be why its line takes another time: some instructions more or less cannot."""
        if change.fact != INSTRUCTIONS:
            return True
        before, after = (sum(_counts(text).values()) for text in (change.a, change.b))
        time = self._change.get(place_of(change.file, change.line), 0.0)
        return (after - before) * time > 0 and abs(after - before) > _FEW_INSTRUCTIONS * max(before, after)


def _line_changes(rows: pd.DataFrame, lines: Lines, took: Sequence[float]) -> dict[Place, float]:
    """By line of b, the change of its part of a launch: self times are of all warps, so of each side a
    line's share of them counts. Together they are the launch's change."""
    sums = [float(rows[f"self_{side}"].sum()) for side in "ab"]
    if not all(sums):
        return {}
    found: dict[Place, float] = {}
    columns = (rows[name].tolist() for name in ("file", "line_a", "line_b", "self_a", "self_b"))
    for file, line_a, line_b, self_a, self_b in zip(*columns, strict=True):
        place = place_of(file, line_b) if line_b else lines.place(*place_of(file, line_a))
        change = took[1] * self_b / sums[1] - took[0] * self_a / sums[0]
        found[place] = found.get(place, 0.0) + change
    return found


def _experiments(
    sides: Sequence[Tables], kernel: str, groups: Sequence[LaunchGroup], lines: Lines
) -> list[dict[Place, float]]:
    """Of either side by line of b, the part of the time that leaving its ops out saves."""
    found = []
    for number, (tables, group) in enumerate(zip(sides, groups, strict=True)):
        table = tables.experiments
        own = table[(table["kernel"] == kernel) & (table["variant"] == group.variant)]
        own = own[(own["experiment"] == "off") & own["valid"] & (own["line"] > 0) & own["saved_pct"].notna()]
        saved: dict[Place, float] = {}
        for file, line, part in zip(own["file"], own["line"], own["saved_pct"], strict=True):
            place = place_of(str(file), int(line))
            place = place if number else lines.place(*place)
            saved[place] = max(saved.get(place, 0.0), float(part) / 100)
        found.append(saved)
    return found


def _rank(change: Change) -> tuple[Any, ...]:
    if not change.line:
        weight = len(_ORDER) + 1 if change.fact in _RESULTS else -1
    else:
        weight = _ORDER.index(change.fact) if change.fact in _ORDER else len(_ORDER)
    cost = 0.0 if change.percent is None else -abs(round(change.percent, 6))
    cost /= 2 if change.fact in _WEAK else 1
    return weight >= 0, cost, weight, change.file, change.line, change.fact


# In words.


def row_text(change: Change) -> str:
    """ "kernels.py:34 load width: 16 B -> 2 B"."""
    place = f"{source_text(change.file, change.line)} " if change.line else ""
    return f"{place}{change.fact}: {change.a} -> {change.b}"


def share_text(found: KernelChanges) -> str:
    """ "unexplained: 12.0 of +35.0 %"; "" if that is not known."""
    if found.percent is None or found.explained is None:
        return ""
    return f"unexplained: {abs(found.percent - found.explained):.1f} of {found.percent:+.1f} %"
