"""Five kernels with known answers for any machine; `profscope doctor --self-test` runs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import torch
import triton
import triton.language as tl

from profscope.demo.kernels import matmul, softmax

__all__ = ["CASES", "WARPS", "Case"]

WARPS: Final = 4
_BLOCK: Final = 1024  # elements of a CTA
_BLOCK_SECTORS: Final = _BLOCK * 4 // 32
_STRIDE: Final = 16
_ROUNDS: Final = 32
_SIDE: Final = 64  # of the blocks of the matrix product, whose inner dimension is 256


@triton.jit
def scattered_kernel(x_ptr, out_ptr, STRIDE: tl.constexpr, BLOCK: tl.constexpr):  # noqa: N803
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs * STRIDE)
    tl.store(out_ptr + offs, x)


@triton.jit
def rounds_kernel(x_ptr, out_ptr, rounds, BLOCK: tl.constexpr):  # noqa: N803
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    for _ in range(rounds):
        x = 1 / (x + 1)
    tl.store(out_ptr + offs, x)


@triton.jit
def atomic_kernel(bin_ptr, out_ptr, BLOCK: tl.constexpr):  # noqa: N803
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    bins = tl.load(bin_ptr + offs)
    tl.atomic_add(out_ptr + bins, 1)


@dataclass(frozen=True)
class Case:
    """name: the kernel's, without `_kernel`. launch: launches it once with this many CTAs on a device; the
    result, and what it has to be. spans: by a word of a scope, how many a warp has. sectors: by a
    part of a source line, how many a CTA loads or stores there. costs: an op, an experiment on it, and the
    percentage of the time that it saves at least."""

    name: str
    launch: Callable[[str, int], tuple[torch.Tensor, torch.Tensor]]
    spans: Mapping[str, int]
    sectors: Mapping[str, int]
    costs: tuple[str, str, float]


def _numbers(device: str, ctas: int) -> torch.Tensor:
    return torch.arange(ctas * _BLOCK, dtype=torch.float32, device=device)


def _softmax(device: str, ctas: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = _numbers(device, ctas).reshape(ctas, _BLOCK) / _BLOCK
    return softmax(x, ctas), torch.softmax(x, 1)


def _scattered(device: str, ctas: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = _numbers(device, ctas * _STRIDE)
    out = torch.empty(ctas * _BLOCK, device=device)
    scattered_kernel[(ctas,)](x, out, STRIDE=_STRIDE, BLOCK=_BLOCK, num_warps=WARPS)
    return out, x[::_STRIDE]


def _rounds(device: str, ctas: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = right = _numbers(device, ctas)
    out = torch.empty_like(x)
    rounds_kernel[(ctas,)](x, out, _ROUNDS, BLOCK=_BLOCK, num_warps=WARPS)
    for _ in range(_ROUNDS):
        right = 1 / (right + 1)
    return out, right


def _atomic(device: str, ctas: int) -> tuple[torch.Tensor, torch.Tensor]:
    bins = _numbers(device, ctas).int() % 8
    out = torch.zeros(8, dtype=torch.int32, device=device)
    atomic_kernel[(ctas,)](bins, out, BLOCK=_BLOCK, num_warps=WARPS)
    return out, torch.bincount(bins, minlength=8).int()


def _matmul(device: str, ctas: int) -> tuple[torch.Tensor, torch.Tensor]:
    """CTAs side by side; ones and twos have exact products."""
    a = torch.arange(_SIDE * 256, device=device).reshape(_SIDE, 256).remainder(2).half() + 1
    b = torch.ones(256, _SIDE * ctas, dtype=torch.float16, device=device)
    return matmul(a, b, _SIDE), (a.float() @ b.float()).half()


_LOAD: Final = "tl.load(x_ptr"
CASES: Final = (
    Case(
        "softmax", _softmax, {"loop": 1, "store": 1},
        {"tl.load(in_ptr": _BLOCK_SECTORS, "tl.store": _BLOCK_SECTORS}, ("all global memory", "off", 0.5),
    ),
    Case(
        "scattered", _scattered, {"load": 1, "store": 1},
        {_LOAD: _BLOCK, "tl.store": _BLOCK_SECTORS}, ("load x", "contiguous", 10.0),
    ),
    Case(
        "rounds", _rounds, {"load": 1, "loop": 1, "iteration": _ROUNDS},
        {_LOAD: _BLOCK_SECTORS}, ("divf x", "off", 15.0),
    ),
    Case("atomic", _atomic, {"load": 1, "atomic": 1}, {"tl.load": _BLOCK_SECTORS}, ("atomic", "off", 4.0)),
    Case(
        "matmul", _matmul, {"loop": 1, "store": 1},  # GPUs have other numbers of steps, and other ops
        {"tl.load(a_ptr": _SIDE * 256 * 2 // 32, "tl.load(b_ptr": _SIDE * 256 * 2 // 32},
        ("all global memory", "off", -5.0),  # of dots there is none on Blackwell
    ),
)  # fmt: skip
