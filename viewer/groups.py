"""Launches that are shown together: those of a kernel in one configuration."""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any

from profscope.analysis.variant_texts import differing
from profscope.profiles import Profile
from viewer.units import printable

__all__ = ["Group", "differs_text", "label_of", "make_groups", "several_variants"]


@dataclass(frozen=True)
class Group:
    """A kernel's launches of one variant.

    label: what tells them from the kernel's others, as " #1", "" where there are no others.
    differs: of the configuration what is not the same in all the kernel's variants, as {"BLOCK": 256}.
    """

    kernel: str
    variant: int = 0
    label: str = ""
    differs: dict[str, Any] = field(default_factory=dict)

    @property
    def identity(self) -> dict[str, Any]:
        """These by name, also of what has more."""
        return {each.name: getattr(self, each.name) for each in fields(Group)}

    @property
    def heading(self) -> str:
        """Kernel and label, for a terminal."""
        return printable(self.kernel) + self.label


def make_groups(profile: Profile) -> dict[tuple[str, int], Group]:
    """By kernel and variant, in order of the first launch."""
    launches = profile.launches
    described = profile.metadata.get("variants") or {}
    highest = launches.groupby("kernel")["variant"].max().to_dict()
    groups = {}
    for kernel, variant in zip(launches["kernel"], launches["variant"], strict=True):
        key = str(kernel), int(variant)
        if key in groups:
            continue
        variants = described.get(key[0]) or []
        # A choice of one variant leaves the others in the metadata.
        has_several = highest[kernel] > 0 or len(variants) > 1
        label = f" #{key[1]}" if has_several else ""
        groups[key] = Group(*key, label, differing(variants, key[1]))
    return groups


def several_variants(groups: Iterable[Group]) -> set[str]:
    """Kernels whose variants are told apart."""
    return {group.kernel for group in groups if group.label.startswith(" #")}


def label_of(profile: Profile, launch: int) -> str:
    """The label of a launch's group."""
    rows = profile.launches[profile.launches["launch"] == launch]
    keys = zip(rows["kernel"], rows["variant"], strict=True)
    groups = make_groups(profile)
    return next((groups[str(kernel), int(variant)].label for kernel, variant in keys), "")


def differs_text(group: Group) -> str:
    """ "BLOCK=256 num_warps=8"."""
    return printable(" ".join(f"{name}={value}" for name, value in group.differs.items()))
