"""For parametrize: of several things that show the same, the few that a quick run takes."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def quick(every: Iterable[Any], chosen: Collection[Any]) -> list[Any]:
    """All of them as parameters; those that are not chosen are left to the exhaustive tests.

    Where each is several parameters, they stand in a tuple.
    """
    return [
        pytest.param(
            *(each if isinstance(each, tuple) else (each,)),
            marks=() if each in chosen else pytest.mark.exhaustive,
        )
        for each in every
    ]
