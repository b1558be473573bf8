"""Evidence from the hardware against Nsight Compute, and what it costs.

    python -m bench.evidence [--json FILE] [--no-ncu] [--held-gib 60]     needs an NVIDIA GPU

For each kernel of `evidence_kernels` it prints the verdict, the instruction counts and counters next to those
of `ncu` for the same launch in another process, and what each step took. FILE gets the raw results.
--held-gib: how much device memory is allocated meanwhile.
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
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch

from bench.evidence_kernels import CASES
from bench.kernels import give_scratch
from profscope.analysis.limits import bound_by, limits_of
from profscope.evidence.cupti import Library
from profscope.evidence.driver import Driver
from profscope.evidence.metrics import COUNTERS, Counter
from profscope.evidence.observer import Observer, open_witnesses
from profscope.evidence.subject import Subject
from profscope.evidence.tables import counters_table, counts_table

MOST_LAUNCHES = 40
_NCU = {
    "smsp__inst_executed.sum": "executed",
    "smsp__sass_inst_executed.sum": "executed",
    "smsp__sass_thread_inst_executed_pred_on.sum": "threads",
    "smsp__sass_sectors_mem_global.sum": "sectors",
    "smsp__sass_sectors_mem_local.sum": "local_sectors",
    "smsp__sass_l1tex_pipe_lsu_wavefronts_mem_shared.sum": "wavefronts",
}
"""Metrics of Nsight Compute that a sum of instruction counts must equal."""


def subject_of(name: str, kernel: Any) -> Subject:
    return Subject(name, "", (), kernel.name, kernel.asm["cubin"], kernel.asm["ptx"])


def outputs(launch: Callable[[], Any]) -> list[torch.Tensor]:
    """The tensors that a launch can change."""
    cells = (cell.cell_contents for cell in launch.__closure__ or ())
    return [cell for cell in cells if isinstance(cell, torch.Tensor)]


def timed(launch: Callable[[], Any], rounds: int = 20) -> float:
    """Median microseconds of a launch, by events."""
    took = []
    for _ in range(rounds):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        launch()
        end.record()
        torch.cuda.synchronize()
        took.append(1e3 * begin.elapsed_time(end))
    return median(took)


class Timed:
    """The time of each function of CUPTI."""

    def __init__(self) -> None:
        self.spent: dict[str, list[float]] = {}
        original = Library.call

        def call(library: Library, function: str, **fields: Any) -> Any:
            begun = time.perf_counter()
            try:
                return original(library, function, **fields)
            finally:
                took = 1e3 * (time.perf_counter() - begun)
                self.spent.setdefault(function.removeprefix("cupti"), []).append(took)

        Library.call = call  # type: ignore[method-assign]

    def show(self) -> None:
        for function, took in self.spent.items():
            print(
                f"  {function:42} {len(took):5} calls, {sum(took) / 1e3:6.2f} s, first {took[0]:7.2f} ms, "
                f"median {median(took):7.2f}, most {max(took):7.2f}"
            )


def observed(observer: Observer, name: str, launch: Callable[[], Any]) -> tuple[Subject, list[float]]:
    """Launches until nothing more is wanted; the milliseconds of each."""
    subject = subject_of(name, launch())
    torch.cuda.synchronize()
    stream = torch.cuda.current_stream().cuda_stream
    took = []
    while observer.wants(subject) and len(took) < MOST_LAUNCHES:
        begun = time.perf_counter()
        observer.observe(subject, stream, launch)
        took.append(1e3 * (time.perf_counter() - begun))
    return subject, took


def _whole(counter: Counter) -> tuple[str, ...]:
    """NVIDIA's metric of what a counter finds from its parts."""
    return counter.others[0] if counter.rivals else ()


def ncu(cases: list[str]) -> dict[str, dict[str, float]]:
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
    found = {}
    for case, row in zip(launched, rows, strict=False):
        values = {}
        for metric in metrics:
            try:
                values[metric] = float(row[metric].replace(",", ""))
            except (KeyError, ValueError):
                continue
        found[case] = values
    return found


def launch_once() -> None:
    """Each kernel twice unseen and once for ncu."""
    for name, prepare in CASES.items():
        try:
            with torch.device("cuda"):
                launch = prepare(False)
            for _ in range(2):
                launch()
            torch.cuda.synchronize()
            torch.cuda.profiler.start()
            launch()
            torch.cuda.synchronize()
            torch.cuda.profiler.stop()
            print("launched", name, flush=True)
        except Exception as error:  # noqa: BLE001  one kernel must not cost the others
            print("failed", name, repr(error)[:200], flush=True)
        torch.cuda.empty_cache()


def compare(results: dict[str, Any], other: dict[str, dict[str, float]]) -> None:
    print("\nagainst ncu: counts as a ratio; counters in points if in per cent, else as a ratio")
    worst: dict[str, list[float]] = {}
    for name, ours in results.items():
        theirs = other.get(name)
        if theirs is None:
            print(f"  {name:24} not in ncu")
            continue
        shown = []
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
                if not math.isnan(apart):
                    worst.setdefault(metric, []).append(abs(apart))
                if abs(apart) > (2 if percent else 0.03):
                    label = counter.name + ("%" if percent else "")
                    shown.append(f"{label} {mine:.4g}/{value:.4g}")
        print(f"  {name:24} {'; '.join(shown) or 'all agree'}")
    print("  worst by counter:", {m.split("__")[1][:34]: float(f"{max(v):.3g}") for m, v in worst.items()})


def table(results: dict[str, Any]) -> None:
    short = {
        "time": "us", "dram_throughput": "dram", "l2_throughput": "l2", "l1_throughput": "l1",
        "issue_slots": "issue", "pipe_tensor": "tensor", "pipe_fma": "fma", "pipe_alu": "alu",
        "pipe_fp64": "fp64", "pipe_xu": "xu", "pipe_lsu": "lsu", "shared_wavefronts": "shared",
        "occupancy": "warps", "l2_hit_rate": "l2 hit", "l1_hit_rate": "l1 hit",
    }  # fmt: skip
    print(f"\n{'':24}", *(f"{each:>7}" for each in short.values()), "  verdict")
    for name, each in results.items():
        cells = []
        for counter in COUNTERS:
            if counter.name in short:
                _, own, peak_pct = counter.read(each["counters"]) or ("", math.nan, math.nan)
                value = peak_pct if counter.peak else own
                cells.append(
                    (list(short).index(counter.name), value * (1e-3 if counter.name == "time" else 1))
                )
        print(f"{name:24}", *(f"{value:7.1f}" for _, value in sorted(cells)), " ", each["verdict"])


def raw(observer: Observer) -> dict[str, Any]:
    counted = {each.subject.kernel: each for each in observer.counts()}
    found: dict[str, Any] = {}
    for each in observer.counters():
        found[each.subject.kernel] = {"counters": dict(each.values), "launches": each.launches}
    for name, counts in counted.items():
        entry = found.setdefault(name, {"counters": {}, "launches": 0})
        entry["pcs"] = counts.pcs.tolist()
        entry["counts"] = {column: values.tolist() for column, values in counts.counts.items()}
        entry["in_callees"] = counts.in_callees
        entry["function"] = counts.subject.function
        entry["cubin"] = base64.b64encode(gzip.compress(counts.subject.cubin)).decode()
        entry["ptx"] = counts.subject.ptx
    for entry in found.values():
        entry.setdefault("counts", {})
        entry.setdefault("verdict", "")
    return found


def all_cases(observer: Observer) -> None:
    for name, prepare in CASES.items():
        try:
            with torch.device("cuda"):
                launch = prepare(False)
            for _ in range(2):
                launch()
            torch.cuda.synchronize()
            bare_us = timed(launch)
            before = [tensor.clone() for tensor in outputs(launch)]
            _, took = observed(observer, name, launch)
            after = outputs(launch)
            same = all(torch.equal(one, other) for one, other in zip(before, after, strict=True))
            after_us = timed(launch)
            counts_ms = took[0] if took else math.nan
            passes = took[2:] or [math.nan]
            print(
                f"{name:24} {len(took):2} launches; counts {counts_ms:6.1f} ms, first pass "
                f"{took[1] if len(took) > 1 else math.nan:6.1f} ms, a pass {median(passes):5.1f} ms; bare "
                f"{bare_us:8.1f} us, afterwards {after_us:8.1f} us; {'same bits' if same else 'OTHER BITS'}; "
                f"ms: {' '.join(f'{each:.0f}' for each in took[1:])}"
            )
        except Exception:  # noqa: BLE001  one kernel must not cost the others
            print(f"{name:24} failed: {traceback.format_exc(limit=-2)[-600:]}")
        torch.cuda.empty_cache()


def tables_of(observer: Observer, results: dict[str, Any]) -> None:
    counters, notes = counters_table(observer.counters(), lambda kernel, key: 0)
    table_of_limits = limits_of(counters)
    for kernel, group in table_of_limits.groupby("kernel", observed=True):
        results[str(kernel)]["verdict"] = bound_by(group)
    table(results)
    begun = time.perf_counter()
    counts, more = counts_table(observer.counts(), lambda kernel, key: 0)
    print(f"\ncounts: {len(counts)} rows in {time.perf_counter() - begun:.2f} s;", *notes, *more, sep="\n  ")
    for kernel, group in counts.groupby("kernel", observed=True):
        wide = group[group["sectors"] > 1.5 * group["sectors_ideal"]].nlargest(1, "sectors")
        shared = group[group["wavefronts"] > 1.5 * group["wavefronts_ideal"]].nlargest(1, "wavefronts")
        lines = group.groupby("line")["executed"].sum().nlargest(3)
        total = group["executed"].sum()
        print(
            f"  {kernel:24} {total:12} executed, by line",
            {line: round(float(executed) / total, 2) for line, executed in lines.items()},
            *(
                f"{row['opcode']} line {row['line']}: {row['sectors']} sectors, ideal {row['sectors_ideal']}"
                for _, row in wide.iterrows()
            ),
            *(
                f"{row['opcode']} line {row['line']}: {row['wavefronts']} waves, "
                f"ideal {row['wavefronts_ideal']}"
                for _, row in shared.iterrows()
            ),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--no-ncu", action="store_true")
    parser.add_argument("--held-gib", type=int, default=0)
    parser.add_argument("--launch-once", action="store_true")
    options = parser.parse_args()
    give_scratch("cuda")
    torch.zeros(1, device="cuda")
    if options.launch_once:
        launch_once()
        return
    held = torch.empty(options.held_gib << 30, dtype=torch.uint8, device="cuda")
    print(f"{torch.cuda.get_device_name()}, {held.nbytes >> 30} GiB held")
    calls = Timed()
    observer = Observer(Driver(), open_witnesses(), seconds=math.inf)
    all_cases(observer)
    observer.close()
    print(f"{observer.added_s:.2f} s added;", *observer.notes(), sep="\n  ")
    calls.show()
    results = raw(observer)
    try:
        tables_of(observer, results)
    except Exception:  # noqa: BLE001  the raw results are worth more
        traceback.print_exc()
    other = {} if options.no_ncu else ncu(list(CASES))
    compare(results, other)
    for name, values in other.items():
        results.setdefault(name, {})["ncu"] = values
    if options.json:
        with gzip.open(options.json, "wt") as file:
            json.dump({"device": torch.cuda.get_device_name(), "results": results}, file)


if __name__ == "__main__":
    main()
