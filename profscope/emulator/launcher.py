"""The launcher that Triton calls, the Python counterpart of its C launcher, and the launch itself.

A launch's grid is cut into batches, placed on SMs and run; then the device's clock moves on.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np

from profscope.emulator.arrays import LANES, Array
from profscope.emulator.device import Device, Placement
from profscope.emulator.machine.batch import Batch, Grid
from profscope.emulator.machine.block import Schedule
from profscope.emulator.machine.counts import LaunchCounts, Totals
from profscope.emulator.machine.execute import run
from profscope.emulator.machine.memory import Allocation, GlobalMemory
from profscope.emulator.machine.timeline import Timeline
from profscope.emulator.machine.transactions import Touched
from profscope.emulator.program import Program
from profscope.errors import EmulatorError
from profscope.progress import Steps, working

__all__ = ["Launch", "Launcher", "flatten", "live_tensors", "pack"]

_SCRATCHES: Final = 2  # buffers that are a kernel's last parameters
_MOST_CTAS: Final = (2**31 - 1, 65535, 65535)  # along x, y and z


class Launcher:
    """Bound to one compiled kernel: `src` gives its signature, `metadata` its scratch sizes."""

    def __init__(self, src: Any, metadata: Any) -> None:
        self.signature = dict(src.signature)
        self.num_ctas = getattr(metadata, "num_ctas", 1)
        self.num_warps = metadata.num_warps
        self.shared = metadata.shared
        self.global_scratch = (metadata.global_scratch_size or 0, metadata.global_scratch_align or 1)
        self.profile_scratch_size = metadata.profile_scratch_size or 0  # named as Triton's launchers do
        self.profile_scratch_align = metadata.profile_scratch_align or 1

    def __call__(self, *launch: Any) -> None:
        """Allocate scratch, call the enter hook, run the grid to its end, call the exit hook.

        launch: as Triton calls its launchers, see `_call`.
        """
        from triton.runtime import _allocation, driver

        need = self.profile_scratch_size, self.profile_scratch_align
        grid_x, grid_y, grid_z, stream = launch[:4]
        allocator = _profile_allocator(_allocation, driver.active)
        self._call(self.allocate(need, (grid_x, grid_y, grid_z), stream, allocator), *launch)

    def call_with_profile_buffer(self, buffer: Any, *launch: Any) -> None:
        """As `__call__`, with this buffer as the profile scratch, and no allocator asked for it.

        buffer: has `data_ptr()` and `extent`, its address and bytes; None: the kernel gets a null pointer.
        """
        self._call(None if buffer is None else (buffer, buffer.extent[1]), *launch)

    def _call(
        self,
        profile: tuple[Any, int] | None,
        grid_x: int,
        grid_y: int,
        grid_z: int,
        stream: int,
        function: Program,
        packed_metadata: Any,
        launch_metadata: Any,
        launch_enter_hook: Callable[[Any], Any] | None,
        launch_exit_hook: Callable[[Any], Any] | None,
        *args: Any,
    ) -> None:
        from triton.runtime import _allocation, driver

        grid = grid_x, grid_y, grid_z
        device = getattr(driver.active, "device", None)
        if not isinstance(device, Device):
            raise EmulatorError(
                f"{function.name} was compiled for the emulator, which is no longer the active driver"
            )
        _check_count(function.name, self.signature, len(args))
        check_grid(function.name, grid)
        scratch = self.allocate(self.global_scratch, grid, stream, _allocation._allocator.get())
        if launch_enter_hook is not None:
            launch_enter_hook(launch_metadata)
        if grid[0] * grid[1] * grid[2] > 0:
            self.launch(device, function, grid, args, scratch, profile)
            if profile is not None and hasattr(profile[0], "ended"):  # a session's pointer
                profile[0].ended()
        if launch_exit_hook is not None:
            launch_exit_hook(launch_metadata)

    def allocate(
        self, need: tuple[int, int], grid: tuple[int, int, int], stream: int, allocator: Callable[..., Any]
    ) -> tuple[Any, int] | None:
        """The buffer for all CTAs and its size in bytes; None if the kernel needs none."""
        size, alignment = need
        if not size:
            return None
        total = size * grid[0] * grid[1] * grid[2] * self.num_ctas
        return allocator(total, alignment, stream), total

    def launch(
        self,
        device: Device,
        program: Program,
        grid: tuple[int, int, int],
        args: Sequence[Any],
        scratch: tuple[Any, int] | None,
        profile: tuple[Any, int] | None,
    ) -> None:
        names, types, values = [], [], []
        for name, kind, value in flatten(self.signature.items(), args):
            names.append(name)
            types.append(kind)
            values.append(value)
        for name, buffer in (("global scratch", scratch), ("profile scratch", profile)):
            names.append(name)
            types.append("*i8")
            values.append(buffer and buffer[0])
        if len(values) != len(program.graph.params):
            raise EmulatorError(
                f"{program.name} takes {len(program.graph.params)} parameters but was given {len(values)}"
            )
        own = (scratch, profile)
        sizes = {len(values) - _SCRATCHES + at: each[1] if each else 0 for at, each in enumerate(own)}
        pointers = [
            allocation_of(name, value, sizes.get(index)) if kind[0] == "*" else None
            for index, (name, kind, value) in enumerate(zip(names, types, values, strict=True))
        ]
        known = [p for p in pointers if p is not None]
        Launch(
            program=program,
            device=device,
            grid=grid,
            warps=self.num_warps,
            shared_bytes=self.shared,
            memory=GlobalMemory([*known, *program.variables], pointers, live_tensors),
            is_counted=profile is not None,
            parameters=[pack(kind, value) for kind, value in zip(types, values, strict=True)],
        ).run()


def check_grid(name: str, grid: tuple[int, int, int]) -> None:
    """Raises EmulatorError for a grid that CUDA refuses."""
    if any(not 0 <= size <= most for size, most in zip(grid, _MOST_CTAS, strict=True)):
        raise EmulatorError(
            f"{name}: grid {grid}: CUDA allows at most {_MOST_CTAS[0]} CTAs along x, and {_MOST_CTAS[1]} "
            "along y and z"
        )


def _profile_allocator(allocation: Any, active: Any) -> Callable[..., Any]:
    """The one that was set; from 3.8 on the driver's own if none was (before, the unset one raises). That is
    asked when it is called: few launches need one."""
    has_one = getattr(allocation, "has_profile_allocator", lambda: True)

    def allocate(*need: Any) -> Any:
        own = allocation._profile_allocator.get() if has_one() else active.allocate_default_profile_scratch
        return own(*need)

    return allocate


# A launch's arguments as the kernel reads them: their bits, and the memory behind pointers.


def flatten(signature: Any, args: Sequence[Any]) -> Iterator[tuple[str, str, Any]]:
    """(name, type, value) of each parameter: constants left out, tuples and descriptors taken apart."""
    for (name, kind), value in zip(signature, args, strict=False):  # constants at the end may be left out
        if isinstance(kind, tuple | list):
            yield from flatten([(f"{name}[{i}]", k) for i, k in enumerate(kind)], tuple(value))
        elif kind.startswith("tensordesc"):
            yield from _descriptor(name, kind, value)
        elif kind != "constexpr":
            yield name, kind, value


def _check_count(kernel: str, signature: Mapping[str, Any], given: int) -> None:
    """Raise TypeError unless as many arguments are given as there are parameters.

    Triton itself does so where a kernel is launched by its function; this is for those launched directly, as
    `compiled[grid](...)`, whose last constants may be left out.
    """
    names = list(signature)
    missing = ", ".join(name for name in names[given:] if signature[name] != "constexpr")
    if missing or given > len(names):
        text = f"{kernel}() takes {len(names)} positional arguments but {given} were given"
        raise TypeError(f"{text}; missing: {missing}" if missing else text)


def _descriptor(name: str, kind: str, value: Any) -> Iterator[tuple[str, str, Any]]:
    """A tensor descriptor as sm_80 kernels take it: base, shape, strides, flags, shape and strides again."""
    element = kind.partition("<")[2].partition("[")[0]
    yield name, f"*{element}", value.base
    shape = [(f"{name}.shape", size) for size in value.shape]
    strides = [(f"{name}.stride", size) for size in value.strides]
    for part, size in (*shape, *strides):
        yield part, "i64", size
    yield f"{name}.padding", "i1", value.padding == "nan"
    if hasattr(value, "round_f32_to_tf32"):  # from 3.7 on
        yield f"{name}.round", "i1", value.round_f32_to_tf32
    for part, size in shape:
        yield part, "i32", size
    for part, size in strides:
        yield part, "i64", size


def _address(name: str, value: Any) -> int:
    if value is None or isinstance(value, int):
        return value or 0
    return int(value.data_ptr())


def allocation_of(name: str, value: Any, size: int | None) -> Allocation | None:
    """The memory behind a pointer argument: a tensor's whole storage, or `size` bytes of a scratch buffer.

    A session's pointer carries launch bits in its address and names its memory itself, as `extent`.
    """
    if hasattr(value, "extent"):
        start, length = value.extent
        return Allocation(name, start, length, start, value)
    if size is not None:
        address = _address(name, value)
        return Allocation(name, address, size, address, value) if value is not None else None
    value = _tensor_behind(value)
    if value is None:
        return None
    if value.device.type != "cpu":
        raise EmulatorError(f"argument {name!r} is on {value.device}; the emulator runs on CPU tensors")
    return _storage_of(name, value)


def _storage_of(name: str, tensor: Any) -> Allocation:
    storage = tensor.untyped_storage()
    return Allocation(name, storage.data_ptr(), storage.nbytes(), tensor.data_ptr(), tensor)


def _tensor_behind(value: Any) -> Any:
    """The tensor whose memory an argument points into: itself, or what an object with `data_ptr()` wraps.

    None if that cannot be told.
    """
    if hasattr(value, "untyped_storage"):
        return value
    if not hasattr(value, "data_ptr"):
        return None
    address = value.data_ptr()
    for part in getattr(value, "__dict__", {}).values():  # triton.reinterpret's wrapper has its own as `base`
        if hasattr(part, "untyped_storage"):
            memory = _storage_of("", part)
            if memory.start <= address < memory.end:
                return part
    return None


def live_tensors() -> list[Allocation]:
    """The memory of all CPU tensors of this process that Python knows."""
    import torch

    things = gc.get_objects()
    # isinstance would run code of proxies
    tensors = {kind for kind in set(map(type, things)) if issubclass(kind, torch.Tensor)}
    allocations = []
    with torch._C.DisableTorchFunctionSubclass():
        for thing in [thing for thing in things if type(thing) in tensors]:
            with contextlib.suppress(RuntimeError):  # sparse ones and wrapper subclasses have none themselves
                if thing.untyped_storage().device.type == "cpu":  # that of a fake tensor is not
                    name = f"{str(thing.dtype).removeprefix('torch.')} tensor {list(thing.shape)}"
                    allocations.append(_storage_of(name, thing))
    return [a for a in allocations if a.size]


def pack(kind: str, value: Any) -> Array:
    """A scalar or pointer as the bits the kernel reads, at least four bytes of them."""
    if kind[0] == "*":
        return np.array([_address("", value)], np.uint64).reshape(1, 1, 1)
    if kind in ("fp32", "f32"):
        return np.array([value], np.float32).reshape(1, 1, 1)
    if kind == "fp64":
        return np.array([value], np.float64).reshape(1, 1, 1)
    if kind == "fp16":
        return np.array([value, 0], np.float16).view(np.uint32).reshape(1, 1, 1)
    if kind == "bf16":
        bits = np.array([value], np.float32).view(np.uint32) >> np.uint32(16)
        return bits.reshape(1, 1, 1)
    width = max(32, int(kind[1:]))
    return np.array([int(value) % (1 << width)], f"u{width // 8}").reshape(1, 1, 1)


BATCH_THREADS = 32768  # a register's array then fits a core's cache, and a large kernel's registers in memory
MAX_BLOCKS = 5_000_000


@dataclass
class Launch:
    """`parameters` are arrays of one element, the bits of each kernel parameter; `grid` counts CTAs.

    One that `is_counted` adds to the device's `counts` of the program, if there are any.
    """

    program: Program
    device: Device
    grid: tuple[int, int, int]
    warps: int
    shared_bytes: int
    memory: GlobalMemory
    parameters: list[Array]
    max_blocks: int = MAX_BLOCKS
    is_counted: bool = False
    steps: Steps = field(default_factory=Steps)

    def __post_init__(self) -> None:
        self.shared_bytes = max(16, (self.shared_bytes + self.program.static_shared + 15) // 16 * 16)

    def run(self) -> None:
        """Execute all CTAs. Raises EmulatorError if a GPU would fault.

        Launches of several threads run one after the other, as in one stream.
        """
        model = self.device.model
        placement = Placement.of(model, self.warps, self.shared_bytes)
        total = self.grid[0] * self.grid[1] * self.grid[2]
        with self.device.turn, working(f"emulating {self.program.name}", total, self.steps):
            begun = self.begin()
            (self.run_by_clock if begun.is_ordered else self.run_in_rounds)(begun, total, placement)
            self.keep(list(begun.counted.values()), placement.cycles)
            self.device.cycles += placement.cycles[0] + model.cycles(model.launch_overhead_ns)

    def keep(self, counts: Sequence[LaunchCounts], cycles: tuple[int, int]) -> None:
        """Add the counts of the launch, which has ended, to those of its program."""
        if counts and self.device.counts is not None:
            totals = self.device.counts.get(self.program) or Totals(self.program.counted)
            tensors = [each for each in self.memory.pointers[:-_SCRATCHES] if each is not None]
            reached = {each.name: each.end - each.base for each in tensors}
            self.device.counts[self.program] = totals.plus(counts, reached, cycles)

    def begin(self) -> Grid:
        """Data that the launch's CTAs share from now on."""
        program, is_counted = self.program, self.is_counted and self.device.counts is not None
        return Grid(
            name=program.name,
            size=self.grid,
            warps=self.warps,
            shared_bytes=self.shared_bytes,
            local_bytes=program.graph.local_bytes,
            initial=program.initial,
            parameters=self.parameters,
            memory=self.memory,
            blocks=program.blocks,
            device=self.device,
            begin=self.device.cycles,
            is_ordered=program.graph.is_ordered,
            max_blocks=self.max_blocks,
            counts=partial(program.new_counts, Touched(self.memory)) if is_counted else None,
        )

    @property
    def batch_ctas(self) -> int:
        return max(1, BATCH_THREADS // (self.warps * LANES))

    def run_by_clock(self, begun: Grid, total: int, placement: Placement) -> None:
        """CTAs that wait for each other or take turns do so in the order of their clocks."""
        timeline = Timeline(begun, self.schedule(placement, total), placement, self.batch_ctas)
        with np.errstate(all="ignore"):
            timeline.run()
        if timeline.late:
            self.device.note_late(begun.name, timeline.late, timeline.late_by)

    def schedule(self, placement: Placement, ctas: int) -> Schedule:
        """The cycles of blocks where so many CTAs run in a round."""
        return self.program.schedule(self.warps * placement.ctas_per_sm(ctas))

    def run_in_rounds(self, begun: Grid, total: int, placement: Placement) -> None:
        """In a round every slot takes one CTA, which starts when the CTA before it there has ended."""
        for first in range(0, total, len(placement.sms)):
            ctas = np.arange(first, min(total, first + len(placement.sms)))
            schedule = self.schedule(placement, len(ctas))
            slots, starts = placement.next_round(len(ctas))
            for part in range(0, len(ctas), self.batch_ctas):
                here = slice(part, part + self.batch_ctas)
                ends = self.execute(begun, schedule, ctas[here], starts[here], slots[here])
                placement.finish(slots[here], ends)

    def execute(self, begun: Grid, schedule: Schedule, ctas: Array, starts: Array, slots: Array) -> Array:
        """Run some CTAs together; returns the cycle at which each one's last warp ended, (CTAs, 2)."""
        ends = np.zeros((len(ctas), 2), np.int64)
        with np.errstate(all="ignore"):
            for part in run(Batch(begun, schedule, ctas, starts, slots)):
                ends[part.ctas - ctas[0]] = part.clocks.max(axis=1)
        self.steps.done += len(ctas)
        return ends
