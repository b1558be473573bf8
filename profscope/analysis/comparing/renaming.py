"""A profile with other names for its kernels, so that a renamed kernel is compared with what it was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, Final

import pandas as pd

from profscope.errors import DiffError
from profscope.schema import Tables

__all__ = ["renamed"]

_COLUMNS: Final = ("kernel", "scope", "call_path")


def renamed(tables: Tables, names: Mapping[str, str]) -> Tables:
    """names: of kernels, old to new. Raises DiffError for a name that is no kernel of the profile."""
    own = sorted({str(name) for name in tables.launches["kernel"]})
    for old in names:
        if old not in own:
            raise DiffError(f"the first profile has no kernel {old}; it has {', '.join(own)}")
    values = {each.name: _renamed(getattr(tables, each.name), names) for each in fields(tables)}
    return replace(tables, **values)


def _renamed(value: Any, names: Mapping[str, str]) -> Any:
    """A table, or a part of the metadata, which name kernels in many places."""
    match value:
        case pd.DataFrame():
            columns = {name: _column(value[name], names) for name in _COLUMNS if name in value.columns}
            return value.assign(**columns)
        case dict():
            return {names.get(key, key): _renamed(each, names) for key, each in value.items()}
        case list():
            return [_renamed(each, names) for each in value]
        case str():
            return names.get(value, value)
    return value


def _column(column: pd.Series[Any], names: Mapping[str, str]) -> pd.Series[Any]:
    """A call path begins with the kernel's name."""
    known = {text: str(text).partition(" ") for text in column.unique()}
    new = {
        text: names[first] + space + rest for text, (first, space, rest) in known.items() if first in names
    }
    values = column.astype("object").map(lambda text: new.get(text, text))
    return values.astype("category" if isinstance(column.dtype, pd.CategoricalDtype) else column.dtype)
