"""The machine that runs the kernels of a session: the GPU, or the emulator."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch

from profscope.device.clocks import HostClocks
from profscope.device.gpus import known_peaks
from profscope.device.record_cost import record_cost
from profscope.emulator.costs import COSTS, Cost
from profscope.emulator.device import Device
from profscope.errors import SessionError

__all__ = ["Backend", "select", "uses_gpu"]


@dataclass(frozen=True)
class Backend:
    """device_type: torch device type of its buffers; metadata(): the entries "backend" and "device";
    clock(): the entry "clock", what a record costs there, {} if not known;
    notes(): what it could not do faithfully so far, a line each; host_clocks: None if time is no GPU's;
    emulated: the emulator's device, None on a GPU."""

    device_type: str
    metadata: Callable[[], dict[str, Any]]
    clock: Callable[[], dict[str, Any]] = dict
    notes: Callable[[], list[str]] = list
    host_clocks: HostClocks | None = None
    emulated: Device | None = None


@contextlib.contextmanager
def select(name: str) -> Iterator[Backend]:
    """The backend for a session: "gpu", "emulator", or "auto". Raises SessionError if there is none."""
    if name == "gpu" and not torch.cuda.is_available():
        raise SessionError('backend="gpu": no GPU is active; use backend="emulator" or "auto"')
    if uses_gpu(name):
        clock = functools.partial(_gpu_clock, torch.cuda.current_device())
        yield Backend("cuda", _gpu, clock, host_clocks=HostClocks())
        return
    from profscope import emulator

    with emulator.active() as driver:
        late = dict(driver.device.late)
        yield Backend(
            "cpu",
            lambda: {"backend": "emulator", "device": emulator.describe()},
            _emulated_clock,
            lambda: driver.device.notes(late),
            emulated=driver.device,
        )


def uses_gpu(name: str) -> bool:
    """Whether a session with this backend records what the GPU runs."""
    emulated = os.environ.get("PROFSCOPE_EMULATOR") == "1"
    return name == "gpu" or (name == "auto" and torch.cuda.is_available() and not emulated)


def _gpu() -> dict[str, Any]:
    number = torch.cuda.current_device()
    device, peaks = torch.cuda.get_device_properties(number), known_peaks(number)
    return {
        "backend": "gpu",
        "device": {
            "name": device.name,
            "arch": f"sm_{device.major}{device.minor}",
            "sm_count": device.multi_processor_count,
            **({} if peaks is None else {"peaks": asdict(peaks)}),
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
