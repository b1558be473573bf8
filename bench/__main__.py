"""profscope beside Proton: the same kernels, the same points in the TTGIR, in turn.

    python -m bench [--rows REGEX] [--json FILE] [--limit-s 590] [--rounds 7]     # on a GPU
    python -m bench --dry-run              # small sizes; without a GPU on the emulator

Tasks run in a worker process; if one ends it (a fault on the device, an assertion in native code), a new
worker goes on with the next task, and the table says so.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import torch

from bench import gpu, kernels
from bench.about import about
from bench.table import Row, render, row_to_json
from bench.variants import LEVELS
from bench.workers import Task, supervised, work

__all__ = ["main", "tasks"]

_WORK: Final = 25  # dependent FMAs of 4 cycles between two records


def tasks(*, dry_run: bool, rounds: int) -> dict[str, Task]:
    """What is measured, by name, the safest first. dry_run: small sizes, to show that everything runs."""
    device = "cpu" if dry_run and not torch.cuda.is_available() else "cuda"
    sms = torch.cuda.get_device_properties(0).multi_processor_count if torch.cuda.is_available() else 2
    chosen = list(kernels.workloads(small=dry_run))
    found: dict[str, Task] = {}
    for fmas in (0, _WORK):
        workload = kernels.record_cost(sms, fmas)
        found[f"record: {workload.name}"] = partial(gpu.record_cycles, workload, device, rounds)
    for level in LEVELS:
        for workload in chosen:
            found[f"overhead: {level}: {workload.name}"] = partial(
                gpu.overhead, workload, level, device, rounds
            )
    small = kernels.add(64 * 1024)
    large = kernels.matmul(128, (64, 64, 32), 4) if dry_run else kernels.matmul(4096, (128, 128, 64), 4)
    few = min(rounds, 3)
    found["launch: add"] = partial(
        gpu.launch_cost, small, device, rounds, launches=4 if dry_run else 300, proton_launches=10
    )
    found["launch: matmul"] = partial(
        gpu.launch_cost, large, device, few, launches=4 if dry_run else 200, proton_launches=1
    )
    found["end: matmul"] = partial(gpu.session_end, large, device)
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns 1 if a figure is missing."""
    options = _arguments(argv)
    if not torch.cuda.is_available() and not options.dry_run:
        print("bench: no GPU is active; --dry-run shows that it runs", file=sys.stderr)
        return 1
    every = tasks(dry_run=options.dry_run, rounds=options.rounds)
    if options.worker:
        with kernels.surroundings():
            return work(every, sys.stdin)
    chosen = [name for name in every if re.search(options.rows, name)]
    if not chosen:
        print("bench: no task to run", file=sys.stderr)
        return 1
    facts = about(dry_run=options.dry_run)
    rows: list[Row] = []
    command = [sys.executable, "-m", "bench", "--worker", "--rounds", str(options.rounds)]
    command += ["--dry-run"] if options.dry_run else []
    for row in supervised(chosen, command, options.limit_s):
        rows.append(row)
        if options.json:
            result = {"about": facts, "rows": [row_to_json(row) for row in rows]}
            options.json.write_text(json.dumps(result, allow_nan=False))
    print("\n" + ", ".join(f"{key} {value}" for key, value in facts.items() if value is not None) + "\n")
    print(render(rows))
    return int(any(cell.error for row in rows for cell in row.cells.values()))


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", default="", metavar="REGEX", help="only tasks whose name it matches")
    parser.add_argument("--json", type=Path, help="where the figures go")
    parser.add_argument("--limit-s", type=float, default=590.0, help="start and run no task after this")
    parser.add_argument("--rounds", type=int, default=7, help="samples of each figure")
    parser.add_argument("--dry-run", action="store_true", help="small sizes, on the emulator too")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


if __name__ == "__main__":
    raise SystemExit(main())
