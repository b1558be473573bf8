"""What sessions say of their own cost, beside what CUPTI says.

    python -m bench.overhead --json overhead.json

For each kernel and level: what `baseline=` finds in a session (launches back to back, so that the GPU never
waits for the host), the medians of CUPTI's times of the bare and the instrumented kernel (torch.profiler),
launch spans over CUPTI's time of the same launches, and the verdict. Without a GPU the session's own figures.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import torch

import profscope
from bench.kernels import Workload, attention, matmul, surroundings

__all__ = ["main", "rows"]

LEVELS: Final = ("light", "default", "heavy")
_LAUNCHES: Final = 20


def _small() -> list[Workload]:
    return [matmul(256, (64, 64, 32), 4), attention(2, 256)]


def _real() -> list[Workload]:
    return [matmul(4096, (128, 128, 64), 8), attention(64, 4096)]


def rows(launches: int = _LAUNCHES, keep: Path | None = None) -> list[dict[str, Any]]:
    """A row for each kernel and level. keep: a folder for each session's report."""
    on_gpu = torch.cuda.is_available()
    table = []
    for workload in _real() if on_gpu else _small():
        inputs = workload.inputs("cuda" if on_gpu else "cpu")
        for _ in range(3 if on_gpu else 0):
            workload.launch(inputs)
        bare_us = _cupti(workload, inputs, launches) if on_gpu else []
        for level in LEVELS if on_gpu else LEVELS[:1]:
            table.append(_row(workload, inputs, level, launches, bare_us, keep))
            print({name: value for name, value in table[-1].items() if name != "notes"}, flush=True)
    return table


def _row(
    workload: Workload, inputs: Any, level: str, launches: int, bare_us: list[float], keep: Path | None
) -> dict[str, Any]:
    with profscope.session(instrument=level, baseline=2, memory=1024) as prof:
        _launch(workload, inputs, launches)
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
            recorded_us = _cupti(workload, inputs, launches)
        spans = (prof.launches["end_ns"] - prof.launches["start_ns"]).to_numpy()[1:] / 1e3
        own, bare = statistics.median(recorded_us), statistics.median(bare_us)
        row |= {"cupti_bare_us": bare, "cupti_instrumented_us": own, "cupti_slowdown": own / bare}
        row |= {"span_over_cupti": statistics.median(spans.tolist()) / own}
    return row


def _launch(workload: Workload, inputs: Any, launches: int) -> None:
    """Back to back: the device sleeps until the host is ahead of it."""
    workload.launch(inputs)
    workload.launch(inputs)
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        torch.cuda._sleep(40_000_000)
    for _ in range(launches):
        workload.launch(inputs)


def _cupti(workload: Workload, inputs: Any, launches: int) -> list[float]:
    """CUPTI's times of the kernel, us."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as prof:
        for _ in range(launches):
            workload.launch(inputs)
        torch.cuda.synchronize()
    name = workload.fn.__name__
    return [event.device_time for event in prof.events() if event.name == name and event.device_time]


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else None if str(value) == "<NA>" else value


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.overhead", description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument("--reports", type=Path, help="a folder for the report of each session")
    parser.add_argument("--launches", type=int, default=_LAUNCHES)
    options = parser.parse_args(arguments)
    with surroundings():
        table = rows(options.launches, options.reports)
    if options.json:
        options.json.write_text(json.dumps(table, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
