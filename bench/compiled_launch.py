"""Host time of a launch through torch.compile, bare and in sessions, in turn.

    python -m bench.compiled_launch [--rounds 7] [--launches 2000]

Launches of two of Inductor's kernels, one with few pointers and one with many, small enough that the GPU
waits for the host. A figure is the median over rounds of the mean of `--launches` launches in a row; "of
bare" is the median of its difference to the bare ones of the same round.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import time
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final
from unittest import mock

import torch

import profscope

__all__ = ["main"]

VARIANTS: Final[dict[str, Callable[[], AbstractContextManager[Any]]]] = {
    "bare": contextlib.nullcontext,
    "never (every=10^6)": lambda: profscope.session(ctas=64, wait=True, every=10**6),
    "ctas=64, every=100": lambda: profscope.session(ctas=64, wait=True, every=100),
    "ctas=64": lambda: profscope.session(ctas=64, wait=True),
    "light, ctas=64": lambda: profscope.session(instrument="light", ctas=64, wait=True),
}
_WARM_UP: Final = 300
_POINTERS: Final = (3, 9)


def _launching(pointers: int) -> Callable[[int], None]:
    """What launches one kernel of Inductor's so often, through its tuner."""
    from torch._inductor.runtime import triton_heuristics

    calls: list[tuple[Any, ...]] = []
    run = triton_heuristics.CachingAutotuner.run

    def seen(tuner: Any, *args: Any, stream: Any, **kwargs: Any) -> Any:
        calls.append((tuner, args, stream))
        return run(tuner, *args, stream=stream, **kwargs)

    inputs = [torch.randn(4096 + 16 * pointers, device="cuda") for _ in range(pointers - 1)]
    with mock.patch.object(triton_heuristics.CachingAutotuner, "run", seen):
        torch.compile(lambda *tensors: sum(tensors))(*inputs)
    (tuner, args, stream), *_ = calls

    def launch(count: int) -> None:
        for _ in range(count):
            tuner.run(*args, stream=stream)

    return launch


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--launches", type=int, default=2000)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", profscope.EmptyProfileWarning)
    warnings.simplefilter("ignore", profscope.DistrustWarning)
    print(f"torch {torch.__version__}; us of host time a launch")
    for pointers in _POINTERS:
        launch = _launching(pointers)
        took: dict[str, list[float]] = {name: [] for name in VARIANTS}
        for _ in range(asked.rounds):
            for name, variant in VARIANTS.items():
                with variant():
                    launch(_WARM_UP)
                    torch.cuda.synchronize()
                    begin = time.perf_counter()
                    launch(asked.launches)
                    ended = time.perf_counter()
                    torch.cuda.synchronize()
                took[name].append((ended - begin) * 1e6 / asked.launches)
        print(f"{pointers} pointers{'':13}{'us':>8} {'of bare':>8}   least to most")
        for name, figures in took.items():
            added = statistics.median(one - bare for one, bare in zip(figures, took["bare"], strict=True))
            print(
                f"{name:23}{statistics.median(figures):8.2f} {added:+8.2f}   "
                f"{min(figures):.2f} to {max(figures):.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
