"""Whether an edited kernel has the same results, and its time: bare launches, in pairs with the kernel as it
was given. A process of its own judges each task."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from bench.corpus.case import agree
from bench.corpus.cases import CASES
from bench.corpus.recording import prepared
from bench.kernels import surroundings
from bench.timing import synchronize, why
from profscope.device.backend import select
from profscope.experiments.timing import PairTimer

__all__ = ["check", "judged", "main", "run_once"]


def run_once(folder: Path, case: str, *, small: bool) -> int:
    """Launch the kernel of a task."""
    _module(folder).launch(prepared(CASES[case].prepare, small).args)
    return 0


def check(folder: Path, case: str, *, small: bool) -> int:
    """Print what `judged` says."""
    told = judged(folder, case, small=small)
    print(json.dumps(told))
    return 0 if told["same_results"] else 1


def judged(folder: Path, case: str, *, small: bool) -> dict[str, Any]:
    """same_results: up to rounding; before, now: medians in `unit`; saved_pct and its 95 % interval."""
    with surroundings(), select("auto") as machine:
        given, edited = (prepared(CASES[case].prepare, small) for _ in range(2))
        given()
        try:
            kernel = _module(folder)
            kernel.launch(edited.args)
            synchronize()
        except Exception as error:  # noqa: BLE001  whatever an agent wrote
            return {"same_results": False, "error": why(error)}
        same = agree(given.outputs(), edited.outputs())
        timer = PairTimer(machine, lambda: None)
        pairs = timer.pairs(given, lambda: kernel.launch(edited.args))
    ratio = pairs.ratio
    return {
        "same_results": same,
        "unit": timer.unit,
        "before": sorted(pairs.first)[len(pairs.first) // 2],
        "now": sorted(pairs.second)[len(pairs.second) // 2],
        "saved_pct": 100 * (1 - ratio.ratio),
        "saved_low_pct": 100 * (1 - ratio.high),
        "saved_high_pct": 100 * (1 - ratio.low),
    }


def _module(folder: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("kernel", folder / "kernel.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(folder: str, case: str, small: str) -> int:
    return check(Path(folder), case, small=small == "small")


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
