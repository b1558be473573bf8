"""What sessions say of their own cost, beside what CUPTI says.

    python -m bench.overhead [--levels light default heavy] [--json FILE]

For each kernel and level: what `baseline=` finds in a session; the medians of CUPTI's times of the bare and
the instrumented kernel (torch.profiler); launch spans over CUPTI's time of the same launches, and how much
later than CUPTI's their start is on the host's clock; and the verdict. Without a GPU: the session's figures.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

import profscope
from bench.kernels import Workload, add, attention, layer_norm, matmul, softmax, surroundings

__all__ = ["kernel_times", "main"]

_LEVELS: Final = ("light", "default", "heavy")
_PAIRS: Final = 50
_CUPTI_LAUNCHES: Final = 20
_ON_GPU: Final = torch.cuda.is_available()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.overhead", description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument("--pairs", type=int, default=_PAIRS)
    parser.add_argument("--levels", nargs="+", choices=_LEVELS, default=_LEVELS)
    options = parser.parse_args(arguments)
    rows = []
    with surroundings():
        for workload in _workloads():
            inputs = workload.inputs("cuda" if _ON_GPU else "cpu")
            workload.launch(inputs)
            bare_us = statistics.median(us for _, us in _cupti(workload, inputs)) if _ON_GPU else None
            for level in options.levels:
                rows.append(_row(workload, inputs, level, options.pairs, bare_us))
                print(rows[-1], flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows))
    return 0


def _workloads() -> list[Workload]:
    if not _ON_GPU:
        return [matmul(128, (64, 64, 32), 4)]
    return [
        matmul(4096, (128, 256, 64), 8),
        attention(32, 2048),
        add(16 << 20),
        softmax(8192, 4096),
        layer_norm(4096, 4096),
    ]


def _row(workload: Workload, inputs: Any, level: str, pairs: int, bare_us: float | None) -> dict[str, Any]:
    with profscope.session(instrument=level, baseline=pairs, memory=1024) as prof:
        for _ in range(1 + 2 * pairs):
            workload.launch(inputs)
    cost = prof.overhead().iloc[0].to_dict()
    row = {"kernel": workload.name, "level": level}
    row |= {name: _plain(value) for name, value in cost.items() if name not in row}
    row |= {"verdict": str(prof.verdict)}
    if bare_us is None:
        return row
    with profscope.session(instrument=level, memory=1024) as prof:
        workload.launch(inputs)
        torch.cuda.synchronize()
        recorded = _cupti(workload, inputs)
    spans_us = (prof.launches["end_ns"] - prof.launches["start_ns"]).to_numpy()[1:] / 1e3
    own_us = statistics.median(us for _, us in recorded)
    times = prof.program.host_times().iloc[1:]
    later = times["start_unix_ns"].to_numpy(np.int64) - [start for start, _ in recorded]
    return row | {
        "cupti_bare_us": bare_us,
        "cupti_instrumented_us": own_us,
        "cupti_slowdown": own_us / bare_us,
        "span_over_cupti": statistics.median(spans_us.tolist()) / own_us,
        "later_than_cupti_ns": [int(np.quantile(later, part)) for part in (0, 0.5, 1)],
        "host_error_ns": float(times["error_ns"].max()),
    }


def _cupti(workload: Workload, inputs: Any) -> list[tuple[int, float]]:
    """By CUPTI, when launches of the kernel began, Unix ns, and what they took, us."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as prof:
        for _ in range(_CUPTI_LAUNCHES):
            workload.launch(inputs)
        torch.cuda.synchronize()
    return kernel_times(prof, workload.fn.__name__)


def kernel_times(prof: Any, name: str) -> list[tuple[int, float]]:
    """Of a torch.profiler's trace: when launches of a kernel began, Unix ns, and what they took, us."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        prof.export_chrome_trace(str(path))
        trace = json.loads(path.read_text())
    base_ns = int(trace.get("baseTimeNanoseconds", 0))
    events = [each for each in trace["traceEvents"] if each.get("cat") == "kernel" and each["name"] == name]
    return sorted((base_ns + round(1e3 * each["ts"]), float(each["dur"])) for each in events)


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else None if str(value) == "<NA>" else value


if __name__ == "__main__":
    sys.exit(main())
