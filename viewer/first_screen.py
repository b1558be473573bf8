"""What one wants to see first of a profile: its header, what holds its kernels back, and what took most."""

from typing import TextIO

from rich.console import Console
from rich.text import Text

from profscope.profiles import Profile
from viewer.findings import make_findings, render_findings
from viewer.groups import several_variants
from viewer.header import make_header, render_header
from viewer.kernels import make_kernels, render_kernels
from viewer.select import Selection

__all__ = ["show_first_screen"]

MOST_KERNELS = 10


def show_first_screen(profile: Profile, name: str, stream: TextIO) -> None:
    """Print it. name: of the trace, for its first line."""
    console = Console(file=stream, highlight=False)
    rows = make_kernels(profile, "cycles" if profile.emulated else "ns")
    lines = render_header(make_header(profile, name, Selection(), len(profile.df)), console.width)
    found = make_findings(profile, Selection())
    if found:
        lines += [Text(), *render_findings(found, several_variants(rows), console.width)]
    if rows:
        lines += [Text(), *render_kernels(rows, console.width, MOST_KERNELS)]
    console.print(Text("\n").join([Text(), *lines]), soft_wrap=True)
