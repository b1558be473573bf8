"""What figures say of a profile, held to what its other views say."""

from __future__ import annotations

import re

import numpy as np
import pytest

from profscope.analysis.spans.rows import grid_ctas
from profscope.errors import DrawError
from profscope.profiles import Profile
from tests.support.all_views import Views

__all__ = ["figures_agree"]


def figures_agree(profile: Profile, views: Views, unit: str) -> None:
    """The launch, CTA and counts that figures are of; each says by itself why it cannot be drawn."""
    if not len(profile.df):
        return
    spans = profile.launches
    took = (spans["end_ns"] - spans["start_ns"]).groupby(spans["kernel"]).sum()
    axes = profile.plot.timeline().axes[0]
    title = axes.get_title(loc="left")
    told_by = re.fullmatch(r"(.*), launch (\d+), CTA (\d+) on SM \d+", title)
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
        # The CTAs of the heat map take what their spans do, and the timeline is one of them.
        sm, x0, x1 = profile.plot.heatmap().axes[0], *axes.get_xlim()
        (image,) = sm.get_images()
        cells = np.asarray(image.get_array())
        width = np.diff(sm.get_xlim())[0] / cells.shape[1]
        unit_ns = {"ns": 1, "µs": 1e3, "ms": 1e6}
        scale = unit_ns[re.findall(r"\((\S+)\)", sm.get_xlabel())[0]]
        assert cells.sum() * width * scale == pytest.approx((end - begin).sum(), rel=1e-6)
        scale = unit_ns[re.findall(r"\((\S+)\)", axes.get_xlabel())[0]]
        assert (x1 - x0) * scale >= (end - begin)[int(cta)] * (1 - 1e-9)
    recorded = profile.launches.set_index("launch").loc[int(launch), "ctas"]
    known = max(recorded, (profile.ctas["launch"] == int(launch)).sum())
    if known < grid_ctas(profile.launches[profile.launches["launch"] == int(launch)])[0]:
        with pytest.raises(DrawError, match="needs all CTAs of the launch"):
            profile.plot.waves()
        return
    waves = profile.plot.waves().axes[0]
    said = re.search(r": ([\d,]+) CTAs?, ([\d.]+) waves", waves.get_title(loc="left"))
    assert said is not None
    count, waves_said = said.groups()
    assert int(count.replace(",", "")) == known
    legend = waves.get_legend()
    assert legend is not None
    texts = [text.get_text() for text in legend.get_texts()]
    if not texts[0].startswith("waves in turn"):  # else only the last wave says how many it has
        sizes = [re.search(r"^wave \d+: (\d+) CTA", text) for text in texts]
        assert sum(int(each[1]) for each in sizes if each) == known
    findings = profile.findings()
    tail = findings[(findings["finding"] == "tail") & (findings["kernel"] == kernel)]
    for evidence in tail["evidence"] if len(spans) == 1 else ():
        assert f"{waves_said} waves" in evidence
