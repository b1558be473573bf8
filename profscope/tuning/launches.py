"""A launch as a program writes it, and the same launch with other options."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import torch

from profscope.compat.triton_parts import Autotuner, Heuristics, JITFunction
from profscope.errors import OptionError

__all__ = [
    "DIFFERENT",
    "TOLERANCE",
    "Arguments",
    "Launch",
    "Launcher",
    "configurations",
    "launch_of",
    "options_text",
]

Launcher = Callable[[], Any]
"""Launches, and returns the compiled kernel."""


@dataclass(frozen=True)
class Launch:
    """`kernel[grid](*args, **kwargs)`; called, it launches, and returns the compiled kernel."""

    kernel: Any
    grid: Any
    args: Sequence[Any]
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self) -> Any:
        return self.kernel[self.grid](*self.args, **self.kwargs)

    @property
    def function(self) -> Any:
        """The function behind autotuners and heuristics."""
        return _layers(self.kernel)[-1]

    @property
    def name(self) -> str:
        return str(self.function.__name__)

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
        """Whether another launch of the kernel has the same CTAs."""
        if not callable(self.grid):
            return True
        defaults = {param.name: param.default for param in self.function.params if param.has_default}
        return bool(self.grid({**defaults, **self.given}) == other.grid({**defaults, **other.given}))

    def changed(self, options: Mapping[str, Any]) -> Launch:
        """With other values of constexprs or launch options. None takes an option away."""
        names = self.function.arg_names[: len(self.args)]
        args = [options.get(name, value) for name, value in zip(names, self.args, strict=True)]
        named = {**self.kwargs, **{name: options[name] for name in options if name not in names}}
        kept = {name: value for name, value in named.items() if value is not None or name not in options}
        return replace(self, args=args, kwargs=kept)


def launch_of(
    kernel: Any, grid: Any, args: Sequence[Any], kwargs: Mapping[str, Any], vary: Mapping[str, Any]
) -> Launch:
    """The launch, checked. vary: the values that its constexprs are to take.

    Raises OptionError for what can be no launch, and for a name in `vary` that is none of its constexprs.
    """
    layers = _layers(kernel)
    if not isinstance(layers[-1], JITFunction):
        raise OptionError(f"explain: {kernel!r} is no Triton kernel; decorate it with @triton.jit")
    listed = isinstance(grid, tuple | list)
    if not callable(grid) and not (listed and all(isinstance(size, int) and size > 0 for size in grid)):
        raise OptionError(
            f"explain: grid={grid!r}; it is as at a launch, such as grid=(64,), and has at least one CTA"
        )
    launch = Launch(kernel, grid, tuple(args), dict(kwargs))
    _check_names(launch)
    _check_vary(launch, vary)
    return launch


def options_text(options: Mapping[str, Any]) -> str:
    """ "BLOCK=64, num_warps=4"; "no maxnreg" for an option that was taken away."""
    return ", ".join(f"no {name}" if value is None else f"{name}={value}" for name, value in options.items())


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


def _check_vary(launch: Launch, vary: Mapping[str, Any]) -> None:
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
            compiled = tuner.fn[launch.grid](*launch.args, **current)
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


BIT_EQUAL: Final = "bit-equal"
CLOSE: Final = "close"
DIFFERENT: Final = "different"

_RELATIVE: Final = {torch.float64: 1e-9, torch.float32: 1e-5}
_EPSILONS: Final = 4
TOLERANCE: Final = (
    "close: each element within 1e-5 of the tensor's largest value, 1e-9 for float64, "
    "4 machine epsilons for narrower floats"
)
"""What "close" means: another order of additions passes, another result does not."""


@dataclass
class _Memory:
    """One storage. bytes: a view of all of it; before: a copy of what it held; result: a copy of what the
    first launch left there, None if that is `before`; views: the arguments in it; written: whether a launch
    has changed it."""

    bytes: Any
    before: Any
    views: list[Any] = field(default_factory=list)
    result: Any = None
    written: bool = False


class Arguments:
    """The tensors among some arguments, in tuples and tensor descriptors, too. Whole storages are copied, so
    views that overlap stay consistent. Memory that only pointers inside tensors reach is not seen.

    Raises torch.OutOfMemoryError if there is no room for the copies.
    """

    def __init__(self, values: Iterable[Any]) -> None:
        self._memories: dict[int, _Memory] = {}
        for tensor in _tensors(values):
            storage = tensor.untyped_storage()
            if not storage.nbytes():
                continue
            memory = self._memories.get(storage.data_ptr())
            if memory is None:
                whole = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
                memory = self._memories[storage.data_ptr()] = _Memory(whole, whole.clone())
            memory.views.append(tensor.detach())

    def restore(self) -> None:
        """Write back what launches have changed."""
        for memory in self._memories.values():
            if memory.written:
                memory.bytes.copy_(memory.before)

    def keep_result(self) -> None:
        """What is there now, after a launch, is what later launches are compared with."""
        for memory in self._memories.values():
            memory.written = memory.written or not torch.equal(memory.bytes, memory.before)
            memory.result = memory.bytes.clone() if memory.written else None

    def compare(self) -> str:
        """ "bit-equal", "close" (TOLERANCE) or "different": what is there now, against the kept result."""
        found = {self._compare(memory) for memory in self._memories.values()}
        return next((each for each in (DIFFERENT, CLOSE) if each in found), BIT_EQUAL)

    def _compare(self, memory: _Memory) -> str:
        expected = memory.before if memory.result is None else memory.result
        if torch.equal(memory.bytes, expected):
            return BIT_EQUAL
        memory.written = True
        pairs = [(view, _same_view(view, expected)) for view in memory.views]
        if all(_equal(one, other) for one, other in pairs):
            return DIFFERENT  # beside what the arguments show, or bits such as a NaN's
        return CLOSE if all(_close(one, other) for one, other in pairs) else DIFFERENT


def _tensors(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, tuple | list):
            yield from _tensors(value)
        elif isinstance(base := getattr(value, "base", None), torch.Tensor):
            yield base  # of a tensor descriptor


def _same_view(view: Any, memory: Any) -> Any:
    """What `view` shows of its storage, of a copy of that storage."""
    other = torch.empty(0, dtype=view.dtype, device=view.device)
    return other.set_(memory.untyped_storage(), view.storage_offset(), view.shape, view.stride())


def _equal(one: Any, other: Any) -> bool:
    if one.dtype.itemsize == 1:  # narrow floats cannot be compared on every device
        one, other = one.view(torch.uint8), other.view(torch.uint8)
    return bool(torch.equal(one, other))


def _close(one: Any, other: Any) -> bool:
    if one.is_complex():
        one, other = torch.view_as_real(one), torch.view_as_real(other)
    if not one.is_floating_point():
        return bool(torch.equal(one, other))
    share = _RELATIVE.get(one.dtype, _EPSILONS * torch.finfo(one.dtype).eps)
    if one.dtype != torch.float64:
        one, other = one.float(), other.float()
    finite = other[torch.isfinite(other)]
    largest = float(finite.abs().max()) if finite.numel() else 0.0
    return bool(torch.allclose(one, other, rtol=0.0, atol=share * largest, equal_nan=True))
