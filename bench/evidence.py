"""Evidence from the hardware against Nsight Compute, and what it costs.

    python -m bench.evidence [--json FILE] [--no-ncu] [--held-gib 60]     needs an NVIDIA GPU
    python -m bench.evidence --pages FOLDER                               records what docs/evidence.md shows

For each kernel of `evidence_kernels.CASES`: whether its outputs stay the same bits, what each step takes,
percent of peak, and its instruction counts and counters against those of `ncu` for the same launch in another
process. FILE gets the raw results. --held-gib: how much device memory is allocated meanwhile.
"""

from __future__ import annotations

import argparse
import base64
import csv
import gzip
import io
import json
import math
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any, Final

import torch
from torch.utils._pytree import tree_leaves

import profscope
from bench.cut import cut
from bench.evidence_kernels import CASES, PAGES, Prepare
from bench.kernels import give_scratch
from profscope.analysis.limits import bound_by, limits_of
from profscope.evidence.driver import Driver
from profscope.evidence.metrics import COUNTERS, Counter
from profscope.evidence.observer import Observer, WaitBudget, open_witnesses
from profscope.evidence.subject import Subject
from profscope.evidence.tables import counters_table

__all__ = ["main"]

_MOST_LAUNCHES: Final = 40
_EVERY: Final = 8  # of a recording's launches that are not observed
_SETTLED_S: Final = 0.2  # in which a session measures clocks and the cost of records
_NCU: Final = {
    "smsp__inst_executed.sum": "executed",
    "smsp__sass_inst_executed.sum": "executed",
    "smsp__sass_thread_inst_executed_pred_on.sum": "threads",
    "smsp__sass_sectors_mem_global.sum": "sectors",
    "smsp__sass_sectors_mem_local.sum": "local_sectors",
    "smsp__sass_l1tex_pipe_lsu_wavefronts_mem_shared.sum": "wavefronts",
}
"""Metrics of Nsight Compute that a sum of instruction counts must equal."""

_COLUMNS: Final = {
    "time": "us", "dram_throughput": "dram", "l2_throughput": "l2", "issue_slots": "issue",
    "pipe_tensor": "tensor", "pipe_fma": "fma", "pipe_fp64": "fp64", "pipe_xu": "xu",
    "shared_wavefronts": "shared",
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--no-ncu", action="store_true")
    parser.add_argument("--held-gib", type=int, default=0)
    parser.add_argument("--pages", type=Path, metavar="FOLDER")
    parser.add_argument("--launch-once", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    give_scratch("cuda")
    torch.zeros(1, device="cuda")
    if options.launch_once:
        _each_case(CASES, _launch_once)
        return
    if options.pages:
        options.pages.mkdir(parents=True, exist_ok=True)
        _each_case(PAGES, lambda name, launch: _record(launch, options.pages / f"{name}.pftrace.gz"))
        return
    held = torch.empty(options.held_gib << 30, dtype=torch.uint8, device="cuda")
    print(f"{torch.cuda.get_device_name()}, {held.nbytes >> 30} GiB held")
    observer = Observer(Driver(), open_witnesses(), WaitBudget(math.inf))
    _each_case(CASES, lambda name, launch: _observed(observer, name, launch))
    observer.close()
    print(*observer.notes(), sep="\n")
    results = _raw(observer)
    _show(observer, results)
    if not options.no_ncu:
        _compare(results, _ncu())
    if options.json:
        with gzip.open(options.json, "wt") as file:
            json.dump({"device": torch.cuda.get_device_name(), "results": results}, file)


def _each_case(cases: Mapping[str, Prepare], look: Callable[[str, Callable[[], Any]], None]) -> None:
    for name, prepare in cases.items():
        try:
            with torch.device("cuda"):
                launch = prepare(False)
            for _ in range(2):
                launch()
            torch.cuda.synchronize()
            look(name, launch)
        except Exception:  # noqa: BLE001  one kernel must not cost the others
            print(f"{name:24} failed: {traceback.format_exc(limit=-2)[-600:]}", flush=True)
        torch.cuda.empty_cache()


def _record(launch: Callable[[], Any], path: Path) -> None:
    """A trace with all evidence and the spans of few CTAs."""
    with profscope.session(instrument="light", evidence={"seconds": 20.0}, ctas=[0], every=_EVERY) as prof:
        launch()
        torch.cuda.synchronize()
        time.sleep(_SETTLED_S)
        for _ in range(_MOST_LAUNCHES - 1):
            launch()
        torch.cuda.synchronize()
    cut(prof.profile, ctas=1, launches=0).save(path)
    print(path.name, f"{path.stat().st_size:,} bytes", prof.limits().attrs.get("bound"), flush=True)


def _observed(observer: Observer, name: str, launch: Callable[[], Any]) -> None:
    """Launches until nothing more is wanted, and what each one took."""
    bare_us, before = _timed_us(launch), [tensor.clone() for tensor in _tensors(launch)]
    kernel = launch()
    torch.cuda.synchronize()
    subject = Subject(name, "", (), kernel.name, kernel.asm["cubin"], kernel.asm["ptx"])
    took_ms: list[float] = []
    while observer.wants(subject) and len(took_ms) < _MOST_LAUNCHES:
        begun = time.perf_counter()
        observer.observe(subject, torch.cuda.current_stream().cuda_stream, launch)
        took_ms.append(1e3 * (time.perf_counter() - begun))
    same = all(map(torch.equal, before, _tensors(launch)))
    counts, first, *others = [*took_ms, math.nan, math.nan][: max(2, len(took_ms))]
    print(
        f"{name:24} {len(took_ms):2} launches; counts {counts:6.1f} ms, first pass {first:6.1f} ms, a pass "
        f"{median(others or [math.nan]):5.1f} ms; bare {bare_us:8.1f} us, afterwards "
        f"{_timed_us(launch):8.1f} us; {'same bits' if same else 'OTHER BITS'}",
        flush=True,
    )


def _tensors(launch: Callable[[], Any]) -> list[torch.Tensor]:
    """What a launch can read or write."""
    leaves = tree_leaves([cell.cell_contents for cell in launch.__closure__ or ()])
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _timed_us(launch: Callable[[], Any], rounds: int = 20) -> float:
    """Median of a launch, by events."""
    took = []
    for _ in range(rounds):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        launch()
        end.record()
        torch.cuda.synchronize()
        took.append(1e3 * begin.elapsed_time(end))
    return median(took)


def _raw(observer: Observer) -> dict[str, Any]:
    """By kernel: counters, counts of each instruction, and the binary that they are of."""
    found: dict[str, Any] = {
        each.subject.kernel: {"counters": dict(each.values), "launches": each.launches, "counts": {}}
        for each in observer.counters()
    }
    for each in observer.counts():
        found.setdefault(each.subject.kernel, {"counters": {}, "launches": 0}).update(
            pcs=each.pcs.tolist(),
            counts={column: values.tolist() for column, values in each.counts.items()},
            function=each.subject.function,
            cubin=base64.b64encode(gzip.compress(each.subject.cubin)).decode(),
            ptx=each.subject.ptx,
        )
    return found


def _show(observer: Observer, results: Mapping[str, Any]) -> None:
    """Print percent of peak."""
    counters, notes = counters_table(observer.counters(), lambda kernel, key: 0)
    print(*notes, sep="\n")
    bound = {
        str(kernel): bound_by(group) for kernel, group in limits_of(counters).groupby("kernel", observed=True)
    }
    print(f"\n{'':24}", *(f"{each:>7}" for each in _COLUMNS.values()), "  verdict")
    for name, each in results.items():
        cells = dict.fromkeys(_COLUMNS, math.nan)
        for counter in COUNTERS:
            if counter.name in cells:
                _, own, peak_pct = counter.read(each["counters"]) or ("", math.nan, math.nan)
                cells[counter.name] = 1e-3 * own if counter.name == "time" else peak_pct
        print(f"{name:24}", *(f"{value:7.1f}" for value in cells.values()), " ", bound.get(name, ""))


def _ncu() -> dict[str, dict[str, float]]:
    """By kernel: what Nsight Compute says of one launch, in a process of its own."""
    of_counters = (each for counter in COUNTERS for each in (*counter.metrics, *_whole(counter)))
    metrics = [*_NCU, *dict.fromkeys(of_counters)]
    command = [
        shutil.which("ncu") or "ncu", "--csv", "--page", "raw", "--print-units", "base",
        "--profile-from-start", "off", "--clock-control", "none", "--cache-control", "none",
        "--metrics", ",".join(metrics), sys.executable, "-m", "bench.evidence", "--launch-once",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=400)
    lines = done.stdout.splitlines()
    start = next((at for at, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        print("ncu:", done.returncode, done.stdout[-800:], done.stderr[-800:])
        return {}
    rows = list(csv.DictReader(io.StringIO("\n".join(lines[start:]))))[1:]
    launched = [line.removeprefix("launched ") for line in lines if line.startswith("launched ")]
    if len(rows) != len(launched):
        print(f"ncu: {len(rows)} rows for {len(launched)} launches")
    found: dict[str, dict[str, float]] = {name: {} for name in launched}
    for name, row in zip(launched, rows, strict=False):
        for metric in metrics:
            try:
                found[name][metric] = float(row[metric].replace(",", ""))
            except (KeyError, ValueError):
                continue
    return found


def _launch_once(name: str, launch: Callable[[], Any]) -> None:
    """A launch that ncu sees."""
    torch.cuda.profiler.start()
    launch()
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()
    print("launched", name, flush=True)


def _whole(counter: Counter) -> tuple[str, ...]:
    """NVIDIA's metric of what a counter finds from its parts."""
    return counter.others[0] if counter.rivals else ()


def _compare(results: Mapping[str, Any], other: Mapping[str, Mapping[str, float]]) -> None:
    print("\nagainst ncu: counts as a ratio; counters in points if in per cent, else as a ratio")
    for name, ours in results.items():
        theirs = other.get(name, {})
        shown = [] if theirs else ["not in ncu"]
        for metric, column in _NCU.items():
            mine = sum(ours["counts"].get(column, [math.nan]))
            if metric in theirs and mine != theirs[metric]:
                shown.append(f"{metric.removeprefix('smsp__')} {mine:.0f}/{theirs[metric]:.0f}")
        for counter in COUNTERS:
            for metric in _whole(counter) or counter.metrics:
                read = counter.read(ours["counters"])
                mine, value = ours["counters"].get(metric, math.nan), theirs.get(metric, math.nan)
                if counter.rivals and read is not None:
                    mine = read[1]
                percent = "pct" in metric
                apart = mine - value if percent else (mine / value - 1 if value else mine)
                if abs(apart) > (2 if percent else 0.03):
                    shown.append(f"{counter.name}{'%' * percent} {mine:.4g}/{value:.4g}")
        print(f"  {name:24} {'; '.join(shown) or 'all agree'}")


if __name__ == "__main__":
    main()
