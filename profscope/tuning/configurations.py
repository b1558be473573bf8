"""The configurations of an autotuned kernel, each launched as its autotuner would try it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

from profscope.compat.triton_parts import Autotuner, Heuristics
from profscope.errors import OptionError
from profscope.options import Options

__all__ = ["Configuration", "configurations"]


class Configuration(NamedTuple):
    """name: what it chooses, as text. launch(): one launch, with what the autotuner does around a trial.
    bench(): 20 %, median and 80 % of the times of bare launches, in ms, by the autotuner's own benchmark."""

    name: str
    launch: Callable[[], None]
    bench: Callable[[], tuple[float, float, float]]


@contextlib.contextmanager
def configurations(
    kernel: Any, grid: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Iterator[list[Configuration]]:
    """Those that the autotuner would try for these arguments, in its order.

    Tensors that it zeroes or restores between trials are copied first: only the copies are written. What
    else the kernel writes is written by every configuration, as when it is tuned.

    Raises OptionError where the kernel has no autotuner, or an argument is missing.
    """
    listed = isinstance(grid, tuple | list)
    if not callable(grid) and not (listed and all(isinstance(size, int) and size > 0 for size in grid)):
        raise OptionError(
            f"explain: grid={grid!r}; it is as at a launch, such as grid=(64,), and has at least one CTA"
        )
    tuner, given = _tuner(kernel, args, kwargs)
    names = list(tuner.arg_names)
    for name in (given.keys() - set(names)) & {each.name for each in fields(Options)}:
        raise OptionError(f"explain: {name}= is an option of session(); give options={{{name!r}: ...}}")
    if len(args) > len(names):
        raise OptionError(f"explain: {_name(tuner)} takes {len(names)} arguments, {len(args)} were given")
    copied = [*tuner.reset_to_zero, *tuner.restore_value]
    named = {**dict(zip(names, args, strict=False)), **given}
    if missing := [name for name in copied if name not in named]:
        raise OptionError(f"explain: {_name(tuner)} needs its argument {missing[0]!r}")
    own = [named[name] if name not in copied else _copy(named[name]) for name in names[: len(args)]]
    given = {name: _copy(value) if name in copied else value for name, value in given.items()}
    before = getattr(tuner, "nargs", None)
    tuner.nargs = dict(zip(names, own, strict=False))
    try:
        chosen = tuner.prune_configs(given)
        yield [_configuration(tuner, config, grid, own, given) for config in chosen]
    finally:
        tuner.nargs = before


def _tuner(kernel: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The autotuner, and the keyword arguments that it would get from what is around it."""
    given, each = dict(kwargs), kernel
    while isinstance(each, Heuristics):
        named = {**dict(zip(each.arg_names, args, strict=False)), **given}
        for name, heuristic in each.values.items():
            given[name] = named[name] = heuristic(named)
        each = each.fn
    if not isinstance(each, Autotuner):
        raise OptionError(
            f"explain: {kernel!r} has no @triton.autotune; there is one configuration to explain"
        )
    return each, given


def _configuration(
    tuner: Any, config: Any, grid: Any, args: Sequence[Any], given: Mapping[str, Any]
) -> Configuration:
    if conflicts := sorted(given.keys() & config.kwargs.keys()):
        raise OptionError(
            f"explain: {conflicts[0]}= is chosen by the autotuner of {_name(tuner)}; leave it out"
        )
    current = {**given, **config.all_kwargs()}
    named = {**tuner.nargs, **current}

    def launch() -> None:
        if config.pre_hook is not None:
            config.pre_hook(named)
        tuner.pre_hook(named)
        try:
            tuner.fn[grid](*args, **current)
        except Exception as error:
            tuner.post_hook(named, exception=error)
            raise
        tuner.post_hook(named, exception=None)

    def bench() -> tuple[float, float, float]:
        low, median, high = tuner.do_bench(launch, quantiles=(0.2, 0.5, 0.8))
        return float(low), float(median), float(high)

    return Configuration(_said(config), launch, bench)


def _said(config: Any) -> str:
    """ "BLOCK=64, num_warps=4": what a configuration chooses, but for what is as it always is."""
    options = {"num_warps": config.num_warps, "num_stages": config.num_stages}
    if config.num_ctas != 1:
        options["num_ctas"] = config.num_ctas
    if config.maxnreg is not None:
        options["maxnreg"] = config.maxnreg
    return ", ".join(f"{name}={value}" for name, value in {**config.kwargs, **options}.items())


def _copy(value: Any) -> Any:
    return value.clone() if hasattr(value, "clone") else value


def _name(tuner: Any) -> str:
    return str(tuner.base_fn.__name__)
