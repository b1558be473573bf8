"""Launches of a recorded kernel of torch.compile's without its tuner, where that would do nothing else.

Once a tuner has chosen, its `run` prepares each launch anew; Inductor's own launcher of a binary needs none
of that. While torch's profiler or a debug mode looks on, or someone else has launch hooks, launches go the
long way.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any, Final

from profscope.recording.launch_path import LaunchPath
from profscope.recording.programs import PROGRAMS

__all__ = ["quick_launch"]

# Of a tuner: that each launch is to be shown to someone.
_SHOWS: Final = ("triton_interpret", "dump_launch_params", "dump_launch_tensors", "_plugins")


def quick_launch(
    module: ModuleType, tuner: Any, built: Any, path: LaunchPath
) -> Callable[..., Any] | None:  # fmt: skip
    """What launches `built`, the compiled binary of a tuner of Inductor's, and returns whether it has: not
    while anybody looks on. module: Inductor's, of the tuner. None where launches always go the long way."""
    meta = tuner.inductor_meta
    shown = any(getattr(tuner, name, None) for name in _SHOWS) or not getattr(tuner, "_cache_eligible", True)
    if shown or meta.get("combo_tuning_groups") or built.kernel.metadata.global_scratch_size:
        return None
    profiler = module.autograd_profiler
    debugging = getattr(module, "get_active_debug_mode", bool)
    launcher = built.make_launcher()
    program = PROGRAMS.of(built.kernel.function)
    hooked = path.hooked
    if hooked:
        if program is None:
            return None
        scope = launcher.__globals__  # of this launcher alone
        scope["launch_enter_hook"] = scope["launch_exit_hook"] = None
        scope["bin"] = SimpleNamespace(launch_metadata=_nothing)
    record = path.recording(launcher, program if hooked else None)

    def launch(args: tuple[Any, ...], stream: Any) -> bool:
        if profiler._is_profiler_enabled or debugging() or (hooked and path.others_hook()):
            return False
        record(*args, stream=stream)
        return True

    return launch


def _nothing(*args: Any) -> None:
    """In place of what is told the launch hooks."""
