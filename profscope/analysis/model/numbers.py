"""Values as the model has them: finite numbers or None, entries of rows, and plain data for JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final, TypeVar, cast

import numpy as np
import pandas as pd

from profscope.analysis.texts import clipped

__all__ = ["entry_of", "known_count", "known_number", "plain"]

Entry = TypeVar("Entry")

_LONGEST_INTEGER: Final = 64  # bits, of what JSON readers hold


def known_number(value: Any) -> float | None:
    """The number; None if it is missing or JSON cannot have it."""
    if value is None or pd.isna(value) or not np.isfinite(value):
        return None
    return float(value)


def known_count(value: Any) -> int | None:
    """The count; None if missing."""
    return None if value is None or pd.isna(value) else int(value)


def entry_of(kind: Callable[..., Entry], row: Mapping[Any, Any], **others: Any) -> Entry:
    """An entry of a row of a table: fields are columns of their names, except `others`."""
    own = {each.name: row[each.name] for each in fields(cast(Any, kind)) if each.name not in others}
    return kind(**{name: _known(value) for name, value in own.items()}, **others)


def _known(value: Any) -> Any:
    if isinstance(value, str):
        return value
    known = known_number(value)
    return int(value) if known is not None and isinstance(value, int | np.integer) else known


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
    """Whole clauses of a text that is too long; a part of it if it has one clause only."""
    if not characters or len(text) <= characters:
        return text
    whole = max(text.rfind(end, 0, characters) for end in ("; ", ". "))
    return text[:whole] if whole > 0 else clipped(text, characters)
