"""Where the time of the longest kernels goes: one bar each, which adds up to all of it."""

from collections.abc import Collection, Iterator, Sequence

import pandas as pd
from rich.cells import cell_len
from rich.text import Text

from profscope.analysis.line_rows import witnesses
from profscope.analysis.time_account import OTHER, UNKNOWN, TimeAccount, apportioned, time_accounts
from profscope.profiles import Profile
from viewer.cells import fit_middle, pad, words, wrap
from viewer.groups import Group
from viewer.select import Selection
from viewer.units import printable, share_text

__all__ = ["MOST_ACCOUNTS", "make_accounts", "render_account", "render_missing"]

MOST_ACCOUNTS = 3
"""Kernels and variants with a bar: those whose launches took longest."""

_NAME = 32
"""Cells of a kernel's name in front of its bar."""

_LEAST_BAR = 10
"""Cells of a bar; names give way to it."""

_CELLS = "█▓▒░▚▖"
_CELL_OF = {UNKNOWN: "·", OTHER: "-"}


def make_accounts(
    profile: Profile, selection: Selection, kernels: Sequence[Group], summary: pd.DataFrame | None = None
) -> list[TimeAccount]:
    """Those of the first kernels; none where parts of launches were chosen, which say nothing of the whole.
    summary: of the profile, where it is known."""
    if selection.inside or not kernels:
        return []
    first = [(row.kernel, row.variant) for row in kernels[:MOST_ACCOUNTS]]
    accounts = time_accounts(profile.tables, witnesses(profile.tables, summary), first)
    return [accounts[key] for key in first if key in accounts]


def render_account(account: TimeAccount, several: Collection[str], title: str, width: int) -> list[Text]:
    """The title, its bar, and below that what the bar's cells stand for. several: kernels with more than one
    variant."""
    lines = [Text(line, style="bold") for line in wrap(words(title), width)]
    name = _name(account, several, min(_NAME, width // 2, width - _LEAST_BAR - 2))
    label = cell_len(name) + 2
    cells = apportioned(account.shares.values(), max(_LEAST_BAR, width - label))
    symbols = _symbols(account)
    bar = "".join(symbols[share] * count for share, count in zip(account.shares, cells, strict=True))
    lines.append(Text(pad(name, label) + bar))
    return lines + [Text(f"  {line}") for line in wrap(list(_legend(account, symbols)), width - 2, "  ")]


def render_missing(accounts: Sequence[TimeAccount], several: Collection[str], width: int) -> list[Text]:
    """What the bars cannot show, once for all that lack it."""
    missing: dict[str, list[str]] = {}
    for account in accounts:
        for text in _missing(account):
            missing.setdefault(text, []).append(_name(account, several, _NAME))
    lines = []
    for text, own in missing.items():
        said = text if len(own) == len(accounts) else f"{', '.join(own)}: {text}"
        lines += [Text(line, style="dim") for line in wrap(words(said), width)]
    return lines


def _name(account: TimeAccount, several: Collection[str], most: int) -> str:
    label = f" #{account.variant}" if account.kernel in several else ""
    return fit_middle(printable(account.kernel), most - len(label)) + label


def _symbols(account: TimeAccount) -> dict[str, str]:
    """The cell that each share is drawn with."""
    named = [name for name in account.shares if name not in _CELL_OF]
    return dict(zip(named, _CELLS, strict=False)) | _CELL_OF


def _legend(account: TimeAccount, symbols: dict[str, str]) -> Iterator[str]:
    tenths = apportioned(account.shares.values(), 1000)
    for name, count in zip(account.shares, tenths, strict=True):
        yield f"{symbols[name]} {name} {share_text(count / 1000)}"
    yield f"(from {', '.join(account.basis)})"


def _missing(account: TimeAccount) -> Iterator[str]:
    """What the bar cannot show, and what would make its unknown share smaller."""
    if account.advice:
        yield f"{UNKNOWN}: {account.advice}"
    yield from (f"without {text}" for text in account.not_measured if text.startswith("idle-sms"))
