"""The selection of a part of a trace, so that large traces need not be read whole."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from profscope.errors import OptionError

if TYPE_CHECKING:  # whether a file is there is said before numpy and pandas are loaded
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    Ints: TypeAlias = NDArray[np.int64]

__all__ = ["INSIDE", "SAMPLES_OF_RANK", "TraceFilter"]

INSIDE: Final = ("cta", "sm", "warp")
"""What chooses a part of each launch."""

SAMPLES_OF_RANK: Final = "samples_of_rank"
"""Of the metadata: the one rank that the table of samples, and what is known of a kernel's launches together,
are of, where a profile of several was read for it; not there where they are of all."""


@dataclass(frozen=True)
class TraceFilter:
    """kernels: a regular expression that is searched in names; the others are numbers. None is no choice.

    Raises OptionError, naming the one that is neither.
    """

    kernels: str | None = None
    variant: int | None = None
    rank: int | None = None
    launch: int | None = None
    cta: int | None = None
    sm: int | None = None
    warp: int | None = None

    def __post_init__(self) -> None:
        for name, value in self.chosen.items():
            if name == "kernels":
                _check_pattern(value)
            elif isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise OptionError(f"{name}={value!r} must be a number, 0 or more")

    @property
    def chosen(self) -> dict[str, Any]:
        """The selected values, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @property
    def inside(self) -> dict[str, int]:
        """Which part of each launch is asked for, by name; {} where it is all of it."""
        return {name: value for name, value in self.chosen.items() if name in INSIDE}

    @property
    def of_launches(self) -> TraceFilter:
        """The launches that are asked for, whole."""
        return replace(self, cta=None, sm=None, warp=None)

    def __str__(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in self.chosen.items())

    @property
    def is_all(self) -> bool:
        return self == TraceFilter()

    def launches(self, table: pd.DataFrame) -> Ints:
        """The launches that are asked for, sorted. table: `Tables.launches`."""
        import numpy as np

        chosen = np.ones(len(table), np.bool_)
        if self.kernels is not None:
            chosen &= [re.search(self.kernels, name) is not None for name in table["kernel"]]
        for name in ("variant", "rank", "launch"):
            number = getattr(self, name)
            if number is not None:
                chosen &= (table[name] == number).to_numpy()
        return np.sort(table["launch"].to_numpy(np.int64)[chosen])

    def columns(self) -> dict[str, Ints]:
        """By column of the span table, the number that is asked for."""
        import numpy as np

        return {name: np.array([number]) for name, number in self.inside.items()}


def _check_pattern(text: object) -> None:
    if not isinstance(text, str):
        raise OptionError(f"kernels={text!r} must be a regular expression as a str")
    try:
        re.compile(text)
    except re.error as error:
        raise OptionError(f"kernels={text!r} is not a regular expression: {error}") from error
