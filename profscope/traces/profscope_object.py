"""The "profscope" object: a profile's tables as JSON, which every trace file of profscope holds.

docs/trace-format.md describes it.
"""

import zlib
from pathlib import Path
from typing import Any

import pandas as pd

from profscope.errors import TraceError
from profscope.schema import LAUNCH_DEFAULTS, LAUNCH_DTYPES, Tables, launches_frame
from profscope.traces.compact import decode
from profscope.traces.jsontext import json_text
from profscope.traces.threads import worker_pool
from profscope.version import __version__

__all__ = ["SCHEMA", "object_tables", "object_text"]

SCHEMA = 1
"""Raised when a reader of the former schema could misread the file."""


def object_text(tables: Tables, spans: dict[str, Any]) -> str:
    """JSON with one key, "profscope": the object, in ASCII. `spans` is what `compact.encode` made."""
    ours = {
        "schema": SCHEMA,
        "version": __version__,
        "metadata": tables.metadata,
        "launches": _launch_columns(tables.launches),
        "spans": spans,
    }
    return json_text({"profscope": ours})


def object_tables(path: Path, document: dict[str, Any]) -> Tables:
    """The tables in a document's "profscope" object.

    Raises TraceError, which names the file `path`, for a damaged object and for one of a newer schema.
    """
    ours = document["profscope"]
    schema = ours.get("schema") if isinstance(ours, dict) else None
    if not isinstance(schema, int):
        raise TraceError(f"{path} is damaged: its profscope object has no schema number")
    if schema > SCHEMA:
        raise TraceError(
            f"{path} has trace schema {schema}, written by profscope {ours.get('version')}; "
            f"this is profscope {__version__}, which reads schemas up to {SCHEMA}: upgrade it"
        )
    try:
        columns = ours["launches"]
        launches = {
            name: columns[name] for name in LAUNCH_DTYPES if name in columns or name not in LAUNCH_DEFAULTS
        }
        with worker_pool() as pool:
            return Tables(decode(ours["spans"], pool), launches_frame(launches), dict(ours["metadata"]))
    except KeyError as error:
        raise TraceError(f"{path} is damaged: its profscope object has no {error}") from error
    except (AttributeError, IndexError, OverflowError, TypeError, ValueError, zlib.error) as error:
        raise TraceError(f"{path} is damaged: {error}") from error


def _launch_columns(launches: pd.DataFrame) -> dict[str, Any]:
    # JSON has no NaN: an unknown float is null.
    return {
        name: [None if value != value else value for value in launches[name].tolist()]
        for name in LAUNCH_DTYPES
    }
