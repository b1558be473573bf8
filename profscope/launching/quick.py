"""Launches of a recorded kernel of torch.compile's without its tuner, where that would do nothing else.

Once a tuner has chosen, its `run` prepares each launch anew; Inductor's own launcher of a binary needs none
of that, and what it does, which is to find the grid, can stand in the function that records the launch. While
torch's profiler or a debug mode looks on, or someone else has launch hooks, launches go the long way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any, Final, NamedTuple

from profscope.launching.turns import Turns
from profscope.recording.direct_launches import written
from profscope.recording.launch_path import LaunchPath
from profscope.recording.programs import PROGRAMS

__all__ = [
    "Launcher",
    "made_launcher",
    "quick_in_turn",
    "quick_launch",
    "quick_run",
    "run_in_turn",
    "written_run",
]

# Of a tuner: that each launch is to be shown to someone.
_SHOWS: Final = ("triton_interpret", "dump_launch_params", "dump_launch_tensors", "_plugins")
_GRID_AND_BINARY: Final = ["grid_0", "grid_1", "grid_2", "stream", "function"]
_HOOKS: Final = ("launch_enter_hook", "launch_exit_hook")


class Launcher(NamedTuple):
    """What Inductor makes to launch a binary. names: of its parameters; arguments: the texts of what it hands
    Triton's launcher; both None where Inductor makes its launchers otherwise than is known here."""

    launch: Any  # a function, which mypy would take for a method
    names: Sequence[str] | None
    arguments: Sequence[str] | None


def made_launcher(built: Any) -> Launcher:
    """The launcher of `built`, the compiled binary of a tuner of Inductor's. Raises what making one does."""
    make = getattr(built, "_gen_launcher_code", None)
    if make is None:
        return Launcher(built.make_launcher(), None, None)
    seen: list[tuple[list[str], list[str]]] = []

    def see(scope: dict[str, Any], names: list[str], arguments: list[str]) -> Any:
        seen.append((names, arguments))
        return make(scope, names, arguments)

    built._gen_launcher_code = see
    try:
        launch = built.make_launcher()
    finally:
        del built._gen_launcher_code
    return Launcher(launch, *(seen[0] if len(seen) == 1 else (None, None)))


def quick_launch(
    tuner: Any, built: Any, launcher: FunctionType, path: LaunchPath
) -> Callable[..., None] | None:
    """What launches `built`, as `launcher` does, without the tuner. None where launches always go the long
    way."""
    meta = tuner.inductor_meta
    shown = any(getattr(tuner, name, None) for name in _SHOWS) or not getattr(tuner, "_cache_eligible", True)
    if shown or meta.get("combo_tuning_groups") or built.kernel.metadata.global_scratch_size:
        return None
    if not path.hooked:
        return path.recording(launcher, None)
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
    hooked, others_hook = path.hooked, path.others_hook

    def run_quickly(*args: Any, stream: Any, **options: Any) -> Any:
        if (
            options
            or tuner.launchers is not launchers
            or profiler._is_profiler_enabled
            or debugging()
            or (hooked and others_hook())
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


def written_run(
    module: ModuleType, tuner: Any, built: Any, launcher: Launcher, run: Callable[..., Any]
) -> Callable[..., Any] | None:
    """As `quick_run`, in one function with the launch itself. None where launches are others' to record, or
    Inductor makes its launchers otherwise than is known here."""
    launch, names, arguments = launcher
    grids = getattr(module, "GridExpr", None)
    if names is None or arguments is None or grids is None:
        return None
    grid = grids.from_meta(built.inductor_meta, built.config)
    to_grid = [
        *grid.prefix,
        *(f"grid_{axis} = {each}" for axis, each in enumerate((grid.x_grid, grid.y_grid, grid.z_grid))),
    ]
    if arguments[:5] != _GRID_AND_BINARY or not _does_no_more(launch, names, to_grid, arguments):
        return None
    passed = "".join(f"{name}, " for name in names)
    long_way = f"    return our_long_way({passed}stream=stream, **our_options)"
    addresses = _addresses(arguments, built.compile_meta["signature"])
    before = [
        "if our_options or our_tuner.launchers is not our_launchers"
        " or our_profiler._is_profiler_enabled or our_debugging():",
        long_way,
        "try:",
        *(f"    {address} = {name}.data_ptr() if {name}.is_cuda else {name}" for name, address in addresses),
        "    pass",
        "except our_attribute_error:  # no tensor",
        long_way,
        *to_grid,
    ]
    profiler, debugging = _onlookers(module)
    scope = launch.__globals__ | {
        "our_tuner": tuner,
        "our_launchers": tuner.launchers,
        "our_profiler": profiler,
        "our_debugging": debugging,
        "our_long_way": run,
        "our_attribute_error": AttributeError,
    }
    parameters = f"{passed}*, stream, **our_options"
    return written(scope["runner"], names, parameters, before, arguments, dict(addresses), scope)


def _does_no_more(
    launcher: FunctionType, names: Sequence[str], to_grid: Sequence[str], arguments: Sequence[str]
) -> bool:
    """Whether Inductor's launcher finds the grid and launches, and nothing else: another version's may."""
    lines = [f"def launcher({', '.join([*names, 'stream'])}):", *to_grid, f"runner({', '.join(arguments)})"]
    known: dict[str, Any] = {}
    exec("\n    ".join(lines), known)
    one, other = (
        (code.co_code, code.co_consts, code.co_names, code.co_varnames)
        for code in (known["launcher"].__code__, launcher.__code__)
    )
    return one == other


def _addresses(arguments: Sequence[str], signature: Mapping[str, str]) -> list[tuple[str, str]]:
    """Of a kernel's arguments, tensors, and what their addresses are to be called.

    Triton's launcher takes addresses, too. Of a tensor it asks for its address, and then the driver whether
    that is one of the device's.
    """
    pointers = [name for name in arguments if signature.get(name, "").startswith("*")]
    return [(name, f"our_address_{at}") for at, name in enumerate(pointers)]


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
