"""What the evidence of a compiled GPT's kernels takes.

    python -m bench.model_evidence [--batch 8] [--seconds 5]     needs an NVIDIA GPU

It prints how many configurations have all of their evidence, when the last one got it, in how many passes,
how long the program waited for that, by kind of evidence and by function of CUPTI, and the time of a step:
bare, before evidence, and after.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from statistics import median
from typing import Any, Final
from unittest.mock import patch

import profscope
from bench.evidence import Timed
from bench.model import compiled_step, steps_ms, until_built
from profscope.evidence.counters import Counters
from profscope.evidence.counts import Counts
from profscope.evidence.observer import Observer
from profscope.evidence.pc_sampler import Sampler
from profscope.evidence.samples import Samples

__all__ = ["main"]

_STEPS: Final = 200
_LIMIT_S: Final = 60.0
_OF_A_WITNESS: Final = ("open", "prepare", "before", "after", "release")


@contextmanager
def timed_witnesses() -> Iterator[dict[str, list[float]]]:
    """By witness and step: the ms of each call, and those of each launch with all that it waits for."""
    spent: dict[str, list[float]] = defaultdict(list)

    def timed(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any) -> Any:
            begun = time.perf_counter()
            try:
                return call(*args)
            finally:
                spent[name].append(1e3 * (time.perf_counter() - begun))

        return wrapped

    with ExitStack() as stack:
        for witness in (Counts, Samples, Counters):
            for step in _OF_A_WITNESS:
                wrapped = timed(f"{witness.name}: {step}", getattr(witness, step))
                stack.enter_context(patch.object(witness, step, wrapped))
        wrapped = timed("samples: set_period", Sampler.set_period)
        stack.enter_context(patch.object(Sampler, "set_period", wrapped))
        wrapped = timed("all: observed launches", Observer.observe)
        stack.enter_context(patch.object(Observer, "observe", wrapped))
        yield spent


def lacking(observer: Observer) -> int:
    """Configurations that still need launches."""
    return sum(bool(observer.lacks(subject)) for subject in list(observer.launches))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=5.0)
    asked = parser.parse_args()
    step = compiled_step(asked.batch)
    print(f"bare: {steps_ms(step, _STEPS):.2f} ms a step")
    with profscope.session(ctas=64, every=100) as prof:
        until_built(step, prof)
        print(f"in a session without evidence: {steps_ms(step, _STEPS):.2f} ms a step")
    hardware, calls = {"seconds": asked.seconds}, Timed()
    with timed_witnesses() as spent, profscope.session(ctas=64, every=100, hardware=hardware) as prof:
        observer = prof._parts().observing._observer
        assert observer is not None, "this GPU gives no evidence"
        limit = time.perf_counter() + _LIMIT_S
        while not observer.launches and time.perf_counter() < limit:
            steps_ms(step, 1)
        begun = time.perf_counter()
        steps_ms(step, 5)
        while lacking(observer) and not observer.is_over and time.perf_counter() < limit:
            steps_ms(step, 5)
        took_s = time.perf_counter() - begun
        after = steps_ms(step, _STEPS)
        complete = len(observer.counters())
        print(
            f"{complete} of {len(observer.launches)} configurations complete after {took_s:.1f} s, "
            f"{observer.added_s:.2f} s of them waiting; then {after:.2f} ms a step"
        )
    passes = sorted({each.launches for each in observer.counters()})
    print(f"counters in {' to '.join(map(str, passes))} passes")
    for name, each in spent.items():
        print(
            f"  {name:24}{len(each):5} calls, {sum(each) / 1e3:6.2f} s, median {median(each):7.2f} ms, "
            f"most {max(each):7.2f}"
        )
    calls.show()


if __name__ == "__main__":
    main()
