"""What a session adds to a launch on the host: its allocator and its hooks alone, called as Triton's launcher
does, on memory of the host that stands in for a GPU's. Needs no GPU; leaves out what the driver takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from triton import knobs
from triton.runtime import _allocation

import profscope
from bench.kernels import Workload
from bench.table import Cell, Row
from profscope.backend import Backend, Machine
from profscope.collect import Collector
from profscope.options import Options
from profscope.programs import PROGRAMS
from tests import standin

__all__ = ["launch_path"]

_LAUNCHES: Final = 500  # those of all rounds fit the memory, so that no drain is timed


class _Metadata:
    def __init__(self, function: Any) -> None:
        self.data = {"name": "", "function": function, "stream": 0}


def launch_path(workload: Workload, rounds: int) -> list[Row]:
    """Host time of one launch's hooks, with the chains Triton calls them through and without a session."""
    with profscope.session(backend="emulator", instrument="light") as session:
        workload.launch(workload.inputs("cpu"))
        assert session._collector is not None
        (launch,) = session._collector.launches
    found = (f for f in PROGRAMS.functions() if PROGRAMS.of(f) == launch.manifest)
    metadata, size, tag = _Metadata(next(found)), launch.manifest.tag * launch.ctas, launch.manifest.tag
    enter, leave = knobs.runtime.launch_enter_hook, knobs.runtime.launch_exit_hook

    def bare() -> None:
        enter(metadata)
        leave(metadata)

    def recorded() -> None:
        allocate(size, tag, 0)
        enter(metadata)
        leave(metadata)

    samples: dict[str, list[float]] = {"bare": [], "profscope": []}
    with standin.gpu():
        collector = Collector(Options(memory=256), Backend("cuda", dict, lambda: Machine(132, 64)))
        for _ in range(rounds + 1):
            samples["bare"].append(_us(bare))
            with collector.installed():
                allocate = _allocation._profile_allocator.get()
                samples["profscope"].append(_us(recorded))
        collector.close()
    cells = {name: Cell(tuple(values[1:])) for name, values in samples.items()}  # the first round allocates
    return [Row("hooks of a launch, on the host", workload.name, "us", cells)]


def _us(run: Callable[[], None]) -> float:
    start = time.perf_counter()
    for _ in range(_LAUNCHES):
        run()
    return (time.perf_counter() - start) * 1e6 / _LAUNCHES
