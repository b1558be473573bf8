"""What the evidence of a compiled GPT's kernels takes.

    python -m bench.model_evidence [--batch 8] [--seconds 5]     needs an NVIDIA GPU

It prints how many configurations have all of their evidence, when the last one got it, how long the program
waited for that, by kind of evidence, and the time of a step: bare, before evidence, and after.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

import profscope
from bench.model import compiled_step, steps_ms, until_built
from profscope.evidence.observer import Observer, Witness
from profscope.evidence.subject import Subject

__all__ = ["main"]

_STEPS = 200
_LIMIT_S = 60.0


@contextmanager
def timed_witnesses() -> Iterator[dict[str, list[float]]]:
    """By witness: the ms that each launch under it took, with all that it waits for."""
    spent: dict[str, list[float]] = defaultdict(list)
    original = Observer._watched

    def watched(observer: Observer, witness: Witness, subject: Subject, *launch: Any) -> bool:
        begun = time.perf_counter()
        try:
            return original(observer, witness, subject, *launch)
        finally:
            spent[witness.name].append(1e3 * (time.perf_counter() - begun))

    Observer._watched = watched  # type: ignore[method-assign]
    try:
        yield spent
    finally:
        Observer._watched = original  # type: ignore[method-assign]


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
    hardware = {"seconds": asked.seconds}
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
    for name, each in spent.items():
        print(f"{name:10}{len(each):5} launches, {sum(each) / 1e3:6.2f} s, median {median(each):6.2f} ms")


if __name__ == "__main__":
    main()
