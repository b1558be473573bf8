"""The figures that need a GPU: cycles per record, overhead, cost of a launch, end of a session."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

import torch

import profscope
from bench import proton_side
from bench.kernels import POINTS as POINT_COUNT
from bench.kernels import Workload
from bench.table import Cell, Row
from bench.timing import device_us, host_us, interleave, synchronize, why
from bench.variants import (
    BARE,
    DEFAULT,
    GLOBAL,
    LEVELS,
    OURS,
    POINTS,
    SHARED,
    WARM_UP,
    Level,
    Variant,
    buffers,
    variants,
)

__all__ = ["launch_cost", "overhead", "record_cycles", "session_end"]

_LAUNCHES: Final = 21  # of a session whose end is timed
_PROTON_LAUNCHES: Final = 3  # Proton takes seconds for each
_BESIDE: Final = {"light": (SHARED,), "heavy": (SHARED, GLOBAL)}


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

    every = variants(workload, Level(POINTS), given, BARE, OURS, SHARED, GLOBAL)
    found = interleave(every, sample, rounds)["cycles"]
    bare = statistics.median(found.pop(BARE).samples)
    cells = {
        name: Cell(tuple((cycles - bare) / per_warp for cycles in cell.samples), cell.error)
        for name, cell in found.items()
    }
    about = {"records": POINT_COUNT, "bare_cycles_per_iteration": bare, "ctas": workload.ctas}
    return [Row("cost of a record", workload.name, "cycles", cells, about=about)]


def overhead(workload: Workload, name: str, device: str, rounds: int) -> list[Row]:
    """Device time of back-to-back launches at a level, over the bare kernel's.

    The first sample of each variant compares the outputs on fresh inputs with the bare kernel's, bit by bit.
    """
    level = LEVELS[name]
    inputs = workload.inputs(device)
    given = buffers(workload.launch(inputs).asm["ttgir"], workload, level.pipeline)
    expected = _outputs(workload, device)
    checked: set[str] = set()

    def sample(variant: str) -> Mapping[str, float]:
        if variant not in checked:
            _compare(expected, _outputs(workload, device))
            checked.add(variant)
        for _ in range(WARM_UP - 1):
            workload.launch(inputs)
        return {"us": device_us(lambda: workload.launch(inputs), given.launches)}

    names = [BARE, OURS, *_BESIDE.get(name, ())]
    cells = interleave(variants(workload, level, given, *names), sample, rounds)["us"]
    about = {
        "launches": given.launches,
        "profile_bytes_per_launch": given.launch_bytes,
        "ctas": workload.ctas,
    }
    return [Row(f"overhead, {name}", workload.name, "bare: us, others: ratio", cells, BARE, about)]


def launch_cost(
    workload: Workload, device: str, rounds: int, launches: int, proton_launches: int
) -> list[Row]:
    """Time of a launch: on the launching thread, and from launch to launch with all draining included."""
    inputs = workload.inputs(device)
    given = buffers(workload.launch(inputs).asm["ttgir"], workload, DEFAULT)
    every: dict[str, Variant] = {BARE: nullcontext}
    for level in ("light", "default"):
        every[f"{OURS} {level}"] = lambda level=level: profscope.session(instrument=[LEVELS[level].pipeline])
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
    kernel = variants(workload, LEVELS["default"], given, BARE, OURS)
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
    """From the end of a session to a table and to a saved trace."""
    inputs = workload.inputs(device)
    workload.launch(inputs)
    cells: dict[str, dict[str, Cell]] = {}
    for name, measure in ((OURS, _our_end), (SHARED, _proton_end)):
        try:
            for line, cell in measure(workload, inputs).items():
                cells.setdefault(line, {})[name] = cell
        except Exception as error:  # noqa: BLE001  the other's figures still count
            cells.setdefault("to a saved trace, s", {})[name] = Cell(error=why(error))
    title = f"end of a session: {_LAUNCHES} launches of {workload.name}, default level"
    return [Row(title, line, "", found) for line, found in cells.items()]


def _our_end(workload: Workload, inputs: Mapping[str, Any]) -> dict[str, Cell]:
    with profscope.session(instrument=[DEFAULT]) as session:
        for _ in range(_LAUNCHES):
            workload.launch(inputs)
        synchronize()
        start = time.perf_counter()
    frame = session.df
    table_s = time.perf_counter() - start
    figures = {"spans, M": len(frame) / 1e6, "to a DataFrame, s": table_s}
    with tempfile.TemporaryDirectory() as folder:
        for suffix in (".pftrace.gz", ".json.gz"):
            path = Path(folder) / f"trace{suffix}"
            start = time.perf_counter()
            session.save(path)
            # The first one is compared with Proton's.
            title = "to a saved trace" if suffix == ".pftrace.gz" else f"to a {suffix}"
            figures[f"{title}, s"] = table_s + time.perf_counter() - start
            figures[f"{title}, MB"] = path.stat().st_size / 1e6
            figures[f"{title}, bytes a span"] = path.stat().st_size / len(frame)
    return {line: Cell((value,)) for line, value in figures.items()}


def _proton_end(workload: Workload, inputs: Mapping[str, Any]) -> dict[str, Cell]:
    mode = proton_side.mode("shared", workload.warps)
    with proton_side.session(mode, DEFAULT) as finished:
        for _ in range(_PROTON_LAUNCHES):
            workload.launch(inputs)
        synchronize()
    factor = _LAUNCHES / _PROTON_LAUNCHES
    scaled = f"from {_PROTON_LAUNCHES} launches, scaled to {_LAUNCHES}; it decodes at each launch"
    figures = {
        "spans, M": (finished.spans * factor / 1e6, "those in its trace: its rings keep the last ones"),
        "to a saved trace, s": (finished.write_s * factor, scaled),
        "to a saved trace, MB": (finished.file_bytes * factor / 1e6, scaled),
        "to a saved trace, bytes a span": (finished.file_bytes / max(1, finished.spans), ""),
    }
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
