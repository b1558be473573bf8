"""Profiles of many kernels: recordings of the corpus, each repetition under other names."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from itertools import cycle, islice

import pandas as pd

from bench.corpus.recording import RECORDINGS
from profscope.profiles import Profile, load
from profscope.schema import Tables
from profscope.traces.jobs.merging import merged
from profscope.traces.jobs.stack import Part

__all__ = ["many_kernels"]

_DIFFERENT = 12


def many_kernels(count: int) -> Profile:
    """Of an H200, with evidence and findings; each kernel as of another rank."""
    smallest = sorted(RECORDINGS.glob("*.pftrace.gz"), key=lambda path: path.stat().st_size)
    tables = [load(path).tables for path in smallest[: min(count, _DIFFERENT)]]
    parts = [Part(_renamed(each, at), str(at), at) for at, each in enumerate(islice(cycle(tables), count))]
    return Profile.of(merged(parts))


def _renamed(tables: Tables, at: int) -> Tables:
    """With a number behind the kernel's name, wherever it stands."""
    (old,) = set(tables.launches["kernel"])
    new = f"{old}_{at}"
    changed: dict[str, object] = {"metadata": json.loads(json.dumps(tables.metadata).replace(old, new))}
    for each in fields(tables):
        table = getattr(tables, each.name)
        if isinstance(table, pd.DataFrame):
            columns = {
                name: _replaced(table[name], old, new) for name in ("kernel", "scope") if name in table
            }
            changed[each.name] = table.assign(**columns)
    return replace(tables, **changed)


def _replaced(column: pd.Series, old: str, new: str) -> pd.Series:
    return (
        column.astype("object").replace(old, new).astype("category" if column.dtype == "category" else "str")
    )
