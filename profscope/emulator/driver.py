"""The driver half of the Triton backend: a device that is this process's memory.

Like `compiler.py` this is imported by `import triton` itself: it imports nothing but Triton's driver base,
and `is_active` is false unless PROFSCOPE_EMULATOR=1, so that other Triton users see no change.
"""

import functools
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from triton.backends import driver as base
from triton.backends.compiler import GPUTarget

if TYPE_CHECKING:
    from profscope.emulator.device import Device

__all__ = ["DEVICE_INDEX", "DeviceInterface", "EmulatorDriver", "Event"]

# Triton keeps compiled kernels per device index; no GPU has this one, so a process may use both.
DEVICE_INDEX = -1

CACHE_CLEAR_NS = 25_000_000  # far longer than on a GPU; no kernel's time has it in it


class EmulatorUtils:
    """The interface of a driver's C module that Triton uses."""

    def __init__(self, device: "Device") -> None:
        self._device = device

    def load_binary(self, name: str, ptx: bytes, shared: int, device: int) -> tuple[Any, Any, int, int, int]:
        """(module, function, registers, spills, most threads a CTA may have) of the kernel `name`.

        Triton loads a kernel again at each launch while its module is None.
        """
        from profscope.emulator.program import load
        from profscope.emulator.triton_patches import Module

        return Module(), load(ptx, name), 0, 0, 1024

    def unload_module(self, module: Any) -> None:
        """Its memory goes with the kernel."""

    def get_device_properties(self, device: int) -> dict[str, int]:
        return self._device.properties()

    def set_printf_fifo_size(self, size: int) -> None:
        """The emulator prints at once and has no queue to size."""


class EmulatorDriver(base.DriverBase):  # type: ignore[misc]
    """Runs kernels on CPU tensors. `device` holds the machine model and its clock.

    Triton makes one without a device, where PROFSCOPE_EMULATOR=1 asks for it for the whole process.
    """

    def __init__(self, device: "Device | None" = None) -> None:
        from profscope.emulator.device import Device
        from profscope.emulator.launcher import Launcher
        from profscope.emulator.triton_patches import tell_cuda

        if device is None:
            tell_cuda()
        self.device = device or Device()
        self.utils = EmulatorUtils(self.device)
        self.launcher_cls = Launcher
        super().__init__()

    @staticmethod
    def is_active() -> bool:
        return os.environ.get("PROFSCOPE_EMULATOR") == "1"

    def map_python_to_cpp_type(self, ty: str) -> str:
        raise NotImplementedError("the emulator's launcher is not C++")

    def get_current_target(self) -> GPUTarget:
        from profscope.emulator.compiler import ARCH, BACKEND_NAME

        return GPUTarget(BACKEND_NAME, ARCH, 32)

    def get_current_device(self) -> int:
        return DEVICE_INDEX

    def set_current_device(self, device: int) -> None:
        """There is one device."""

    def get_current_stream(self, device: int | None = None) -> int:
        return 0

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cpu")

    def get_device_interface(self) -> Any:

        return DeviceInterface(self.device)

    def get_benchmarker(self) -> Callable[..., Sequence[float]]:
        """For autotuning: emulated milliseconds of one call, the same on every machine, for each quantile."""

        def benchmark(kernel_call: Callable[[], Any], *, quantiles: Sequence[float], **_: Any) -> list[float]:
            start = self.device.cycles
            kernel_call()
            return [self.device.model.milliseconds(self.device.cycles - start)] * len(quantiles)

        return benchmark

    def get_empty_cache_for_benchmark(self) -> None:
        """There is no cache to fill, so nothing to allocate."""

    def clear_cache(self, cache: None) -> None:
        """Nothing is there to clear, but it takes time, as on a GPU.

        `triton.testing.do_bench` repeats its function for so many milliseconds, and counts this among them. A
        function takes the same time whenever it runs here, so a few times are enough.
        """
        with self.device.turn:
            self.device.cycles += self.device.model.cycles(CACHE_CLEAR_NS)

    def allocate_default_profile_scratch(self, size: int, alignment: int, stream: int | None) -> Any:
        import torch

        return torch.zeros(size, dtype=torch.int8)


# What Triton's benchmarks and other tuners ask of a device: events, and to wait for it. Time is emulated.


class Event:
    """A point in the emulated time of a device, as `torch.cuda.Event` is in a stream's."""

    def __init__(self, device: "Device", enable_timing: bool = False, **_: Any) -> None:
        self._device = device
        self._has_timing = enable_timing
        self._recorded: int | None = None  # the device's cycle

    def record(self, stream: Any = None) -> None:
        self._recorded = self._device.cycles

    def elapsed_time(self, end: "Event") -> float:
        """Emulated milliseconds from this event to `end`. Raises RuntimeError if one has no time."""
        if not (self._has_timing and end._has_timing):
            raise RuntimeError("Both events must be created with argument 'enable_timing=True'.")
        if self._recorded is None or end._recorded is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        return self._device.model.milliseconds(end._recorded - self._recorded)

    def query(self) -> bool:
        """Launches have ended when they return, so it has always passed."""
        return True

    def wait(self, stream: Any = None) -> None:
        """It has passed."""

    def synchronize(self) -> None:
        """It has passed."""


class DeviceInterface:
    """`torch.cpu` with events that have a time."""

    def __init__(self, device: "Device") -> None:
        self.Event: Callable[..., Event] = functools.partial(Event, device)

    def __getattr__(self, name: str) -> Any:
        import torch

        return getattr(torch.cpu, name)
