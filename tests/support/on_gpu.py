"""A small launch on a GPU, and what it must give."""

from __future__ import annotations

import torch
import triton

from tests.kernels.add import add_kernel

__all__ = ["expected", "launch_add"]


def launch_add(n: int = 65_536) -> torch.Tensor:
    x = torch.arange(n, dtype=torch.float32, device="cuda")
    out = torch.empty_like(x)
    add_kernel[(triton.cdiv(n, 1024),)](x, x, out, n, BLOCK=1024)
    return out


def expected(n: int = 65_536) -> torch.Tensor:
    return torch.arange(n, dtype=torch.float32, device="cuda") * 2
