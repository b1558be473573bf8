"""Where the time of the longest kernels goes: one bar each, which adds up to all of it."""

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.text import Text

from profscope.analysis.breakdown import OTHER, UNKNOWN, apportioned
from profscope.analysis.model.entries import Account, KernelEntry
from viewer.cells import fit_middle, pad, words, wrap
from viewer.units import printable, share_text

__all__ = ["MOST_ACCOUNTS", "render_account", "render_missing"]

MOST_ACCOUNTS = 3
"""Kernels and variants with a bar: those whose launches took longest."""

_NAME = 32
"""Cells of a kernel's name in front of its bar."""

_LEAST_BAR = 10
"""Cells of a bar; names give way to it."""

_CELLS = "█▓▒░▚▖"
_CELL_OF = {UNKNOWN: "·", OTHER: "-"}


def render_account(name: str, account: Account, title: str, width: int) -> list[Text]:
    """The title, the bar of a kernel of this name, and below that what the bar's cells stand for."""
    lines = [Text(line, style="bold") for line in wrap(words(title), width)]
    short = fit_middle(printable(name), min(_NAME, width // 2, width - _LEAST_BAR - 2))
    label = cell_len(short) + 2
    cells = apportioned(account.shares.values(), max(_LEAST_BAR, width - label))
    symbols = _symbols(account)
    bar = "".join(symbols[share] * count for share, count in zip(account.shares, cells, strict=True))
    lines.append(Text(pad(short, label) + bar))
    return lines + [Text(f"  {line}") for line in wrap(list(_legend(account, symbols)), width - 2, "  ")]


def render_missing(kernels: Sequence[KernelEntry], width: int) -> list[Text]:
    """What the bars of these kernels cannot show, once for all that lack it."""
    missing: dict[str, list[str]] = {}
    told = [entry for entry in kernels if entry.account is not None]
    for entry in told:
        for text in _missing(entry.account):
            missing.setdefault(text, []).append(fit_middle(printable(entry.name), _NAME))
    lines = []
    for text, own in missing.items():
        said = text if len(own) == len(told) else f"{', '.join(own)}: {text}"
        lines += [Text(line, style="dim") for line in wrap(words(said), width)]
    return lines


def _symbols(account: Account) -> dict[str, str]:
    """The cell that each share is drawn with."""
    named = [name for name in account.shares if name not in _CELL_OF]
    return dict(zip(named, _CELLS, strict=False)) | _CELL_OF


def _legend(account: Account, symbols: dict[str, str]) -> Iterator[str]:
    for name, share in account.shares.items():
        yield f"{symbols[name]} {name} {share_text(share)}"
    yield f"(from {', '.join(account.basis)})"


def _missing(account: Account | None) -> Iterator[str]:
    """What the bar cannot show, and what would make its unknown share smaller."""
    if account is None:
        return
    if account.advice:
        yield f"{UNKNOWN}: {account.advice}"
    yield from (f"without {text}" for text in account.not_measured if text.startswith("idle-sms"))
