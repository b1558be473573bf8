"""What a case of the corpus is: a kernel with one fault, what the fault is called, and its mended twin."""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

__all__ = [
    "MARKER",
    "Case",
    "Launch",
    "Prepare",
    "agree",
    "empty",
    "faultless_of",
    "faults_of",
    "integers",
    "random",
    "zeros",
]

MARKER = "# fault"


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
"""Makes tensors on torch's default device: of few CTAs (True), or of the size that a GPU is measured with."""


@dataclass(frozen=True)
class Case:
    """A kernel with one fault, or without one.

    causes: names for the fault, the best one first; none if there is no fault. needs: what shows the fault:
    spans, counts, counters, samples, ctas, resources (registers, shared memory, local memory of the binary).
    emulator: whether exact counts of instructions, sectors and wavefronts without caches can show it.
    least: the lowest compute capability that runs it; 80 is what the emulator stands for.
    round: 1 for the first cases; later ones were written when there were rules for those.
    """

    name: str
    causes: tuple[str, ...]
    needs: tuple[str, ...]
    emulator: bool
    prepare: Prepare
    mended: Prepare | None = None
    least: int = 80
    round: int = 1

    @property
    def half(self) -> str:
        """The half of a case: "open" to whoever writes rules, or "kept apart" to judge them."""
        return "kept apart" if zlib.crc32(self.name.encode()) % 2 else "open"

    @property
    def lines(self) -> tuple[int, ...]:
        """The lines of the kernel's file that are marked as at fault; none if the fault is the launch's."""
        return marked_lines(self.prepare(True).kernel)


def marked_lines(kernel: Any) -> tuple[int, ...]:
    source, first = inspect.getsourcelines(kernel.fn)
    return tuple(first + at for at, text in enumerate(source) if text.rstrip().endswith(MARKER))


def random(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Normally distributed; the same after the same `torch.manual_seed`."""
    return torch.randn(shape).to(dtype) if dtype.itemsize == 1 else torch.randn(shape, dtype=dtype)


def integers(*shape: int, below: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.randint(below, shape, dtype=dtype)


def empty(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype)


def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype)


def agree(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    """Whether results are the same up to rounding: 2 % of the largest, as of half precision."""
    for mine, theirs in zip(one, other, strict=True):
        a, b = mine.double().flatten(), theirs.double().flatten()
        if not torch.isfinite(a).all() or (a - b).abs().max() > 0.02 * b.abs().max():
            return False
    return True


def faults_of(number: int) -> Callable[..., Case]:
    """Makes cases of a round from name, causes, needs, whether the emulator shows the fault, the fault, and
    its twin."""

    def fault(
        name: str,
        causes: tuple[str, ...],
        needs: tuple[str, ...],
        emulator: bool,
        prepare: Prepare,
        mended: Prepare,
    ) -> Case:
        return Case(name, causes, needs, emulator, prepare, mended, round=number)

    return fault


def faultless_of(number: int) -> Callable[[str, Prepare], Case]:
    """Makes cases without a fault of a round, which the emulator runs, from their name and the kernel."""

    def faultless(name: str, prepare: Prepare) -> Case:
        return Case(name, (), (), True, prepare, round=number)

    return faultless
