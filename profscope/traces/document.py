"""What trace files of all formats share: the data they begin with, and the threads that write the rest."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from profscope.schema import LAUNCH_DTYPES, Tables
from profscope.traces.jsontext import document_text
from profscope.version import __version__

S = TypeVar("S")
T = TypeVar("T")

__all__ = ["SCHEMA", "head_text", "in_order", "row_devices", "worker_count"]

SCHEMA = 1
"""Raised when a reader of the former schema could misread the file."""


def row_devices(df: pd.DataFrame, launches: pd.DataFrame) -> Any:
    """Each row's GPU, int64 of shape (rows,)."""
    device = launches.drop_duplicates("launch").set_index("launch")["device"]
    if device.nunique() <= 1:
        return np.full(len(df), device.iloc[0] if len(device) else 0, np.int64)
    return df["launch"].map(device).fillna(0).to_numpy().astype(np.int64)


def worker_count() -> int:
    """Threads worth starting: the cores this process may use, eight at most."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, 8)


def head_text(profile: Tables, spans: dict[str, Any]) -> str:
    """The data of a trace file, whatever its format: a JSON object with one key, "profscope"."""
    ours = {
        "schema": SCHEMA,
        "version": __version__,
        "metadata": profile.metadata,
        "launches": _launch_columns(profile.launches),
        "spans": spans,
    }
    return document_text({"profscope": ours})


def _launch_columns(launches: pd.DataFrame) -> dict[str, Any]:
    # JSON has no NaN: an unknown float is null.
    return {
        name: [None if value != value else value for value in launches[name].tolist()]
        for name in LAUNCH_DTYPES
    }


def in_order(pool: Executor, work: Callable[[S], T], items: Iterable[S]) -> Iterator[T]:
    """`pool.map` that stays only a little ahead of its reader, so that memory stays bounded."""
    ahead: deque[Future[T]] = deque()
    for item in items:
        ahead.append(pool.submit(work, item))
        if len(ahead) > 2 * worker_count():
            yield ahead.popleft().result()
    while ahead:
        yield ahead.popleft().result()
