"""What one wants to see first of a profile: the verdict, where its kernels' time goes, what
holds them back, and what took most."""

from typing import TextIO

from rich.console import Console
from rich.text import Text

from profscope.analysis.time_account import TimeAccount
from profscope.profiles import Profile
from viewer.accounts import make_accounts, render_accounts
from viewer.findings import FindingRow, make_findings, render_findings
from viewer.groups import several_variants
from viewer.header import Header, make_header, of_launches, render_foot, render_top
from viewer.kernels import KernelRow, make_kernels, render_kernels
from viewer.select import Selection

__all__ = ["render_first", "show_first_screen"]

MOST_KERNELS = 10


def show_first_screen(profile: Profile, name: str, stream: TextIO) -> None:
    """Print it. name: of the trace, for its first line."""
    console = Console(file=stream, highlight=False)
    kernels = make_kernels(profile, profile.tables.unit)
    header = make_header(profile, name, Selection(), len(profile.tables.df))
    accounts = make_accounts(profile, Selection(), kernels)
    findings = make_findings(profile, Selection())
    lines = render_first(header, accounts, findings, kernels, console.width, MOST_KERNELS)
    foot = render_foot(header, console.width)
    lines += [Text(), *foot] if foot else []
    console.print(Text("\n").join([Text(), *lines]), soft_wrap=True)


def render_first(
    header: Header,
    accounts: list[TimeAccount],
    findings: list[FindingRow],
    kernels: list[KernelRow],
    width: int,
    most: int,
) -> list[Text]:
    """The lines of what comes first, whatever else is shown. most: of the kernels."""
    lines = render_top(header, width)
    if accounts:
        lines += [Text(), *render_accounts(accounts, several_variants(kernels), width)]
    if findings:
        lines += [Text(), *render_findings(findings, several_variants(kernels), width)]
    if kernels:
        said = of_launches(header, kernels[0].unit)
        lines += [Text(), *render_kernels(kernels, width, most, said)]
    return lines
