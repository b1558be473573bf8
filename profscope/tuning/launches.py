"""A launch as a program writes it, and the same launch with other options."""

from __future__ import annotations

import contextlib
import operator
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from profscope.compat.triton_parts import Autotuner, Heuristics, JITFunction
from profscope.errors import OptionError
from profscope.experiments.timing import Launcher
from profscope.recording.diagnostics import one_line

__all__ = ["Launch", "check_vary", "configurations", "launch_of", "options_text"]

_CHECKS_OPTIONS: Final = ("parse_options", "_pack_args")  # Triton's functions that do


@dataclass(frozen=True)
class Launch:
    """`kernel[grid](*args, **kwargs)`; called, it launches, and returns the compiled kernel. Raises
    OptionError for a grid without CTAs and for options that Triton refuses, and what else a launch raises."""

    kernel: Any
    grid: Any
    args: Sequence[Any]
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self) -> Any:
        try:
            return self.kernel[self.checked_grid](*self.args, **self.kwargs)
        except Exception as error:
            frames = traceback.walk_tb(error.__traceback__)
            if any(frame.f_code.co_name in _CHECKS_OPTIONS for frame, _ in frames):
                said = options_text(self.options) or self.name
                raise OptionError(f"explain: {said}: {one_line(error)}") from error
            raise

    @property
    def checked_grid(self) -> Any:
        """The grid; if it is a function, one that raises OptionError if that returns none."""
        grid = self.grid
        if callable(grid):
            return lambda given: _checked(grid(given), "the grid function returns ")
        return _checked(grid, "grid=")

    @property
    def function(self) -> Any:
        """The function behind autotuners and heuristics."""
        return _layers(self.kernel)[-1]

    @property
    def name(self) -> str:
        return str(self.function.__name__)

    @property
    def options(self) -> dict[str, Any]:
        """The keywords that are no arguments of the function, such as num_warps."""
        return {name: value for name, value in self.kwargs.items() if name not in self.function.arg_names}

    @property
    def tuner(self) -> Any:
        """The autotuner, None if there is none."""
        return next((each for each in _layers(self.kernel) if isinstance(each, Autotuner)), None)

    @property
    def tuned(self) -> set[str]:
        """The names that the autotuner's configurations choose."""
        configs = () if self.tuner is None else self.tuner.configs
        return {name for config in configs for name in config.kwargs}

    @property
    def computed(self) -> set[str]:
        """The names that heuristics compute."""
        layers = _layers(self.kernel)
        return {name for each in layers if isinstance(each, Heuristics) for name in each.values}

    @property
    def values(self) -> list[Any]:
        """All arguments, by position and by name."""
        return [*self.args, *self.kwargs.values()]

    @property
    def given(self) -> dict[str, Any]:
        """All arguments and options by their names, with what heuristics compute from them."""
        given = {**dict(zip(self.function.arg_names, self.args, strict=False)), **self.kwargs}
        for layer in _layers(self.kernel):
            if layer is self.tuner:
                break  # what lies below it depends on the configuration
            if isinstance(layer, Heuristics):
                for name, heuristic in layer.values.items():
                    given[name] = heuristic(given)
        return given

    def has_grid_of(self, other: Launch) -> bool:
        """Whether another launch of the kernel has the same CTAs. Raises what a function for a grid does."""
        if not callable(self.grid):
            return True
        defaults = {param.name: param.default for param in self.function.params if param.has_default}
        own, others = (each.checked_grid({**defaults, **each.given}) for each in (self, other))
        return tuple(own) == tuple(others)

    def changed(self, options: Mapping[str, Any]) -> Launch:
        """With other values of constexprs or launch options."""
        names = self.function.arg_names[: len(self.args)]
        args = [options.get(name, value) for name, value in zip(names, self.args, strict=True)]
        named = {name: value for name, value in options.items() if name not in names}
        return replace(self, args=args, kwargs={**self.kwargs, **named})

    def has(self, option: str, value: Any) -> bool:
        """Whether it is launched with this value: 2.0 is another constexpr than 2."""
        given = self.given
        return option in given and bool(given[option] == value) and repr(given[option]) == repr(value)


def launch_of(
    kernel: Any, grid: Any, args: Sequence[Any], kwargs: Mapping[str, Any], vary: Mapping[str, Any]
) -> Launch:
    """The launch, checked. vary: the values that its constexprs are to take.

    Raises OptionError for an invalid launch, and for a name in `vary` that is none of its constexprs.
    """
    layers = _layers(kernel)
    if not isinstance(layers[-1], JITFunction):
        raise OptionError(f"explain: {kernel!r} is no Triton kernel; decorate it with @triton.jit")
    launch = Launch(kernel, grid, tuple(args), dict(kwargs))
    _ = launch.checked_grid  # raises for one without CTAs
    _check_names(launch)
    check_vary(launch, vary)
    return launch


def options_text(options: Mapping[str, Any]) -> str:
    """ "BLOCK=64, num_warps=4"."""
    return ", ".join(f"{name}={value}" for name, value in options.items())


def _checked(grid: Any, said: str) -> Any:
    """The grid itself. Raises OptionError if it has no CTA. said: how the error begins."""
    try:
        sizes = [operator.index(size) for size in grid]
    except TypeError:
        sizes = []
    if not sizes or min(sizes) < 1:
        raise OptionError(
            f"explain: {said}{grid!r}; a grid is one to three sizes, such as (64,), with at least one CTA"
        )
    return grid


def _layers(kernel: Any) -> list[Any]:
    """A kernel and what it decorates, the function last."""
    layers = [kernel]
    while isinstance(layers[-1], Autotuner | Heuristics):
        layers.append(layers[-1].fn)
    return layers


def _check_names(launch: Launch) -> None:
    name, params = launch.name, launch.function.params
    names = [param.name for param in params]
    if len(launch.args) > len(names):
        raise OptionError(f"explain: {name} takes {len(names)} arguments, {len(launch.args)} were given")
    given = {*names[: len(launch.args)], *launch.kwargs}
    if taken := sorted(given & launch.tuned):
        raise OptionError(f"explain: {taken[0]}= is chosen by the autotuner of {name}; leave it out")
    made = given | launch.tuned | launch.computed
    if missing := [param.name for param in params if param.name not in made and not param.has_default]:
        raise OptionError(f"explain: {name} needs its argument {missing[0]!r}")


def check_vary(launch: Launch, vary: Mapping[str, Any]) -> None:
    if vary and launch.tuner is not None:
        raise OptionError(f"explain: vary=: {launch.name} is autotuned, its configurations are tried")
    constexprs = [param.name for param in launch.function.params if param.is_constexpr]
    for name, values in vary.items():
        if name in launch.computed:
            raise OptionError(f"explain: vary=: {name} of {launch.name} is computed by @triton.heuristics")
        if name not in constexprs:
            there = f"these are {', '.join(constexprs)}" if constexprs else "it has none"
            raise OptionError(f"explain: vary=: {name!r} is no constexpr of {launch.name}; {there}")
        if isinstance(values, str) or not isinstance(values, Sequence) or not values:
            raise OptionError(f"explain: vary=: {name} takes a list of values, not {values!r}")


def configurations(launch: Launch) -> list[tuple[str, Launcher]]:
    """Those that the kernel's autotuner would try, in its order: what each chooses, as text, and a launch of
    it, with the hooks that the autotuner puts around a trial."""
    tuner = launch.tuner
    positional = dict(zip(tuner.arg_names, launch.args, strict=False))
    given = {name: value for name, value in launch.given.items() if name not in positional}
    with _arguments_known(tuner, positional):
        chosen = tuner.prune_configs(given)
    return [(_text(config), partial(_trial, tuner, config, launch, given, positional)) for config in chosen]


def _trial(
    tuner: Any, config: Any, launch: Launch, given: Mapping[str, Any], positional: Mapping[str, Any]
) -> Any:
    current = {**given, **config.all_kwargs()}
    named = {**positional, **current}
    with _arguments_known(tuner, positional):
        if config.pre_hook is not None:
            config.pre_hook(named)
        tuner.pre_hook(named)
        try:
            compiled = tuner.fn[launch.checked_grid](*launch.args, **current)
        except Exception as error:
            tuner.post_hook(named, exception=error)
            raise
        tuner.post_hook(named, exception=None)
        return compiled


@contextlib.contextmanager
def _arguments_known(tuner: Any, positional: Mapping[str, Any]) -> Iterator[None]:
    """Pruning and hooks ask the autotuner for the positional arguments."""
    before = getattr(tuner, "nargs", None)
    tuner.nargs = dict(positional)
    try:
        yield
    finally:
        tuner.nargs = before


def _text(config: Any) -> str:
    """ "BLOCK=64, num_warps=4": what a configuration chooses, without what is as it always is."""
    options = {"num_warps": config.num_warps, "num_stages": config.num_stages}
    if config.num_ctas != 1:
        options["num_ctas"] = config.num_ctas
    if config.maxnreg is not None:
        options["maxnreg"] = config.maxnreg
    return options_text({**config.kwargs, **options})
