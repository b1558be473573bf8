"""A profile with other names for its kernels, so that a renamed kernel is compared with what it was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, Final

import pandas as pd

from profscope.errors import DiffError
from profscope.schema import Tables

__all__ = ["renamed"]

_BY_NAME: Final = ("kernel", "scope")
_PATH: Final = "call_path"


def renamed(tables: Tables, names: Mapping[str, str]) -> Tables:
    """names: of kernels, old to new. Raises DiffError for a name that is no kernel of the profile, or that
    another of its kernels has."""
    own = {str(name) for name in tables.launches["kernel"].unique()}
    for old, new in names.items():
        if old not in own:
            raise DiffError(f"the first profile has no kernel {old}; it has {', '.join(sorted(own))}")
        if new in own and new not in names:
            raise DiffError(
                f"the first profile has a kernel {new} of its own: {old} cannot be compared as it"
            )
    values = {
        each.name: _table(table, names)
        for each in fields(tables)
        if isinstance(table := getattr(tables, each.name), pd.DataFrame)
    }
    return replace(tables, **values, metadata=_metadata(tables.metadata, names))


def _table(table: pd.DataFrame, names: Mapping[str, str]) -> pd.DataFrame:
    changed = {name: _named(table[name], names) for name in _BY_NAME if name in table.columns}
    if _PATH in table.columns and len(table):
        paths = {str(path): _path(str(path), names) for path in table[_PATH].unique()}
        changed[_PATH] = _named(table[_PATH], paths)
    return table.assign(**changed) if "kernel" in table.columns else table


def _named(column: pd.Series[Any], names: Mapping[str, str]) -> pd.Series[Any]:
    values = column.astype("object").map(lambda name: names.get(name, name))
    return values.astype("category" if isinstance(column.dtype, pd.CategoricalDtype) else column.dtype)


def _path(path: str, names: Mapping[str, str]) -> str:
    """A call path begins with the kernel's name."""
    first, space, rest = path.partition(" ")
    return names.get(first, first) + space + rest


def _metadata(metadata: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The entries that name kernels."""
    result = dict(metadata)
    for entry in ("variants", "bare_times"):
        if isinstance(metadata.get(entry), dict):
            result[entry] = {names.get(name, name): value for name, value in metadata[entry].items()}
    for entry, key in (("code", "kernel"), ("sources", "name")):
        result[entry] = [_entry(each, key, names) for each in metadata.get(entry) or []]
    for entry, inside in (("sampler", "binaries"), ("evidence", "tensors")):
        if isinstance(whole := metadata.get(entry), dict):
            told = [_entry(each, "kernel", names) for each in whole.get(inside) or []]
            result[entry] = {**whole, inside: told}
    return result


def _entry(entry: Mapping[str, Any], key: str, names: Mapping[str, str]) -> dict[str, Any]:
    return {**entry, key: names.get(entry.get(key, ""), entry.get(key))}
