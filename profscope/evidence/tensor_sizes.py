"""How many bytes the tensors that a kernel is launched with have: no more of them can be different."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["tensor_bytes"]


def tensor_bytes(signature: Mapping[str, Any], arguments: Sequence[Any]) -> dict[str, int]:
    """By name, the bytes from the first element of a tensor to its last one; of a tensor descriptor, those of
    its tensor. Arguments that are neither have no entry.

    signature: by name the type of each argument, as of Triton's `ASTSource`. arguments: with constexprs or,
    as Inductor launches, without. Empty for any other number of arguments: nobody knows which is which then.
    """
    given = [name for name, kind in signature.items() if kind != "constexpr"]
    names = next((each for each in ([*signature], given) if len(each) == len(arguments)), [])
    sizes = {
        name: _extent(getattr(value, "base", value)) for name, value in zip(names, arguments, strict=False)
    }
    return {name: size for name, size in sizes.items() if size is not None}


def _extent(tensor: Any) -> int | None:
    """None for what is no tensor."""
    if not all(hasattr(tensor, each) for each in ("shape", "stride", "element_size")):
        return None
    sides = [int(side) for side in tensor.shape]
    if 0 in sides:
        return 0
    steps = (abs(step) * (side - 1) for side, step in zip(sides, tensor.stride(), strict=True))
    return int((1 + sum(steps)) * tensor.element_size())
