"""The span table as compact text: what a trace file holds so that it can be read back exactly and fast.

A column of integers becomes small differences from what its neighbours predict, then bytes, zlib and base64:
about a byte and a half a span. `encode` and `decode` are each other's inverse for every table the schema
allows, whatever the predictions are worth; all arithmetic is int64 and may wrap, which loses nothing.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profscope.analysis.spans.rows import SITE_COLUMNS
from profscope.schema import PAYLOAD_DTYPES, SPAN_DTYPES, payload_names, spans_frame
from profscope.store.packed_table import pack, unpack, unpack_narrow
from profscope.traces.tracks import RUN_COLUMNS, column_run_starts, run_starts, stable_order

__all__ = [
    "REFERENCES",
    "Clock",
    "categorical",
    "categories",
    "decode",
    "encode",
    "fit_clock",
    "parents_of",
    "renumbered",
]

# A straight line from cycles to nanoseconds for each warp, so that a trace need not store both.
#
# The line is a prediction, not a measurement: the file keeps what the line misses, and is exact whatever its
# quality. Everything is int64 and wraps on overflow, alike when writing and when reading.

Ints = NDArray[np.int64]
ONE = 1 << 32
"""The line's slope and offset are fixed-point numbers with 32 bits after the point."""


@dataclass(frozen=True)
class Clock:
    """ns = ns + (fraction + (cycle - the run's first start_cycle) * rate) / 2**32, rounded down.

    lengths      rows in each run (the spans of one warp), shape (runs,)
    start_cycle  of every row, shape (rows,)
    ns, fraction, rate  the line of each run, shape (runs,)
    """

    lengths: Ints
    start_cycle: Ints
    ns: Ints
    fraction: Ints
    rate: Ints

    def at(self, cycle: Ints) -> Ints:
        """The predicted ns of one cycle per row, shape (rows,)."""
        rate, fraction, ns = self._of_rows
        since: Ints = cycle * rate
        since += fraction
        since >>= 32
        since += ns
        return since

    @cached_property
    def _of_rows(self) -> tuple[Ints, Ints, Ints]:
        """Each row's rate, fraction at cycle 0, and ns."""
        first = np.cumsum(self.lengths) - self.lengths
        at_zero = self.fraction - self.start_cycle[first] * self.rate
        rate, fraction, ns = (np.repeat(of, self.lengths) for of in (self.rate, at_zero, self.ns))
        return rate, fraction, ns


def fit_clock(lengths: Ints, column: dict[str, Ints]) -> Clock:
    """Lines for a table's runs; `column` holds launch and the starts and durations, in cycles and ns.

    One slope a launch, from the total of its warps' first spans, is exact for times that came from one fitted
    clock; where it misses, each run gets its own.
    """
    first = np.cumsum(lengths) - lengths
    ns = column["start_ns"][first]
    cycles, nanoseconds = column["duration_cycles"][first], column["duration_ns"][first]
    launch, position = np.unique(column["launch"][first], return_inverse=True)
    total_cycles = np.bincount(position, cycles, len(launch))
    total_ns = np.bincount(position, nanoseconds, len(launch))
    common = _line(lengths, column, ns, _slope(total_ns, total_cycles)[position])
    misses = _misses(common, column)
    if misses * 20 <= len(column["start_ns"]):
        return common
    own = _line(lengths, column, ns, _slope(nanoseconds, cycles))
    return own if _misses(own, column) < misses else common


def _slope(nanoseconds: NDArray[np.generic], cycles: NDArray[np.generic]) -> Ints:
    ratio = np.asarray(nanoseconds, np.float64) / np.maximum(np.asarray(cycles, np.float64), 1)
    return np.clip(np.rint(ratio * ONE), 0, 1 << 40).astype(np.int64)


def _line(lengths: Ints, column: dict[str, Ints], ns: Ints, rate: Ints) -> Clock:
    """The line of that slope through the middle of what each run's rounded-down times allow."""
    low = np.full(len(lengths), np.iinfo(np.int64).min)
    high = np.full(len(lengths), np.iinfo(np.int64).max)
    first = np.cumsum(lengths) - lengths
    end_cycle = column["start_cycle"] + column["duration_cycles"]
    end_ns = column["start_ns"] + column["duration_ns"]
    for cycle, seen in ((column["start_cycle"], column["start_ns"]), (end_cycle, end_ns)):
        since = (cycle - np.repeat(column["start_cycle"][first], lengths)) * np.repeat(rate, lengths)
        missing = ((seen - np.repeat(ns, lengths)) << 32) - since
        if len(first):
            low = np.maximum(low, np.maximum.reduceat(missing, first))
            high = np.minimum(high, np.minimum.reduceat(missing, first) + ONE - 1)
    middle = (low >> 1) + (high >> 1)
    # A number of few bits packs better than one of many: drop the low bits where the range allows.
    coarse = middle >> 28 << 28
    return Clock(
        lengths, column["start_cycle"], ns, np.where((low <= coarse) & (low <= high), coarse, middle), rate
    )


def _misses(clock: Clock, column: dict[str, Ints]) -> int:
    return int(np.count_nonzero(clock.at(column["start_cycle"]) != column["start_ns"]))


SITE_ORDERED = ("start_cycle", "duration_cycles")
"""Streams packed site by site: one site's times are alike, which zlib turns into a sixth fewer bytes."""

PIECE_ROWS = 1 << 17
"""About how many rows are packed together: what one warp recorded is never cut."""

NOISY = (*SITE_ORDERED, "start_ns", "end_ns")
"""Streams with runs but no repeats (see `pack`)."""

FEW_LEVELS = 32
"""Up to so deep going level by level is faster; a kernel nests 4 to 10 deep."""

CATEGORIES = ("kernel", "scope", "kind", "file", "call_path")
ROW_STREAMS = ("site", "depth", "iteration", *SITE_ORDERED, "start_ns", "end_ns")
RUN_STREAMS = (
    "run_length",
    *(f"run_{name}" for name in RUN_COLUMNS),
    "clock_ns",
    "clock_fraction",
    "clock_rate",
)
REFERENCES = ("parent", "wait")
"""Columns of row numbers."""

STREAMS = (*ROW_STREAMS, *RUN_STREAMS, "parent", "wait_row", "wait_after")


def encode(df: pd.DataFrame, site: Ints, table: pd.DataFrame, pool: Executor) -> Callable[[], dict[str, Any]]:
    """Start packing a span table's columns in `pool`; what is returned waits for the JSON-able result.

    `site` and `table` are those of `analysis.span_rows.sites`. The table is cut into pieces between runs, so
    that several threads can pack it, and read it.
    """
    columns = {name: df[name].to_numpy() for name, dtype in SPAN_DTYPES.items() if dtype != "category"}
    columns |= {"site": site, "async": (df["kind"] == "async").to_numpy()}
    starts = run_starts(df)
    cuts = np.unique(starts[np.searchsorted(starts, np.arange(0, len(df), PIECE_ROWS), side="right") - 1])
    bounds = pairwise([*cuts.tolist(), len(df)])
    pieces = [
        pool.submit(_encode_piece, {name: values[begin:end] for name, values in columns.items()}, begin)
        for begin, end in bounds
    ]
    payloads = {name: pool.submit(_payload, df[name]) for name in payload_names(df)}
    return lambda: {
        "rows": len(df),
        "categories": {name: categories(df[name]) for name in CATEGORIES},
        "sites": np.stack([_codes(table[name]) for name in SITE_COLUMNS], axis=1).tolist(),
        "pieces": [piece.result() for piece in pieces],
        "payloads": {name: payload.result() for name, payload in payloads.items()},
    }


def decode(
    data: dict[str, Any], pool: Executor, most_cells: int, launches: Ints | None = None
) -> pd.DataFrame:
    """The span table `encode` was given; it may have so many values over all its columns.

    launches: those that are asked for. Pieces with no span of theirs are left out, unless all are; numbers of
    rows are then those of what is left, -1 for rows that are not.

    Raises KeyError, TypeError, ValueError or zlib.error for damaged data, in memory that `most_cells` bounds.
    """
    rows, payloads = data["rows"], data.get("payloads", {})
    lengths = [piece["streams"]["site"]["count"] for piece in data["pieces"]]
    if sum(lengths) != rows or min(lengths, default=0) < 0:
        raise ValueError(f"the columns do not have {rows} rows")
    width = len(SPAN_DTYPES) + len(payloads)
    if rows * width > most_cells:
        raise ValueError(f"{rows} rows of {width} columns, in a file that can hold {most_cells} values")
    table = np.array(data["sites"], np.int64).reshape(-1, len(SITE_COLUMNS))
    of_site: dict[str, NDArray[Any]] = dict(zip(SITE_COLUMNS, table.T.astype(np.int32), strict=True))
    for name in CATEGORIES:
        of_site[name] = categorical(table[:, SITE_COLUMNS.index(name)], data["categories"][name]).codes
    kinds = data["categories"]["kind"]["values"]
    asynchronous = np.array([kinds[code] == "async" for code in of_site["kind"]], np.bool_)
    begins = np.cumsum([0, *lengths])
    kept = _pieces_with(launches, data["pieces"]) if launches is not None else range(len(lengths))
    places = np.cumsum([0, *(lengths[at] for at in kept)]).tolist()
    columns: dict[str, Any] = {
        name: np.empty(places[-1], of_site[name].dtype if name in of_site else dtype)
        for name, dtype in SPAN_DTYPES.items()
    }

    def fill(at: int, place: int) -> None:
        unpacked = _decode_piece(data["pieces"][at], int(begins[at]), asynchronous)
        site = unpacked.pop("site")
        rows = slice(place, place + len(site))
        for name, values in of_site.items():
            values.take(site, out=columns[name][rows], mode="clip")  # `_decode_piece` has checked them
        for name, values in unpacked.items():
            columns[name][rows] = values

    for _ in pool.map(fill, kept, places[:-1]):
        pass
    kept_rows: slice | Ints = slice(None)
    if places[-1] < rows:
        kept_rows = np.concatenate([np.arange(begins[at], begins[at + 1]) for at in kept])
        for name in REFERENCES:
            columns[name] = renumbered(columns[name], kept_rows)
    for name in CATEGORIES:
        columns[name] = categorical(columns[name], data["categories"][name])
    frame = spans_frame(columns)
    for name, payload in payloads.items():
        if name in SPAN_DTYPES:
            raise ValueError(f"a payload named {name}, as a column is")
        frame[name] = _payload_column(payload, rows)[kept_rows]
    return frame


def _pieces_with(launches: Ints, pieces: Sequence[dict[str, Any]]) -> Sequence[int]:
    """The numbers of those with spans of some launches; of all if none has any."""
    found = []
    for number, piece in enumerate(pieces):
        streams = piece["streams"]
        of_runs = _sums(unpack(streams["run_launch"], streams["site"]["count"]))
        if np.isin(of_runs, launches).any():
            found.append(number)
    return found or range(len(pieces))


def renumbered(references: Ints, rows: Ints) -> Ints:
    """Numbers of rows as they are among `rows`, which rise; -1 for those that are not there."""
    if len(rows) and rows[-1] - rows[0] == len(rows) - 1:  # one stretch, as those of a launch
        at = references - rows[0]
        return np.where((at >= 0) & (at < len(rows)), at, -1)
    at = np.searchsorted(rows, references)
    there = (at < len(rows)) & (references >= 0)
    there[there] = rows[at[there]] == references[there]
    return np.where(there, at, -1)


def _encode_piece(column: dict[str, Any], begin: int) -> dict[str, Any]:
    """Whole runs, from row `begin` of the table on, packed."""
    asynchronous = column.pop("async")
    column = {name: values.astype(np.int64) for name, values in column.items()}
    rows = np.arange(begin, begin + len(column["site"]))
    starts = column_run_starts(column)
    lengths = np.diff(starts, append=len(rows))
    depth, duration = column["depth"], column["duration_cycles"]
    start, end = column["start_cycle"], column["start_cycle"] + duration
    start_ns, end_ns = column["start_ns"], column["start_ns"] + column["duration_ns"]
    clock = fit_clock(lengths, column)
    waited = np.flatnonzero(column["wait"] != -1)
    after = column["wait"][waited] - rows[waited]
    ended, by = _ended(waited, after, len(rows))
    end_ns -= clock.at(end)
    end_ns[ended] -= end_ns[by]
    duration[ended] -= end[by] - start[ended]
    known = duration.copy()
    known[ended] = 0
    streams = {
        "run_length": lengths,
        **{f"run_{name}": _differences(column[name][starts]) for name in RUN_COLUMNS},
        "clock_ns": _differences(clock.ns),
        "clock_fraction": clock.fraction,
        "clock_rate": _differences(clock.rate),
        "site": column["site"],
        "depth": depth,
        "iteration": _differences(column["iteration"]),
        "start_cycle": _differences(start) - _step(depth, known, ended),
        "duration_cycles": duration,
        "start_ns": start_ns - clock.at(start),
        "end_ns": end_ns,
        "wait_row": _differences(waited),
        "wait_after": after,
    }
    if not np.array_equal(column["parent"], parents_of(depth, asynchronous, begin)):
        streams["parent"] = column["parent"] - rows
    order = stable_order(column["site"])
    streams |= {name: streams[name][order] for name in SITE_ORDERED}
    return {"streams": {name: pack(values, noisy=name in NOISY) for name, values in streams.items()}}


def _decode_piece(piece: dict[str, Any], begin: int, asynchronous: NDArray[np.bool_]) -> dict[str, Ints]:
    """The columns of a piece and `site`. `asynchronous` says it of each site."""
    stream = _unpacked(piece["streams"], begin)
    lengths, site, depth = stream["run_length"], stream["site"].astype(np.intp), stream["depth"]
    if int(site.max(initial=-1)) >= len(asynchronous):
        raise ValueError(f"a site beyond the last of {len(asynchronous)}")
    rows = np.arange(begin, begin + len(site))
    order = stable_order(site)
    for name in SITE_ORDERED:
        in_rows = np.empty(len(rows), np.int64)
        in_rows[order] = stream[name]
        stream[name] = in_rows
    columns = {
        name: np.repeat(_sums(stream[f"run_{name}"]).astype(SPAN_DTYPES[name]), lengths)
        for name in RUN_COLUMNS
    }
    duration = stream["duration_cycles"]
    waited = _places(stream["wait_row"], len(rows))
    ended, by = _ended(waited, stream["wait_after"], len(rows))
    known = duration.copy()
    known[ended] = 0
    start = _sums(stream["start_cycle"] + _step(depth, known, ended))
    duration[ended] += start[by] + duration[by] - start[ended]
    clock = Clock(
        lengths, start, _sums(stream["clock_ns"]), stream["clock_fraction"], _sums(stream["clock_rate"])
    )
    start_ns, end_ns = stream["start_ns"] + clock.at(start), stream["end_ns"].astype(np.int64)
    end_ns[ended] += end_ns[by]
    end_ns += clock.at(start + duration)
    wait = np.full(len(rows), -1)
    wait[waited] = rows[waited] + stream["wait_after"]
    parent = stream["parent"] + rows if "parent" in stream else parents_of(depth, asynchronous[site], begin)
    columns |= {"site": site, "depth": depth, "iteration": _sums(stream["iteration"]), "parent": parent}
    columns |= {"start_cycle": start, "duration_cycles": duration, "wait": wait}
    return columns | {"start_ns": start_ns, "duration_ns": end_ns - start_ns}


def _unpacked(streams: dict[str, Any], begin: int) -> dict[str, Ints]:
    """The streams of a piece, as long as they must be: those with a value a row as narrow as they are in the
    file, others int64. Raises ValueError where one is not as long."""
    rows = streams["site"]["count"]
    stream: dict[str, Any] = {
        name: (unpack_narrow if name in ROW_STREAMS else unpack)(streams[name], rows)
        for name in STREAMS
        if name in streams
    }
    runs = len(stream["run_length"])
    wanted = dict.fromkeys(ROW_STREAMS, rows) | dict.fromkeys(RUN_STREAMS, runs)
    wanted |= {"wait_after": len(stream["wait_row"])} | ({"parent": rows} if "parent" in stream else {})
    inside = (stream["run_length"] >= 0) & (stream["run_length"] <= rows)  # so that the sum cannot wrap
    if not inside.all() or stream["run_length"].sum() != rows or (stream["site"] < 0).any():
        raise ValueError(f"the columns do not have {rows} rows from row {begin} on")
    for name, length in wanted.items():
        if len(stream[name]) != length:
            raise ValueError(f"{name} does not have {length} values from row {begin} on")
    return stream


def _places(differences: Ints, rows: int) -> Ints:
    """Row numbers from their differences. Raises ValueError for those of no row."""
    places = _sums(differences)
    if ((places < 0) | (places >= rows)).any():
        raise ValueError(f"a value beyond the last of {rows} rows")
    return places


def _ended(waited: Ints, after: Ints, rows: int) -> tuple[Ints, Ints]:
    """Rows of a piece whose end follows from their wait's: those rows, and their waits' rows.

    `waited` are the rows that have a wait, which is `after` rows later.
    """
    has_wait = np.zeros(rows, np.bool_)
    has_wait[waited] = True
    inside = (after >= -waited) & (after < rows - waited)
    ended = waited[inside]
    by = ended + after[inside]
    plain = ~has_wait[by]
    return ended[plain], by[plain]


def _differences(values: Ints) -> Ints:
    return np.diff(values, prepend=np.int64(0))


def _sums(values: Ints) -> Ints:
    return np.cumsum(values, dtype=np.int64)


def _step(depth: Ints, duration: Ints, ended: Ints) -> Ints:
    """How far a span is expected to start after the row before it: at once for its child, else at its end.

    `ended` are rows that start with the row before them and say nothing themselves.
    """
    before = duration.copy()
    before[ended] = duration[np.maximum(ended - 1, 0)]
    step = np.zeros(len(depth), np.int64)
    np.copyto(step[1:], before[:-1], where=depth[1:] <= depth[:-1])
    return step


def parents_of(depth: Ints, asynchronous: NDArray[np.bool_], begin: int) -> Ints:
    """The parents that pre-order implies: the last synchronous row one level up; -1 at depth 0.

    `begin` is the number of the first row.
    """
    if int(depth.max(initial=0)) > FEW_LEVELS:
        return _parents_of_many_levels(depth, asynchronous, np.arange(begin, begin + len(depth)))
    after = np.zeros(len(depth), np.int32)  # the number after that of the parent's row, 0 without one
    numbers = np.arange(1, len(depth) + 1, dtype=np.int32) * ~asynchronous
    for level in range(1, int(depth.max(initial=0)) + 1):
        above = numbers * (depth == level - 1)
        np.copyto(after, np.maximum.accumulate(above, out=above), where=depth == level)
    return np.where(after > 0, after + np.int64(begin - 1), -1)


def _parents_of_many_levels(depth: Ints, asynchronous: NDArray[np.bool_], rows: Ints) -> Ints:
    """The same, in time that does not grow with the depth."""
    _, level = np.unique(depth, return_inverse=True)
    order = np.lexsort((rows, level))
    above = order[~asynchronous[order]]
    key = level * len(rows) + np.arange(len(rows))  # rises in the order of levels, then rows
    last = np.searchsorted(key[above], key[order] - len(rows)) - 1
    child, candidate = order[last >= 0], above[last[last >= 0]]
    inner = (depth[candidate] == depth[child] - 1) & (depth[child] > 0)
    parent = np.full(len(rows), -1, np.int64)
    parent[child[inner]] = rows[candidate[inner]]
    return parent


def _payload(column: "pd.Series[Any]") -> dict[str, Any]:
    """The rows that carry a value, and the values' bits; of a category, its number."""
    if column.dtype == "category":
        codes = column.cat.codes.to_numpy().astype(np.int32)
        numbers = pd.Series(pd.arrays.IntegerArray(codes, codes < 0))
        return _payload(numbers) | {"dtype": "category", "categories": categories(column)}
    carried = np.flatnonzero(column.notna().to_numpy())
    floating = column.dtype == "float64"
    values = column.to_numpy(np.float64 if floating else np.int64, na_value=np.nan if floating else 0)
    bits = np.ascontiguousarray(values[carried]).view(np.int64)
    return {"dtype": str(column.dtype), "rows": pack(_differences(carried)), "bits": pack(bits)}


def _payload_column(payload: dict[str, Any], rows: int) -> Any:
    if payload["dtype"] not in PAYLOAD_DTYPES:
        raise ValueError(f"a payload column of dtype {payload['dtype']}")
    carried, bits = _places(unpack(payload["rows"], rows), rows), unpack(payload["bits"], rows)
    if len(bits) != len(carried):
        raise ValueError(f"{len(bits)} values in {len(carried)} rows")
    if payload["dtype"] == "float64":
        values = np.full(rows, np.nan)
        values[carried] = bits.view(np.float64)
        return values
    if payload["dtype"] == "category":
        codes = np.full(rows, -1, np.int64)
        codes[carried] = bits
        return categorical(codes, payload["categories"])
    integers, missing = np.zeros(rows, np.int32), np.ones(rows, np.bool_)
    integers[carried], missing[carried] = bits, False
    return pd.arrays.IntegerArray(integers, missing)


def _codes(column: "pd.Series[Any]") -> Ints:
    values = column.to_numpy() if column.name == "line" else column.cat.codes.to_numpy()
    return values.astype(np.int64)


def categories(column: "pd.Series[Any]") -> dict[str, Any]:
    """JSON-able: what a column's categories are, from which `categorical` makes them."""
    values = column.cat.categories
    return {"values": list(values), "dtype": str(values.dtype), "ordered": bool(column.cat.ordered)}


def categorical(codes: NDArray[np.integer], known: dict[str, Any]) -> pd.Categorical:
    """Codes of the categories that `categories` described."""
    values = pd.Index(known["values"], dtype=str(known["dtype"]))
    return pd.Categorical.from_codes(codes, categories=values, ordered=known["ordered"])
