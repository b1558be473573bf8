"""`prof.plot`: what can be drawn of a profile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from profscope.errors import DrawError
from profscope.installed import require
from profscope.schema import Tables

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Plots"]


class Plots:
    """Draws a profile; every method returns a matplotlib Figure, which shows itself in a notebook.

        prof.plot.timeline(cta=3).savefig("cta.svg")

    kernels: a regular expression; drawn is the kernel that it matches, of several the one whose launches took
    longest. launch: a number of
    `prof.launches`; without it, the kernel's launch of median length, cold ones left aside. ax: the axes to
    draw into; without them, those of a new figure. pyplot is not used, and none of its state is changed.

    Times are of the GPU, or cycles of the emulator's cost model, and then the title says so. All raise
    DrawError where matplotlib is not installed, and where the profile has not what is to be drawn.
    """

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def __repr__(self) -> str:
        return "<prof.plot: timeline(), roofline(), heatmap(), waves()>"

    def timeline(
        self,
        cta: int | None = None,
        launch: int | None = None,
        kernels: str | None = None,
        *,
        between: tuple[float, float] | None = None,
        ax: Axes | None = None,
    ) -> Figure:
        """What the warps of one CTA did: a band for each warp, a colour for each scope, as in report.html.

        cta: its number; without it, the launch's CTA of median length. between: a part of its time, from and
        to, in the unit of the axis. Thin grey strips are the kernel, its loops and their iterations; narrow
        bars below a warp are asynchronous work that it has in flight. Where bars are narrower than a dot of
        print, a dot has the colour of the scope that took most of it.
        """
        require("plot", "prof.plot.timeline()", DrawError)
        from profscope.plotting.timeline import timeline

        return timeline(self._tables, cta, launch, kernels, between=between, ax=ax)

    def heatmap(
        self, launch: int | None = None, kernels: str | None = None, *, ax: Axes | None = None
    ) -> Figure:
        """How many CTAs each SM ran at once, over the time of a launch. A white row: none."""
        require("plot", "prof.plot.heatmap()", DrawError)
        from profscope.plotting.waves import heatmap

        return heatmap(self._tables, launch, kernels, ax=ax)

    def waves(
        self, launch: int | None = None, kernels: str | None = None, *, ax: Axes | None = None
    ) -> Figure:
        """CTAs at once over the time of a launch, by wave, and its tail.

        A CTA is of the n-th wave if its SM had as many begun before it as it runs at once, n - 1 times. The
        tail begins when the last CTA does: from then on slots stay empty.
        """
        require("plot", "prof.plot.waves()", DrawError)
        from profscope.plotting.waves import waves

        return waves(self._tables, launch, kernels, ax=ax)

    def roofline(self, kernels: str | None = None, *, ax: Axes | None = None) -> Figure:
        """What kernels, and the loops and lines of one, reach of what the device can do.

        kernels: a regular expression; of the only kernel that it matches also loops and lines.
        """
        require("plot", "prof.plot.roofline()", DrawError)
        from profscope.plotting.roofs import roofs

        return roofs(self._tables, kernels, ax=ax)
