"""How long diff takes: two profiles of a matmul with 5 million spans each, beside reading each span once.

    python -m bench.diffing [--spans 5000000]

The ratio to a pass over the durations is what to compare between machines.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

import profscope
from tests.support.edited import run_of_matmul
from tests.support.profiles import regular_profile

__all__ = ["main"]

_ROUNDS: Final = 3
_LAUNCHES: Final = 10
_PER_CTA: Final = 4 * (3 + 5 * 32)  # spans


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.diffing", description=__doc__)
    parser.add_argument("--spans", type=int, default=5_000_000, help="of each profile")
    options = parser.parse_args(argv)
    ctas = max(1, options.spans // (_PER_CTA * _LAUNCHES))
    a, b = (regular_profile(_LAUNCHES, ctas, 4, 32, seed=seed) for seed in (0, 1))
    spans = len(a.df) + len(b.df)
    took_s = {
        "diff": _median_s(lambda: profscope.diff(a, b)),
        "summary of both": _median_s(lambda: (a.summary(), b.summary())),
        "a pass": _median_s(
            lambda: [np.bincount(each.df["launch"], each.df["duration_ns"]) for each in (a, b)]
        ),
    }
    small = run_of_matmul(0), run_of_matmul(1)
    took_s["diff of a few spans"] = _median_s(lambda: profscope.diff(*small))
    print(f"{spans:,} spans")
    for name, took in took_s.items():
        print(f"{name:20} {took:8.3f} s {took / took_s['a pass']:8.1f} passes")
    return 0


def _median_s(call: Callable[[], object]) -> float:
    took = []
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        call()
        took.append(time.perf_counter() - start)
    return statistics.median(took)


if __name__ == "__main__":
    sys.exit(main())
