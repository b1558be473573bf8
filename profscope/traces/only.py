"""Which spans of a trace are asked for, so that what is large can be read in part."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = ["Only"]

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Only:
    """kernel: a regular expression that is searched in names; the others are numbers. None is no choice."""

    kernel: str | None = None
    variant: int | None = None
    rank: int | None = None
    launch: int | None = None
    cta: int | None = None
    sm: int | None = None
    warp: int | None = None

    @property
    def is_all(self) -> bool:
        return self == Only()

    def launches(self, table: pd.DataFrame) -> Ints:
        """The launches that are asked for, sorted. table: `Tables.launches`."""
        chosen = np.ones(len(table), np.bool_)
        if self.kernel is not None:
            chosen &= [re.search(self.kernel, name) is not None for name in table["kernel"]]
        for name in ("variant", "rank", "launch"):
            number = getattr(self, name)
            if number is not None:
                chosen &= (table[name] == number).to_numpy()
        return np.sort(table["launch"].to_numpy(np.int64)[chosen])

    def columns(self) -> dict[str, Ints]:
        """By column of the span table, the number that is asked for."""
        numbers = {name: getattr(self, name) for name in ("cta", "sm", "warp")}
        return {name: np.array([number]) for name, number in numbers.items() if number is not None}
