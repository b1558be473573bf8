"""A small launch on a GPU, and what it must give; the kernels that a GPU can run."""

from __future__ import annotations

import torch
import triton

from tests.kernels.add import add_kernel
from tests.kernels.cases import Case, cases


def launch_add(n: int = 65_536) -> torch.Tensor:
    x = torch.arange(n, dtype=torch.float32, device="cuda")
    out = torch.empty_like(x)
    add_kernel[(triton.cdiv(n, 1024),)](x, x, out, n, BLOCK=1024)
    return out


def expected(n: int = 65_536) -> torch.Tensor:
    return torch.arange(n, dtype=torch.float32, device="cuda") * 2


def cases_here() -> list[Case]:
    """Small launches of the kernels that this GPU can run."""
    major, minor = torch.cuda.get_device_capability()
    return [case for case in cases("small") if case.capability <= 10 * major + minor]
