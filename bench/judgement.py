"""How long the judging questions take on ten million spans whose durations are corrected.

    python -m bench.judgement [--scale 1.0] [--json judgement.json]

Two tables: twenty launches of half a million spans each, and one launch of ten million. `diff` compares a
table with itself. Of each question the seconds, and the seconds that the process computed, on all cores
together; and what sorting ten million numbers took right before, which says how fast the machine is, and how
busy.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

import profscope
from profscope.profiles import Profile
from tests.support.profiles import regular_profile

__all__ = ["main"]

_SHAPES: Final = {"20 launches": (20, 128), "1 launch": (1, 2560)}  # launches and CTAs of each
_SHORTEST_S: Final = 1e-3  # some clocks of CPU time go in steps, and a small sort takes none
_WARPS, _ITERATIONS, _SMS = 8, 96, 132
_CLOCK: Final = {"read_cycles": 2.0, "row_cycles": 17.5, "basis": "measured"}
_QUESTIONS: Final[dict[str, Callable[[Profile], object]]] = {
    "findings": lambda profile: profile.findings(),
    "critical_path": lambda profile: profile.timeline.critical_path(),
    "overlap": lambda profile: profile.timeline.overlap(),
    "summary": lambda profile: profile.summary(),
    "verdict": lambda profile: profile.verdict,
    "report": lambda profile: profile.report(),
    "diff": lambda profile: profscope.diff(profile, profile),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Print seconds by question and table."""
    parser = argparse.ArgumentParser(prog="python -m bench.judgement", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of CTAs")
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args(argv)
    numbers = np.random.default_rng(0).integers(0, 1 << 20, max(1, int(1e7 * options.scale)))
    rows: list[dict[str, Any]] = []
    for name, (launches, ctas) in _SHAPES.items():
        profile = _corrected(
            regular_profile(launches, max(1, int(ctas * options.scale)), _WARPS, _ITERATIONS, _SMS)
        )
        for question, ask in _QUESTIONS.items():
            sort_s, sort_cpu_s = _took(lambda: np.sort(numbers))
            took_s, cpu_s = _took(lambda ask=ask, profile=profile: ask(profile))  # type: ignore[misc]
            row = {"table": name, "spans": len(profile.tables.df), "question": question}
            row |= {"seconds": took_s, "cpu_seconds": cpu_s}
            rows.append(row | {"sort_seconds": sort_s, "sort_cpu_seconds": sort_cpu_s})
            print(
                f"{name:12} {row['spans']:12,} spans  {question:14} {took_s:6.2f} s {cpu_s:6.2f} s of CPUs "
                f"{cpu_s / max(sort_cpu_s, _SHORTEST_S):6.1f} sorts",
                flush=True,
            )
    if options.json:
        about = {"cores": len(os.sched_getaffinity(0)), "load": os.getloadavg()[0], "rows": rows}
        options.json.write_text(json.dumps(about, indent=1))
    return 0


def _corrected(profile: Profile) -> Profile:
    """The same, with what a record cost."""
    return Profile.of(replace(profile.tables, metadata=profile.metadata | {"clock": _CLOCK}))


def _took(call: Callable[[], object]) -> tuple[float, float]:
    """Seconds, and seconds of CPUs."""
    start, computed = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - start, time.process_time() - computed


if __name__ == "__main__":
    sys.exit(main())
