"""Launches of instrumented binaries by what Triton's launcher for NVIDIA GPUs calls in the end.

That launcher asks for the memory of each launch by a function of its own and the profile allocator, which has
to find out of which binary the launch is. Who launches one binary knows, and hands its memory over.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

from triton.compiler import CompiledKernel

__all__ = ["direct_launch"]

# The arguments of its `__call__` behind the first six, by version.
_SINCE_3_7: Final = ("kernel_metadata", "launch_metadata", "launch_enter_hook", "launch_exit_hook", "args")
_OF_3_6: Final = ("args",)


def direct_launch(kernel: CompiledKernel) -> Callable[..., None] | None:
    """What launches a loaded binary with a pointer that it records to, before the arguments of its launcher.

    None where its launcher does more than is known here.
    """
    launcher = kernel._run
    code = getattr(type(launcher).__call__, "__code__", None)
    if code is None:
        return None
    names = code.co_varnames[: code.co_argcount + bool(code.co_flags & inspect.CO_VARARGS)]
    if names[:6] != ("self", "gridX", "gridY", "gridZ", "stream", "function"):
        return None
    if launcher.global_scratch_size or getattr(launcher, "gsan_enabled", False):
        return None
    launch = launcher.launch
    cooperative, pdl = launcher.launch_cooperative_grid, launcher.launch_pdl
    if names[6:] == _OF_3_6:

        def launch_it(
            pointer: Any, x: int, y: int, z: int, stream: int, function: Any, *args: Any
        ) -> None:  # fmt: skip
            launch(x, y, z, stream, function, cooperative, pdl, None, pointer, *args)

        return launch_it
    if names[6:] != _SINCE_3_7:
        return None
    annotations, signature = launcher.arg_annotations, launcher.kernel_signature

    def launch_new(
        pointer: Any, x: int, y: int, z: int, stream: int, function: Any, packed: Any, about: Any,
        enter: Any, leave: Any, *args: Any,
    ) -> None:  # fmt: skip
        launch(
            x, y, z, stream, function, cooperative, pdl, packed, about, enter, leave, None, pointer,
            annotations, signature, args,
        )  # fmt: skip

    return launch_new
