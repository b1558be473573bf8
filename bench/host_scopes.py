"""What a scope of the host's code costs: `with profscope.scope("step"):`, with and without a metric.

    python -m bench.host_scopes

The least of 9 rounds, in ns of a scope, by the wall clock and by the process's CPU time. Where a machine does
other work besides, the latter is the one to read.
"""

from __future__ import annotations

import time
import timeit
import warnings
from typing import Final

import profscope

__all__ = ["main"]

_ROUNDS: Final = 9
_SCOPES: Final = 20_000


def _plain() -> None:
    with profscope.scope("step"):
        pass


def _with_metric() -> None:
    with profscope.scope("step", n=1):
        pass


def _measure(where: str) -> None:
    for name, body in (("scope", _plain), ("scope with a metric", _with_metric)):
        wall_ns, cpu_ns = (
            min(timeit.repeat(body, number=_SCOPES, repeat=_ROUNDS, timer=timer)) / _SCOPES * 1e9
            for timer in (time.perf_counter, time.process_time)
        )
        print(f"{where:10} {name:20} {wall_ns:7.0f} ns, {cpu_ns:7.0f} ns of the CPU", flush=True)


def main() -> None:
    """Measure and print."""
    warnings.simplefilter("ignore", profscope.EmptyProfileWarning)
    _measure("no session")
    with profscope.session():
        _measure("a session")
    _measure("no session")


if __name__ == "__main__":
    main()
