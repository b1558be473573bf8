"""Labels that distinguish configurations of a kernel, and scopes of one name, in all views."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

from profscope.analysis.texts import printable
from profscope.analysis.variants import differing
from profscope.instrument_passes.manifest import PATH_SEPARATOR
from profscope.schema import Tables

__all__ = ["Group", "differs_text", "groups_of", "named", "short_name", "told_apart"]

_LONGEST: Final = 40


@dataclass(frozen=True)
class Group:
    """A kernel's launches of one configuration.

    label: "#1" if the kernel has several configurations, else "". differs: the options that vary among them,
    such as {"BLOCK": 256}.
    """

    kernel: str
    variant: int = 0
    label: str = ""
    differs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def identity(self) -> dict[str, Any]:
        """The fields of `Group` by name, also in a subclass."""
        return {each.name: getattr(self, each.name) for each in fields(Group)}

    @property
    def name(self) -> str:
        """Kernel and label."""
        return named(self.kernel, self.label)


def named(kernel: str, label: str) -> str:
    """ "add_kernel #1", or "add_kernel" if it has one configuration."""
    return f"{kernel} {label}".rstrip()


def short_name(kernel: str) -> str:
    """A name in front of a sentence: of a long one both ends, which tell names apart that are alike."""
    half = _LONGEST // 2
    return kernel if len(kernel) <= _LONGEST else f"{kernel[:half]}…{kernel[1 - half :]}"


def groups_of(tables: Tables) -> dict[tuple[str, int], Group]:
    """By kernel and variant, in order of the first launch.

    A kernel has several configurations if the profile describes several, also where only launches of one of
    them were chosen.
    """
    launches = tables.launches[["kernel", "variant"]].drop_duplicates()
    described = tables.metadata.get("variants") or {}
    highest = launches.groupby("kernel", observed=True)["variant"].max().to_dict()
    groups = {}
    for kernel, variant in zip(launches["kernel"], launches["variant"].tolist(), strict=True):
        variants = described.get(str(kernel)) or []
        has_several = highest[kernel] > 0 or len(variants) > 1
        label = f"#{variant}" if has_several else ""
        groups[str(kernel), variant] = Group(str(kernel), variant, label, differing(variants, variant))
    return groups


def differs_text(differs: Mapping[str, Any]) -> str:
    """ "BLOCK=256 num_warps=8"."""
    return printable(" ".join(f"{name}={value}" for name, value in differs.items()))


def told_apart(rows: Sequence[tuple[Hashable, str]]) -> list[str]:
    """For each (text of a row, its call path) the addition to its name; "" if not needed.

    That is " via " and the path without the steps at either end that all rows share which read the same.
    """
    paths: dict[Hashable, set[tuple[str, ...]]] = {}
    for reads, path in rows:
        paths.setdefault(reads, set()).add(tuple(path.split(PATH_SEPARATOR)))
    return [_own_part(tuple(path.split(PATH_SEPARATOR)), list(paths[reads])) for reads, path in rows]


def _own_part(path: tuple[str, ...], alike: list[tuple[str, ...]]) -> str:
    if len(alike) < 2:
        return ""
    shortest = min(map(len, alike))
    first = next((i for i in range(shortest) if len({p[i] for p in alike}) > 1), shortest)
    room = shortest - first
    last = next((i for i in range(room) if len({p[-1 - i] for p in alike}) > 1), room)
    own = PATH_SEPARATOR.join(path[first : len(path) - last])
    return f" via {own}" if own else ""
