"""Step time of a small GPT under torch.compile, recorded and bare in turn within one session.

    python -m bench.in_turn [--batch 8] [--rounds 30] [--steps 20] [--only NAME ...]

A host that others use, too, changes its pace within seconds, so that two sessions cannot be compared to some
per cent. Here a session is paused for so many steps, records as many, and so on; each recorded block stands
between two bare ones, and its figure is its mean step over theirs. What is folded of a block's launches may
still be folded in the next one: a block should be long beside that.
Proton and Kineto both take CUPTI for themselves until their process ends: use a process for each (--only).
"""

from __future__ import annotations

import contextlib
import gc
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final

import profscope
from bench.events import NOTHING
from bench.model import compiled_step
from bench.rounds import rounds_parser, steps_ms

__all__ = ["VARIANTS", "main"]

_WARM_UP: Final = 40  # steps in which binaries are loaded, memory is pinned and processes begin


@dataclass
class _Recorder:
    """counts(): launches recorded and left out so far, (0, 0) where nobody counts."""

    resume: Callable[[], Any]
    pause: Callable[[], Any]
    counts: Callable[[], tuple[int, int]]


@contextlib.contextmanager
def _session(**options: Any) -> Iterator[_Recorder]:
    with profscope.session(wait=True, **options) as prof:
        recorder = prof._parts().recorder
        counts = lambda: (len(recorder.log), sum(recorder.journal.left_out.values()))  # noqa: E731
        yield _Recorder(prof.resume, prof.pause, counts)


@contextlib.contextmanager
def _proton() -> Iterator[_Recorder]:
    import triton.profiler as proton

    with tempfile.TemporaryDirectory() as folder:
        session = proton.start(str(Path(folder) / "proton"))
        try:
            on, off = partial(proton.activate, session), partial(proton.deactivate, session)
            yield _Recorder(on, off, lambda: (0, 0))
        finally:
            proton.finalize(session)


VARIANTS: Final[dict[str, Callable[[], AbstractContextManager[_Recorder]]]] = {
    "sums": lambda: _session(keep="sums"),
    "sums, spans_every=0": lambda: _session(keep="sums", spans_every=0),
    "sums, light": lambda: _session(keep="sums", instrument="light"),
    "sums, every=10": lambda: _session(keep="sums", every=10),
    "sums, every=100": lambda: _session(keep="sums", every=100),
    "light, ctas=64": lambda: _session(instrument="light", ctas=64),
    "events": lambda: _session(events=True, kernels=NOTHING),
    "events, no operators": lambda: _session(events=True, operators=False, kernels=NOTHING),
    "Proton": _proton,
}


def main() -> None:
    parser = rounds_parser(__doc__, VARIANTS, rounds=30, steps=20, limit_s=200.0)
    parser.add_argument("--batch", type=int, default=8)
    asked = parser.parse_args()
    for category in (profscope.EmptyProfileWarning, profscope.DistrustWarning):
        warnings.simplefilter("ignore", category)
    begin = time.monotonic()
    step = compiled_step(asked.batch)
    print(f"GPT, batch {asked.batch}: compiled in {time.monotonic() - begin:.1f} s", flush=True)
    print(f"{'':24}{'bare ms':>9}{'of bare':>9}{'quartiles':>16}{'steps':>9}{'recorded':>10}{'left out':>10}")
    for name in asked.only:
        with VARIANTS[name]() as recorder:
            _block(step, _WARM_UP)
            recorded, bare = _in_turn(step, recorder, asked, begin)
            counts = recorder.counts()
        means = [statistics.fmean(block) for block in bare]
        of_bare = [
            2 * statistics.fmean(block) / (before + after)
            for block, before, after in zip(recorded, means, means[1:], strict=False)
        ]
        low, middle, high = statistics.quantiles(of_bare)
        steps = statistics.median(chain(*recorded)) / statistics.median(chain(*bare))
        shown = f"{statistics.fmean(means):9.3f}{middle:9.3f}{f'{low:.3f} {high:.3f}':>16}{steps:9.3f}"
        print(f"{name:24}{shown}{counts[0]:10}{counts[1]:10}", flush=True)
        gc.collect()


def _in_turn(
    step: Callable[[], None], recorder: _Recorder, asked: Any, begin: float
) -> tuple[list[list[float]], list[list[float]]]:
    """ms of the steps of recorded blocks, and of the bare ones before and behind each."""
    recorder.pause()
    recorded, bare = [], [_block(step, asked.steps)]
    until = time.monotonic() + (asked.limit_s - time.monotonic() + begin) / max(1, len(asked.only))
    for _ in range(asked.rounds):
        recorder.resume()
        recorded.append(_block(step, asked.steps))
        recorder.pause()
        bare.append(_block(step, asked.steps))
        if time.monotonic() > until and len(recorded) > 2:
            break
    recorder.resume()
    return recorded, bare


def _block(step: Callable[[], None], count: int) -> list[float]:
    """ms of each step but the first, which loads what the others find."""
    step()
    return steps_ms(step, count)


if __name__ == "__main__":
    main()
