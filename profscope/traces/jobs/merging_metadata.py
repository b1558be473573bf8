"""The metadata of several parts as one: each measured entry has a rule that merges two of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import chain
from operator import add, and_, itemgetter
from typing import Any, Final, TypeAlias

from profscope.evidence.subject import of_configurations

__all__ = ["merged_kernels", "merged_measured", "merged_notes"]

Metadata: TypeAlias = Mapping[str, Any]
Rule: TypeAlias = Callable[[Any, Any], Any]
"""From what two parts say, what both say."""


def _fields(rules: Mapping[str, Rule]) -> Rule:
    """Objects: entries without a rule are those of the first part; null is as if there were none."""

    def both(one: Metadata, other: Metadata) -> dict[str, Any]:
        known = [{name: value for name, value in each.items() if value is not None} for each in (other, one)]
        ruled = {name: rule for name, rule in rules.items() if name in known[0] and name in known[1]}
        together = {name: rule(one[name], other[name]) for name, rule in ruled.items()}
        return {**other, **one, **known[0], **known[1], **together}

    return both


def _each(rule: Rule) -> Rule:
    """Objects with an entry for each kernel, or whatever there is one of, and one rule for all."""
    return lambda one, other: _fields(dict.fromkeys(one, rule))(one, other)


def _alike(rule: Rule, *names: str) -> Rule:
    """Lists of objects: those that have the same under these names are one."""

    def both(one: list[Metadata], other: list[Metadata]) -> list[Metadata]:
        together: dict[str, Metadata] = {}
        for each in (*one, *other):
            key = str([each.get(name) for name in names])
            together[key] = rule(together[key], each) if key in together else each
        return list(together.values())

    return both


def _distinct(one: list[Any], other: list[Any]) -> list[Any]:
    return list(dict.fromkeys([*one, *other]))


def _farther_apart(one: Sequence[float], other: Sequence[float]) -> Sequence[float]:
    """Of how far launches are apart, what says more: those of two parts were never compared."""
    return max(one, other, key=lambda pair: pair[0] / max(pair[1], 1e-9))


def _adding(*names: str) -> dict[str, Rule]:
    return dict.fromkeys(names, add)


_COUNTS: Final = _each(_each(add))
_FIGURES: Final = _adding("launches", "samples", "dropped") | {
    "period_cycles": lambda one, other: sorted({*one, *other})
}
_TIMED: Final = _fields(_adding("bare_ns", "instrumented_ns", "unrecorded", "waited"))
_SCOPES: Final = _alike(
    _fields(_adding("bytes", "flops")), "scope", "measures", "kind", "file", "line", "call_path"
)
_WORK: Final = _alike(_fields({**_adding("launches", "ns"), "scopes": _SCOPES}), "variant")
_RECORDED: Final = _fields({**_adding("ctas", "unfinished", "grid_ctas"), "sample": and_})
_KERNELS: Final = _each(_fields({**_adding("in_flight", "unpaired"), "work": _WORK, "recorded": _RECORDED}))
_BINARIES: Final = _alike(_fields({**_FIGURES, "apart": _farther_apart}), "kernel", "variant", "binary")
_MEASURED: Final[Mapping[str, Rule]] = {
    "baseline": _fields({"kernels": _each(_alike(_TIMED, "key"))}),
    "budget": _fields(_adding("elapsed_ns", "open_ns", "host_ns", "gpu_ns")),
    "building": _fields({"bare_launches": _each(add)}),
    "sampler": _fields({**_FIGURES, "kernels": _COUNTS, "binaries": _BINARIES, "notes": _distinct}),
    "evidence": _fields(
        {
            "kernels": _COUNTS,
            "added_s": max,
            "tensors": lambda one, other: of_configurations([*one, *other]),
        }
    ),
}


def merged_measured(
    parts: Mapping[int, Metadata], variants: Mapping[tuple[int, str, int], int]
) -> dict[str, Any]:
    """The entries of launches that were timed bare, sampled or observed. parts: by rank; variants: by rank,
    kernel and number of a configuration, its number in the whole."""
    merged: dict[str, Any] = {}
    for name, rule in _MEASURED.items():
        told = {rank: part[name] for rank, part in parts.items() if part.get(name)}
        if name == "sampler":
            told = {
                rank: each | {"binaries": _numbered(rank, each.get("binaries"), variants)}
                for rank, each in told.items()
            }
        if told:
            merged[name] = reduce(rule, told.values())
            if "binaries" in merged[name]:
                binaries = sorted(merged[name]["binaries"], key=itemgetter("kernel", "variant", "binary"))
                merged[name] = merged[name] | {"binaries": binaries}
            for said in ("not_measured", "why"):
                texts = {rank: each.get(said) or [] for rank, each in told.items()}
                if any(texts.values()):
                    merged[name] = merged[name] | {said: _of_ranks(texts)}
    return merged


def _of_ranks(texts: Mapping[int, Any]) -> Any:
    """What parts say in a text, or a list of them: once, or with the ranks that say so."""
    if any(isinstance(text, str) for text in texts.values()):
        return "; ".join(_of_ranks({rank: [text] if text else [] for rank, text in texts.items()}))
    return [
        text if len(ranks) == len(texts) else _whose(ranks, len(texts)) + text
        for text, ranks in _ranks_of(texts).items()
    ]


def _ranks_of(texts: Mapping[int, Sequence[str]]) -> dict[str, list[int]]:
    ranks: dict[str, list[int]] = {}
    for rank, own in texts.items():
        for text in dict.fromkeys(own):
            ranks.setdefault(text, []).append(rank)
    return ranks


def merged_kernels(
    parts: Mapping[int, Metadata], variants: Mapping[tuple[int, str, int], int]
) -> dict[str, Any]:
    """What is known of each kernel's work and recorded CTAs, added up; see `merged_measured`."""
    kernels = []
    for rank, part in parts.items():
        own = part.get("kernels") or {}
        kernels.append(
            {
                name: about | {"work": _numbered(rank, about.get("work"), variants, name) or None}
                for name, about in own.items()
            }
        )
    return dict(reduce(_KERNELS, kernels, {}))


def _numbered(
    rank: int,
    entries: Sequence[dict[str, Any]] | None,
    variants: Mapping[tuple[int, str, int], int],
    kernel: str | None = None,
) -> list[dict[str, Any]]:
    """Entries of configurations with the numbers that these have in the whole."""
    return [
        each | {"variant": variants.get((rank, kernel or each["kernel"], each["variant"]), each["variant"])}
        for each in entries or ()
    ]


_NUMBER: Final = re.compile(r"(?<![\w.#:])\d+(?:,\d{3})*(?:\.\d+)?(?![\w:])")
"""What counts something: not a part of a name, the number of a variant, nor the line of a place."""


def merged_notes(notes: Mapping[int, Sequence[str]]) -> list[str]:
    """notes: by rank. Those that differ in their counts alone are one, with the least and the greatest.

    {0: ["k: 7 launches ran bare"], 1: ["k: 9 launches ran bare", "odd"]}
    -> ["each of 2 ranks: k: 7 to 9 launches ran bare", "rank 1: odd"]
    """
    alike: dict[str, dict[int, list[str]]] = {}
    for rank, of_rank in notes.items():
        for note in of_rank:
            alike.setdefault(_NUMBER.sub("0", note), {}).setdefault(rank, []).append(note)
    merged: list[str] = []
    for of_ranks in alike.values():
        told = list(dict.fromkeys(chain.from_iterable(of_ranks.values())))
        if len(told) > 1 and max(map(len, of_ranks.values())) == 1:
            merged.append(f"{_whose(list(of_ranks), len(notes))}{_together(told)}")
            continue
        merged += [_whose(ranks, len(notes)) + note for note, ranks in _ranks_of(of_ranks).items()]
    return merged


def _whose(ranks: list[int], count: int) -> str:
    if len(ranks) == count:
        return f"each of {count} ranks: " if count > 1 else ""
    return f"rank {', '.join(map(str, ranks))}: "


def _together(alike: Sequence[str]) -> str:
    """Notes that differ in their counts, as one."""
    counts = [_NUMBER.findall(note) for note in alike]
    ranges = iter([_range(list(dict.fromkeys(of_place))) for of_place in zip(*counts, strict=True)])
    return _NUMBER.sub(lambda _: next(ranges), alike[0])


def _range(counts: list[str]) -> str:
    ordered = sorted(counts, key=lambda count: float(count.replace(",", "")))
    return ordered[0] if len(ordered) == 1 else f"{ordered[0]} to {ordered[-1]}"
