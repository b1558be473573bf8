"""A profile as a folder of Parquet files: each launch's spans in a file, in folders by rank and launch.

`rank=3/launch=12/spans.parquet` has neither a column rank nor a column launch: engines know them by the names
of the folders. `parent` and `wait` are rows of that file. See `profscope.traces.formats`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from profscope.errors import TraceError
from profscope.schema import Tables
from profscope.traces.formats import PROFILE, SPANS, launch_folder
from profscope.traces.parquet.columns import launch_bytes, no_rows, parquet_bytes
from profscope.traces.parquet.reading import check_size, columns_of, frame, opened, read_rows, stated
from profscope.traces.profscope_object import OBJECT, object_tables
from profscope.traces.trace_file import TraceFile, check_room

__all__ = ["spans_in_folder", "tables_in_folder", "write_folder"]

Ints = NDArray[np.int64]
_REFERENCES = ("parent", "wait")


def write_folder(tables: Tables, path: Path, target: Path) -> None:
    """Write the files of `target`'s trace into `path`, an empty folder that will take that place.

    Raises TraceError for spans that are not in the order of launches, OSError.
    """
    df = tables.df
    launch = df["launch"].to_numpy()
    if (np.diff(launch) < 0).any():
        raise TraceError(
            f"cannot save {target.name!r}: its spans are not in the order of launches: save it as one file"
        )
    ranks = dict(zip(tables.launches["launch"], tables.launches["rank"], strict=True))
    numbers, first = np.unique(launch, return_index=True)
    ends = [*first[1:].tolist(), len(df)][: len(first)]
    parts = []
    for number, begin, end in zip(numbers.tolist(), first.tolist(), ends, strict=True):
        inside = launch_folder(Path(target.name), ranks.get(number, 0), number).relative_to(target.name)
        (path / inside).mkdir(parents=True)
        spans = df.iloc[begin:end].drop(columns="launch")
        for name in _REFERENCES:
            rows = spans[name].to_numpy()
            spans[name] = np.where(rows < 0, -1, rows - begin)
        with (path / inside / SPANS).open("xb") as file:
            file.writelines(parquet_bytes(None, spans))
        parts.append([number, end - begin])
    (path / PROFILE).write_bytes(launch_bytes(tables, parts))


def tables_in_folder(file: TraceFile) -> Tables:
    """The profile in a folder. Raises TraceError, where a launch's file is missing, too."""
    with opened(file, file.path / PROFILE) as read:
        document = stated(file, read)
    return object_tables(file, document, lambda tables, about: _spans(file, tables, about))


def spans_in_folder(file: TraceFile) -> int:
    """How many spans a folder says it has. Raises TraceError where it does not say it."""
    with opened(file, file.path / PROFILE) as read:
        try:
            return int(stated(file, read)[OBJECT]["spans"]["rows"])
        except (KeyError, TypeError, ValueError) as error:
            raise file.damaged(f"its profscope object: {error!r}") from error


def _spans(file: TraceFile, tables: Tables, about: Any) -> pd.DataFrame:
    ranks = dict(zip(tables.launches["launch"], tables.launches["rank"], strict=True))
    wanted = None if file.only.is_all else file.only.launches(tables.launches)
    parts, rows = _parts(file, about, ranks, wanted, file.only.columns())
    if not sum(map(len, rows)):
        parts, rows = _parts(file, about, ranks, None, {})
    file.left_out = about["rows"] - sum(map(len, rows))
    table = pa.concat_tables(parts) if parts else no_rows(about)
    return frame(columns_of(table, about), np.concatenate([np.zeros(0, np.int64), *rows]), about["rows"])


def _parts(
    file: TraceFile, about: Any, ranks: dict[int, int], wanted: Ints | None, columns: dict[str, Ints]
) -> tuple[list[pa.Table], list[Ints]]:
    """Of each launch that is wanted the spans that are, and which rows of the whole table they are."""
    if not columns:  # of some CTAs a row group is read at a time
        spans = sum(count for launch, count in about["launches"] if wanted is None or launch in wanted)
        check_room(str(file), spans, len(about["payloads"]))
    tables, rows, begin = [], [], 0
    for launch, count in about["launches"]:
        if wanted is None or launch in wanted:
            path = launch_folder(file.path, ranks.get(launch, 0), launch) / SPANS
            with opened(file, path) as read:
                if read.metadata.num_rows != count:
                    raise ValueError(f"{path} has {read.metadata.num_rows} rows, not {count}")
                check_size(read, path.stat().st_size)
                table, places = read_rows(read, columns)
            tables.append(_in_whole(table, launch, begin))
            rows.append(places + begin)
        begin += count
    if begin != about["rows"]:
        raise ValueError(f"its launches have {begin} rows, not {about['rows']}")
    return tables, rows


def _in_whole(table: pa.Table, launch: int, begin: int) -> pa.Table:
    """A launch's rows as rows of the whole table, where it begins at row `begin`."""
    for name in _REFERENCES:
        rows = table[name].to_numpy()
        table = table.set_column(
            table.column_names.index(name), name, pa.array(np.where(rows < 0, -1, rows + begin))
        )
    columns = dict(zip(table.column_names, table.columns, strict=True))
    # Without what the file says of missing values: another launch's may say something else.
    return pa.table(columns | {"launch": pa.array(np.full(len(table), launch, np.int32))})
