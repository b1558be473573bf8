"""A folder of Parquet with more spans than memory holds: what it takes on disk, and to ask it.

    python -m bench.larger_than_memory [--spans 200] [--limit 1GB] [--folder /tmp/profscope-many]

One launch of a matmul-like profile is written; the others are links to it, so that only as much is written as
one launch takes, though the figures of size and time are of all of them. Each step runs in a process of its
own, whose peak of memory is told. The folder is removed afterwards.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import duckdb
import pandas as pd

import profscope
from bench.about import about
from bench.reading import forget_peak, status_bytes
from profscope.errors import TraceError
from profscope.profiles import Profile
from profscope.traces.formats import PROFILE, SPANS, launch_folder
from profscope.traces.loading import load_part
from profscope.traces.parquet.columns import launch_bytes
from profscope.traces.trace_filter import TraceFilter
from tests.support.profiles import regular_profile

__all__ = ["by_scope", "load_all", "main", "one_cta", "one_launch", "slowest_ctas", "written"]

_BY_SCOPE: Final = "select scope, count(*), sum(duration_ns), max(duration_ns) from {} group by all"
_SLOWEST: Final = (
    "select launch, cta, sm, max(start_ns + duration_ns) - min(start_ns) as ns from {} where kind = 'kernel' "
    "group by all order by ns desc limit 10"
)


def written(folder: Path, spans_m: float, profile: Profile) -> int:
    """The folder of a profile of so many million spans, which repeats one launch; how many exactly."""
    profile.save(f"{folder}/")
    tables = profile.tables
    rows, first = len(tables.df), int(tables.launches["launch"].iloc[0])
    launches = max(1, round(spans_m * 1e6 / rows))
    source = launch_folder(folder, 0, first) / SPANS
    for number in range(first + 1, first + launches):
        target = launch_folder(folder, 0, number)
        target.mkdir(parents=True)
        os.link(source, target / SPANS)
    table = pd.concat([tables.launches] * launches, ignore_index=True)
    table["launch"] = table["launch"] + table.index.to_numpy("int32")
    numbers = table["launch"].tolist()
    several = replace(tables, launches=table)
    (folder / PROFILE).write_bytes(launch_bytes(several, [[number, rows] for number in numbers]))
    return rows * launches


def query(folder: str, limit: str, text: str) -> str:
    """DuckDB's answer, in so much memory."""
    duckdb.sql(f"set memory_limit = '{limit}'")
    duckdb.sql("set enable_progress_bar = false")
    spans = f"read_parquet('{folder}/rank=*/launch=*/spans.parquet', hive_partitioning = true)"
    return f"{len(duckdb.sql(text.format(spans)).fetchall())} rows"


def by_scope(folder: str, limit: str) -> str:
    return query(folder, limit, _BY_SCOPE)


def slowest_ctas(folder: str, limit: str) -> str:
    return query(folder, limit, _SLOWEST)


def one_launch(folder: str, _: str) -> str:
    return f"{len(load_part(folder, TraceFilter(launch=1)).tables.df):,} spans"


def one_cta(folder: str, _: str) -> str:
    return f"{len(load_part(folder, TraceFilter(launch=1, cta=17)).tables.df):,} spans"


def load_all(folder: str, _: str) -> str:
    try:
        return f"{len(profscope.load(folder).df):,} spans"
    except TraceError as error:
        return str(error)


_STEPS: Final = (by_scope, slowest_ctas, one_launch, one_cta, load_all)


def measured(step: Callable[[str, str], str], folder: str, limit: str) -> dict[str, object]:
    """What a step takes in this process."""
    before = forget_peak()
    begin, cpu = time.perf_counter(), time.process_time()
    answer = step(folder, limit)
    return {
        "step": step.__name__,
        "wall_s": time.perf_counter() - begin,
        "cpu_s": time.process_time() - cpu,
        "peak_mb": (status_bytes("VmHWM") - before) / 1e6,
        "answer": answer,
    }


def main(argv: Sequence[str]) -> int:
    """Print the figures; returns an exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.larger_than_memory", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--spans", type=float, default=200, help="in millions (default 200)")
    parser.add_argument("--limit", default="1GB", help="DuckDB's memory (default 1GB)")
    parser.add_argument(
        "--folder", type=Path, default=Path("/tmp/profscope-many"), help="is removed afterwards"
    )
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    options = parser.parse_args(argv)
    if options.folder.exists():
        parser.error(f"{options.folder} exists")
    try:
        launch = regular_profile(launches=1, ctas=1024, warps=8, iterations=60)
        spans = written(options.folder, options.spans, launch)
        size = sum(path.stat().st_size for path in options.folder.rglob("*.parquet"))
        print(about())
        print(f"{spans:,} spans, {size / 1e9:.2f} GB, {size / spans:.2f} bytes a span\n")
        steps = []
        for step in _STEPS:
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                steps.append(pool.apply(measured, (step, str(options.folder), options.limit)))
            told = steps[-1]
            print(
                f"{told['step']:14}{told['wall_s']:8.2f} s{told['cpu_s']:8.2f} s of CPU"
                f"{told['peak_mb']:8,.0f} MB  {told['answer']}",
                flush=True,
            )
    finally:
        shutil.rmtree(options.folder, ignore_errors=True)
    if options.json:
        figures = {"about": about(), "spans": spans, "bytes": size, "limit": options.limit, "steps": steps}
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
