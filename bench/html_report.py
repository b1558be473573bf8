"""How long report.html takes to write, how large it is, and how long a browser takes to draw a frame of it.

    python -m bench.html_report [--spans 10000000]

The ratio to one pass over the spans is what to compare between machines. Frames are of panning the timeline
of as many spans as a page holds, all on one SM, at several zooms, drawn without a GPU; without a browser they
are left out. A frame is what its script takes; at 60 frames/s there are 16.7 ms for that and for the browser.
Frames per second are counted by the clock, so they say something only of a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from profscope.traces.html.spans import MOST_SPANS
from tests.support.browser import opened, why_no_browser, window
from tests.support.profiles import regular_profile

__all__ = ["main"]

_LAUNCHES: Final = 10
_ITERATIONS: Final = 25
_FRAMES: Final = """
    const [level, zoom, done] = arguments, t = profscope.timeline, took = [];
    let first, frames = 0;
    const { from, to } = t.levelOf(...level);
    t.show(t.levelOf(...level), (from + to - zoom * (to - from)) / 2, (from + to + zoom * (to - from)) / 2);
    t.paint();
    function step(now) {
        first ??= now;
        t.pan(took.length % 40 < 20 ? 0.02 : -0.02);
        const begin = performance.now();
        t.paint();
        took.push(performance.now() - begin);
        if (took.length < 100) return frames++, requestAnimationFrame(step);
        took.sort((a, b) => a - b);
        done([took[50], took[95], (1000 * frames) / (now - first)]);
    }
    requestAnimationFrame(step);
"""
_ZOOMS: Final = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001)  # of the level
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
        if why := why_no_browser():
            print(f"frames: {why}")
            return 0
        ctas = min(spans, MOST_SPANS) // _PER_CTA
        regular_profile(1, ctas, 4, _ITERATIONS, sms=1).save(page)
        with window(1400, 900) as driver:
            opened(driver, page)
            for level in (["launch", 0], ["sm", 0, 0], ["cta", 0]):
                took = {zoom: driver.execute_async_script(_FRAMES, level, zoom) for zoom in _ZOOMS}
                for zoom, (middle, slow, rate) in took.items():
                    script = f"median {middle:.1f} ms, 95 % {slow:.1f} ms"
                    print(f"a frame of {zoom:.2%} of the {level[0]}: {script}; {rate:.0f} a second")
    return 0


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


if __name__ == "__main__":
    raise SystemExit(main())
