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
    """Draws a profile as a matplotlib Figure, which shows itself in a notebook."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables

    def __repr__(self) -> str:
        return "<prof.plot: timeline()>"

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

            prof.plot.timeline(cta=3).savefig("cta.svg")

        cta: its number; without it, the launch's CTA of median length. launch: a number of `prof.launches`;
        without it, the kernel's launch of median length, cold ones left aside. kernels: a regular expression;
        if it matches several kernels, the one whose launches took longest is drawn. between: a part of the
        CTA's time, from and to, since the launch began, in ns, or in cycles of the emulator. ax: the axes to
        draw into; without them, those of a new figure. pyplot is not used, and none of its state is changed.

        Thin grey strips are the kernel, its loops and their iterations; narrow bars below a warp are
        asynchronous work that it has in flight. Times are of the GPU, or cycles of the emulator's cost
        model, and then the title says so.

        Raises DrawError if matplotlib is not installed, and if there is no such launch or CTA; OptionError if
        `kernels` matches none.
        """
        require("plot", "prof.plot.timeline()", DrawError)
        from profscope.plotting.timeline import timeline

        return timeline(self._tables, cta, launch, kernels, between=between, ax=ax)
