"""Pairs launches of two profiles: of one kernel, with like configurations and grids."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

from profscope.analysis.variants import configuration
from profscope.errors import DiffError
from profscope.schema import Tables

__all__ = ["COMPARED", "GRID", "LaunchGroup", "Pair", "heading_text", "paired"]

COMPARED: Final = ("kernel", "variant_a", "variant_b", "grid_a", "grid_b")
"""The columns of a comparison that say which launches a row compares."""

GRID: Final = ("grid_x", "grid_y", "grid_z")

# Options that choose launches, and where they go, and do not change binaries.
_BESIDE: Final = (
    "kernels", "every", "memory", "spool", "sources", "backend", "baseline", "evidence",
)  # fmt: skip
_SHOWN_KERNELS: Final = 4
_SHOWN_NAMES: Final = 6
_MOST_CHOICES: Final = 100_000
"""Above so many possible pairs the nearest ones are not searched."""


@dataclass(frozen=True, eq=False)
class LaunchGroup:
    """The launches of a kernel's variant with one grid. about: the variant's entry in the metadata. tensors:
    the bytes of its tensors by name; empty if unknown, and if the variant has several grids."""

    variant: int
    grid: tuple[int, int, int]
    about: dict[str, Any]
    tensors: dict[str, int] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The configuration's, which also names the source; "" if it is not known."""
        return self.about.get("key") or ""

    @property
    def source(self) -> str:
        """The hash of its source; "" if it is not known."""
        return self.about.get("source_hash") or ""

    @cached_property
    def constexprs(self) -> dict[str, str]:
        """By name, as text."""
        return {name: _text(value) for name, value in (self.about.get("constexprs") or {}).items()}

    @cached_property
    def described(self) -> dict[str, str]:
        """By name, as text: all that was launched, the grid included."""
        values = configuration(self.about)
        special = self.about.get("specialisation") or {}
        values |= {f"{name}:": of for name, of in special.items() if of}
        if module := str(self.about.get("function") or "").rpartition(".")[0]:
            values["module"] = module
        return {name: _text(value) for name, value in values.items()} | {"grid": _grid_text(self.grid)}


class Pair(NamedTuple):
    """A kernel's launches in a and in b, None if they are in one of them only.

    configuration: tells them from the kernel's other launches in either profile, "" if not needed; differs:
    differences between a and b; same_build: whether one binary ran in both. name: the kernel's, with as much
    of the first two as tells its pairs apart.
    """

    kernel: str
    a: LaunchGroup | None
    b: LaunchGroup | None
    configuration: str = ""
    differs: str = ""
    same_build: bool = False
    name: str = ""

    @property
    def names(self) -> tuple[str, int | None, int | None, str, str]:
        """The columns COMPARED of its rows."""
        variants = [None if each is None else each.variant for each in (self.a, self.b)]
        grids = ["" if each is None else each.described["grid"] for each in (self.a, self.b)]
        return self.kernel, variants[0], variants[1], grids[0], grids[1]


def paired(a: Tables, b: Tables) -> list[Pair]:
    """All kernels, variants and grids of two profiles, in order of their launches in a, then in b.

    Launches with the same constexprs and grid are paired first, those nearest in everything else. Launches
    with other constexprs are paired with the nearest remaining ones. Launches with the same constexprs and
    another grid are compared if their tensors are known to have the same sizes; else they do other work. A
    kernel whose source both have is compared with itself, an edited one with its old version. Raises
    DiffError if no kernel is in both.
    """
    groups_a, groups_b = _groups(a), _groups(b)
    if not groups_a.keys() & groups_b.keys():
        raise DiffError(
            f"no kernel is in both profiles: the first has {_named(groups_a)}, the second "
            f"{_named(groups_b)}; diff compares a kernel with itself, by its name; pair= names one that was "
            "renamed"
        )
    is_same_builder = _builder(a) == _builder(b)
    pairs = []
    for kernel in dict.fromkeys([*groups_a, *groups_b]):
        of_a, of_b = groups_a.get(kernel, []), groups_b.get(kernel, [])
        varies = _varying([*of_a, *of_b])
        own: list[Pair] = []
        for one, other in _matched(of_a, of_b):
            differs = _differences(one, other) if one and other else {}
            keys = {each.key if each else "" for each in (one, other)}
            same_build = is_same_builder and len(keys) == 1 and keys != {""}
            name = _name(one, other, varies - differs.keys())
            own.append(Pair(kernel, one, other, name, _listed([*differs.values()]), same_build))
        pairs += _told_apart(own)
    return pairs


def _groups(tables: Tables) -> dict[str, list[LaunchGroup]]:
    """By kernel, in order of launches."""
    launches = tables.launches
    rows = launches[["kernel", "variant", *GRID]].drop_duplicates()
    described = tables.metadata.get("variants") or {}
    told = (tables.metadata.get("evidence") or {}).get("tensors") or []
    tensors = {(each["kernel"], each["key"]): each["bytes"] for each in told}
    grids = Counter(zip(rows["kernel"], rows["variant"], strict=True))
    groups: dict[str, list[LaunchGroup]] = {}
    for kernel, variant, *grid in rows.itertuples(index=False):
        entries = described.get(kernel) or []
        about: dict[str, Any] = next((each for each in entries if each["variant"] == variant), {})
        x, y, z = map(int, grid)
        sizes = tensors.get((kernel, about.get("key")), {}) if grids[kernel, variant] == 1 else {}
        groups.setdefault(str(kernel), []).append(LaunchGroup(int(variant), (x, y, z), about, sizes))
    return groups


def _matched(
    of_a: Sequence[LaunchGroup], of_b: Sequence[LaunchGroup]
) -> list[tuple[LaunchGroup | None, LaunchGroup | None]]:
    """Each group once: with another, in the order of a, or alone."""
    pairs: dict[int, int] = {}
    sources = {group.source for group in of_a} & {group.source for group in of_b}
    for work in (_grid, _tensors):
        left, free = _unpaired(of_a, of_b, pairs)
        alike: dict[Any, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for side, (groups, ats) in enumerate(((of_a, left), (of_b, free))):
            for at in ats:
                group = groups[at]
                source = group.source if group.source in sources else ""
                if work(group):
                    alike[_constexprs(group), work(group), source][side].append(at)
        for in_a, in_b in alike.values():
            pairs |= _nearest(of_a, of_b, in_a, in_b)
    left, free = _unpaired(of_a, of_b, pairs)
    both = {_constexprs(of_a[at]) for at in left} & {_constexprs(of_b[at]) for at in free}
    left, free = (
        [at for at in ats if _constexprs(groups[at]) not in both]
        for groups, ats in ((of_a, left), (of_b, free))
    )
    pairs |= _nearest(of_a, of_b, left, free)
    found = set(pairs.values())
    in_order: list[tuple[LaunchGroup | None, LaunchGroup | None]] = [
        (each, of_b[pairs[at]] if at in pairs else None) for at, each in enumerate(of_a)
    ]
    return in_order + [(None, each) for at, each in enumerate(of_b) if at not in found]


def _unpaired(
    of_a: Sequence[LaunchGroup], of_b: Sequence[LaunchGroup], pairs: dict[int, int]
) -> tuple[list[int], list[int]]:
    """The places in a, and those in b, that have no partner."""
    found = set(pairs.values())
    left = [at for at in range(len(of_a)) if at not in pairs]
    return left, [at for at in range(len(of_b)) if at not in found]


def _grid(group: LaunchGroup) -> tuple[int, int, int]:
    return group.grid


def _tensors(group: LaunchGroup) -> tuple[tuple[str, int], ...]:
    """Launches on tensors of the same sizes do the same work, whatever the grid; empty if unknown."""
    return tuple(sorted(group.tensors.items()))


def _nearest(
    of_a: Sequence[LaunchGroup], of_b: Sequence[LaunchGroup], left: Sequence[int], free: Sequence[int]
) -> dict[int, int]:
    """Pairs of places in a and b, those first that differ least."""
    if len(left) * len(free) > _MOST_CHOICES:
        return {}
    choices = sorted((_distance(of_a[at], of_b[other]), at, other) for at in left for other in free)
    pairs: dict[int, int] = {}
    taken: set[int] = set()
    for _, at, other in choices:
        if at not in pairs and other not in taken:
            pairs[at] = other
            taken.add(other)
    return pairs


def _distance(a: LaunchGroup, b: LaunchGroup) -> tuple[Any, ...]:
    names = _unlike(a.constexprs, b.constexprs)
    size = abs(math.log(max(math.prod(a.grid), 1) / max(math.prod(b.grid), 1)))
    return len(names), a.grid != b.grid, len(_unlike(a.described, b.described)), size, a.key != b.key


def _name(a: LaunchGroup | None, b: LaunchGroup | None, varies: set[str]) -> str:
    described = (b or a).described  # type: ignore[union-attr]
    return _listed(
        [
            f"{name} {value}" if name.endswith(":") or name == "grid" else f"{name}={value}"
            for name, value in described.items()
            if name in varies
        ]
    )


def _listed(texts: Sequence[str]) -> str:
    more = [f"{len(texts) - _SHOWN_NAMES} more"] if len(texts) > _SHOWN_NAMES else []
    return ", ".join([*texts[:_SHOWN_NAMES], *more])


def _told_apart(pairs: Sequence[Pair]) -> list[Pair]:
    """A kernel's pairs with their names; the variants' numbers are in those that nothing else tells apart."""
    alike = Counter((pair.configuration, pair.differs) for pair in pairs)
    pairs = [
        pair if alike[pair.configuration, pair.differs] == 1 else pair._replace(configuration=_numbered(pair))
        for pair in pairs
    ]
    alone = Counter(pair.configuration for pair in pairs)
    return [
        pair._replace(
            name=heading_text(pair.kernel, pair.configuration, pair.differs * (alone[pair.configuration] > 1))
        )
        for pair in pairs
    ]


def heading_text(kernel: str, configuration: str, differs: str) -> str:
    """The heading of a pair: "matmul_kernel, ACT=1 (num_stages 3 -> 1)"."""
    name = f"{kernel}, {configuration}" if configuration else kernel
    return f"{name} ({differs})" if differs else name


def _numbered(pair: Pair) -> str:
    """ "ACT=1, variant #0 of A, variant #2 of B", by the numbers that views of either have."""
    sides = (("A", pair.a), ("B", pair.b))
    numbers = [f"variant #{each.variant} of {side}" for side, each in sides if each is not None]
    return ", ".join(filter(None, [pair.configuration, *numbers]))


def _differences(a: LaunchGroup, b: LaunchGroup) -> dict[str, str]:
    """By name, "num_stages 3 -> 1"."""
    return {
        name: f"{name} {a.described.get(name, 'none')} -> {b.described.get(name, 'none')}"
        for name in _unlike(a.described, b.described)
    }


def _varying(groups: Sequence[LaunchGroup]) -> set[str]:
    """The names that do not have one value in all groups."""
    described = [group.described for group in groups]
    return {name for each in described for name in _unlike(described[0], each)}


def _unlike(a: dict[str, str], b: dict[str, str]) -> list[str]:
    return [name for name in {**a, **b} if a.get(name) != b.get(name)]


def _constexprs(group: LaunchGroup) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(group.constexprs.items()))


def _grid_text(grid: tuple[int, int, int]) -> str:
    """ "64", "64 x 8"."""
    used = grid if grid[2] != 1 else grid[:2] if grid[1] != 1 else grid[:1]
    return " x ".join(map(str, used))


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(each, list) for each in value):  # attributes and values
        words = ", ".join(" ".join(map(str, each)).removeprefix("tt.") for each in value)
        return words.replace("divisibility", "divisible by")
    return json.dumps(value)


def _builder(tables: Tables) -> dict[str, Any]:
    """What a binary follows from beside source and configuration."""
    metadata = tables.metadata
    options = {name: value for name, value in (metadata.get("options") or {}).items() if name not in _BESIDE}
    device = metadata.get("device") or {}
    named = {name: metadata.get(name) for name in ("profscope", "triton", "torch")}
    return {**named, "options": options, "arch": device.get("arch"), "device": device.get("name")}


def _named(groups: dict[str, list[LaunchGroup]]) -> str:
    names = list(groups)
    more = f" and {len(names) - _SHOWN_KERNELS} more" if len(names) > _SHOWN_KERNELS else ""
    return ", ".join(names[:_SHOWN_KERNELS]) + more if names else "none"
