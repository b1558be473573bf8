"""The memory that a launch's arguments hold: kept as it was, restored, and compared after a launch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import torch

__all__ = ["DIFFERENT", "TOLERANCE", "Arguments"]

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
