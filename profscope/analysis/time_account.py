"""The breakdown of one configuration in at most six shares, for views that have room for one bar."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from profscope.analysis.answers import Answer
from profscope.analysis.breakdown import breakdown_answers
from profscope.analysis.line_rows import TimeSources
from profscope.schema import Tables

__all__ = ["OTHER", "UNKNOWN", "TimeAccount", "apportioned", "time_accounts"]

UNKNOWN: Final = "unknown"
OTHER: Final = "other"

_MOST_SHARES: Final = 6
_SMALL: Final = 0.02
_MUCH_UNKNOWN: Final = 0.3
_WORK: Final = "issuing, waiting: "  # begins what the breakdown says if there are too few PC samples


@dataclass(frozen=True)
class TimeAccount:
    """Where the time of one configuration's launches goes.

    shares: by name, such as "waiting: memory" or "tail", at most six that add up to 1, the largest first and
    "other" last; "unknown" has a share of its own. basis: what the shares are from, as in `breakdown`.
    not_measured: which parts are missing, and why. advice: what makes the unknown share smaller, if it is
    above 0.3; else "".
    """

    kernel: str
    variant: int
    shares: Mapping[str, float]
    basis: tuple[str, ...]
    not_measured: tuple[str, ...]
    advice: str


def time_accounts(
    tables: Tables, known: TimeSources, of: Collection[tuple[str, int]]
) -> dict[tuple[str, int], TimeAccount]:
    """The accounts of these kernels and variants. known: what spans and samples say of the tables."""
    answers = breakdown_answers(tables, known, of)
    accounts = (_account(answer, emulated=tables.emulated) for answer in answers if answer.rows)
    return {(account.kernel, account.variant): account for account in accounts}


def apportioned(shares: Collection[float], whole: int) -> list[int]:
    """Shares that add up to 1 as integers that add up to `whole`: the largest remainders are rounded up."""
    exact = np.fromiter(shares, np.float64) * whole
    least = np.floor(exact)
    left = whole - int(least.sum())
    least[np.argsort(least - exact, kind="stable")[:left]] += 1
    return [int(count) for count in least]


def _account(answer: Answer, *, emulated: bool) -> TimeAccount:
    first = answer.rows[0]
    kernel, variant = first["kernel"], first["variant"]
    missing = tuple(text.removeprefix(f"{kernel} #{variant}: ") for text in answer.not_measured)
    shares = _folded(_by_name(answer.rows))
    asks = shares.get(UNKNOWN, 0.0) > _MUCH_UNKNOWN and not emulated  # which takes its samples unasked
    why = next((text[len(_WORK) :] for text in missing if text.startswith(_WORK)), "")
    basis = tuple(dict.fromkeys(row["basis"] for row in answer.rows))
    return TimeAccount(kernel, variant, shares, basis, missing, why if asks else "")


def _by_name(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Shares of all lines together, the largest first."""
    shares: dict[str, float] = {}
    for row in rows:
        name = f"{row['part']}: {row['reason']}" if row["reason"] else row["part"]
        shares[name] = shares.get(name, 0.0) + row["share"]
    return dict(sorted(shares.items(), key=lambda each: -each[1]))


def _folded(shares: dict[str, float]) -> dict[str, float]:
    """What is small, or has no room, as "other"."""
    named = [name for name, share in shares.items() if name != UNKNOWN and share >= _SMALL]
    room = _MOST_SHARES - (UNKNOWN in shares)
    if len(named) > room or len(named) + (UNKNOWN in shares) < len(shares):
        named = named[: room - 1]
    kept = {name: share for name, share in shares.items() if name == UNKNOWN or name in named}
    rest = sum(share for name, share in shares.items() if name not in kept)
    return kept | ({OTHER: rest} if rest else {})
