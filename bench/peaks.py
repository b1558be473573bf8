"""What the GPU at hand does at most: bandwidth, latency, FLOPs, by the kernels of `profscope.tuning.peaks`.

    python -m bench.peaks [--rounds 5] [--json FILE]

Nothing is kept for later sessions, as `profscope doctor --measure` does.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from bench.about import about
from bench.table import Cell, Row, render, row_to_json
from profscope.tuning.peaks import measure

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; returns 1 without a GPU."""
    options = _arguments(argv)
    if not torch.cuda.is_available():
        print("bench.peaks: no GPU is active", file=sys.stderr)
        return 1
    rounds, seconds = [], []
    for _ in range(options.rounds):
        begun = time.perf_counter()
        rounds.append(asdict(measure(torch.cuda.current_device())))
        seconds.append(time.perf_counter() - begun)
    rows = [
        Row("peaks", name, "", {"measured": Cell(tuple(each[name] for each in rounds))}) for name in rounds[0]
    ]
    rows.append(Row("peaks", "seconds", "", {"measured": Cell(tuple(seconds))}))
    facts = about()
    if options.json:
        result = {"about": facts, "rows": [row_to_json(row) for row in rows]}
        options.json.write_text(json.dumps(result, allow_nan=False))
    print(", ".join(f"{key} {value}" for key, value in facts.items() if value is not None) + "\n")
    print(render(rows))
    return 0


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.peaks", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5, help="how often each figure is measured")
    parser.add_argument("--json", type=Path, help="where the figures go")
    return parser.parse_args(argv)


if __name__ == "__main__":
    raise SystemExit(main())
