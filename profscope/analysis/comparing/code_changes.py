"""Differences in the compiled code of two profiles' kernels, the costliest first.

    code_difference(a, b, table)     # the table `profscope.diff(a, b).code`

A row is a fact (`code_facts`) that is not the same on both sides, with what it costs (`code_costs`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Final

import pandas as pd

from profscope.analysis.comparing.code_costs import Change, Costs, KernelChanges, rank
from profscope.analysis.comparing.code_facts import (
    DEPTH,
    INSTRUCTIONS,
    OPS,
    CodeFacts,
    Instruction,
    Place,
    about_facts,
    counts_in,
    facts_of,
    is_same_ptx,
    place_of,
    ptx_of,
    sass_of,
)
from profscope.analysis.comparing.pairs import COMPARED, LaunchGroup, paired
from profscope.analysis.comparing.places import Lines
from profscope.analysis.sources import sampled_code
from profscope.analysis.texts import source_text
from profscope.analysis.variants import codes_of
from profscope.instrument_passes.errors import IRError, PassError
from profscope.instrument_passes.kept_text import unpacked
from profscope.schema import Tables

__all__ = [
    "CODE_DTYPES", "Change", "KernelChanges", "by_kernel", "by_line", "code_difference", "compared_key",
    "ranked_facts", "row_text", "same_text", "share_text",
]  # fmt: skip

CODE_DTYPES: Final[dict[str, str]] = {
    "kernel": "str", "variant_a": "Int32", "variant_b": "Int32", "file": "str", "line": "int32",
    "fact": "str", "a": "str", "b": "str", "change": "float64", "percent": "float64", "basis": "str",
}  # fmt: skip
"""The columns of the table."""

_OF_ONE_SIDE: Final = ("calls", OPS, INSTRUCTIONS)
"""Of a line that has code on one side only."""
_NONE: Final = "none"
_NO_TEXT: Final = "lines are not compared: a profile has no TTGIR, as session(sources=True) keeps it"


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
    a: Tables, b: Tables, table: pd.DataFrame, only: Collection[tuple[Any, ...]] | None = None
) -> Iterator[KernelChanges]:
    """Each pair that both profiles have. only: those with these columns COMPARED; None: all."""
    lines = Lines(a.metadata.get("sources") or [], b.metadata.get("sources") or [])
    rows = {
        compared_key(key): group for key, group in table.groupby(list(COMPARED), sort=False, dropna=False)
    }
    for pair in paired(a, b):
        own = rows.get(pair.names)
        if pair.a is None or pair.b is None or own is None or (only is not None and pair.names not in only):
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
        costs = Costs(own, ((a, pair.a), (b, pair.b)), facts, lines)
        found = costs.ranked(pair.names, list(_changed_facts(facts[0], facts[1], lines)))
        ptx = [text["ptx"] for text in texts if text.get("ptx")]
        if not found.changes and len(ptx) == len(texts):
            found = replace(found, is_same=is_same_ptx(*map(unpacked, ptx)))
        yield replace(found, explained=None, why_not=why_not) if why_not else found


def compared_key(key: Any) -> tuple[Any, ...]:
    """The columns COMPARED of a group of rows, as `Pair.names` has them."""
    return tuple(None if each is pd.NA or each is None else each for each in key)


# The facts of one side.


def _texts(tables: Tables, kernel: str, group: LaunchGroup) -> dict[str, Any]:
    """Of the configuration's binary that recorded; {} if the profile has none."""
    own = codes_of(tables.metadata, kernel, group.key)
    return next((each for each in own if each.get("ttgir")), {})


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
        instructions = list(ptx_of(unpacked(texts["ptx"])) if texts.get("ptx") else ())
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
    places = [{key[:2] for key in side if key[1]} for side in (of_a, b.values)]
    gone = places[0] ^ places[1]
    has_instructions = all(any(key[2] == INSTRUCTIONS for key in side) for side in (of_a, b.values))
    files = {**a.files, **b.files}
    for file, line, fact in sorted(of_a.keys() | b.values.keys()):
        before, after = of_a.get((file, line, fact), ""), b.values.get((file, line, fact), "")
        is_one_sided = (file, line) in gone
        if before == after or (fact == INSTRUCTIONS and not has_instructions):
            continue
        if is_one_sided and fact not in _OF_ONE_SIDE:
            continue
        if fact == DEPTH:  # of ops that both sides have
            common = counts_in(before).keys() & counts_in(after).keys()
            before, after = _unlike_counts(before, after, common)
            if before == after:
                continue
        elif fact == INSTRUCTIONS and not is_one_sided:
            before, after = _unlike_counts(before, after)
        yield Change(files.get(file, file), abs(line), fact, before or _NONE, after or _NONE, gone=line < 0)


def ranked_facts(
    a: CodeFacts, b: CodeFacts, sources_a: Sequence[dict[str, Any]], sources_b: Sequence[dict[str, Any]]
) -> list[Change]:
    """Differences of kernels that did not run, the most telling facts first."""
    return sorted(_changed_facts(a, b, Lines(sources_a, sources_b)), key=rank)


def _unlike_counts(before: str, after: str, among: Collection[str] | None = None) -> tuple[str, str]:
    """The classes that differ. among: of these alone, all if None."""
    a, b = counts_in(before), counts_in(after)
    names = [name for name in sorted({**a, **b}) if a.get(name) != b.get(name)]
    names = [name for name in names if among is None or name in among]
    one, other = (", ".join(f"{name} {side[name]}" for name in names if name in side) for side in (a, b))
    return one, other


# In words.


def by_line(changes: Iterable[Change]) -> Iterator[list[Change]]:
    """Changes that follow each other and are of one line, with one cost."""
    for _, own in groupby(changes, key=lambda each: (each.place, each.percent)):
        yield list(own)


def row_text(*changes: Change) -> str:
    """ "kernels.py:34 load width: 16 B -> 2 B; masked: no -> yes", of one line."""
    first = changes[0]
    place = f"{source_text(first.file, first.line)} " if first.line else ""
    return place + "; ".join(f"{each.fact}: {each.a} -> {each.b}" for each in changes)


def same_text(*, is_same: bool) -> str:
    """The text on code without a differing fact."""
    return "the compiled code is the same" if is_same else "no compared fact of the code differs"


def share_text(found: KernelChanges) -> str:
    """ "unexplained: 12.0 of +35.0 %"; "" if that is not known."""
    if found.percent is None or found.explained is None:
        return ""
    return f"unexplained: {abs(found.percent - found.explained):.1f} of {found.percent:+.1f} %"
