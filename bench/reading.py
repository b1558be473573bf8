"""What it takes from buffers on the host to a DataFrame: time, and memory beside the table's own.

    python -m bench.reading [--spans 20] [--launches 6912] [--json FILE]

Three profiles, each read in a process of its own: heavy launches of a matmul, replayed from captured buffers
until there are so many million spans; many small launches of four kernels; and where there is a GPU, a matmul
that it records, read by `prof.df`. Beside each stands how long numpy takes to write as many bytes to new
memory, with one thread: what no reader can do without.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
import torch

import profscope
from bench.about import about
from bench.kernels import matmul
from bench.replay import replay
from bench.timing import synchronize
from profscope.decoding.areas import read_buffer
from profscope.decoding.assemble import assemble
from profscope.decoding.build import RawLaunch
from profscope.instrument_passes.manifest import Manifest
from profscope.profiles import Profile

__all__ = ["Reading", "forget_peak", "heavy", "light", "main", "recorded", "status_bytes"]

_DATA: Final = Path(__file__).resolve().parent.parent / "tests" / "data"
_LIGHT: Final = ("add", "softmax", "layer_norm", "matmul")
_CTAS, _ITERATIONS = 245, 64  # of a replayed matmul: 707,560 spans a launch
_SPANS_A_LAUNCH: Final = 707_560
_METADATA: Final = {
    "backend": "gpu",
    "clock": {"read_cycles": 18.0, "row_cycles": 30.0, "basis": "measured"},
}


@dataclass(frozen=True)
class Reading:
    """Of one profile: seconds, seconds of CPU time over all threads, and bytes. buffers: of what is read;
    table: of the DataFrame; peak: by how much the process grew while it was made. copy_s: see above."""

    name: str
    launches: int
    spans: int
    wall_s: float
    cpu_s: float
    buffer_bytes: int
    table_bytes: int
    peak_bytes: int
    copy_s: float

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.launches:,} launches, {self.spans:,} spans\n"
            f"  {self.wall_s:.2f} s, {self.cpu_s:.2f} s of CPU: {1e3 * self.wall_s / self.launches:.3f} ms a "
            f"launch, {self.spans / self.wall_s / 1e6:.1f} M spans/s\n"
            f"  {self.wall_s / self.copy_s:.1f} times as long as to write the table's bytes with one thread, "
            f"{self.cpu_s / self.copy_s:.1f} times in CPU time\n"
            f"  table {self.table_bytes / 1e6:,.0f} MB, buffers {self.buffer_bytes / 1e6:,.0f} MB, peak "
            f"{self.peak_bytes / 1e6:,.0f} MB: {self.peak_bytes / self.table_bytes:.2f} of the table"
        )


def heavy(spans_m: float) -> Reading:
    """Launches of a matmul at the heavy level, replayed: so many million spans."""
    launches = max(1, round(spans_m * 1e6 / _SPANS_A_LAUNCH))
    raw = replay(_DATA / "matmul-heavy-0.npz", launches, _CTAS, _ITERATIONS, transactions=True)
    return _reading("heavy matmul, replayed", len(raw), _bytes(raw), lambda: _table(raw))


def light(launches: int) -> Reading:
    """So many launches of a few CTAs at the light level, of four kernels by turns."""
    captured = []
    for name in _LIGHT:
        with np.load(_DATA / f"{name}-light-0.npz") as arrays:
            manifest = Manifest.from_json(arrays["manifest"].tobytes().decode())
            buffer = arrays["buffer"]
        captured.append((manifest, len(read_buffer(buffer, manifest).ctas), buffer))
    by_turns = (captured[index % len(captured)] for index in range(launches))
    raw = [
        RawLaunch(index, manifest, 0, 0, ctas, buffer.copy())
        for index, (manifest, ctas, buffer) in enumerate(by_turns)
    ]
    return _reading("light launches", launches, _bytes(raw), lambda: _table(raw))


def recorded(spans_m: float) -> Iterator[Reading]:
    """A matmul that the GPU records at the heavy level, by `prof.df`, twice: the first time in a process also
    measures what a record costs."""
    workload = matmul(4096, (128, 128, 64), 4)
    inputs = workload.inputs("cuda")
    launches = 4
    for name in ("to find the size", "heavy matmul, recorded", "heavy matmul, recorded again"):
        with profscope.session(instrument="heavy") as prof:
            for _ in range(launches):
                workload.launch(inputs)
            synchronize()
        rows = int(prof.launches["profile_bytes"].sum()) if name == "to find the size" else 0
        if rows:
            launches = max(1, round(spans_m * 1e6 / (len(prof.df) / launches)))
            continue
        reading = _reading(name, launches, 0, partial(getattr, prof, "df"))
        yield replace(reading, buffer_bytes=int(prof.launches["profile_bytes"].sum()))


def _bytes(raw: Sequence[RawLaunch]) -> int:
    return sum(launch.buffer.nbytes for launch in raw)


def _table(raw: Sequence[RawLaunch]) -> pd.DataFrame:
    return Profile.of(assemble(raw, dict(_METADATA))).df


def _reading(name: str, launches: int, buffer_bytes: int, read: Callable[[], pd.DataFrame]) -> Reading:
    before = forget_peak()
    begin, cpu = time.perf_counter(), time.process_time()
    df = read()
    wall_s, cpu_s = time.perf_counter() - begin, time.process_time() - cpu
    peak = status_bytes("VmHWM") - before
    table_bytes = int(df.memory_usage(index=False).sum())
    begin = time.perf_counter()
    np.full(table_bytes, 1, np.uint8)
    copy_s = time.perf_counter() - begin
    return Reading(name, launches, len(df), wall_s, cpu_s, buffer_bytes, table_bytes, peak, copy_s)


def forget_peak() -> int:
    """The bytes that this process has in memory; its peak counts from here on (Linux, proc(5))."""
    Path("/proc/self/clear_refs").write_text("5")
    return status_bytes("VmRSS")


def status_bytes(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) << 10
    raise RuntimeError(f"/proc/self/status has no {name}")


def _show(readings: list[Reading]) -> list[dict[str, object]]:
    for each in readings:
        print(each, flush=True)
    return [asdict(each) for each in readings]


def _in_process(name: str, *arguments: float) -> list[Reading]:
    """What one of the functions above returns, in a new process: its peak is then its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_call, (name, arguments))


def _call(name: str, arguments: tuple[float, ...]) -> list[Reading]:
    result = globals()[name](*arguments)
    return [result] if isinstance(result, Reading) else list(result)


def main(argv: Sequence[str]) -> int:
    """Print the figures; returns an exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.reading", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--spans", type=float, default=20, help="in millions (default 20)")
    parser.add_argument("--launches", type=int, default=6912, help="small ones (default 6912)")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    options = parser.parse_args(argv)
    print(about())
    print(f"load of the machine: {os.getloadavg()[0]:.1f}\n")
    figures = _show(_in_process("heavy", options.spans)) + _show(_in_process("light", options.launches))
    if torch.cuda.is_available():
        figures += _show(_in_process("recorded", options.spans))
    if options.json:
        options.json.write_text(json.dumps({"about": about(), "readings": figures}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
