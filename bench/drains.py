"""What bounds a drain: each stage of the way from the device to the host's memory, and all of it together.

    python -m bench.drains [--mb 128] [--rounds 5]

Device to pinned memory; pinned memory to new pages with one thread and with those a session has; and, on a
kernel that records as fast as the default level makes a matmul record, launch to launch against the same
launches with room for all of them in memory. Needs a GPU; without one, the stages on the host only.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

import profscope
from bench.kernels import Workload, matmul
from bench.timing import host_us, synchronize
from profscope.device.arena import _MOVERS
from profscope.device.arena_memory import move

__all__ = ["gb_per_s", "main"]

_LAUNCHES = 200
_ARENA_MIB = 256  # a session's default


def host_stages(size: int, rounds: int) -> dict[str, float]:
    """GB/s of what happens on the host to `size` bytes, medians."""
    source = np.ones(size, np.uint8)
    one, some = ThreadPoolExecutor(1), ThreadPoolExecutor(_MOVERS)
    kept: list[object] = []  # a session keeps the spans that it moves: no page is used twice
    stages: dict[str, Callable[[], object]] = {
        "copy to old pages, 1 thread": lambda: np.copyto(target, source),
        "copy to new pages, 1 thread": lambda: kept.append(move([source], bool, one, _MOVERS)),
        "copy to numpy's new pages, 1 thread": lambda: kept.append(source.copy()),
        f"copy to new pages, {_MOVERS} threads": lambda: kept.append(move([source], bool, some, _MOVERS)),
    }
    target = np.empty(size, np.uint8)
    np.copyto(target, source)
    found = {name: gb_per_s(size, stage, rounds) for name, stage in stages.items()}
    one.shutdown()
    some.shutdown()
    return found


def device_stage(size: int, rounds: int) -> dict[str, float]:
    """GB/s from the device to pinned memory."""
    source = torch.ones(size, dtype=torch.uint8, device="cuda")
    target = torch.empty(size, dtype=torch.uint8, pin_memory=True)

    def copy() -> None:
        target.copy_(source, non_blocking=True)
        torch.cuda.synchronize()

    return {"device to pinned memory": gb_per_s(size, copy, rounds)}


def launches(workload: Workload, rounds: int) -> dict[str, float]:
    """us from launch to launch: bare, recorded with drains, and recorded into memory that holds them all."""
    inputs = workload.inputs("cuda")

    def sample() -> float:
        return host_us(lambda: workload.launch(inputs), _LAUNCHES)[1]

    workload.launch(inputs)
    found: dict[str, list[float]] = {"bare": [], "recorded": [], "recorded, no drain": []}
    for _ in range(rounds):
        found["bare"].append(sample())
        with profscope.session(memory=_ARENA_MIB) as prof:
            for _ in range(_LAUNCHES // 2):
                workload.launch(inputs)
            found["recorded"].append(sample())
            per_launch = prof._parts().recorder.log.launches[-1].size
        whole = 2 * (_LAUNCHES + 10) * (per_launch + (1 << 12)) >> 20
        with profscope.session(memory=whole + 1):
            for _ in range(4):
                workload.launch(inputs)
            synchronize()
            found["recorded, no drain"].append(sample())
    result = {f"{name}, us": statistics.median(values) for name, values in found.items()}
    result["MB a launch"] = per_launch / 1e6
    result["GB/s that it makes"] = per_launch / 1e3 / result["recorded, no drain, us"]
    result["recorded over no drain"] = result["recorded, us"] / result["recorded, no drain, us"]
    return result


def gb_per_s(size: int, run: Callable[[], object], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return size / statistics.median(times) / 1e9


def main(argv: Sequence[str]) -> int:
    """Print the figures; returns an exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.drains", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--mb", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(argv)
    size = options.mb << 20
    print(f"GB/s, {options.mb} MiB at a time")
    gpu = torch.cuda.is_available()
    stages = host_stages(size, options.rounds) | (device_stage(size, options.rounds) if gpu else {})
    for name, rate in stages.items():
        print(f"  {name:<40}{rate:8.1f}")
    if gpu:
        workload = matmul(4096, (128, 128, 64), 4)
        print(f"{workload.name}, default level")
        for name, value in launches(workload, options.rounds).items():
            print(f"  {name:<40}{value:8.2f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
