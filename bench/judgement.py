"""How long the judging questions take on a table of ten million spans.

    python -m bench.judgement [--launches N]

Two tables: twenty launches of half a million spans each, and one launch of ten million.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from tests.support.profiles import regular_profile

__all__ = ["main"]

_SHAPES = {"20 launches": (20, 128), "1 launch": (1, 2560)}  # launches and CTAs of each
_WARPS, _ITERATIONS = 8, 96
_QUESTIONS = ("findings", "critical_path")


def main(argv: Sequence[str] | None = None) -> int:
    """Print seconds by question and table."""
    parser = argparse.ArgumentParser(prog="python -m bench.judgement", description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of CTAs")
    options = parser.parse_args(argv)
    for name, (launches, ctas) in _SHAPES.items():
        profile = regular_profile(
            launches, max(1, int(ctas * options.scale)), _WARPS, iterations=_ITERATIONS, sms=132
        )
        for question in _QUESTIONS:
            start = time.perf_counter()
            getattr(profile, question)()
            took = time.perf_counter() - start
            print(f"{name:12} {len(profile.df):12,} spans  {question:14} {took:6.2f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
