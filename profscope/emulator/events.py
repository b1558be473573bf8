"""What Triton's benchmarks and other tuners ask of a device: events, and to wait for it. Time is emulated."""

import functools
from collections.abc import Callable
from typing import Any

import torch

from profscope.emulator.device import Device

__all__ = ["DeviceInterface", "Event"]


class Event:
    """A point in the emulated time of a device, as `torch.cuda.Event` is in a stream's."""

    def __init__(self, device: Device, enable_timing: bool = False, **_: Any) -> None:
        self._device = device
        self._has_timing = enable_timing
        self._recorded_ns: int | None = None

    def record(self, stream: Any = None) -> None:
        self._recorded_ns = self._device.now_ns

    def elapsed_time(self, end: "Event") -> float:
        """Emulated milliseconds from this event to `end`. Raises RuntimeError where one has no time."""
        if not (self._has_timing and end._has_timing):
            raise RuntimeError("Both events must be created with argument 'enable_timing=True'.")
        if self._recorded_ns is None or end._recorded_ns is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        return (end._recorded_ns - self._recorded_ns) / 1e6

    def query(self) -> bool:
        """Launches have ended when they return, so it has always passed."""
        return True

    def wait(self, stream: Any = None) -> None:
        """It has passed."""

    def synchronize(self) -> None:
        """It has passed."""


class DeviceInterface:
    """`torch.cpu` with events that have a time."""

    def __init__(self, device: Device) -> None:
        self.Event: Callable[..., Event] = functools.partial(Event, device)

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.cpu, name)
