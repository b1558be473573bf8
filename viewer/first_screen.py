"""What one wants to see first of a profile: what ran, whether its figures can be believed, which
kernels took the time, and of those that took most where it goes, what holds them back, and
which lines take it."""

from collections.abc import Iterator, Sequence
from typing import TextIO

from rich.console import Console
from rich.text import Text

from profscope.analysis.time_account import TimeAccount
from profscope.profiles import Profile
from viewer.accounts import MOST_ACCOUNTS, make_accounts, render_account, render_missing
from viewer.findings import FindingRow, make_findings, render_findings
from viewer.groups import differs_text, several_variants
from viewer.header import Header, make_header, of_launches, render_foot, render_top
from viewer.kernels import KernelRow, make_kernels, render_kernels
from viewer.lines import LineTable, render_lines
from viewer.select import Selection
from viewer.units import count_text

__all__ = ["render_first", "show_first_screen"]

MOST_KERNELS = 10
"""Rows of the table of kernels."""

FINDINGS_EACH = 3
"""Kinds of findings of each kernel where there are several."""


def show_first_screen(profile: Profile, name: str, stream: TextIO) -> None:
    """Print it, without lines. name: of the trace, for its first line."""
    console = Console(file=stream, highlight=False)
    kernels = make_kernels(profile, profile.tables.unit)
    header = make_header(profile, name, Selection(), len(profile.tables.df))
    accounts = make_accounts(profile, Selection(), kernels)
    findings = make_findings(profile, Selection())
    lines = render_first(header, kernels, accounts, findings, (), console.width, MOST_KERNELS)
    foot = render_foot(header, console.width)
    lines += [Text(), *foot] if foot else []
    console.print(Text("\n").join([Text(), *lines]), soft_wrap=True)


def render_first(
    header: Header,
    kernels: list[KernelRow],
    accounts: Sequence[TimeAccount],
    findings: Sequence[FindingRow],
    lines: Sequence[LineTable],
    width: int,
    most: int,
) -> list[Text]:
    """The lines of what comes first, whatever else is shown. most: of the kernels' rows."""
    shown = render_top(header, width)
    if not kernels:
        return shown
    shown += [Text(), *render_kernels(kernels, width, most, of_launches(header, kernels[0].unit))]
    for row in kernels[:MOST_ACCOUNTS]:
        shown += _kernel(row, kernels, accounts, findings, lines, width)
    missing = render_missing(accounts, several_variants(kernels), width)
    shown += [Text(), *missing] if missing else []
    named = {(row.kernel, row.variant) for row in kernels[:MOST_ACCOUNTS]}
    left = sum((row.kernel, row.variant) not in named for row in findings)
    if left:
        more = f"{count_text(left, 'more finding')}, of other kernels; --show findings has all"
        shown += [Text(), Text(more, style="dim")]
    return shown


def _kernel(
    row: KernelRow,
    kernels: Sequence[KernelRow],
    accounts: Sequence[TimeAccount],
    findings: Sequence[FindingRow],
    lines: Sequence[LineTable],
    width: int,
) -> Iterator[Text]:
    """One kernel's bar, findings and lines, as far as there are any."""
    key, several = (row.kernel, row.variant), several_variants(kernels)
    alone = len(kernels) == 1
    what = f"{row.heading} {differs_text(row)}".strip()
    for account in accounts:
        if (account.kernel, account.variant) == key:
            title = "Where its time goes" if alone else f"Where the time of {what} goes"
            yield Text()
            yield from render_account(account, several, title, width)
    if own := [each for each in findings if (each.kernel, each.variant) == key]:
        whose = "its" if alone else "all kernels'"
        title = f"What holds it back, and how much of {whose} time it costs"
        yield Text()
        yield from (
            render_findings(own, several, width, title=title)
            if alone
            else render_findings(own, several, width, FINDINGS_EACH, title=title)
        )
    for table in lines:
        if (table.kernel, table.variant) == key:
            yield Text()
            yield from render_lines(table, width)
