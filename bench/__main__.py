"""profscope beside Proton: the same kernels, the same points in the TTGIR, in turn.

    python -m bench [--rows REGEX] [--json FILE] [--limit-s 480] [--rounds 7]
    python -m bench --rows static          # what needs no GPU

Each task runs in a worker process, one after the other; where a task ends the process (a fault on the device,
an assertion in native code), a new worker goes on with the next one, and the table says so.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch

from bench import gpu, kernels, launch_path, session_end, static
from bench.about import about
from bench.table import Cell, Row, render, row_from_json, row_to_json
from bench.timing import synchronize, why

__all__ = ["FAULTED", "RESULT", "ROOT", "Task", "main", "missing", "supervised", "tasks", "work"]

ROOT: Final = Path(__file__).resolve().parent.parent
FAULTED: Final = 3  # exit status of a worker whose device cannot be used any more
RESULT: Final = "result: "  # how a worker begins a line for its parent
_WORK: Final = 25  # dependent FMAs of 4 cycles between two records

Task = Callable[[], list[Row]]


def tasks(*, dry_run: bool, rounds: int) -> dict[str, Task]:
    """What is measured, by name, in order: the safest first, what needs no GPU last.

    dry_run: small sizes, to show that everything runs, on the emulator too.
    """
    device = "cpu" if dry_run and not torch.cuda.is_available() else "cuda"
    sms = torch.cuda.get_device_properties(0).multi_processor_count if torch.cuda.is_available() else 2
    chosen = list(kernels.workloads(small=dry_run))
    found: dict[str, Task] = {}
    for work in (0, _WORK):
        workload = kernels.record_cost(sms, work)
        found[f"record: {workload.name}"] = partial(gpu.record_cycles, workload, device, rounds)
    for level in ("light", "heavy"):
        for workload in chosen:
            found[f"slowdown: {level}: {workload.name}"] = partial(
                gpu.slowdown, workload, level, device, rounds
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
    found["static: launch path"] = partial(launch_path.launch_path, small, rounds)
    for workload in chosen:
        found[f"static: {workload.name}"] = partial(static.static, workload)
    found["static: replayed session"] = partial(session_end.replayed_end, *((1, 8) if dry_run else (21, 245)))
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns 1 if a figure is missing."""
    options = _arguments(argv)
    every = tasks(dry_run=options.dry_run, rounds=options.rounds)
    chosen = [name for name in every if re.search(options.rows, name)]
    if not torch.cuda.is_available() and not options.dry_run:
        skipped = [name for name in chosen if not name.startswith("static")]
        chosen = [name for name in chosen if name not in skipped]
        if skipped:
            print(f"bench: no GPU is active, {len(skipped)} tasks are left out", file=sys.stderr)
    if options.worker:
        with kernels.surroundings(emulated=options.dry_run):
            return work(every, json.loads(options.worker))
    if not chosen:
        print("bench: no task to run", file=sys.stderr)
        return 1
    facts = about(dry_run=options.dry_run)
    path = options.json or _default_path(facts)
    path.parent.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    command = [sys.executable, "-m", "bench", "--rounds", str(options.rounds)]
    command += ["--dry-run"] if options.dry_run else []
    for row in supervised(chosen, [*command, "--worker"], options.limit_s):
        rows.append(row)
        result = {"about": facts, "rows": [row_to_json(row) for row in rows]}
        path.write_text(json.dumps(result, indent=1, allow_nan=False))
    print("\n" + ", ".join(f"{key} {value}" for key, value in facts.items() if value is not None) + "\n")
    print(render(rows))
    print(f"written to {path}")
    return int(any(cell.error for row in rows for cell in row.cells.values()))


def supervised(chosen: Sequence[str], command: Sequence[str], limit_s: float) -> Iterator[Row]:
    """The rows of the tasks as they come, from as many workers as it takes.

    command: runs the tasks whose names it gets as JSON, and prints a line for each; see `work`.
    """
    deadline = time.monotonic() + limit_s
    left = list(chosen)
    while left:
        if time.monotonic() > deadline:
            yield from (missing(name, "not run: out of time") for name in left)
            return
        worker = subprocess.Popen([*command, json.dumps(left)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        assert worker.stdout is not None
        with worker.stdout, _killed_at(worker, deadline):
            for line in worker.stdout:
                if not line.startswith(RESULT):
                    print(line, end="", flush=True)
                    continue
                found = json.loads(line.removeprefix(RESULT))
                left.remove(found["task"])
                print(f"{found['seconds']:6.1f} s  {found['task']}", flush=True)
                yield from map(row_from_json, found["rows"])
        status = worker.wait()
        if status != FAULTED and left:
            yield missing(left.pop(0), f"the process ended with status {status} in this task")


@contextlib.contextmanager
def _killed_at(worker: subprocess.Popen[str], deadline: float) -> Iterator[None]:
    timer = threading.Timer(max(1.0, deadline - time.monotonic()), worker.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def work(every: dict[str, Task], names: Iterable[str]) -> int:
    """Run tasks and print each one's rows as a line of JSON."""
    for name in names:
        start = time.monotonic()
        try:
            rows = every[name]()
        except Exception as error:  # noqa: BLE001  printed in the table; the other tasks still count
            rows = [missing(name, why(error))]
        found = {
            "task": name,
            "seconds": time.monotonic() - start,
            "rows": [row_to_json(row) for row in rows],
        }
        print(f"{RESULT}{json.dumps(found)}", flush=True)
        try:
            synchronize()
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
        except RuntimeError:
            sys.stdout.flush()
            os._exit(FAULTED)  # nothing can be torn down in an orderly way after a fault
    return 0


def missing(task: str, reason: str) -> Row:
    group, _, name = task.partition(": ")
    return Row(group, name, "", {"profscope": Cell(error=reason)})


def _default_path(facts: dict[str, Any]) -> Path:
    gpu_name = re.sub(r"[^a-z0-9]+", "-", (facts["gpu"] or "no-gpu").lower())
    return ROOT / "bench" / "results" / f"{gpu_name}-{facts['triton']}-{facts['date'][:10]}.json"


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", default="", metavar="REGEX", help="only tasks whose name it matches")
    parser.add_argument("--json", type=Path, help="where the figures go (default: bench/results/)")
    parser.add_argument("--limit-s", type=float, default=480.0, help="start and run no task after this")
    parser.add_argument("--rounds", type=int, default=7, help="samples of each figure")
    parser.add_argument("--dry-run", action="store_true", help="small sizes; without a GPU on the emulator")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


if __name__ == "__main__":
    raise SystemExit(main())
