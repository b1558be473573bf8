"""What sessions say of their own cost, beside what CUPTI says.

    python -m bench.overhead --json overhead.json

For each kernel and level: what `baseline=` finds in a session; the medians of CUPTI's
times of the bare and the instrumented kernel (torch.profiler); launch spans over CUPTI's time of the same
launches, and how much later than CUPTI's their start is on the host's clock; and the verdict. Without a GPU
the session's own figures.
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

__all__ = ["kernel_times", "main", "rows"]

LEVELS: Final = ("light", "default", "heavy")
_PAIRS: Final = 50
_CUPTI_LAUNCHES: Final = 20


def _small() -> list[Workload]:
    return [matmul(256, (64, 64, 32), 4), attention(2, 256)]


def _real() -> list[Workload]:
    return [
        matmul(4096, (128, 256, 64), 8),
        attention(32, 2048),
        add(16 << 20),
        softmax(8192, 4096),
        layer_norm(4096, 4096),
    ]


def rows(
    pairs: int = _PAIRS, keep: Path | None = None, levels: Sequence[str] = LEVELS
) -> list[dict[str, Any]]:
    """A row for each kernel and level. keep: a folder for each session's report."""
    on_gpu = torch.cuda.is_available()
    table = []
    for workload in _real() if on_gpu else _small():
        inputs = workload.inputs("cuda" if on_gpu else "cpu")
        for _ in range(3 if on_gpu else 0):
            workload.launch(inputs)
        bare_us = [us for _, us in _cupti(workload, inputs)] if on_gpu else []
        for level in levels if on_gpu else levels[:1]:
            table.append(_row(workload, inputs, level, pairs, bare_us, keep))
            print({name: value for name, value in table[-1].items() if name != "notes"}, flush=True)
    return table


def _row(
    workload: Workload, inputs: Any, level: str, pairs: int, bare_us: list[float], keep: Path | None
) -> dict[str, Any]:
    with profscope.session(instrument=level, baseline=pairs, memory=1024) as prof:
        for _ in range(1 + 2 * pairs):
            workload.launch(inputs)
    cost = prof.overhead().iloc[0].to_dict()
    row = {"kernel": workload.name, "level": level}
    row |= {name: _plain(value) for name, value in cost.items() if name not in row}
    row |= {"waited": sum(e["waited"] for k in prof.metadata["baseline"]["kernels"].values() for e in k)}
    row |= {"verdict": str(prof.verdict), "notes": prof.metadata["notes"]}
    if keep is not None:
        report = json.dumps(prof.report(), indent=1)
        (keep / f"report-{workload.name.split(',')[0]}-{level}.json").write_text(report)
    if bare_us:
        with profscope.session(instrument=level, memory=1024) as prof:
            workload.launch(inputs)
            torch.cuda.synchronize()
            recorded = _cupti(workload, inputs)
        spans = (prof.launches["end_ns"] - prof.launches["start_ns"]).to_numpy()[1:] / 1e3
        own, bare = statistics.median(us for _, us in recorded), statistics.median(bare_us)
        row |= {"cupti_bare_us": bare, "cupti_instrumented_us": own, "cupti_slowdown": own / bare}
        row |= {"span_over_cupti": statistics.median(spans.tolist()) / own}
        times = prof.program.host_times().iloc[1:]
        later = times["start_unix_ns"].to_numpy(np.int64) - [start for start, _ in recorded]
        row |= {"later_than_cupti_ns": [int(np.quantile(later, part)) for part in (0, 0.5, 1)]}
        row |= {"host_error_ns": float(times["error_ns"].max()), "host_clock": prof.metadata["host_clock"]}
    return row


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


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.overhead", description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument("--reports", type=Path, help="a folder for the report of each session")
    parser.add_argument("--pairs", type=int, default=_PAIRS)
    parser.add_argument("--levels", nargs="+", choices=LEVELS, default=LEVELS)
    options = parser.parse_args(arguments)
    with surroundings():
        table = rows(options.pairs, options.reports, options.levels)
    if options.json:
        options.json.write_text(json.dumps(table, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
