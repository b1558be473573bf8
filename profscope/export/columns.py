"""The span table as compact text: what a trace file holds so that it can be read back exactly and fast.

A column of integers becomes small differences from what its neighbours predict, then bytes, zlib and base64:
about two bytes a span. `encode` and `decode` are each other's inverse for every table the schema allows,
whatever the predictions are worth; all arithmetic is int64 and may wrap, which loses nothing.
"""

import base64
import zlib
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.export.clock import Clock, fit_clock
from profscope.schema import PAYLOAD_DTYPES, SPAN_DTYPES, spans_frame
from profscope.summary import SITE_COLUMNS

__all__ = ["decode", "encode", "pack", "run_starts", "unpack"]

Ints = NDArray[np.int64]
RUN_COLUMNS = ("launch", "cta", "sm", "warp")
SITE_ORDERED = ("start_cycle", "duration_cycles")
"""Streams packed site by site: one site's times are alike, which zlib turns into a sixth fewer bytes."""

CATEGORIES = ("kernel", "scope", "kind", "file")


def encode(df: pd.DataFrame, site: Ints, table: pd.DataFrame, pool: Executor) -> Callable[[], dict[str, Any]]:
    """Start packing a span table's columns in `pool`; what is returned waits for the JSON-able result.

    `site` and `table` are those of `profscope.summary.sites`.
    """
    starts = run_starts(df)
    lengths = np.diff(starts, append=len(df))
    column = {name: _int64(df, name) for name, dtype in SPAN_DTYPES.items() if dtype != "category"}
    start, end = column["start_cycle"], column["start_cycle"] + column["duration_cycles"]
    start_ns, end_ns = column["start_ns"], column["start_ns"] + column["duration_ns"]
    clock = fit_clock(lengths, column)
    streams = {
        "run_length": lengths,
        **{f"run_{name}": _differences(column[name][starts]) for name in RUN_COLUMNS},
        "clock_ns": _differences(clock.ns),
        "clock_fraction": clock.fraction,
        "clock_rate": _differences(clock.rate),
        "site": site,
        "depth": column["depth"],
        "iteration": _differences(column["iteration"]),
        "start_cycle": _differences(start) - _step(column["depth"], column["duration_cycles"]),
        "duration_cycles": column["duration_cycles"],
        "start_ns": start_ns - clock.at(start),
        "end_ns": end_ns - clock.at(end),
    }
    if not np.array_equal(column["parent"], _parents(column["depth"], (df["kind"] == "async").to_numpy())):
        streams["parent"] = column["parent"] - np.arange(len(df))
    order = _by_site(site)
    streams |= {name: streams[name][order] for name in SITE_ORDERED}
    packed = {name: pool.submit(pack, values) for name, values in streams.items()}
    return lambda: {
        "rows": len(df),
        "categories": {name: _categories(df[name]) for name in CATEGORIES},
        "sites": np.stack([_codes(table[name]) for name in SITE_COLUMNS], axis=1).tolist(),
        "streams": {name: stream.result() for name, stream in packed.items()},
        "waits": _waits(column["wait"]),
        "payloads": {name: _payload(df[name]) for name in df.columns if name not in SPAN_DTYPES},
    }


def decode(data: dict[str, Any], pool: Executor) -> pd.DataFrame:
    """The span table `encode` was given.

    Raises KeyError, TypeError, ValueError or zlib.error for damaged data.
    """
    rows = data["rows"]
    stream = dict(zip(data["streams"], pool.map(unpack, data["streams"].values()), strict=True))
    lengths = stream["run_length"]
    if lengths.sum() != rows or any(len(stream[name]) != rows for name in ("site", "depth", "end_ns")):
        raise ValueError(f"the columns do not have {rows} rows")
    order = _by_site(stream["site"])
    for name in SITE_ORDERED:
        in_rows = np.empty(rows, np.int64)
        in_rows[order] = stream[name]
        stream[name] = in_rows
    columns: dict[str, Any] = {name: np.repeat(_sums(stream[f"run_{name}"]), lengths) for name in RUN_COLUMNS}
    table = np.array(data["sites"], np.int64).reshape(-1, len(SITE_COLUMNS))
    for name, codes in zip(SITE_COLUMNS, table.T, strict=True):
        values = codes[stream["site"]]
        columns[name] = values if name == "line" else _categorical(values, data["categories"][name])
    depth, duration = stream["depth"], stream["duration_cycles"]
    start = _sums(stream["start_cycle"] + _step(depth, duration))
    clock = Clock(
        lengths, start, _sums(stream["clock_ns"]), stream["clock_fraction"], _sums(stream["clock_rate"])
    )
    start_ns = stream["start_ns"] + clock.at(start)
    columns |= {"depth": depth, "iteration": _sums(stream["iteration"])}
    columns |= {"start_cycle": start, "duration_cycles": duration}
    columns |= {"start_ns": start_ns, "duration_ns": stream["end_ns"] + clock.at(start + duration) - start_ns}
    if "parent" in stream:
        columns["parent"] = stream["parent"] + np.arange(rows)
    else:
        columns["parent"] = _parents(depth, np.asarray(columns["kind"] == "async"))
    columns["wait"] = np.full(rows, -1)
    waits = {name: unpack(packed) for name, packed in data["waits"].items()}
    asynchronous = _sums(waits["rows"])
    columns["wait"][asynchronous] = asynchronous + waits["after"]
    frame = spans_frame(columns)
    for name, payload in data.get("payloads", {}).items():
        frame[name] = _payload_column(payload, rows)
    return frame


def run_starts(df: pd.DataFrame) -> Ints:
    """The rows at which another warp's spans begin, int64 of shape (runs,)."""
    change = np.ones(len(df), np.bool_)
    if len(df):
        change[1:] = False
    for name in RUN_COLUMNS:
        values = df[name].to_numpy()
        change[1:] |= values[1:] != values[:-1]
    return np.flatnonzero(change)


def pack(values: Ints) -> dict[str, Any]:
    """Integers as text: zigzag, the fewest of 1, 2, 4 or 8 bytes each, byte planes, zlib, base64."""
    folded = ((values << 1) ^ (values >> 63)).view(np.uint64)
    top = int(folded.max(initial=0))
    width = next(width for width in (1, 2, 4, 8) if top < 1 << (8 * width))
    little = folded.astype(f"<u{width}").view(np.uint8).reshape(-1, width)
    planes = np.ascontiguousarray(little.T).tobytes()
    return {
        "count": len(values),
        "width": width,
        "data": base64.b64encode(zlib.compress(planes, 1)).decode("ascii"),
    }


def unpack(packed: dict[str, Any]) -> Ints:
    """The integers `pack` was given, int64. Raises ValueError or zlib.error for damaged data."""
    count, width = packed["count"], packed["width"]
    planes = np.frombuffer(zlib.decompress(base64.b64decode(packed["data"], validate=True)), np.uint8)
    little = np.ascontiguousarray(planes.reshape(width, count).T)
    folded = little.view(f"<u{width}").reshape(count).astype(np.uint64)
    return (folded >> np.uint64(1)).view(np.int64) ^ -(folded & np.uint64(1)).view(np.int64)


def _int64(df: pd.DataFrame, name: str) -> Ints:
    return df[name].to_numpy().astype(np.int64, copy=False)


def _differences(values: Ints) -> Ints:
    return np.diff(values, prepend=np.int64(0))


def _sums(values: Ints) -> Ints:
    return np.cumsum(values, dtype=np.int64)


def _by_site(site: Ints) -> Ints:
    """The rows, site by site, in order within each."""
    # numpy's stable sort is a radix sort for 16-bit keys: many times faster than for 64-bit ones.
    few = int(site.max(initial=0)) < 1 << 16
    return np.argsort(site.astype(np.uint16) if few else site, kind="stable")


def _step(depth: Ints, duration: Ints) -> Ints:
    """How far a span is expected to start after the row before it: at once for its child, else at its end."""
    step = np.zeros(len(depth), np.int64)
    step[1:] = np.where(depth[1:] > depth[:-1], 0, duration[:-1])
    return step


def _parents(depth: Ints, asynchronous: NDArray[np.bool_]) -> Ints:
    """The parents that pre-order implies: the last synchronous row one level up; -1 at depth 0."""
    parent = np.full(len(depth), -1, np.int64)
    level = np.flatnonzero(depth == 0)
    for deeper in range(1, int(depth.max(initial=0)) + 1):
        above = level[~asynchronous[level]]
        level = np.flatnonzero(depth == deeper)
        at = np.searchsorted(above, level) - 1
        parent[level] = np.where(at >= 0, above[at] if len(above) else -1, -1)
    return parent


def _waits(wait: Ints) -> dict[str, Any]:
    """The rows that a wait ended, and how many rows later it is."""
    rows = np.flatnonzero(wait != -1)
    return {"rows": pack(_differences(rows)), "after": pack(wait[rows] - rows)}


def _payload(column: "pd.Series[Any]") -> dict[str, Any]:
    """The rows that carry a value, and the values' bits."""
    carried = np.flatnonzero(column.notna().to_numpy())
    floating = column.dtype == "float64"
    values = column.to_numpy(np.float64 if floating else np.int64, na_value=np.nan if floating else 0)
    bits = np.ascontiguousarray(values[carried]).view(np.int64)
    return {"dtype": str(column.dtype), "rows": pack(_differences(carried)), "bits": pack(bits)}


def _payload_column(payload: dict[str, Any], rows: int) -> Any:
    if payload["dtype"] not in PAYLOAD_DTYPES:
        raise ValueError(f"a payload column of dtype {payload['dtype']}")
    carried, bits = _sums(unpack(payload["rows"])), unpack(payload["bits"])
    if payload["dtype"] == "float64":
        values = np.full(rows, np.nan)
        values[carried] = bits.view(np.float64)
        return values
    integers, missing = np.zeros(rows, np.int32), np.ones(rows, np.bool_)
    integers[carried], missing[carried] = bits, False
    return pd.arrays.IntegerArray(integers, missing)


def _codes(column: "pd.Series[Any]") -> Ints:
    values = column.to_numpy() if column.name == "line" else column.cat.codes.to_numpy()
    return values.astype(np.int64)


def _categories(column: "pd.Series[Any]") -> dict[str, Any]:
    values = column.cat.categories
    return {"values": list(values), "dtype": str(values.dtype), "ordered": bool(column.cat.ordered)}


def _categorical(codes: Ints, categories: dict[str, Any]) -> pd.Categorical:
    values = pd.Index(categories["values"], dtype=categories["dtype"])
    return pd.Categorical.from_codes(codes, categories=values, ordered=categories["ordered"])
