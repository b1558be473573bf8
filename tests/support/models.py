"""Models of profiles, as views are given them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from profscope.analysis.model.build import profile_model
from profscope.analysis.model.entries import KernelEntry
from profscope.analysis.model.labels import Group
from profscope.profiles import Profile
from profscope.viewer.header import Shown


def kernels(profile: Profile, parts: Collection[str] = ()) -> Sequence[KernelEntry]:
    """The kernels of its model, with these parts."""
    return profile_model(profile.tables, parts=parts).kernels


def groups(entries: Sequence[KernelEntry]) -> list[Group]:
    return [Group(each.kernel, each.variant, each.label, each.differs) for each in entries]


def shown(profile: Profile) -> Shown:
    """All of a profile, as the header shows it."""
    return Shown(profile_model(profile.tables, parts=()), "trace.json", {}, len(profile.tables.df))
