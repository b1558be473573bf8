"""The figures that need a GPU: cycles per record, slowdown, cost of a launch, end of a session."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Final

import torch

import profscope
from bench import proton_side
from bench.kernels import POINTS as POINT_COUNT
from bench.kernels import Workload
from bench.table import Cell, Row
from bench.timing import Sampler, device_us, host_us, interleave, synchronize, why
from bench.variants import (
    BARE,
    DEFAULT,
    GLOBAL,
    LEVELS,
    OURS,
    POINTS,
    SHARED,
    WARM_UP,
    Variant,
    buffers,
    variants,
)

__all__ = ["launch_cost", "record_cycles", "session_end", "slowdown", "timed_launches"]

_LAUNCHES: Final = 21  # of a session whose end is timed
_PROTON_LAUNCHES: Final = 3  # Proton takes seconds for each


def record_cycles(workload: Workload, device: str, rounds: int) -> list[Row]:
    """Cycles that one record adds to an iteration of the record-cost kernel; median over all warps."""
    inputs = workload.inputs(device)
    given = buffers(workload.launch(inputs).asm["ttgir"], workload, POINTS)
    per_warp = workload.constexprs["POINTS"]

    def sample(name: str) -> Mapping[str, float]:
        for _ in range(WARM_UP):
            workload.launch(inputs)
        synchronize()
        starts = inputs["start_ptr"].cpu()[:, :, ::32].to(torch.int64)
        cycles = (starts[:, 1:] - starts[:, :-1]) % (1 << 32)  # the 32-bit clock wraps
        return {"cycles": float(cycles[:, 1:].median())}  # the first iteration fills the instruction cache

    found = interleave(variants(workload, POINTS, given, BARE, OURS, SHARED, GLOBAL), sample, rounds)[
        "cycles"
    ]
    bare = statistics.median(found.pop(BARE).samples)
    cells = {
        name: Cell(tuple((cycles - bare) / per_warp for cycles in cell.samples), cell.error)
        for name, cell in found.items()
    }
    about = {"records": POINT_COUNT, "bare_cycles_per_iteration": bare, "ctas": workload.ctas}
    return [Row("cost of a record", workload.name, "cycles", cells, about=about)]


def timed_launches(workload: Workload, inputs: Mapping[str, Any], device: str, launches: int) -> Sampler:
    """Samples the device time of back-to-back launches.

    The first sample of each variant also compares the outputs on fresh inputs, bit by bit, with those of now.
    """
    expected = _outputs(workload, device)
    checked: set[str] = set()

    def sample(name: str) -> Mapping[str, float]:
        if name not in checked:
            _compare(expected, _outputs(workload, device))
            checked.add(name)
        for _ in range(WARM_UP - 1):
            workload.launch(inputs)
        return {"us": device_us(lambda: workload.launch(inputs), launches)}

    return sample


def slowdown(workload: Workload, level: str, device: str, rounds: int) -> list[Row]:
    """Device time of back-to-back launches; the outputs must be the bits of the bare kernel's."""
    pipeline = LEVELS[level]
    inputs = workload.inputs(device)
    given = buffers(workload.launch(inputs).asm["ttgir"], workload, pipeline)
    sample = timed_launches(workload, inputs, device, given.launches)
    names = [BARE, OURS, SHARED, *([GLOBAL] if level == "heavy" else [])]
    cells = interleave(variants(workload, pipeline, given, *names), sample, rounds)["us"]
    about = {
        "launches": given.launches,
        "profile_bytes_per_launch": given.launch_bytes,
        "ctas": workload.ctas,
    }
    return [Row(f"slowdown, {level}", workload.name, "bare: us, others: ratio", cells, BARE, about)]


def launch_cost(
    workload: Workload, device: str, rounds: int, launches: int, proton_launches: int
) -> list[Row]:
    """Time of a launch: on the launching thread, and from launch to launch with all draining included."""
    inputs = workload.inputs(device)
    given = buffers(workload.launch(inputs).asm["ttgir"], workload, DEFAULT)
    every: dict[str, Variant] = {BARE: nullcontext}
    for level, pipeline in (("light", LEVELS["light"]), ("default", DEFAULT)):
        every[f"{OURS} {level}"] = lambda pipeline=pipeline: profscope.session(instrument=[pipeline])
    every[f"{OURS} every=100"] = lambda: profscope.session(instrument=[DEFAULT], every=100)

    def sample(name: str) -> Mapping[str, float]:
        # The first recorded launches allocate buffers, and the second waits; of one in 100 that is the 101st.
        for _ in range(launches):
            workload.launch(inputs)
        host, wall = host_us(lambda: workload.launch(inputs), launches)
        return {"host": host, "wall": wall}

    def alone(name: str) -> Mapping[str, float]:
        for _ in range(WARM_UP):
            workload.launch(inputs)
        return {"device": device_us(lambda: workload.launch(inputs), given.launches)}

    found = interleave(every, sample, rounds)
    kernel = variants(workload, DEFAULT, given, BARE, OURS)
    found |= interleave({BARE: kernel[BARE], f"{OURS} default": kernel[OURS]}, alone, rounds)
    theirs = _proton_launch_cost(workload, inputs, proton_launches)
    lines = {"host": "launching thread", "wall": "launch to launch", "device": "the kernel alone"}
    return [
        Row(
            "cost of a launch",
            f"{workload.name}: {line}",
            "us",
            found[figure] | theirs.get(figure, {}),
            about={
                "ctas": workload.ctas,
                "launches": launches,
                "profile_bytes_per_launch": given.launch_bytes,
            },
        )
        for figure, line in lines.items()
    ]


def _proton_launch_cost(
    workload: Workload, inputs: Mapping[str, Any], launches: int
) -> dict[str, dict[str, Cell]]:
    name = f"{SHARED} default"
    samples: list[tuple[float, float]] = []
    try:
        with proton_side.session(proton_side.mode("shared", workload.warps), DEFAULT):
            workload.launch(inputs)
            samples = [host_us(lambda: workload.launch(inputs), 1) for _ in range(launches)]
    except Exception as error:  # noqa: BLE001  the other columns still count
        if not samples:
            return {figure: {name: Cell(error=why(error))} for figure in ("host", "wall")}
    return {
        "host": {name: Cell(tuple(host for host, _ in samples))},
        "wall": {name: Cell(tuple(wall for _, wall in samples))},
    }


def session_end(workload: Workload, device: str) -> list[Row]:
    """From the first launch of an instrumented kernel to a saved trace, and the memory it takes.

    Our trace is a .pftrace.gz; saving it as .json.gz, too, is in no figure but those named so.
    """
    inputs = workload.inputs(device)
    workload.launch(inputs)
    cells: dict[str, dict[str, Cell]] = {}
    for name, measure in ((OURS, _our_end), (SHARED, _proton_end)):
        try:
            for line, cell in measure(workload, inputs).items():
                cells.setdefault(line, {})[name] = cell
        except Exception as error:  # noqa: BLE001  the other's figures still count
            cells.setdefault("first launch to saved trace, s", {})[name] = Cell(error=why(error))
    title = f"end of a session: {_LAUNCHES} launches of {workload.name}, default level"
    return [Row(title, line, "", found) for line, found in cells.items()]


def _our_end(workload: Workload, inputs: Mapping[str, Any]) -> dict[str, Cell]:
    times: dict[str, float] = {}
    session = profscope.session(instrument=[DEFAULT])
    with tempfile.TemporaryDirectory() as folder, _peak() as peak:
        path, chrome = Path(folder) / "trace.pftrace.gz", Path(folder) / "trace.json.gz"
        with ExitStack() as stack:
            stack.enter_context(session)
            workload.launch(inputs)
            workload.launch(inputs)  # compiled, and the rings' length is known
            synchronize()
            with _watch(times, "launch"):
                for _ in range(_LAUNCHES - 2):
                    workload.launch(inputs)
                synchronize()
            start = time.perf_counter()
        times["leave"] = time.perf_counter() - start
        with _watch(times, "table"):
            frame = session.df
        with _watch(times, "save"):
            session.save(path)
        file_bytes = path.stat().st_size
        as_chrome: dict[str, float] = {}
        with _watch(as_chrome, "save"):
            session.save(chrome)
        chrome_bytes = chrome.stat().st_size
    launches = session.launches
    spans, device_bytes = len(frame), int(launches["profile_bytes"].sum())
    dropped = int(launches["dropped"].sum())
    decode_s = times["leave"] + times["table"]
    figures = {
        "first launch to saved trace, s": sum(times.values()),
        "end of session to a DataFrame, s": decode_s,
        "end of session to a saved trace, s": decode_s + times["save"],
        "end of session to a .json.gz, s": decode_s + as_chrome["save"],
        "spans, M": spans / 1e6,
        "spans to a DataFrame, M/s": spans / decode_s / 1e6,
        "records to a DataFrame, M/s": int(launches["records"].sum()) / decode_s / 1e6,
        "records dropped, M": dropped / 1e6,
        "trace file, MB": file_bytes / 1e6,
        "trace file, bytes per span": file_bytes / spans,
        ".json.gz, bytes per span": chrome_bytes / spans,
        "profile memory on the device, MB per launch": device_bytes / len(launches) / 1e6,
        "profile memory on the device, bytes per span": device_bytes / spans,
        **{f"host memory at the peak, added {unit}": value for unit, value in peak.items()},
    }
    return {line: Cell((value,)) for line, value in figures.items()}


def _proton_end(workload: Workload, inputs: Mapping[str, Any]) -> dict[str, Cell]:
    times: dict[str, float] = {}
    mode = proton_side.mode("shared", workload.warps)
    with _peak() as peak, proton_side.session(mode, DEFAULT) as finished:
        kernel = workload.launch(inputs)
        with _watch(times, "launch"):
            for _ in range(_PROTON_LAUNCHES - 1):
                workload.launch(inputs)
            synchronize()
    factor = _LAUNCHES / _PROTON_LAUNCHES
    launch_s = times["launch"] / (_PROTON_LAUNCHES - 1) * _LAUNCHES
    device_bytes = kernel.metadata.profile_scratch_size * workload.ctas
    scaled = f"from {_PROTON_LAUNCHES} launches, scaled to {_LAUNCHES}; it decodes at each launch"
    figures = {
        "first launch to saved trace, s": (launch_s + finished.write_s * factor, scaled),
        "end of session to a saved trace, s": (finished.write_s * factor, scaled),
        "spans, M": (finished.spans * factor / 1e6, "those in its trace: its rings keep the last ones"),
        "trace file, MB": (finished.file_bytes * factor / 1e6, scaled),
        "trace file, bytes per span": (finished.file_bytes / max(1, finished.spans), ""),
        "profile memory on the device, MB per launch": (device_bytes / 1e6, ""),
        "profile memory on the device, bytes per span": (
            device_bytes * _PROTON_LAUNCHES / max(1, finished.spans), ""
        ),
        "lines printed": (finished.complaints * factor, scaled),
        **{
            f"host memory at the peak, added {unit}": (value, f"for {_PROTON_LAUNCHES} launches")
            for unit, value in peak.items()
        },
    }  # fmt: skip
    return {line: Cell((value,), note=note) for line, (value, note) in figures.items()}


def _outputs(workload: Workload, device: str) -> dict[str, torch.Tensor]:
    """All tensors after one launch on fresh inputs."""
    inputs = workload.inputs(device)
    workload.launch(inputs)
    return {name: inputs[name] for name in workload.tensors}


def _compare(expected: Mapping[str, torch.Tensor], found: Mapping[str, torch.Tensor]) -> None:
    for name, tensor in expected.items():
        if not torch.equal(tensor.view(torch.uint8), found[name].view(torch.uint8)):
            raise RuntimeError(f"{name} differs from the bare kernel's")


@contextmanager
def _watch(times: dict[str, float], name: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    times[name] = time.perf_counter() - start


@contextmanager
def _peak() -> Iterator[dict[str, float]]:
    """Under "MB": how far the body raised this process's resident memory; empty where that cannot be told."""
    found: dict[str, float] = {}
    try:
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
        before = _status_kib("VmRSS")
    except (OSError, KeyError):
        yield found
        return
    yield found
    found["MB"] = (_status_kib("VmHWM") - before) * 1024 / 1e6


def _status_kib(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(dict(line.split(":", 1) for line in lines)[field].split()[0])
