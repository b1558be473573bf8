"""The figure of what an H200 recorded, and of profiles made up: what is drawn is what is in the tables."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from profscope.analysis.scope_colours import site_colours
from profscope.analysis.spans.rows import sites
from profscope.errors import DrawError, OptionError
from profscope.profiles import Profile, load
from tests.support.profiles import profile_metadata, regular_profile

DATA = Path(__file__).parents[1] / "data"


@pytest.fixture(scope="module")
def specialised() -> Profile:
    """A warp-specialised matmul that an H200 ran: one CTA of 256."""
    return load(DATA / "findings" / "starving-partition.json.gz")


@pytest.fixture(scope="module")
def regular() -> Profile:
    """A launch of 24 CTAs on 3 SMs, all recorded."""
    return regular_profile(launches=1, ctas=24, warps=2, iterations=3)


def axes(figure: Figure) -> Axes:
    return figure.axes[0]


def legend(figure: Figure) -> list[str]:
    return [text.get_text().strip() for text in figure.legends[0].get_texts()]


def said(figure: Figure) -> str:
    return axes(figure).get_title(loc="left")


def test_a_timeline_has_every_span_of_the_cta(specialised: Profile) -> None:
    figure = specialised.plot.timeline()
    df = specialised.df
    (bars,) = axes(figure).collections[:1]
    edges = np.array([path.get_extents().extents for path in bars.get_paths()])  # type: ignore[attr-defined]
    begin = int(specialised.launches["start_ns"].iloc[0])
    wide = df[(df["duration_ns"] > df["duration_ns"].max() / 400) & (df["kind"] != "mark")]
    drawn = {(round(x0, 6), round(x1, 6)) for x0, _, x1, _ in edges.tolist()}
    for start, duration in zip(wide["start_ns"] - begin, wide["duration_ns"], strict=True):
        assert (round(start, 6), round(start + duration, 6)) in drawn
    assert axes(figure).xaxis.get_major_formatter()(4500, 0) == "4.5 µs"
    labels = [label.get_text() for label in axes(figure).get_yticklabels()]
    assert labels[0] == "default, warp 0"
    assert labels[-1] == "partition1, warp 11"
    assert len(labels) == df["warp"].nunique()
    assert said(figure) == "matmul_ws_kernel, launch 0, CTA 0 on SM 124"


def test_a_timeline_has_the_colours_of_the_report(specialised: Profile) -> None:
    figure = specialised.plot.timeline()
    table = sites(specialised.df)[1]
    known = dict(zip(zip(table["scope"], table["line"], strict=True), site_colours(table), strict=True))
    drawn = {to_hex(colour) for colour in axes(figure).collections[0].get_facecolor()}
    assert drawn <= set(known.values())
    handles = [to_hex(each.get_facecolor()) for each in figure.legends[0].get_patches()]
    dots = next(at for at, name in enumerate(legend(figure)) if name.startswith("dot acc, line"))
    line = int(legend(figure)[dots].rpartition(" ")[2])
    assert handles[dots] == known["dot acc", line]


def test_a_part_of_the_time(specialised: Profile) -> None:
    figure = specialised.plot.timeline(between=(4000, 8000))
    assert axes(figure).get_xlim() == (4000, 8000)
    xs = np.concatenate([path.vertices[:, 0] for path in axes(figure).collections[0].get_paths()])
    assert xs.min() >= 4000
    assert xs.max() <= 8000
    for wrong in ((8000, 4000), (1e9, 2e9)):
        with pytest.raises(DrawError, match="holds nothing of the CTA's time"):
            specialised.plot.timeline(between=wrong)


def emulated(profile: Profile) -> Profile:
    return Profile.of(replace(profile.tables, metadata=profile_metadata("emulator")))


def test_emulated_figures_say_so_and_are_in_cycles(regular: Profile) -> None:
    figure = emulated(regular).plot.timeline(cta=3)
    assert "emulated: cycles of a cost model" in said(figure)
    assert axes(figure).xaxis.get_major_formatter()(4500, 0) == "4.5 kcycles"


def test_what_is_not_there_is_named(regular: Profile) -> None:
    plot = regular.plot
    with pytest.raises(DrawError, match="no launch 7 has spans; there are 0"):
        plot.timeline(launch=7)
    with pytest.raises(OptionError, match="kernels='nothing' matches no kernel; there are: matmul_kernel"):
        plot.timeline(kernels="nothing")
    with pytest.raises(DrawError, match="has no spans of CTA 99; it has those of 0, 1, 2, 3, 4 and 19 more"):
        plot.timeline(cta=99)
    with pytest.raises(OptionError, match=r"kernels='\(' is not a regular expression: missing \)"):
        plot.timeline(kernels="(")
    with pytest.raises(DrawError, match="this profile has none"):
        Profile().plot.timeline()


def test_pyplot_is_left_alone(regular: Profile) -> None:
    from matplotlib import pyplot

    figure = regular.plot.timeline()
    assert pyplot.get_fignums() == []
    assert figure._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]
    modules = [name for name in sys.modules if name.startswith("profscope.plotting.")]
    assert all("pyplot" not in vars(sys.modules[name]) for name in modules)


def test_a_formula_in_a_name_stays_a_name() -> None:
    profile = regular_profile(launches=1, ctas=2, warps=1, iterations=1)
    df = profile.tables.df.assign(
        kernel="_$x_{$", scope=profile.tables.df["scope"].cat.rename_categories(lambda s: f"_${s}$")
    )
    df["kernel"] = df["kernel"].astype("category")
    odd = Profile.of(replace(profile.tables, df=df, launches=profile.launches.assign(kernel="_$x_{$")))
    figure = odd.plot.timeline()
    figure.draw_without_rendering()
    assert said(figure).startswith("_$x_{$, launch 0")
    assert any(name.startswith("_$") for name in legend(figure))
