"""`profscope view` of a trace of torch.profiler: its time over that of `json.load`, and its memory.

    python -m bench.foreign [--events 1] [--repeats 3] [--json FILE]      # millions

Each run has a process of its own; runs of the two take turns. Of each the fastest is shown: seconds, CPU
seconds over all threads, and the most memory it held. Modules are compiled once, before, as they are where
profscope is installed. One event in seven is a kernel, of 50 kernels.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from bench.reading import compiled_environment

__all__ = ["kineto_events", "main", "write_trace"]

ROOT: Final = Path(__file__).parents[1]
_SAMPLE: Final = ROOT / "tests" / "traces" / "samples" / "kineto.json"
_LOAD: Final = "import gzip, json, sys; name = sys.argv[1]; "
_LOAD_JSON: Final = _LOAD + "json.load((gzip.open if name.endswith('.gz') else open)(name))"
_NAME: Final = (
    "void at::native::reduce_kernel_{}<512, 1, at::native::ReduceOp<float, float, unsigned int, 4>>"
)
_MOST_RATIO: Final = 0.5
_MOST_MB: Final = 700


def main(argv: Sequence[str] | None = None) -> int:
    """Print the figures; returns an exit code, 1 if a bound is not kept."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.foreign",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--events", type=float, default=1, help="in millions (default 1)")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each (default 3)")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    options = parser.parse_args(argv)
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trace = folder / "trace.json"
        write = (
            "from bench.foreign import write_trace; import sys; write_trace(sys.argv[1], int(sys.argv[2]))"
        )
        count = round(options.events * 1e6)
        _measured(["-c", write, str(trace), str(count)], folder)
        _measured(["-m", "profscope", "view", str(_SAMPLE)], folder)
        print(f"{count:,} events, {trace.stat().st_size / 1e6:,.0f} MB\n")
        print(f"{'':16}{'s':>7}{'CPU s':>7}{'MB':>7}   {'json.load':>9}{'CPU s':>7}{'MB':>7}   {'ratio':>6}")
        for path in (trace, trace.with_name("trace.json.gz")):
            row = _compared(path, folder, options.repeats)
            view, load = row["view"], row["load"]
            print(
                f"{path.name:16}{view['s']:7.2f}{view['cpu_s']:7.2f}{view['peak_mb']:7,.0f}   "
                f"{load['s']:9.2f}{load['cpu_s']:7.2f}{load['peak_mb']:7,.0f}   {row['ratio']:6.2f}"
                f" (CPU {row['cpu_ratio']:.2f})"
            )
            rows.append(row)
    if options.json:
        options.json.write_text(json.dumps({"events": count, "files": rows}) + "\n")
    kept = [row["ratio"] <= _MOST_RATIO and row["view"]["peak_mb"] <= _MOST_MB for row in rows]
    print(f"\nbounds ({_MOST_RATIO:g} times json.load, {_MOST_MB} MB): {'kept' if all(kept) else 'not kept'}")
    return 0 if all(kept) else 1


def write_trace(name: str, count: int) -> None:
    """Write a trace of so many events, and the same as .json.gz; in a process of its own, as its memory would
    count as that of what it starts."""
    sample = json.loads(_SAMPLE.read_text())
    events = kineto_events()
    document = sample | {"traceEvents": [next(events) for _ in range(count)]}
    text = json.dumps(document, separators=(",", ":")).encode()
    Path(name).write_bytes(text)
    with gzip.open(f"{name}.gz", "wb", 6) as file:
        file.write(text)


def kineto_events() -> Iterator[dict[str, Any]]:
    """Events without end as torch.profiler writes them: launch after launch, each with the operators that
    lead to it, the call, the kernel, and the arrow between them."""
    host, gpu = {"pid": 400, "tid": 400}, {"pid": 0, "tid": 7}
    number, now = 0, 4348702112000.0
    while True:
        ids = {"External id": number, "Record function id": 0, "Sequence number": number, "Ev Idx": number}
        for depth, name in enumerate(("aten::linear", "aten::matmul", "aten::mm")):
            begin, took = round(now + depth + number % 997 / 1000, 3), round(30.5 - depth, 3)
            yield {"ph": "X", "cat": "cpu_op", "name": name, **host, "ts": begin, "dur": took, "args": ids}
        call = {"External id": number, "cbid": 211, "correlation": number}
        at, name = {"ts": round(now + 4, 3)}, "cudaLaunchKernel"
        yield {"ph": "X", "cat": "cuda_runtime", "name": name, **host, **at, "dur": 5.123, "args": call}
        yield {"ph": "s", "id": number, **host, **at, "cat": "ac2g", "name": "ac2g"}
        at = {"ts": round(now + 30.915, 3)}
        took = round(1.5 + (number * 7919 % 1000) ** 2 * 3e-4, 3)
        args = {
            "External id": number, "queued": 0, "device": 0, "context": 1, "stream": 7, "correlation": number,
            "registers per thread": 26, "shared memory": 0, "blocks per SM": 0.060606,
            "warps per SM": 0.242424, "grid": [8 + number % 3, 1, 1], "block": [128, 1, 1],
            "est. achieved occupancy %": 0,
        }  # fmt: skip
        name = _NAME.format(number % 50)
        yield {"ph": "X", "cat": "kernel", "name": name, **gpu, **at, "dur": took, "args": args}
        yield {"ph": "f", "id": number, **gpu, **at, "cat": "ac2g", "name": "ac2g", "bp": "e"}
        number, now = number + 1, now + 310


def _compared(path: Path, folder: Path, repeats: int) -> dict[str, Any]:
    commands = {"view": ["-m", "profscope", "view", str(path)], "load": ["-c", _LOAD_JSON, str(path)]}
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in commands}
    for _ in range(repeats):
        for name, words in commands.items():
            runs[name].append(_measured(words, folder))
    found: dict[str, Any] = {
        name: {key: min(run[key] for run in of) for key in of[0]} for name, of in runs.items()
    }
    view, load = found["view"], found["load"]
    ratios = {"ratio": view["s"] / load["s"], "cpu_ratio": view["cpu_s"] / load["cpu_s"]}
    return {"file": path.name, **found, **ratios}


def _measured(words: Sequence[str], folder: Path) -> dict[str, float]:
    """What a Python process takes. Raises CalledProcessError if it fails."""
    begin = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.DEVNULL, cwd=folder, env=compiled_environment(folder)
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, words)
    return {
        "s": time.perf_counter() - begin,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "peak_mb": usage.ru_maxrss / 1e3,
    }


if __name__ == "__main__":
    sys.exit(main())
