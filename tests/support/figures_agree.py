"""What the figure says of a profile, held to what its other views say."""

from __future__ import annotations

import re

from profscope.profiles import Profile
from tests.support.all_views import Views

__all__ = ["figures_agree"]


def figures_agree(profile: Profile, views: Views, unit: str) -> None:
    """The launch and the CTA that the figure is of."""
    if not len(profile.df):
        return
    spans = profile.launches
    took = (spans["end_ns"] - spans["start_ns"]).groupby(spans["kernel"]).sum()
    axes = profile.plot.timeline().axes[0]
    title = axes.get_title(loc="left")
    told_by = re.fullmatch(r"(.*), launch (\d+), CTA (\d+) on SM \d+.*", title)
    assert told_by is not None
    kernel, launch, cta = told_by.groups()
    assert took[kernel] == took.max()
    chosen = "--launch", launch, "--cta", cta
    warps = views.ask(*chosen, "--by", "warp")
    assert len(axes.get_yticklabels()) == len(warps)
    df = profile.df[(profile.df["launch"] == int(launch)) & (profile.df["kind"] != "async")]
    whose = df.groupby("cta")
    begin, end = whose["start_ns"].min(), (df["start_ns"] + df["duration_ns"]).groupby(df["cta"]).max()
    if unit == "ns":
        # The timeline takes what the CTA's spans do.
        x0, x1 = axes.get_xlim()
        assert x1 - x0 >= (end - begin)[int(cta)] * (1 - 1e-9)
