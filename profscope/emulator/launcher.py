"""What Triton calls to launch a kernel: the Python counterpart of its C launcher."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from profscope.emulator.launch import Launch
from profscope.emulator.memory import Allocation, GlobalMemory
from profscope.emulator.opcodes.table import Array
from profscope.emulator.program import Program
from profscope.errors import EmulatorError

__all__ = ["Launcher"]


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

    def __call__(
        self,
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
        """Allocate scratch, call the enter hook, run the grid to its end, call the exit hook."""
        from triton.runtime import _allocation, driver

        from profscope.emulator.driver import EmulatorDriver

        active = driver.active
        if not isinstance(active, EmulatorDriver):
            raise EmulatorError(
                f"{function.name} was compiled for the emulator, which is no longer the active driver"
            )
        grid = (grid_x, grid_y, grid_z)
        scratch = self.allocate(self.global_scratch, grid, stream, _allocation._allocator.get())
        need = self.profile_scratch_size, self.profile_scratch_align
        profile = self.allocate(need, grid, stream, _profile_allocator(_allocation, active))
        if launch_enter_hook is not None:
            launch_enter_hook(launch_metadata)
        if grid_x * grid_y * grid_z > 0:
            self.launch(active, function, grid, args, scratch, profile)
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
        active: Any,
        program: Program,
        grid: tuple[int, int, int],
        args: Sequence[Any],
        scratch: tuple[Any, int] | None,
        profile: tuple[Any, int] | None,
    ) -> None:
        names, types, values = [], [], []
        for name, kind, value in _flatten(self.signature.items(), args):
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
        sizes = {len(values) - 2: scratch[1] if scratch else 0, len(values) - 1: profile[1] if profile else 0}
        pointers = [
            _allocation_of(name, value, sizes.get(index)) if kind[0] == "*" else None
            for index, (name, kind, value) in enumerate(zip(names, types, values, strict=True))
        ]
        known = [p for p in pointers if p is not None]
        Launch(
            program=program,
            device=active.device,
            grid=grid,
            warps=self.num_warps,
            shared_bytes=self.shared,
            memory=GlobalMemory([*known, *program.variables], pointers),
            parameters=[_pack(kind, value) for kind, value in zip(types, values, strict=True)],
        ).run()


def _profile_allocator(allocation: Any, active: Any) -> Callable[..., Any]:
    """The one that was set; from 3.8 on the driver's own if none was (before, the unset one raises)."""
    has_one = getattr(allocation, "has_profile_allocator", lambda: True)
    chosen: Callable[..., Any] = (
        allocation._profile_allocator.get() if has_one() else active.allocate_default_profile_scratch
    )
    return chosen


def _flatten(signature: Any, args: Sequence[Any]) -> Iterator[tuple[str, str, Any]]:
    """(name, type, value) of each parameter: constants left out, tuples and descriptors taken apart."""
    for (name, kind), value in zip(signature, args, strict=True):
        if isinstance(kind, tuple | list):
            yield from _flatten([(f"{name}[{i}]", k) for i, k in enumerate(kind)], tuple(value))
        elif kind.startswith("tensordesc"):
            yield from _descriptor(name, kind, value)
        elif kind != "constexpr":
            yield name, kind, value


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


def _allocation_of(name: str, value: Any, size: int | None) -> Allocation | None:
    """The memory behind a pointer argument: a tensor's whole storage, or `size` bytes of a scratch buffer.

    A session's pointer carries launch bits in its address and names its memory itself, as `extent`.
    """
    if hasattr(value, "extent"):
        start, length = value.extent
        return Allocation(name, start, length, start, value)
    if size is not None:
        address = _address(name, value)
        return Allocation(name, address, size, address, value) if value is not None else None
    if hasattr(value, "base") and hasattr(value.base, "data_ptr"):  # triton.reinterpret's wrapper
        value = value.base
    if not hasattr(value, "untyped_storage"):
        return None
    if value.device.type != "cpu":
        raise EmulatorError(f"argument {name!r} is on {value.device}; the emulator runs on CPU tensors")
    storage = value.untyped_storage()
    return Allocation(name, storage.data_ptr(), storage.nbytes(), value.data_ptr(), value)


def _pack(kind: str, value: Any) -> Array:
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
