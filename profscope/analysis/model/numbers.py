"""Values as the model has them: finite numbers or None, and plain data of the whole for JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from profscope.analysis.texts import clipped

__all__ = ["known_count", "known_number", "plain"]

_LONGEST_INTEGER: Final = 64  # bits, of what JSON readers hold


def known_number(value: Any) -> float | None:
    """None for what is missing, and for what is no number that JSON has."""
    if value is None or pd.isna(value) or not np.isfinite(value):
        return None
    return float(value)


def known_count(value: Any) -> int | None:
    """None for what is missing."""
    return None if value is None or pd.isna(value) else int(value)


def plain(value: Any, characters: int = 0, digits: int = 0) -> Any:
    """JSON-able data of a dataclass and of all that is in it.

    characters: texts are cut to so many; digits: so many significant ones of each float; 0: as they are.
    """
    if is_dataclass(value):
        own = {each.name: getattr(value, each.name) for each in fields(value)}
        return {name: plain(each, characters, digits) for name, each in own.items()}
    if isinstance(value, Mapping):
        return {_cut(str(name), characters): plain(each, characters, digits) for name, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(each, characters, digits) for each in value]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | np.integer):
        bits = int(value).bit_length()
        return int(value) if bits <= _LONGEST_INTEGER else f"an integer of {bits} bits"
    if isinstance(value, float | np.floating):
        if not np.isfinite(value):
            return str(value)  # as a constexpr may be
        return float(f"{float(value):.{digits}g}") if digits else float(value)
    return _cut(str(value), characters)


def _cut(text: str, characters: int) -> str:
    return clipped(text, characters) if characters else text
