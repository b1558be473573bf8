"""What experiments say of the corpus' kernels, and what fixing their faults saved.

    python -m bench.experiments [--out FILE] [--limit S] [CASE ...]

Experiments alone, without counters and samples. On the emulator launches are small.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from bench.corpus.case import Case
from bench.corpus.cases import CASES
from bench.corpus.recording import prepared, runs_here
from bench.diagnose import cases
from bench.kernels import surroundings
from profscope.analysis.experiments import experiments_text
from profscope.compat.edited import swapped
from profscope.device.backend import select
from profscope.experiments.arguments import Arguments, extents
from profscope.experiments.builds import Builds
from profscope.experiments.running import experiments_table, run
from profscope.experiments.timing import PairTimer
from profscope.tuning.launches import launch_of

__all__ = ["main", "measured"]


def measured(case: Case, builds: Builds, limit_s: float) -> pd.DataFrame:
    """The table of a case's experiments."""
    with surroundings(), select("auto") as machine:
        fault = prepared(case.prepare, small=not torch.cuda.is_available())
        launch = launch_of(fault.kernel, fault.grid, fault.args, fault.options, {})
        arguments = Arguments(launch.values)
        try:
            compiled = launch()
            arguments.keep_result()
            timer = PairTimer(machine, arguments.restore)
            memory = extents(compiled, launch.given)
            with swapped(compiled, launch) as in_place:
                results = run(compiled, in_place, memory, timer, builds, limit_s)
            return experiments_table(results, compiled.name, 0, timer.unit)
        finally:
            arguments.reset()


def main(argv: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.experiments", description=__doc__)
    parser.add_argument("cases", nargs="*", help="names of cases, or parts of them; all by default")
    parser.add_argument("--out", type=Path, help="a file for the tables, as JSON")
    parser.add_argument("--limit", type=float, default=20.0, help="seconds for a kernel")
    options = parser.parse_args(argv)
    real = {row["name"]: row.get("gain") for row in cases()}
    found: dict[str, Any] = {}
    with Builds().open() as builds:
        for name, case in CASES.items():
            wanted = not options.cases or any(part in name for part in options.cases)
            if wanted and runs_here(case):
                began = time.monotonic()
                try:
                    table = measured(case, builds, options.limit)
                except Exception as error:  # noqa: BLE001  the other cases go on
                    print(f"== {name}: {type(error).__name__}: {error}", flush=True)
                    continue
                print("\n".join(_shown(name, case, real.get(name), table)))
                print(f"   {time.monotonic() - began:.1f} s", flush=True)
                found[name] = json.loads(table.to_json(orient="records"))
    if options.out is not None:
        options.out.write_text(json.dumps(found, indent=1))
    return 0


def _shown(name: str, case: Case, real: float | None, table: pd.DataFrame) -> Iterator[str]:
    known = real is not None and not math.isnan(real)
    fault = f"{', '.join(case.causes)} at {list(case.lines)}" if case.causes else "no fault"
    yield f"== {name}: {fault}" + (f"; fixing it saves {100 * real:.0f} %" if known and real else "")
    yield from (f"   {line}" for line in experiments_text(table))


if __name__ == "__main__":
    raise SystemExit(main())
