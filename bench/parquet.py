"""What Parquet costs: write and read many spans, and one CTA of them, beside json.dump of as many rows.

    python -m bench.parquet --spans 10        # millions

json.dump's time is that of a hundredth of the rows, times a hundred.
"""

from __future__ import annotations

import argparse
import io
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb

import profscope
from bench.about import about
from profscope.traces.loading import load_part
from profscope.traces.trace_filter import TraceFilter
from tests.support.profiles import regular_profile


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--spans", type=int, default=10, help="in millions (default 10)")
    launches = max(1, round(parser.parse_args().spans * 1e6 / (512 * 8 * 303)))
    profile = regular_profile(launches=launches, ctas=512, warps=8, iterations=60)
    rows = len(profile.tables.df)
    part = profile.tables.df.iloc[: rows // 100].to_dict("list")
    _, dump_s = timed(lambda: json.dump(part, io.StringIO()))
    print(about())
    print(f"{rows:,} spans; json.dump of them takes {100 * dump_s:.1f} s of CPU time\n")
    print(f"{'':34}{'s':>8}{'CPU s':>8}{'of json.dump':>14}")
    with tempfile.TemporaryDirectory() as folder:
        file, parts = Path(folder) / "t.parquet", f"{folder}/t/"
        only = TraceFilter(launch=launches // 2, cta=17)
        spans = f"read_parquet('{folder}/t/*/*/spans.parquet', hive_partitioning = true)"
        query = f"select scope, count(*), sum(duration_ns) from {spans} group by all"
        steps: dict[str, Callable[[], object]] = {
            "save t.parquet": lambda: profile.save(file),
            "load t.parquet": lambda: profscope.load(file),
            "one CTA of t.parquet": lambda: load_part(file, only),
            "save t/": lambda: profile.save(parts),
            "load t/": lambda: profscope.load(parts),
            "one CTA of t/": lambda: load_part(parts, only),
            "DuckDB, time by scope of t/": lambda: duckdb.sql(query).fetchall(),
        }
        for name, step in steps.items():
            took_s, cpu_s = timed(step)
            print(f"{name:34}{took_s:8.2f}{cpu_s:8.2f}{cpu_s / dump_s / 100:14.3f}")
        print(f"\n{file.stat().st_size / rows:.1f} bytes a span")


def timed(step: Callable[[], object]) -> tuple[float, float]:
    """Seconds, and those of CPU time over all threads."""
    begin, cpu = time.perf_counter(), time.process_time()
    step()
    return time.perf_counter() - begin, time.process_time() - cpu


if __name__ == "__main__":
    main()
