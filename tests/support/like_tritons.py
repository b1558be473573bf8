"""The emulator's launcher in the shape of Triton's for NVIDIA GPUs, which is what direct launches go by."""

from __future__ import annotations

import threading
from typing import Any

from triton.runtime import _allocation

from profscope.emulator.launcher import Launcher

__all__ = ["LikeTritons"]


class LikeTritons:
    """direct: how many launches went by `launch`; failing: the next ones do."""

    direct = 0
    failing = False
    num_ctas = 1
    global_scratch_size = 0
    launch_cooperative_grid = launch_pdl = False
    arg_annotations = kernel_signature = None
    _lock = threading.RLock()  # `launch` hands its pointer over by the allocator that all threads have

    def __init__(self, src: Any, metadata: Any) -> None:
        self._emulators = Launcher(src, metadata)

    @property
    def profile_scratch_size(self) -> int:
        return self._emulators.profile_scratch_size

    @profile_scratch_size.setter
    def profile_scratch_size(self, size: int) -> None:
        self._emulators.profile_scratch_size = size

    def __call__(
        self, gridX: int, gridY: int, gridZ: int, stream: int, function: Any, kernel_metadata: Any,  # noqa: N803
        launch_metadata: Any, launch_enter_hook: Any, launch_exit_hook: Any, *args: Any,
    ) -> None:  # fmt: skip
        with self._lock:
            self._emulators(
                gridX, gridY, gridZ, stream, function, kernel_metadata, launch_metadata, launch_enter_hook,
                launch_exit_hook, *args,
            )  # fmt: skip

    def launch(
        self, x: int, y: int, z: int, stream: int, function: Any, cooperative: bool, pdl: bool, packed: Any,
        about: Any, enter: Any, leave: Any, scratch: Any, pointer: Any, annotations: Any, signature: Any,
        args: tuple[Any, ...],
    ) -> None:  # fmt: skip
        with self._lock:
            type(self).direct += 1
            if type(self).failing:
                raise ValueError("a wrong argument")
            before = _allocation._profile_allocator.get()
            _allocation._profile_allocator.set(lambda *need: pointer)
            try:
                self._emulators(x, y, z, stream, function, packed, about, enter, leave, *args)
            finally:
                _allocation._profile_allocator.set(before)
