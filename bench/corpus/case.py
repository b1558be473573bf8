"""What a case of the corpus is: a kernel with one fault, what the fault is called, and its mended twin."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import torch

__all__ = ["Case", "Launch", "Prepare", "agree", "empty", "integers", "random", "zeros"]

_MARKER: Final = "# fault"
_TOLERANCE: Final = 0.02  # of the largest value, as of half precision


@dataclass(frozen=True)
class Launch:
    """One launch of one kernel, as often as it is called.

    args: in the order of the kernel; options: constexprs and launch options by name; results: the tensors, or
    views of them, that the twin of the kernel must fill alike.
    """

    kernel: Any
    grid: tuple[int, ...]
    args: tuple[Any, ...]
    results: tuple[torch.Tensor, ...]
    options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self) -> Any:
        """Launch once; Triton's CompiledKernel."""
        return self.kernel[self.grid](*self.args, **self.options)

    def outputs(self) -> list[torch.Tensor]:
        """Copies of the results."""
        return [each.clone() for each in self.results]


Prepare = Callable[[bool], Launch]
"""Makes tensors on torch's default device: for few CTAs (True), or of the size that is measured on a GPU."""


@dataclass(frozen=True)
class Case:
    """A kernel with one fault and the same without it (`mended`), or a kernel without a fault.

    causes: names of findings for the fault, the best one first; none if there is no fault. emulator: whether
    the emulator can show the fault. least: the lowest compute capability that runs the kernel.
    """

    name: str
    causes: tuple[str, ...]
    prepare: Prepare
    mended: Prepare | None = None
    emulator: bool = True
    least: int = 80

    @property
    def lines(self) -> tuple[int, ...]:
        """The lines of the kernel's file that are marked as at fault; none if the fault is the launch's."""
        if not self.causes:
            return ()
        source, first = inspect.getsourcelines(self.prepare(True).kernel.fn)
        return tuple(first + at for at, text in enumerate(source) if text.rstrip().endswith(_MARKER))


def random(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Normally distributed; the same after the same `torch.manual_seed`."""
    return torch.randn(shape, dtype=dtype)


def integers(*shape: int, below: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.randint(below, shape, dtype=dtype)


def empty(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """With no number in it: memory that is used again may have the results of another launch."""
    made = torch.empty(shape, dtype=dtype)
    made.view(torch.uint8).fill_(0xFF)
    return made


def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype)


def agree(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    """Whether results are the same up to rounding."""
    for mine, theirs in zip(one, other, strict=True):
        a, b = mine.double().flatten(), theirs.double().flatten()
        if not torch.isfinite(a).all() or not (a - b).abs().max() <= _TOLERANCE * b.abs().max():
            return False
    return True
