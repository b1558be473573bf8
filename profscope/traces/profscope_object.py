"""The "profscope" object, a profile's tables as JSON, and its digest: every trace of profscope holds both.

docs/records.md describes it.
"""

from __future__ import annotations

import hashlib
import json
import math
import uuid
import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.analysis.spans.rows import OfLaunches
from profscope.errors import TraceError
from profscope.schema import (
    CTA_DTYPES,
    EVENT_DTYPES,
    HOST_DTYPES,
    LAUNCH_DTYPES,
    MEASURED_DTYPES,
    Tables,
    ctas_frame,
    events_frame,
    host_frame,
    launches_frame,
    measured_frame,
)
from profscope.store.file_checks import most_cells
from profscope.store.packed_table import packed_table, unpacked_table
from profscope.threads import worker_pool
from profscope.traces.chrome.text import json_text
from profscope.traces.compact import decode
from profscope.traces.trace_file import TraceFile
from profscope.version import __version__

__all__ = [
    "DAMAGE",
    "KEYS",
    "OBJECT",
    "SCHEMA",
    "check_schema",
    "object_tables",
    "object_text",
    "packed_around",
    "packed_ctas",
    "unpacked_around",
    "unpacked_ctas",
]

SCHEMA = 4
"""Raised when the form of the object changes: a file of another schema is refused."""

OBJECT, DIGEST = "profscope", "profscopeDigest"
KEYS = frozenset({OBJECT, DIGEST})
"""What stands in a file beside its events. One of them is enough to know whose file it is."""

_IN_JSON: Final[Mapping[str, frozenset[type]]] = {
    "int": frozenset({int}),
    "float": frozenset({int, float, str, type(None)}),  # see `_plain`
    "bool": frozenset({bool}),
    "str": frozenset({str}),
    "category": frozenset({str}),
}
"""By a column's dtype without its bits, what its values are in JSON."""

DAMAGE: Final = (AttributeError, IndexError, OverflowError, RecursionError, TypeError, ValueError, zlib.error)


_START: Final = "start_unix_ns"
_END: Final = "end_unix_ns"
_METRICS: Final = "metrics"


def object_text(tables: Tables, spans: dict[str, Any]) -> str:
    """JSON with two keys: the object and its digest, in ASCII. `spans` is what `compact.encode` made."""
    ours = {
        "schema": SCHEMA,
        "version": __version__,
        "metadata": json.loads(json.dumps(tables.metadata)),  # as it will be read: 1 as a key is "1" then
        "launches": _columns(tables.launches, LAUNCH_DTYPES),
        "spans": spans,
        **packed_around(tables),
    }
    for name, dtypes in MEASURED_DTYPES.items():
        if len(getattr(tables, name)):
            ours[name] = packed_table(getattr(tables, name), dtypes)
    if len(tables.ctas):
        ours["ctas"] = packed_ctas(tables.ctas, tables.launches)
    return json_text({OBJECT: ours, DIGEST: _digest(ours)})


def object_tables(file: TraceFile, document: Any) -> Tables:
    """The tables in the object of a file's document.

    Raises TraceError for a damaged object and for one of another schema.
    """
    ours = document.get(OBJECT) if isinstance(document, dict) else None
    if not isinstance(ours, dict):
        raise file.damaged("its profscope object is missing")
    check_schema(file, ours)
    try:
        _check_digest(file, ours, document.get(DIGEST))
        beside = unpacked_around(ours, most_cells(file.size))
        for name in MEASURED_DTYPES.keys() & ours.keys():
            columns = unpacked_table(ours[name], MEASURED_DTYPES[name], most_cells(file.size))
            beside[name] = measured_frame(name, columns)
        launches = _launches(ours["launches"])
        if "ctas" in ours:
            beside["ctas"] = unpacked_ctas(ours["ctas"], launches, most_cells(file.size))
        tables = Tables(launches=launches, metadata=ours["metadata"] | {}, **beside)
        wanted = None if file.only.is_all else file.only.launches(launches)
        with worker_pool() as pool:
            df = decode(ours["spans"], pool, most_cells(file.size), wanted)
        file.left_out = ours["spans"]["rows"] - len(df)
        return replace(tables, df=df)
    except TraceError:
        raise
    except KeyError as error:
        raise file.damaged(f"its profscope object has no {error}") from error
    except DAMAGE as error:
        raise file.damaged(error) from error


def check_schema(file: TraceFile, ours: Mapping[str, Any]) -> None:
    """Raises TraceError for an object of another schema than this version reads."""
    schema = ours.get("schema")
    if not isinstance(schema, int):
        raise file.damaged("its profscope object has no schema number")
    if schema != SCHEMA:
        raise TraceError(
            f"{file} has trace schema {schema}, written by profscope {ours.get('version')}; "
            f"this is profscope {__version__}, which reads schema {SCHEMA}"
        )


def _check_digest(file: TraceFile, ours: dict[str, Any], stated: Any) -> None:
    """Raises TraceError unless the object has the digest that is stated of it."""
    if stated != _digest(ours):
        what = "its digest is missing" if stated is None else "its data do not have the digest it states"
        raise file.damaged(what)


def _digest(ours: dict[str, Any]) -> str:
    """SHA-256 of the content, however it is written down: of its compact JSON with sorted keys, in ASCII.

    The packed rows, nearly all of it, are hashed as they are: base64 has nothing that JSON escapes.
    """
    packed, mark = [], uuid.uuid4().hex
    pieces = []
    for piece in ours["spans"].get("pieces", ()):
        streams = sorted(piece["streams"].items())
        packed += [stream["data"].encode("ascii") for _, stream in streams]
        pieces.append({**piece, "streams": {name: {**stream, "data": mark} for name, stream in streams}})
    spans = {**ours["spans"], "pieces": pieces} if pieces else ours["spans"]
    text = json.dumps({**ours, "spans": spans}, sort_keys=True, separators=(",", ":")).encode("ascii")
    first, *others = text.split(mark.encode("ascii"))
    digest = hashlib.sha256(first)
    for data, following in zip(packed, others, strict=True):
        digest.update(data)
        digest.update(following)
    return digest.hexdigest()


def _columns(table: pd.DataFrame, dtypes: Mapping[str, str]) -> dict[str, Any]:
    lists = {name: table[name].tolist() for name in dtypes}
    return {
        name: list(map(_plain, values)) if dtypes[name] == "float64" else values
        for name, values in lists.items()
    }


def _plain(value: float) -> float | str | None:
    """As JSON, which has no NaN and no infinity: an unknown float is null, an infinite one a text, as
    numpy spells it."""
    if math.isfinite(value):
        return value
    return None if math.isnan(value) else str(value)


def _checked(table: str, columns: dict[str, Any], dtypes: Mapping[str, str]) -> dict[str, Any]:
    """Columns of one length, each of its type. Raises KeyError, TypeError or ValueError for damaged ones."""
    rows = len(columns[next(iter(dtypes))])
    for name, dtype in dtypes.items():
        if not isinstance(columns[name], list) or len(columns[name]) != rows:
            raise ValueError(f"its {table} do not all have a value in {name}")
        if not _IN_JSON[dtype.rstrip("0123456789")].issuperset(map(type, columns[name])):
            raise ValueError(f"its {table} have a {name} that is no {dtype}")
    return columns


def _launches(columns: dict[str, Any]) -> pd.DataFrame:
    """The table of launches. Raises KeyError, TypeError or ValueError for damaged columns."""
    checked = _checked("launches", columns, LAUNCH_DTYPES)
    return launches_frame({name: checked[name] for name in LAUNCH_DTYPES})


def packed_around(tables: Tables) -> dict[str, Any]:
    """Entries "host" and "events" of a trace's object, where these have rows; JSON-able."""
    packed: dict[str, Any] = {}
    if len(tables.host):
        packed["host"] = packed_table(_with_steps(tables.host), HOST_DTYPES)
        others = [name for name in tables.host if name not in HOST_DTYPES]
        metrics = {name: list(map(_plain, tables.host[name].tolist())) for name in others}
        packed["host"][_METRICS] = metrics
    if len(tables.events):
        packed["events"] = packed_table(_with_steps(tables.events), EVENT_DTYPES)
    return packed


def unpacked_around(ours: dict[str, Any], most_cells: int) -> dict[str, pd.DataFrame]:
    """The tables that `packed_around` was given, by name.

    Raises KeyError, TypeError, ValueError or zlib.error for damaged data, in memory that `most_cells` bounds.
    """
    tables = {}
    if "host" in ours:
        columns = _with_times(unpacked_table(ours["host"], HOST_DTYPES, most_cells))
        for name, values in ours["host"][_METRICS].items():
            if name in HOST_DTYPES or len(values) != ours["host"]["rows"]:
                raise ValueError(f"metric {name} does not have a value for each scope")
            columns[name] = np.array(values, np.float64)  # missing: None, which is NaN here
        tables["host"] = host_frame(columns)
    if "events" in ours:
        tables["events"] = events_frame(_with_times(unpacked_table(ours["events"], EVENT_DTYPES, most_cells)))
    return tables


def _with_steps(table: pd.DataFrame) -> pd.DataFrame:
    """Starts since the start of the row before, ends since the start; int64 that may wrap."""
    start, end = table[_START].to_numpy(), table[_END].to_numpy()
    steps = start.copy()
    steps[1:] = start[1:] - start[:-1]
    return table.assign(**{_START: steps, _END: end - start})


def _with_times(columns: dict[str, Any]) -> dict[str, Any]:
    start: NDArray[np.int64] = np.cumsum(columns[_START])
    return columns | {_START: start, _END: columns[_END] + start}


# The table of CTAs in a file: what follows from the launches is left out, the rest is small differences.

Ints = NDArray[np.int64]
_STORED: Final[Mapping[str, str]] = {
    "launch": "int64",  # less that of the row before
    "cta": "int64",  # likewise
    "sm": "int64",
    "since_ns": "int64",  # from the launch's begin to the CTA's
    "duration_ns": "int64",
    "start_cycle": "int64",  # less that of the row before
    "duration_cycles": "int64",
    "recorded": "int8",
}


def packed_ctas(ctas: pd.DataFrame, launches: pd.DataFrame) -> dict[str, Any]:
    """JSON-able. launches: the table of launches; CTAs of others are left out."""
    ctas = ctas[ctas["launch"].isin(launches["launch"])]
    values = {
        name: ctas[name].to_numpy(np.int64) for name, dtype in CTA_DTYPES.items() if dtype != "category"
    }
    columns = {
        "launch": _differences(values["launch"]),
        "cta": _differences(values["cta"]),
        "sm": values["sm"],
        "since_ns": values["start_ns"] - _begins(launches).of(values["launch"]),
        "duration_ns": values["end_ns"] - values["start_ns"],
        "start_cycle": _differences(values["start_cycle"]),
        "duration_cycles": values["duration_cycles"],
        "recorded": values["recorded"],
    }
    return packed_table(pd.DataFrame(columns), _STORED)


def unpacked_ctas(packed: dict[str, Any], launches: pd.DataFrame, most_cells: int) -> pd.DataFrame:
    """The table that `packed_ctas` was given. launches: the table of launches of the file.

    Raises KeyError, TypeError, ValueError or zlib.error for damaged data, in memory that `most_cells` bounds.
    """
    stored = unpacked_table(packed, _STORED, most_cells)
    launch = np.cumsum(stored["launch"])
    row = OfLaunches(launches, np.arange(len(launches)), -1).of(launch)
    if (row < 0).any():
        raise ValueError(f"CTAs of launch {launch[row < 0][0]} are recorded, but the launch is missing")
    start_ns = stored["since_ns"] + _begins(launches).of(launch)
    columns = {
        "kernel": pd.Categorical(launches["kernel"]).take(row),
        "variant": launches["variant"].to_numpy()[row],
        "launch": launch,
        "cta": np.cumsum(stored["cta"]),
        "sm": stored["sm"],
        "start_ns": start_ns,
        "end_ns": start_ns + stored["duration_ns"],
        "start_cycle": np.cumsum(stored["start_cycle"]),
        "duration_cycles": stored["duration_cycles"],
        "recorded": stored["recorded"] != 0,
    }
    for name in ("cta", "sm"):
        if len(row) and not 0 <= columns[name].min() <= columns[name].max() < 1 << 31:
            raise ValueError(f"its CTAs have a {name} that is no int32")
    return ctas_frame(columns)


def _begins(launches: pd.DataFrame) -> OfLaunches[np.int64]:
    return OfLaunches(launches, launches["start_ns"].to_numpy(np.int64), 0)


def _differences(values: Ints) -> Ints:
    return np.diff(values, prepend=np.int64(0))
