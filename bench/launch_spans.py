"""How long launches last by their records, beside CUPTI; and whether the SM clock changes within a launch.

    python -m bench.launch_spans [--rows REGEX] [--tiny]

First table: launches recorded at ctas=8, 64 and 1 (all CTAs), each over CUPTI's time of the same launch
(torch.profiler); it passes if all of them are within 0.98 and 1.005. Second table: clock rates, cycles over
ns, in fifths of a launch, by the CTAs that ran in them, recorded or not. The rate of a whole bare launch is
by CUPTI's counters. Returns 1 if a
launch is out of bounds. Needs a GPU; with --tiny it runs without one, on the emulator, to show that it runs.
"""

from __future__ import annotations

import re
import statistics
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

import profscope
from bench import kernels
from bench.kernels import Workload
from bench.on_gpu import arguments
from bench.overhead import kernel_times
from bench.timing import synchronize

__all__ = ["main"]

_LAUNCHES: Final = 12
_CHOICES: Final = {"8": 8, "64": 64, "all": 1}  # by name: one CTA in so many records
_LOW, _HIGH = 0.98, 1.005
_PARTS: Final = 5
_ELAPSED, _DURATION = "sm__cycles_elapsed.max", "gpu__time_duration.sum"

Floats = npt.NDArray[np.float64]


def workloads(*, tiny: bool) -> Iterator[Workload]:
    if tiny:
        yield kernels.matmul(256, (32, 32, 32), 4)
        yield kernels.add(1 << 14, 256)
        return
    yield kernels.matmul(4096, (128, 128, 64), 8)
    yield kernels.softmax(8192, 4096)
    yield kernels.attention(64, 4096)
    yield kernels.add(64 << 20)


def timed(run: Callable[[], object], name: str) -> list[float]:
    """CUPTI's times of the launches that `run` makes of a kernel, ns."""
    cuda = [torch.profiler.ProfilerActivity.CUDA]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Warning: Profiler clears events")
        with torch.profiler.profile(activities=cuda) as prof:
            run()
            synchronize()
    return [1e3 * us for _, us in kernel_times(prof, name)]


def recorded(workload: Workload, inputs: Any, stride: int) -> tuple[Any, list[float]]:
    """A session of a first launch and 12 more; and CUPTI's times of these, none without a GPU."""

    def run() -> None:
        for _ in range(_LAUNCHES):
            workload.launch(inputs)

    with profscope.session(ctas=stride, memory=1024) as prof:
        workload.launch(inputs)
        synchronize()
        if torch.cuda.is_available():
            by_cupti = timed(run, workload.fn.__name__)
        else:
            run()
            by_cupti = []
    counts = len(prof.launches) - 1, len(by_cupti) if torch.cuda.is_available() else _LAUNCHES
    if counts != (_LAUNCHES, _LAUNCHES):
        raise RuntimeError(f"{workload.name}: of {_LAUNCHES} launches recorded and timed: {counts}")
    return prof, by_cupti


def rates_of_ctas(prof: Any) -> list[float]:
    """By fifths of a launch, the mean of cycles over ns of the CTAs whose middle is in it, in all launches
    but the first."""
    ctas = prof.ctas[prof.ctas["launch"] > prof.ctas["launch"].min()]
    times = prof.launches.set_index("launch")
    start, end = (ctas["launch"].map(times[name]).to_numpy() for name in ("start_ns", "end_ns"))
    middle = (ctas["start_ns"] + ctas["end_ns"]).to_numpy() / 2
    part = np.clip((middle - start) / (end - start) * _PARTS, 0, _PARTS - 1).astype(np.int64)
    cycles, ns = (
        np.bincount(part, weights, _PARTS)
        for weights in (ctas["duration_cycles"], ctas["end_ns"] - ctas["start_ns"])
    )
    return [float(c / n) if n else np.nan for c, n in zip(cycles, ns, strict=True)]


def rate_by_counters(workload: Workload, inputs: Any) -> float:
    """Of a whole bare launch: the cycles of the SM that counted most, over the time."""
    with profscope.session(evidence=["counters", f"counters:{_ELAPSED}"]) as prof:
        for _ in range(_LAUNCHES):
            workload.launch(inputs)
    values = prof.counters.set_index("metric")["value"]
    return float(values[_ELAPSED] / values[_DURATION])


def spans_row(name: str, choice: str, prof: Any, by_cupti: Sequence[float]) -> tuple[str, bool]:
    """A line of the first table; and whether its launches are within bounds."""
    lasted = (prof.launches["end_ns"] - prof.launches["start_ns"]).to_numpy()[1:]
    line = f"{name:28}{choice:>5}"
    if not by_cupti:
        return f"{line}{statistics.median(lasted):>12.0f} ns, emulated", True
    ratios = sorted((lasted / np.array(by_cupti)).tolist())
    passed = ratios[0] >= _LOW and ratios[-1] <= _HIGH
    figures = "".join(f"{each:9.4f}" for each in (ratios[0], statistics.median(ratios), ratios[-1]))
    return f"{line}{statistics.median(by_cupti) / 1e3:>10.1f}{figures}  {'yes' if passed else 'NO'}", passed


def rates_row(name: str, source: str, rates: Sequence[float]) -> str:
    change = max(rates) / min(rates) - 1
    return f"{name:28}{source:18}" + "".join(f"{rate:8.4f}" for rate in rates) + f"{change:9.1%}"


def main(argv: Sequence[str] | None = None) -> int:
    options = arguments("bench.launch_spans", __doc__, argv)
    if options is None:
        return 1
    on_gpu = torch.cuda.is_available()
    chosen = [each for each in workloads(tiny=options.tiny) if re.search(options.rows, each.name)]
    spans, rates, passed = [], [], True
    with kernels.surroundings():
        given = [each.inputs("cuda" if on_gpu else "cpu") for each in chosen]
        # Before CUPTI is torch.profiler's.
        whole = [rate_by_counters(*each) if on_gpu else np.nan for each in zip(chosen, given, strict=True)]
        for workload, inputs, rate in zip(chosen, given, whole, strict=True):
            if on_gpu:
                rates.append(f"{workload.name:28}{'bare, counters':18}{rate:8.4f} over the whole launch")
            for choice, stride in _CHOICES.items():
                prof, by_cupti = recorded(workload, inputs, stride)
                line, within = spans_row(workload.name, choice, prof, by_cupti)
                spans.append(line)
                passed &= within
                rates.append(rates_row(workload.name, f"CTAs, ctas={choice}", rates_of_ctas(prof)))
    print(f"{'launch span over CUPTI':28}{'ctas':>5}{'us':>10}{'min':>9}{'median':>9}{'max':>9}  within")
    print("\n".join(spans))
    fifths = "".join(f"{f'{at + 1}/{_PARTS}':>8}" for at in range(_PARTS))
    print(f"\n{'SM clock, GHz':28}{'by':18}{fifths}{'change':>9}")
    print("\n".join(rates))
    return int(not passed)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
