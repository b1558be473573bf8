"""What other tools put into Triton, beside which a session must work."""

from __future__ import annotations

import torch


class UserAllocator:
    """Another profiler's allocator, which asks for memory as Proton does."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, int]] = []

    def __call__(self, size: int, alignment: int, stream: int | None) -> torch.Tensor:
        self.calls.append((size, alignment))
        return torch.empty(size, dtype=torch.int8)
