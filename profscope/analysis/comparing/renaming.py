"""A profile with other names for its kernels, so that a renamed kernel is compared with its old version."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, Final

import pandas as pd

from profscope.errors import DiffError
from profscope.schema import Tables

__all__ = ["paired", "renamed"]

_COLUMNS: Final = ("kernel", "scope", "call_path")


def paired(a: Tables, b: Tables, names: Mapping[str, str]) -> Tables:
    """a with its kernels under the names that they have in b. names: a's to b's.

    Raises DiffError for a name that is no kernel of its profile, and for one that two kernels would have.
    """
    own, others = ({str(name) for name in each.launches["kernel"]} for each in (a, b))
    for which, wanted, known in (("first", names.keys(), own), ("second", names.values(), others)):
        for name in wanted:
            if name not in known:
                has = ", ".join(sorted(known)) or "none"
                raise DiffError(f"the {which} profile has no kernel {name}; it has {has}")
    taken = Counter([*(own - names.keys()), *names.values()])
    for name, count in taken.items():
        if count > 1:
            raise DiffError(f"the first profile would have two kernels {name}: rename the other one, too")
    return renamed(a, names)


def renamed(tables: Tables, names: Mapping[str, str]) -> Tables:
    """names: of kernels, old to new."""
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
