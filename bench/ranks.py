"""A job of a thousand ranks: how long its first screen, one step of all ranks and one rank take.

    python -m bench.ranks [--ranks 1000] [--spans 200000] [--memory 2] [--folder DIR] [--json FILE]

The parts are made of one recording of a training step on an H200 (tests/data/events/gpt.pftrace.gz), whose
CTAs are repeated until each rank has so many spans; each rank's clock is ahead by another time, and one rank
is slower. Each question is asked in a process of its own, which may take so many GB of memory.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from multiprocessing import Pool
from pathlib import Path
from typing import Any, Final

from bench.reading import compiled_environment

__all__ = ["QUESTIONS", "main", "write_part"]

_RECORDING: Final = Path(__file__).parents[1] / "tests" / "data" / "events" / "gpt.pftrace.gz"
_LATE_NS: Final = 40_000
_SLOW: Final = 1.3


def main(argv: Sequence[str] | None = None) -> int:
    """Print the figures; returns an exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.ranks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--ranks", type=int, default=1000)
    parser.add_argument("--spans", type=int, default=200_000, help="of each rank (default 200,000)")
    parser.add_argument("--memory", type=float, default=2, help="GB that a question may take (default 2)")
    parser.add_argument("--folder", type=Path, help="where the parts are, or are written to and stay")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    parser.add_argument("--do", choices=QUESTIONS, help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.do:
        print(json.dumps(_asked(options.do, options.folder, options.ranks)))
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = options.folder or Path(name) / "step"
        if not folder.exists():
            with Pool() as pool:
                pool.starmap(
                    write_part,
                    [(folder, rank, options.ranks, options.spans) for rank in range(options.ranks)],
                )
        size = sum(path.stat().st_size for path in folder.rglob("*.parquet"))
        print(f"{options.ranks} ranks of about {options.spans:,} spans, {size / 1e9:.2f} GB")
        with tempfile.TemporaryDirectory() as cache:
            environment = compiled_environment(Path(cache))
            _in_process("one rank", folder, options, environment)  # not timed: modules are compiled in it
            figures = {each: _in_process(each, folder, options, environment) for each in QUESTIONS}
    for question, found in figures.items():
        print(f"{question:24}{found['s']:8.2f} s{found['cpu_s']:8.2f} CPU s{found['peak_mb']:8.0f} MB")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0


def write_part(folder: Path, rank: int, ranks: int, spans: int) -> None:
    """One rank's part, about as its session would have saved it."""
    from profscope.profiles import Profile

    tables = _repeated(spans)
    late, slow = rank % 11 * _LATE_NS + rank, _SLOW if rank == ranks // 3 else 1.0
    launches, df, ctas = tables.launches, tables.df, tables.ctas
    took = ((launches["end_ns"] - launches["start_ns"]) * slow).astype("int64")
    start = launches["start_ns"] + late
    clock = [{"unix_ns": 0, "offset_ns": 0, "error_ns": 500.0}]
    job = {
        "id": "bench",
        "rank": rank,
        "world_size": ranks,
        "host": f"node{rank // 8}",
        "boot": f"{rank // 8}",
        "clock": clock,
    }
    metadata = {**tables.metadata, "job": job}
    tables = replace(
        tables,
        df=df.assign(start_ns=df["start_ns"] + late),
        ctas=ctas.assign(start_ns=ctas["start_ns"] + late, end_ns=ctas["end_ns"] + late),
        launches=launches.assign(start_ns=start, end_ns=start + took),
        metadata=metadata,
    )
    Profile.of(tables).save(folder / f"rank={rank}" / "trace.parquet")


@cache
def _repeated(spans: int) -> Any:
    """The recording with the CTAs of each launch so often that there are so many spans; and their table."""
    import numpy as np
    import pandas as pd

    import profscope
    from profscope.analysis.spans.ctas import ctas_of_spans
    from profscope.schema import ctas_frame

    tables = profscope.load(_RECORDING).tables
    df = tables.df
    times = max(1, round(spans / len(df)))
    blocks = []
    for _, rows in pd.Series(np.arange(len(df))).groupby(df["launch"].to_numpy()):
        own = rows.to_numpy()
        blocks += [own] * times
    order = np.concatenate(blocks)
    copy = np.concatenate([np.full(len(block), number % times) for number, block in enumerate(blocks)])
    begins = np.cumsum([0, *map(len, blocks)])[:-1]
    first = np.repeat([block[0] for block in blocks], list(map(len, blocks)))
    place = np.repeat(begins, list(map(len, blocks)))
    many = df.iloc[order].reset_index(drop=True)
    each = int(df["cta"].max()) + 1
    for name in ("parent", "wait"):
        old = many[name].to_numpy()
        many[name] = np.where(old < 0, -1, old - first + place)
    many["cta"] = (many["cta"].to_numpy() + copy * each).astype(np.int32)
    random = np.random.default_rng(0).integers(0, 1 << 20, len(blocks))
    late = np.repeat(random, list(map(len, blocks)))  # CTAs are alike, and begin at other times
    many["start_cycle"] += late
    many["start_ns"] += late // 2
    many["sm"] = (many["cta"].to_numpy() % 132).astype(np.int32)
    launches = tables.launches
    counts = many.drop_duplicates(["launch", "cta"])["launch"].value_counts()
    known = launches["launch"].map(counts).fillna(0).astype(np.int32)
    launches = launches.assign(
        ctas=known, grid_x=np.maximum(known, 1), grid_y=np.int32(1), grid_z=np.int32(1)
    )
    found = ctas_of_spans(many, np.array([0]), np.array([len(many)]))[0]
    about = launches.set_index("launch").loc[found["launch"]]
    ctas = ctas_frame(
        {
            **{name: found[name] for name in ("launch", "cta", "sm", "start_ns", "end_ns", "start_cycle")},
            "kernel": about["kernel"].to_numpy(),
            "variant": about["variant"].to_numpy(),
            "duration_cycles": found["cycles"],
            "recorded": np.ones(len(found), bool),
        }
    )
    return replace(tables, df=many, launches=launches, ctas=ctas)


def _viewed(*words: str) -> None:
    from profscope.viewer.cli import main as view

    if view(words):
        raise SystemExit("profscope view has failed")


def _one_step(folder: Path, ranks: int) -> None:
    """The time of each scope on each rank, in the launches of one step."""
    import duckdb

    duckdb.sql("set memory_limit = '1GB'")
    duckdb.sql("set enable_progress_bar = false")
    rows = duckdb.sql(_STEP.format(folder)).fetchall()
    if len({rank for rank, *_ in rows}) != ranks:
        raise SystemExit("not all ranks have answered")


_STEP: Final = """
    select rank, scope, count(*), sum(duration_ns)
    from read_parquet('{}/*/*.parquet', hive_partitioning = true)
    where launch < 60 group by all
"""
QUESTIONS: Final[dict[str, Callable[[Path, int], None]]] = {
    "first screen": lambda folder, _: _viewed(str(folder)),
    "one rank": lambda folder, ranks: _viewed(str(folder), "--rank", str(ranks // 2)),
    "one step, by DuckDB": _one_step,
}


def _asked(question: str, folder: Path, ranks: int) -> dict[str, float]:
    import resource

    begin = time.perf_counter()
    with open(os.devnull, "w") as nothing:
        kept, sys.stdout = sys.stdout, nothing
        try:
            QUESTIONS[question](folder, ranks)
        finally:
            sys.stdout = kept
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "s": round(time.perf_counter() - begin, 2),
        "cpu_s": round(used.ru_utime + used.ru_stime, 2),
        "peak_mb": round(used.ru_maxrss / 1024),
    }


def _in_process(
    question: str, folder: Path, options: argparse.Namespace, environment: Mapping[str, str]
) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.ranks", "--do", question, "--folder", str(folder)]
    command += ["--ranks", str(options.ranks)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


if __name__ == "__main__":
    sys.exit(main())
