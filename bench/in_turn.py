"""Step time of a small GPT under torch.compile, recorded and bare in turn within one session.

    python -m bench.in_turn [--batch 8] [--rounds 30] [--steps 20] [--only NAME ...]

A host that others use, too, changes its pace within seconds, so that two sessions cannot be compared to some
per cent. Here a session is paused for so many steps, records as many, and so on; each recorded block stands
between two bare ones, and its figure is its mean step over theirs. Each begins with the same rest, for a host
is faster after one, and some steps that do not count. What is folded of a block's launches may still be
folded in the next one: a block should be long beside that.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from itertools import chain
from typing import Any, Final

import profscope
from bench.event_tools import NOTHING
from bench.model import compiled_step
from bench.rounds import rounds_parser, steps_ms

__all__ = ["VARIANTS", "main"]

_REST_S: Final = 0.15  # as pausing may take
_SETTLING: Final = 5  # steps
_WARM_UP: Final = 40  # steps in which binaries are loaded, memory is pinned and processes begin


VARIANTS: Final[dict[str, dict[str, Any]]] = {
    "ctas=64": {"ctas": 64},
    "ctas=64, every=10": {"ctas": 64, "every": 10},
    "ctas=64, every=100": {"ctas": 64, "every": 100},
    "ctas=64, overhead_pct=1": {"ctas": 64, "overhead_pct": 1},
    "light, ctas=64": {"instrument": "light", "ctas": 64},
    "nothing": {"kernels": NOTHING},
}


def main() -> None:
    parser = rounds_parser(__doc__, VARIANTS, rounds=30, steps=20, limit_s=200.0)
    parser.add_argument("--batch", type=int, default=8)
    asked = parser.parse_args()
    begin = time.monotonic()
    step = compiled_step(asked.batch)
    print(f"{'':24}{'bare ms':>9}{'of bare':>9}{'quartiles':>16}{'steps':>9}{'recorded':>10}{'left out':>10}")
    for name in asked.only:
        if time.monotonic() - begin > asked.limit_s:
            break
        with profscope.session(wait=True, **VARIANTS[name]) as prof:
            _block(step, _WARM_UP)
            recorded, bare = _in_turn(step, prof, asked.rounds, asked.steps)
            recorder = prof._parts().recorder
            counts = len(recorder.log), sum(recorder.journal.unrecorded.values())
        means = [statistics.fmean(block) for block in bare]
        of_bare = [
            2 * statistics.fmean(block) / (before + after)
            for block, before, after in zip(recorded, means, means[1:], strict=False)
        ]
        low, middle, high = statistics.quantiles(of_bare)
        steps = statistics.median(chain(*recorded)) / statistics.median(chain(*bare))
        shown = f"{statistics.fmean(means):9.3f}{middle:9.3f}{f'{low:.3f} {high:.3f}':>16}{steps:9.3f}"
        print(f"{name:24}{shown}{counts[0]:10}{counts[1]:10}", flush=True)
        del prof, recorder
        gc.collect()


def _in_turn(
    step: Callable[[], None], prof: profscope.Session, rounds: int, steps: int
) -> tuple[list[list[float]], list[list[float]]]:
    """ms of the steps of recorded blocks, and of the bare ones before and behind each."""
    prof.pause()
    recorded, bare = [], [_block(step, steps)]
    for _ in range(rounds):
        prof.resume()
        recorded.append(_block(step, steps))
        prof.pause()
        bare.append(_block(step, steps))
    prof.resume()
    return recorded, bare


def _block(step: Callable[[], None], count: int) -> list[float]:
    """ms of each step."""
    time.sleep(_REST_S)
    steps_ms(step, _SETTLING)
    return steps_ms(step, count)


if __name__ == "__main__":
    main()
