"""Which machine runs the kernels of a session: the GPU that is there, or the emulator."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from profscope.emulator.costs import COSTS, Cost
from profscope.errors import SessionError
from profscope.recording.host_clock import HostClocks
from profscope.recording.record_cost import record_cost

__all__ = ["Backend", "Machine", "select", "uses_gpu"]


@dataclass(frozen=True)
class Machine:
    """How much of a kernel runs at a time, by the limits that hold for every kernel: not by its registers."""

    sm_count: int
    warps_per_sm: int
    ctas_per_sm: int = 32  # on compute capability 8.0 and 9.0 to 10.x; others have fewer

    def resident_ctas(self, warps: int) -> int:
        """At most so many CTAs of `warps` warps run at a time."""
        return self.sm_count * max(1, min(self.ctas_per_sm, self.warps_per_sm // warps))


@dataclass(frozen=True)
class Backend:
    """device_type: torch device type of its buffers; metadata(): the entries "backend" and "device";
    machine(): the current device; clock(): the entry "clock", what a record costs there, {} if not known;
    notes(): what it could not do faithfully so far, a line each; host_clocks: None where time is no GPU's."""

    device_type: str
    metadata: Callable[[], dict[str, Any]]
    machine: Callable[[], Machine]
    clock: Callable[[], dict[str, Any]] = dict
    notes: Callable[[], list[str]] = list
    host_clocks: HostClocks | None = None


@contextlib.contextmanager
def select(name: str) -> Iterator[Backend]:
    """The backend for a session: "gpu", "emulator", or "auto". Raises SessionError where there is none."""
    if name == "gpu" and not torch.cuda.is_available():
        raise SessionError('backend="gpu": no GPU is active; use backend="emulator" or "auto"')
    if uses_gpu(name):
        clock = functools.partial(_gpu_clock, torch.cuda.current_device())
        yield Backend("cuda", _gpu, _gpu_machine, clock, host_clocks=HostClocks())
        return
    from profscope import emulator

    with emulator.active() as driver:
        late = dict(driver.device.late)
        yield Backend(
            "cpu",
            lambda: {"backend": "emulator", "device": emulator.describe()},
            lambda: _emulated_machine(driver.device.model),
            _emulated_clock,
            lambda: driver.device.notes(late),
        )


def uses_gpu(name: str) -> bool:
    """Whether a session with this backend records what the GPU runs."""
    return name == "gpu" or (name == "auto" and torch.cuda.is_available() and not _forced())


def _forced() -> bool:
    return os.environ.get("PROFSCOPE_EMULATOR") == "1"


def _gpu() -> dict[str, Any]:
    device = torch.cuda.get_device_properties(torch.cuda.current_device())
    return {
        "backend": "gpu",
        "device": {
            "name": device.name,
            "arch": f"sm_{device.major}{device.minor}",
            "sm_count": device.multi_processor_count,
        },
    }


def _gpu_clock(device: int) -> dict[str, Any]:
    cost = record_cost(device)
    if cost is None:
        return {}
    return {"read_cycles": cost.read, "row_cycles": cost.row, "basis": "measured"}


def _emulated_clock() -> dict[str, Any]:
    """A row's address is a mask, a product and a sum, each of which waits for the one before it."""
    address = COSTS[Cost.ALU].latency + 2 * COSTS[Cost.WIDE].latency
    row = address + COSTS[Cost.STORE].issue
    return {"read_cycles": float(COSTS[Cost.MOVE].issue), "row_cycles": float(row), "basis": "cost model"}


def _emulated_machine(model: Any) -> Machine:
    return Machine(model.sm_count, model.warps_per_sm, model.ctas_per_sm)


def _gpu_machine() -> Machine:
    device = torch.cuda.get_device_properties(torch.cuda.current_device())
    return Machine(device.multi_processor_count, device.max_threads_per_multi_processor // device.warp_size)
