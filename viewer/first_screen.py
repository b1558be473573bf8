"""What one wants to see first of a profile: what ran, whether its figures can be trusted, which kernels took
the time, and of those that took most where it goes, the findings, and the lines that take it."""

from collections.abc import Iterator
from textwrap import wrap
from typing import TextIO

from rich.console import Console
from rich.text import Text

from profscope.analysis.model.build import profile_model
from profscope.analysis.model.entries import KernelEntry, KernelFinding
from profscope.analysis.model.labels import differs_text
from profscope.profiles import Profile
from profscope.progress import working
from profscope.viewer.flags import in_flags
from profscope.viewer.header import Shown, of_launches, render_foot, render_top
from profscope.viewer.kernels import (
    MOST_ACCOUNTS,
    render_account,
    render_findings,
    render_kernels,
    render_lines,
)
from profscope.viewer.outlet import text_width
from profscope.viewer.units import count_text, printable

__all__ = ["render_first", "show_first_screen"]

MOST_KERNELS = 10
"""Rows of the table of kernels."""

FINDINGS_EACH = 3
"""Kinds of findings of each kernel."""


def show_first_screen(profile: Profile, name: str, stream: TextIO) -> None:
    """Print it, without lines. name: of the trace, for its first line."""
    width = text_width(None, stream)
    console = Console(file=stream, width=width, highlight=False)
    with working("analysing the profile"):
        model = profile_model(profile.tables, parts=("findings", "accounts"), detailed=MOST_ACCOUNTS)
    shown = Shown(model, name, {}, model.header.spans)
    lines = render_first(shown, width, MOST_KERNELS)
    foot = render_foot(shown, width)
    lines += [Text(), *foot] if foot else []
    console.print(Text("\n").join([Text(), *lines]), soft_wrap=True)


def render_first(shown: Shown, width: int, most: int) -> list[Text]:
    """The lines of what comes first, whatever else is shown. most: of the kernels' rows."""
    model = shown.model
    lines = render_top(shown, width)
    if not model.kernels:
        return lines
    lines += [Text(), *render_kernels(model.kernels, model.unit, width, most, of_launches(model))]
    longest = model.kernels[:MOST_ACCOUNTS]
    told: list[str] = []
    for entry in longest:
        lines += _kernel(entry, width, told, alone=len(model.kernels) == 1)
        told += () if entry.lines is None else entry.lines.not_measured
        told += () if entry.account is None else entry.account.caveats
    left = sum(len(entry.findings) for entry in model.kernels[MOST_ACCOUNTS:])
    if left:
        more = f"{count_text(left, 'more finding')}, of other kernels; --show findings has all"
        lines += [Text(), Text(more, style="dim")]
    return lines


def _kernel(entry: KernelEntry, width: int, told: list[str], *, alone: bool) -> Iterator[Text]:
    """One kernel's bar, findings and lines, as far as there are any. told: what was said not to be known."""
    if entry.account is not None:
        what = f"{printable(entry.name)} {differs_text(entry.differs)}".strip()
        title = "Where its time goes" if alone else f"Where the time of {what} goes"
        yield Text()
        yield from render_account(entry.name, entry.account, title, width, told)
    if entry.findings:
        own = [KernelFinding(entry, finding) for finding in entry.findings]
        yield Text()
        yield from render_findings(own, width, FINDINGS_EACH)
    elif entry.clean:
        yield Text()
        yield from (
            Text(line) for line in wrap(in_flags(f"{entry.clean[:1].upper()}{entry.clean[1:]}."), width)
        )
    if entry.lines is not None and any(row.line for row in entry.lines.rows):  # other tools tell of none
        yield Text()
        yield from render_lines(entry, width, told)
