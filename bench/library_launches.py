"""Launches that libraries make: taken out of a call of the library, and changed."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import torch
import triton
from triton.runtime.autotuner import Autotuner, Heuristics

__all__ = ["Kernel", "Launch", "Make", "all_of", "edited", "launch_of", "pipelined", "trials", "with_options"]


@dataclass(frozen=True)
class Launch:
    """A launch as a library makes it: what `kernel[grid](*args, **kwargs)` needs."""

    kernel: Any
    grid: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def __call__(self) -> Any:
        return self.kernel[self.grid](*self.args, **self.kwargs)

    @property
    def tensors(self) -> list[torch.Tensor]:
        """Everything that the kernel may read or write."""
        return [each for each in (*self.args, *self.kwargs.values()) if isinstance(each, torch.Tensor)]

    def changed(self, grid: Any = None, **options: Any) -> Launch:
        return Launch(self.kernel, grid or self.grid, self.args, {**self.kwargs, **options})


Make = Callable[[str, bool], Callable[[], Any]]
"""A call of the library, on a device; whether small."""


@dataclass(frozen=True)
class Kernel:
    """A kernel of a library.

    at: its module and name, as the library's own code looks it up. changes: by what is tried, what becomes
    of the launch.
    """

    at: str
    make: Make
    changes: Mapping[str, Callable[[Launch], Launch]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.at.partition('.')[0]} {self.at.rpartition('.')[2]}"


class _Watched:
    """Stands in a library's module for a kernel, launches it, and notes the last launch."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        self.last: Launch | None = None

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            self.last = Launch(self.kernel, grid, args, kwargs)
            return self.last()

        return run

    def __getattr__(self, name: str) -> Any:
        return getattr(self.kernel, name)


@contextmanager
def _watched(at: str) -> Iterator[_Watched]:
    path, _, name = at.rpartition(".")
    module = importlib.import_module(path)
    kernel = vars(module)[name]
    watched = _Watched(kernel)
    setattr(module, name, watched)
    try:
        yield watched
    finally:
        setattr(module, name, kernel)


def launch_of(kernel: Kernel, device: str, small: bool) -> Launch:
    """The last launch of a kernel in a call of its library, with the options that its autotuner chose.

    Raises RuntimeError if there was none.
    """
    call = kernel.make(device, small)
    with _watched(kernel.at) as watched:
        call()
    if watched.last is None:
        raise RuntimeError(f"{kernel.name} was not launched")
    kernel, options = _without_tuner(watched.last.kernel)
    return replace(watched.last, kernel=kernel).changed(**options)


def _without_tuner(kernel: Any) -> tuple[Any, dict[str, Any]]:
    """A kernel without the wrappers that choose or cache a configuration, and the one chosen last."""
    if isinstance(kernel, triton.JITFunction) or not hasattr(kernel, "fn"):
        return kernel, {}
    inner, options = _without_tuner(kernel.fn)
    if isinstance(kernel, Heuristics):
        return Heuristics(inner, kernel.arg_names, kernel.values), options
    if isinstance(kernel, Autotuner):
        chosen = {name: value for name, value in kernel.best_config.all_kwargs().items() if value is not None}
        return inner, options | chosen
    return inner, options


def with_options(**options: Any) -> Callable[[Launch], Launch]:
    """The same launch with other options."""
    return lambda launch: launch.changed(**options)


def edited(before: str, after: str, **options: Any) -> Callable[[Launch], Launch]:
    """The same launch of a kernel whose source has `after` for `before`; ValueError if it is not there."""

    def change(launch: Launch) -> Launch:
        return replace(launch, kernel=_copy(launch.kernel, before, after)).changed(**options)

    return change


def _copy(kernel: Any, before: str, after: str) -> Any:
    if isinstance(kernel, Heuristics):
        return Heuristics(_copy(kernel.fn, before, after), kernel.arg_names, kernel.values)
    if before not in kernel.src:
        raise ValueError(f"{kernel.fn.__name__} has no {before!r}")
    copy = triton.JITFunction(kernel.fn, do_not_specialize=kernel.do_not_specialize)
    copy._unsafe_update_src(kernel.src.replace(before, after))
    return copy


def all_of(*changes: Callable[[Launch], Launch]) -> Callable[[Launch], Launch]:
    """One change after the other."""
    return lambda launch: reduce(lambda changed, change: change(changed), changes, launch)


def pipelined(loop: str, stages: int = 3) -> dict[str, Callable[[Launch], Launch]]:
    """Loads of a loop without dots start steps ahead where its range has num_stages."""
    ahead = re.sub(r"(tl\.)?range\((.*)\)", rf"tl.range(\2, num_stages={stages})", loop)
    return {f"{ahead}": edited(loop, ahead)}


def trials(name: str, *values: int) -> dict[str, Callable[[Launch], Launch]]:
    """The same launch with each of these values of an option."""
    return {f"{name}={value}": with_options(**{name: value}) for value in values}
