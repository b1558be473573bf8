"""How long report.html takes to write, and how large it is, beside one pass over the spans.

    python -m bench.html_report [--spans 10000000]

The ratio to a pass is what to compare between machines.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from tests.support.profiles import regular_profile

__all__ = ["main"]

_LAUNCHES: Final = 10
_ITERATIONS: Final = 25
_PER_CTA: Final = 4 * (3 + 5 * _ITERATIONS)  # spans


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.html_report", description=__doc__)
    parser.add_argument("--spans", type=int, default=10_000_000)
    spans = parser.parse_args(argv).spans
    profile = regular_profile(_LAUNCHES, max(1, spans // (_PER_CTA * _LAUNCHES)), 4, _ITERATIONS, sms=132)
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        save_s = _seconds(lambda: profile.save(page))
        pass_s = _seconds(lambda: np.bincount(profile.df["launch"], profile.df["duration_ns"]))
        print(f"{len(profile.df):,} spans: {save_s:.1f} s, {save_s / pass_s:.0f} passes of {pass_s:.3f} s")
        print(f"{page.stat().st_size:,} bytes")
    return 0


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


if __name__ == "__main__":
    raise SystemExit(main())
