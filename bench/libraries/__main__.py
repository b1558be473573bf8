"""Kernels nobody here wrote: every Triton kernel of some libraries, bare and in a session, bit by bit.

    python -m bench.libraries [--library NAME] [--ops REGEX] [--skip REGEX] [--configs N] [--ctas N]
        [--json FILE]

Each op runs three times bare and once in a session, from the same random numbers. Its outputs, the gradients
of its inputs, and what it wrote over its inputs must be the same bits, every launch must be recorded, and the
tables must be sound. Libraries that are not installed are named and left out. A call that fails without a
session, too, is the library's own affair; it is counted. Exit code 1 where a session changed something.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import json
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import torch
from triton.runtime.autotuner import Autotuner

from bench.__main__ import Task, work
from bench.about import about
from bench.kernels import surroundings
from bench.libraries import conch, fla, gems, liger, mlstm
from bench.libraries.calls import Calls, is_installed
from bench.libraries.compare import Atomics, atomics_of_loads, compare
from bench.libraries.lanes import side_by_side
from bench.libraries.report import failures, table
from bench.table import Row, row_from_json, row_to_json

__all__ = ["LIBRARIES", "main"]

LIBRARIES: Final[Mapping[str, ModuleType]] = {
    "conch-triton-kernels": conch,
    "fla-core": fla,
    "flag-gems": gems,
    "liger-kernel": liger,
    "mlstm-kernels": mlstm,
}
_OP_LIMIT_S: Final = 300  # an op that takes longer hangs: its worker ends, and a new one takes the next op


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns 1 if an op went wrong in a session, or nothing could be run."""
    options = _arguments(argv)
    chosen = {name: module for name, module in LIBRARIES.items() if options.library in ("", name)}
    missing = [name for name, module in chosen.items() if not is_installed(module.MODULE)]
    for name in missing:
        print(f"{name}: not installed, left out", file=sys.stderr)
        del chosen[name]
    if options.worker:
        with _few_configs(options.configs):
            return _work(chosen, options, (line.rstrip("\n") for line in sys.stdin))
    names = [name for name in _tasks(chosen, options, {}) if re.search(options.ops, name.partition(": ")[2])]
    rows = _finished(options.resume, names)
    done = {f"{row.group}: {row.name}" for row in rows}
    names = [name for name in names if name not in done]
    if not names:
        print("bench.libraries: nothing to run", file=sys.stderr)
        return 1
    facts = about() | {"level": options.level, "ctas": options.ctas, "missing": missing}
    command = [
        sys.executable,
        "-m",
        "bench.libraries",
        "--library",
        options.library,
        "--level",
        options.level,
        "--ctas",
        str(options.ctas),
        "--configs",
        str(options.configs),
        "--skip",
        options.skip,
    ]
    for row in side_by_side(names, [*command, "--worker"], options.limit_s, options.jobs):
        rows.append(row)
        if options.json is not None:
            result = {"about": facts, "rows": [row_to_json(row) for row in rows]}
            options.json.write_text(json.dumps(result, indent=1))
    print("\n" + ", ".join(f"{key} {value}" for key, value in facts.items() if value) + "\n")
    print(table(rows))
    return int(any(failures(row) for row in rows))


def _tasks(
    chosen: Mapping[str, ModuleType], options: argparse.Namespace, atomics: Atomics
) -> dict[str, Task]:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    # What torch.compile launches is recorded from the first launch on.
    wanted: dict[str, Any] = {
        "instrument": options.level,
        "ctas": options.ctas,
        "wait": True,
    }

    def run(library: str, op: str, calls: Calls) -> list[Row]:
        faulthandler.dump_traceback_later(_OP_LIMIT_S, exit=True)
        kept = {label: call for label, call in calls().items() if not _skipped(options.skip, f"{op} {label}")}
        try:
            return [Row(library, op, "", {}, about=asdict(compare(kept, wanted, device, atomics)))]
        finally:
            faulthandler.cancel_dump_traceback_later()

    return {
        f"{library}: {op}": partial(run, library, op, calls)
        for library, module in chosen.items()
        for op, calls in module.cases(device).items()
    }


def _finished(path: Path | None, names: Sequence[str]) -> list[Row]:
    """The rows of these ops that an earlier run has finished."""
    if path is None:
        return []
    rows = map(row_from_json, json.loads(path.read_text())["rows"])
    return [row for row in rows if row.about and f"{row.group}: {row.name}" in names]


def _skipped(pattern: str, call: str) -> bool:
    return bool(pattern) and re.fullmatch(pattern, call) is not None


def _work(chosen: Mapping[str, ModuleType], options: argparse.Namespace, names: Iterable[str]) -> int:
    with contextlib.ExitStack() as stack:
        stack.enter_context(surroundings())
        atomics = stack.enter_context(atomics_of_loads())
        return work(_tasks(chosen, options, atomics), names)


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
    parser.add_argument(
        "--library", default="", choices=["", *LIBRARIES], metavar="NAME", help="this one only"
    )
    parser.add_argument("--ops", default="", metavar="REGEX", help="only ops whose name it matches")
    parser.add_argument(
        "--skip",
        default="",
        metavar="REGEX",
        help='leave out calls whose "op label" it is, such as "mm float32 1"',
    )
    parser.add_argument("--level", default="light", help="what sessions record (default: light)")
    parser.add_argument("--ctas", type=int, default=1, metavar="N", help="one CTA in N records")
    parser.add_argument(
        "--configs", type=int, default=0, metavar="N", help="let autotuners try the first N only (0: all)"
    )
    parser.add_argument("--limit-s", type=float, default=540.0, help="start and run no op after this")
    parser.add_argument("--jobs", type=int, default=max(1, min(12, cores * 3 // 4)), help="workers at a time")
    parser.add_argument("--json", type=Path, help="where the results of every op go")
    parser.add_argument(
        "--resume",
        type=Path,
        metavar="FILE",
        help="go on where this run stopped: keep its results, and run the other ops",
    )
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


if __name__ == "__main__":
    raise SystemExit(main())
