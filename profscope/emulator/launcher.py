"""What Triton calls to launch a kernel: the Python counterpart of its C launcher."""

from collections.abc import Callable, Sequence
from typing import Any

from profscope.emulator.arguments import allocation_of, check_count, flatten, live_tensors, pack
from profscope.emulator.device import Device
from profscope.emulator.launch import Launch
from profscope.emulator.machine.memory import GlobalMemory
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

        need, grid = (self.profile_scratch_size, self.profile_scratch_align), (grid_x, grid_y, grid_z)
        profile = self.allocate(need, grid, stream, _profile_allocator(_allocation, driver.active))
        hooks = launch_metadata, launch_enter_hook, launch_exit_hook
        self._call(profile, grid, stream, function, hooks, args)

    def call_with_profile_buffer(
        self,
        buffer: Any,
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
        """As `__call__`, with this buffer as the profile scratch, and no allocator asked for it.

        buffer: has `data_ptr()` and `extent`, its address and bytes; None: the kernel gets a null pointer.
        """
        profile = None if buffer is None else (buffer, buffer.extent[1])
        hooks = launch_metadata, launch_enter_hook, launch_exit_hook
        self._call(profile, (grid_x, grid_y, grid_z), stream, function, hooks, args)

    def _call(
        self,
        profile: tuple[Any, int] | None,
        grid: tuple[int, int, int],
        stream: int,
        function: Program,
        hooks: tuple[Any, Callable[[Any], Any] | None, Callable[[Any], Any] | None],
        args: Sequence[Any],
    ) -> None:
        from triton.runtime import _allocation, driver

        device = getattr(driver.active, "device", None)
        if not isinstance(device, Device):
            raise EmulatorError(
                f"{function.name} was compiled for the emulator, which is no longer the active driver"
            )
        check_count(function.name, self.signature, len(args))
        scratch = self.allocate(self.global_scratch, grid, stream, _allocation._allocator.get())
        launch_metadata, launch_enter_hook, launch_exit_hook = hooks
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
        sizes = {len(values) - 2: scratch[1] if scratch else 0, len(values) - 1: profile[1] if profile else 0}
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


def _profile_allocator(allocation: Any, active: Any) -> Callable[..., Any]:
    """The one that was set; from 3.8 on the driver's own if none was (before, the unset one raises). That is
    asked when it is called: few launches need one."""
    has_one = getattr(allocation, "has_profile_allocator", lambda: True)

    def allocate(*need: Any) -> Any:
        own = allocation._profile_allocator.get() if has_one() else active.allocate_default_profile_scratch
        return own(*need)

    return allocate
