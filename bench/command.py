"""What the commands that measure kernels share: options, a time limit, a table, and the samples as JSON."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

from bench import kernels
from bench.about import about
from bench.table import Cell, Row, render, row_to_json
from bench.timing import why
from bench.variants import BARE

__all__ = ["Measure", "measure_all"]

Measure = Callable[[], list[Row]]


def measure_all(
    name: str,
    document: str | None,
    limit_s: float,
    argv: Sequence[str] | None,
    tasks: Callable[[argparse.Namespace, str], Iterable[tuple[str, Measure]]],
    **more: Any,
) -> int:
    """Measure and print the tables; returns 1 if a figure is missing.

    name, document: of the command. limit_s: where `--limit-s` does not say. tasks: by name, for the command's
    options and the device. more: what the JSON holds besides.
    """
    options = _arguments(name, document, limit_s, argv)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and not options.dry_run:
        print(f"{name}: no GPU is active; --dry-run shows that it runs", file=sys.stderr)
        return 1
    rows: list[Row] = []
    start = time.monotonic()
    with kernels.surroundings():
        for task, measure in tasks(options, device):
            if not re.search(options.rows, task):
                continue
            if time.monotonic() - start > options.limit_s:
                rows.append(Row("slowdown", task, "", {BARE: Cell(error="not run: out of time")}))
                continue
            began = time.monotonic()
            try:
                rows += measure()
            except Exception as error:  # noqa: BLE001  the other kernels still count
                rows.append(Row("slowdown", task, "", {BARE: Cell(error=why(error))}))
            print(f"{time.monotonic() - began:6.1f} s  {task}", flush=True)
    facts = about(dry_run=options.dry_run)
    print("\n" + ", ".join(f"{key} {value}" for key, value in facts.items() if value is not None) + "\n")
    print(render(rows))
    if options.json:
        figures = {"about": facts, **more, "rows": [row_to_json(row) for row in rows]}
        options.json.write_text(json.dumps(figures, indent=1, allow_nan=False))
    return int(not rows or any(cell.error for row in rows for cell in row.cells.values()))


def _arguments(
    name: str, document: str | None, limit_s: float, argv: Sequence[str] | None
) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=f"python -m {name}", description=document, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", default="", metavar="REGEX", help="only what has a name that it matches")
    parser.add_argument("--rounds", type=int, default=7, help="samples of each time")
    parser.add_argument("--limit-s", type=float, default=limit_s, help="start nothing after this")
    parser.add_argument("--json", type=Path, help="where the figures go")
    parser.add_argument("--dry-run", action="store_true", help="small sizes; without a GPU on the emulator")
    return parser.parse_args(argv)
