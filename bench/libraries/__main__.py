"""Kernels nobody here wrote: every Triton kernel of some libraries, bare and in a session, bit by bit.

    python -m bench.libraries [--library NAME] [--ops REGEX] [--skip REGEX] [--configs N] [--json FILE]

Each op runs three times bare and once in a session, from the same random numbers. Its outputs, the gradients
of its inputs, and what it wrote over its inputs must be the same bits, every launch must be recorded, and the
tables must be sound. Libraries that are not installed are named and left out. A call that fails without a
session, too, is the library's own affair; it is counted. Exit code 1 if a session changed something.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import torch
from triton.runtime.autotuner import Autotuner

from bench.about import about
from bench.kernels import surroundings
from bench.libraries import conch, fla, gems, liger, mlstm
from bench.libraries.calls import Calls, is_installed
from bench.libraries.compare import Atomics, atomics_of_loads, compare
from bench.libraries.report import failures, table
from bench.table import Row, row_to_json
from bench.workers import Task, supervised, work

__all__ = ["LIBRARIES", "main"]

LIBRARIES: Final[Mapping[str, ModuleType]] = {
    "conch-triton-kernels": conch,
    "fla-core": fla,
    "flag-gems": gems,
    "liger-kernel": liger,
    "mlstm-kernels": mlstm,
}
_OP_LIMIT_S: Final = 300  # an op that takes longer hangs: its worker ends, and a new one takes the next op
# What torch.compile launches is recorded from the first launch on.
_SESSION: Final = {"instrument": "light", "wait": True}


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns 1 if an op went wrong in a session, or nothing could be run."""
    options = _arguments(argv)
    chosen = {name: module for name, module in LIBRARIES.items() if options.library in ("", name)}
    missing = [name for name, module in chosen.items() if not is_installed(module.MODULE)]
    for name in missing:
        print(f"{name}: not installed, left out", file=sys.stderr)
        del chosen[name]
    if options.worker:
        with surroundings(), _few_configs(options.configs), atomics_of_loads() as atomics:
            return work(_tasks(chosen, options.skip, atomics), sys.stdin)
    names = [name for name in _tasks(chosen, "", {}) if re.search(options.ops, name.partition(": ")[2])]
    if not names:
        print("bench.libraries: nothing to run", file=sys.stderr)
        return 1
    facts = about() | {"missing": missing}
    command = [sys.executable, "-m", "bench.libraries", "--worker", "--library", options.library]
    command += ["--configs", str(options.configs), "--skip", options.skip]
    rows: list[Row] = []
    for row in supervised(names, command, options.limit_s, options.jobs):
        rows.append(row)
        if options.json is not None:
            result = {"about": facts, "rows": [row_to_json(row) for row in rows]}
            options.json.write_text(json.dumps(result))
    print("\n" + ", ".join(f"{key} {value}" for key, value in facts.items() if value) + "\n")
    print(table(rows))
    return int(any(failures(row) for row in rows))


def _tasks(chosen: Mapping[str, ModuleType], skip: str, atomics: Atomics) -> dict[str, Task]:
    device = "cuda" if torch.cuda.is_available() else "cpu"

    def run(library: str, op: str, calls: Calls) -> list[Row]:
        faulthandler.dump_traceback_later(_OP_LIMIT_S, exit=True)
        kept = {
            label: call
            for label, call in calls().items()
            if not skip or re.fullmatch(skip, f"{op} {label}") is None
        }
        try:
            return [Row(library, op, "", {}, about=asdict(compare(kept, _SESSION, device, atomics)))]
        finally:
            faulthandler.cancel_dump_traceback_later()

    return {
        f"{library}: {op}": partial(run, library, op, calls)
        for library, module in chosen.items()
        for op, calls in module.cases(device).items()
    }


@contextlib.contextmanager
def _few_configs(most: int) -> Iterator[None]:
    """Autotuners of the process try `most` configurations, all where that is 0: tuning takes minutes."""
    prune = Autotuner.prune_configs

    def pruned(tuner: Autotuner, *args: Any) -> list[Any]:
        configs = list(prune(tuner, *args))
        return configs[: most or len(configs)]

    Autotuner.prune_configs = pruned
    try:
        yield
    finally:
        Autotuner.prune_configs = prune


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    cores = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(
        prog="bench.libraries", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--library", default="", choices=["", *LIBRARIES], metavar="NAME", help="only this")
    parser.add_argument("--ops", default="", metavar="REGEX", help="only ops whose name it matches")
    parser.add_argument(
        "--skip", default="", metavar="REGEX", help='not calls whose "op label" it is, such as "mm float32 1"'
    )
    parser.add_argument(
        "--configs", type=int, default=0, metavar="N", help="let autotuners try the first N only (0: all)"
    )
    parser.add_argument("--limit-s", type=float, default=540.0, help="start and run no op after this")
    parser.add_argument("--jobs", type=int, default=max(1, min(12, cores * 3 // 4)), help="workers at a time")
    parser.add_argument("--json", type=Path, help="where the results of every op go")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


if __name__ == "__main__":
    raise SystemExit(main())
