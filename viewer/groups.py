"""Launches that are shown together: those of a kernel in one configuration, an autotuner's trials apart."""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any

from profscope.profiles import Profile
from viewer.units import printable

__all__ = ["Group", "differs_text", "label_of", "make_groups", "several_variants"]

LAUNCH_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")


@dataclass(frozen=True)
class Group:
    """A kernel's launches of one variant, its trials or the others.

    label: what tells them from the kernel's others, as " #1" or " #1 trial", "" where there are no others.
    differs: of the configuration what is not the same in all the kernel's variants, as {"BLOCK": 256}.
    """

    kernel: str
    variant: int = 0
    trial: bool = False
    label: str = ""
    differs: dict[str, Any] = field(default_factory=dict)

    @property
    def identity(self) -> dict[str, Any]:
        """These five by name, also of what has more."""
        return {each.name: getattr(self, each.name) for each in fields(Group)}

    @property
    def heading(self) -> str:
        """Kernel and label, for a terminal."""
        return printable(self.kernel) + self.label


def make_groups(profile: Profile) -> dict[tuple[str, int, bool], Group]:
    """By kernel, variant and trial, in order of the first launch."""
    launches = profile.launches
    described = profile.metadata.get("variants") or {}
    highest = launches.groupby("kernel")["variant"].max().to_dict()
    groups = {}
    for kernel, variant, trial in zip(
        launches["kernel"], launches["variant"], launches["trial"], strict=True
    ):
        key = str(kernel), int(variant), bool(trial)
        if key in groups:
            continue
        variants = described.get(key[0]) or []
        # A choice of one variant leaves the others in the metadata.
        has_several = highest[kernel] > 0 or len(variants) > 1
        label = (f" #{key[1]}" if has_several else "") + (" trial" if trial else "")
        groups[key] = Group(*key, label, _differs(variants, key[1]))
    return groups


def several_variants(groups: Iterable[Group]) -> set[str]:
    """Kernels whose variants are told apart."""
    return {group.kernel for group in groups if group.label.startswith(" #")}


def label_of(profile: Profile, launch: int) -> str:
    """The label of a launch's group."""
    rows = profile.launches[profile.launches["launch"] == launch]
    keys = zip(rows["kernel"], rows["variant"], rows["trial"], strict=True)
    groups = make_groups(profile)
    return next((groups[str(kernel), int(variant), bool(trial)].label for kernel, variant, trial in keys), "")


def differs_text(group: Group) -> str:
    """ "BLOCK=256 num_warps=8"."""
    return printable(" ".join(f"{name}={value}" for name, value in group.differs.items()))


def _differs(variants: list[dict[str, Any]], number: int) -> dict[str, Any]:
    """What a variant has that others have not: constexprs, types of arguments, launch options, module."""
    flat = [_flat(variant) for variant in variants]
    mine = next((each for each, about in zip(flat, variants, strict=True) if about["variant"] == number), {})
    return {name: value for name, value in mine.items() if any(each.get(name) != value for each in flat)}


def _flat(variant: dict[str, Any]) -> dict[str, Any]:
    options = {name: variant[name] for name in LAUNCH_OPTIONS if variant.get(name) is not None}
    if variant.get("function"):
        options["function"] = variant["function"]
    return {**(variant.get("signature") or {}), **(variant.get("constexprs") or {}), **options}
