"""The memory that the arguments of a launch reach: copied, restored before launches, compared after them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch

__all__ = ["DIFFERENT", "TOLERANCE", "Arguments", "bytes_reached", "extents", "why_not_seen"]

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

_NUMBER: Final = re.compile(r"(i|u|fp|f|bf)\d+")  # types of arguments that are no pointers
_ALIGNMENT: Final = 16  # bytes, of the largest dtype


@dataclass
class _Memory:
    """A range of addresses, `start` to `end`. pieces: views of its bytes, in order, each of one storage;
    views: the arguments in it. before: copies of the pieces; result: copies of what the first launch left
    there, None if that is `before`; written: whether a launch has changed it."""

    start: int
    end: int
    pieces: list[Any] = field(default_factory=list)
    views: list[Any] = field(default_factory=list)
    before: list[Any] = field(default_factory=list)
    result: list[Any] | None = None
    written: bool = False

    def holds(self, copies: Sequence[Any]) -> bool:
        """Whether it has the same bytes as these copies of its pieces."""
        return all(torch.equal(piece, copy) for piece, copy in zip(self.pieces, copies, strict=True))

    def restore(self) -> None:
        for piece, copy in zip(self.pieces, self.before, strict=True):
            piece.copy_(copy)


class Arguments:
    """A copy of the memory of all tensors among some arguments, in tuples and tensor descriptors, too. Whole
    storages are copied, so views that overlap stay consistent. Memory that only pointers inside tensors reach
    is not seen.

    Raises torch.OutOfMemoryError if there is no room for the copies.
    """

    def __init__(self, values: Iterable[Any]) -> None:
        self._memories = _memories(values)
        for memory in self._memories:
            memory.before = [piece.clone() for piece in memory.pieces]

    def restore(self) -> None:
        """Write back what launches have changed."""
        for memory in self._memories:
            if memory.written:
                memory.restore()

    def reset(self) -> None:
        """Write back all that differs, whoever has changed it."""
        for memory in self._memories:
            if not memory.holds(memory.before):
                memory.restore()

    def find_written(self) -> None:
        """Find the memory that a launch changed; `restore` writes only this back from now on."""
        for memory in self._memories:
            memory.written = memory.written or not memory.holds(memory.before)

    def keep_result(self) -> None:
        """Keep the memory after a launch; later launches are compared with it."""
        self.find_written()
        for memory in self._memories:
            memory.result = [piece.clone() for piece in memory.pieces] if memory.written else None

    def compare(self) -> str:
        """ "bit-equal", "close" (TOLERANCE) or "different": the current memory against the kept result."""
        found = {_compared(memory) for memory in self._memories}
        return next((each for each in (DIFFERENT, CLOSE) if each in found), BIT_EQUAL)


def extents(compiled: Any, given: Mapping[str, Any]) -> dict[int, range]:
    """The addresses of the first byte of a tensor and of the first behind its last element, by the number of
    the compiled kernel's parameter. given: arguments by name. Parameters behind a tuple or descriptor are
    left out.
    """
    found: dict[int, range] = {}
    parameters = ((name, kind) for name, kind in compiled.src.signature.items() if kind != "constexpr")
    for at, (name, kind) in enumerate(parameters):
        if not isinstance(kind, str) or kind.startswith("tensordesc"):
            break
        tensor = given.get(name)
        if isinstance(tensor, torch.Tensor):
            begin, sizes = tensor.data_ptr(), zip(tensor.shape, tensor.stride(), strict=True)
            last = sum((size - 1) * stride for size, stride in sizes) if tensor.numel() else -1
            found[at] = range(begin, begin + (last + 1) * tensor.itemsize)
    return found


def why_not_seen(signature: Mapping[str, Any], given: Mapping[str, Any], device: Any) -> str:
    """Why `Arguments` would not copy all memory that a launch reaches on a device, torch's; "" if it would.

    signature: by name the type of each argument, as of Triton's `ASTSource`. given: arguments by name.
    """
    if not given:
        return "its arguments are not known"
    for name, value in given.items():
        for each in _behind_pointers(signature.get(name), value):
            tensor = each if isinstance(each, torch.Tensor) else getattr(each, "base", None)
            if not isinstance(tensor, torch.Tensor):
                return f"{name} is no tensor of torch, and its memory cannot be copied"
            if tensor.device != device:
                return f"{name} is on {tensor.device}, and the kernel runs on {device}"
    return ""


def _behind_pointers(kind: Any, value: Any) -> Iterator[Any]:
    """The values of an argument that point to memory. kind: its type, of a tuple those of its elements."""
    if isinstance(kind, tuple | list):
        for own, each in zip(kind, value, strict=False):
            yield from _behind_pointers(own, each)
    elif kind != "constexpr" and not _NUMBER.fullmatch(str(kind)):
        yield value


def bytes_reached(values: Iterable[Any]) -> int:
    """The bytes that `Arguments` would copy."""
    return sum(memory.end - memory.start for memory in _memories(values))


def _memories(values: Iterable[Any]) -> list[_Memory]:
    """Storages whose addresses overlap are one memory: arrays of other libraries give each view its own."""
    placed = []
    for tensor in _tensors(values):
        storage = tensor.untyped_storage()
        if storage.nbytes():
            placed.append((str(tensor.device), storage.data_ptr(), tensor.detach(), storage))
    placed.sort(key=lambda each: each[:2])
    memories: list[_Memory] = []
    device = ""
    for own_device, start, view, storage in placed:
        if own_device != device or start >= memories[-1].end:
            device = own_device
            memories.append(_Memory(start, start))
        memory = memories[-1]
        if start + storage.nbytes() > memory.end:
            whole = torch.empty(0, dtype=torch.uint8, device=view.device).set_(storage)
            memory.pieces.append(whole[memory.end - start :])
            memory.end = start + storage.nbytes()
        memory.views.append(view)
    return memories


def _tensors(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, tuple | list):
            yield from _tensors(value)
        elif isinstance(base := getattr(value, "base", None), torch.Tensor):
            yield base  # of a tensor descriptor


def _compared(memory: _Memory) -> str:
    expected = memory.before if memory.result is None else memory.result
    if memory.holds(expected):
        return BIT_EQUAL
    memory.written = True
    whole = _aligned(memory, expected)
    pairs = [(view, _same_view(view, memory, whole)) for view in memory.views]
    if all(_equal(one, other) for one, other in pairs):
        return DIFFERENT  # beside what the arguments show, or bits such as a NaN's
    return CLOSE if all(_close(one, other) for one, other in pairs) else DIFFERENT


def _aligned(memory: _Memory, copies: Sequence[Any]) -> Any:
    """The copies as one storage, whose first byte is at the last aligned address before the memory's."""
    lead = memory.start % _ALIGNMENT
    if len(copies) == 1 and not lead:
        return copies[0]
    return torch.cat([copies[0].new_zeros(lead), *copies])


def _same_view(view: Any, memory: _Memory, whole: Any) -> Any:
    """What `view` shows of its memory, of a copy of that memory."""
    storage_begins = view.untyped_storage().data_ptr() - memory.start + memory.start % _ALIGNMENT
    offset = storage_begins // view.dtype.itemsize + view.storage_offset()
    other = torch.empty(0, dtype=view.dtype, device=view.device)
    return other.set_(whole.untyped_storage(), offset, view.shape, view.stride())


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
