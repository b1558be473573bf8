"""The figures that need no GPU: what the records add to the binary, and what the passes add to compiling."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from bench import proton_side
from bench.kernels import Workload
from bench.table import Cell, Row
from bench.timing import why
from bench.variants import BARE, GLOBAL, LEVELS, OURS, SHARED
from profscope.instrument_passes import LOWERING
from profscope.instrument_passes.analyses.occupancy import limits_of
from profscope.instrument_passes.cost import cost
from profscope.instrument_passes.dialect import is_record
from profscope.instrument_passes.ir import parse
from profscope.instrument_passes.passes import PassContext
from profscope.instrument_passes.pipeline import parse_pipeline, run_pipeline
from profscope.instrument_passes.toolchain import Binary, build, triton_version
from tests.kernels.aot import ttgir

__all__ = ["REPEATS", "TARGET", "Built", "binaries", "static"]

TARGET: Final = "cuda:90"
REPEATS: Final = 5
_NEGATIVE: Final = "fewer than bare: ptxas unrolls loops of the bare kernel further than with records in them"
_LIGHT: Final = f"{OURS}, light"


@dataclass(frozen=True)
class Built:
    """A binary; records: begin and end records put into it; text_s, build_s: time to rewrite and to build."""

    binary: Binary
    records: int
    text_s: float
    build_s: float


def static(workload: Workload, target: str = TARGET) -> list[Row]:
    """All rows of one kernel."""
    found, errors = binaries(workload, target)
    bare = found[BARE].binary
    limits = limits_of(target)
    assert limits is not None

    def occupancy(built: Built) -> float:
        binary = built.binary
        return limits.fit(binary.warps, binary.registers, binary.shared_bytes)

    figures: Mapping[str, Callable[[Built], float]] = {
        "SASS instructions": lambda built: len(built.binary.instructions),
        "registers per thread": lambda built: built.binary.registers,
        "stack and spills, bytes per thread": lambda built: built.binary.local_bytes,
        "shared memory, bytes": lambda built: built.binary.shared_bytes,
        "CTAs per SM": occupancy,
        "building from TTGIR, SASS listing included, ms": lambda built: built.build_s * 1e3,
    }
    rows = [
        _row(title, workload, {name: figure(built) for name, built in found.items()}, errors)
        for title, figure in figures.items()
    ]
    added: dict[str, float] = {
        name: (len(found[name].binary.instructions) - len(bare.instructions)) / found[name].records
        for name in (OURS, SHARED, GLOBAL)
        if name in found
    }
    title = "SASS instructions added per record, heavy; headers included"
    rows.insert(0, _row(title, workload, added, errors))
    if OURS in found:
        reads = {OURS: _per_clock_read(ttgir(workload.spec, target))}  # neighbouring records share one
        title = "SASS instructions added per clock read, heavy; headers left out"
        rows.insert(1, _row(title, workload, reads, {}))
        passes = {name: found[name].text_s * 1e3 for name in (_LIGHT, OURS)}
        rows.append(_row("compile time added by the passes, ms", workload, passes, {}))
    return rows


def binaries(workload: Workload, target: str) -> tuple[dict[str, Built], dict[str, str]]:
    """The kernel built in every way, and why some could not be."""
    text = ttgir(workload.spec, target)
    modes = {name: proton_side.mode(name, workload.warps) for name in ("shared", "global")}
    ways: dict[str, Callable[[], Built]] = {
        BARE: lambda: _built(lambda: text, 0),
        _LIGHT: lambda: _ours(text, LEVELS["light"].pipeline),
        OURS: lambda: _ours(text, LEVELS["heavy"].pipeline),
        f"{SHARED}, light": lambda: _theirs(text, LEVELS["light"].pipeline, modes["shared"], target),
        SHARED: lambda: _theirs(text, LEVELS["heavy"].pipeline, modes["shared"], target),
        GLOBAL: lambda: _theirs(text, LEVELS["heavy"].pipeline, modes["global"], target),
    }
    found: dict[str, Built] = {}
    errors: dict[str, str] = {}
    for name, way in ways.items():
        try:
            found[name] = way()
        except Exception as error:  # noqa: BLE001  the other ways' figures still count
            errors[name] = why(error)
    if BARE in errors:
        raise RuntimeError(errors[BARE])
    return found, errors


def _per_clock_read(text: str) -> float:
    passes = parse_pipeline(LEVELS["heavy"].pipeline)
    return cost(text, "module.ttgir", passes, PassContext(triton_version())).instructions_per_record


def _ours(text: str, pipeline: str) -> Built:
    context = PassContext(triton_version())
    records = parse(text)
    run_pipeline(records, parse_pipeline(pipeline), context)

    def rewritten() -> str:
        module = parse(text)
        run_pipeline(module, parse_pipeline(f"{pipeline},{LOWERING}"), context)
        return str(module)

    return _built(rewritten, sum(is_record(op) for op in records.walk()))


def _theirs(text: str, pipeline: str, mode: str, target: str) -> Built:
    with proton_side.without_gpu(target), proton_side.recording(mode, pipeline):
        inserted = proton_side.proton_text(text, pipeline)
        return _built(lambda: inserted, inserted.count("proton.record "))


def _built(rewrite: Callable[[], str], records: int) -> Built:
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        text = rewrite()
        times.append(time.perf_counter() - start)
    start = time.perf_counter()
    binary = build(text, "module.ttgir")
    return Built(binary, records, statistics.median(times), time.perf_counter() - start)


def _row(title: str, workload: Workload, values: Mapping[str, float], errors: Mapping[str, str]) -> Row:
    cells = {
        name: Cell((float(value),), note=_NEGATIVE if value < 0 else "") for name, value in values.items()
    }
    cells |= {name: Cell(error=text) for name, text in errors.items() if name in (OURS, SHARED, GLOBAL)}
    return Row(title, workload.name, "", cells)
