"""Launches of a recorded kernel of torch.compile's without its tuner, where that would do nothing else.

Once a tuner has chosen, its `run` prepares each launch anew; Inductor's own launcher of a binary needs none
of that. While torch's profiler or a debug mode looks on, or someone else has launch hooks, launches go the
long way.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any, Final

from profscope.launching.turns import Turns
from profscope.recording.launch_path import LaunchPath
from profscope.recording.programs import PROGRAMS

__all__ = ["quick_in_turn", "quick_launch", "quick_run", "run_in_turn"]

# Of a tuner: that each launch is to be shown to someone.
_SHOWS: Final = ("triton_interpret", "dump_launch_params", "dump_launch_tensors", "_plugins")
_HOOKS: Final = ("launch_enter_hook", "launch_exit_hook")


def quick_launch(
    tuner: Any, built: Any, launcher: FunctionType, path: LaunchPath
) -> Callable[..., None] | None:
    """What launches `built`, as `launcher` does, without the tuner. None where launches always go the long
    way."""
    meta = tuner.inductor_meta
    shown = any(getattr(tuner, name, None) for name in _SHOWS) or not getattr(tuner, "_cache_eligible", True)
    if shown or meta.get("combo_tuning_groups") or built.kernel.metadata.global_scratch_size:
        return None
    program = PROGRAMS.of(built.kernel.function)
    if program is None or not set(_HOOKS) <= set(launcher.__code__.co_names):
        return None
    unhooked = dict.fromkeys(_HOOKS) | {"bin": SimpleNamespace(launch_metadata=_nothing)}
    return path.recording(FunctionType(launcher.__code__, launcher.__globals__ | unhooked), program)


def quick_run(
    module: ModuleType, tuner: Any, launch: Callable[..., None], path: LaunchPath, run: Callable[..., Any]
) -> Callable[..., Any]:
    """A tuner's own `run` while it has the launchers of now: launches by `launch`. run: the long way, by
    which launches go while anybody looks on."""
    launchers = tuner.launchers
    profiler, debugging = _onlookers(module)
    others_hook = path.others_hook

    def run_quickly(*args: Any, stream: Any, **options: Any) -> Any:
        if (
            options
            or tuner.launchers is not launchers
            or profiler._is_profiler_enabled
            or debugging()
            or others_hook()
        ):
            return run(*args, stream=stream, **options)
        return launch(*args, stream=stream)

    return run_quickly


def quick_in_turn(
    module: ModuleType, tuner: Any, turns: Turns, due: Callable[..., Any], run: Callable[..., Any]
) -> Callable[..., Any]:
    """As `run_in_turn`, and launches that are left out go by Inductor's own launcher, too. run: the long
    way."""
    launchers = tuner.launchers
    (bare,) = launchers
    profiler, debugging = _onlookers(module)

    def run_if_due(*args: Any, stream: Any, **options: Any) -> Any:
        if options or tuner.launchers is not launchers or profiler._is_profiler_enabled or debugging():
            return run(*args, stream=stream, **options)
        if turns.draw() is None and turns.take():
            return due(*args, stream=stream)
        return bare(*args, stream=stream)

    return run_if_due


def _onlookers(module: ModuleType) -> tuple[Any, Callable[[], Any]]:
    """torch's profiler, and what returns a debug mode that is active."""
    return module.autograd_profiler, getattr(module, "get_active_debug_mode", bool)


def run_in_turn(
    turns: Turns, bare: Callable[..., Any], due: Callable[..., Any], run: Callable[..., Any]
) -> Callable[..., Any]:
    """A tuner's own `run` where only some launches are recorded, before the first one is: `due` launches
    these, `bare` the others. run: for launches with options."""

    def run_if_due(*args: Any, stream: Any, **options: Any) -> Any:
        if options:
            return run(*args, stream=stream, **options)
        if turns.draw() is None and turns.take():
            return due(*args, stream=stream)
        return bare(*args, stream=stream)

    return run_if_due


def _nothing(*args: Any) -> None:
    """In place of what is told the launch hooks."""
