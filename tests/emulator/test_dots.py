"""Matrix products, and the gradients of attention and layer norm, against torch."""

import itertools
import math

import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from tests.kernels.dot import dot_kernel
from tests.kernels.matmul import matmul_kernel
from tests.support.quick import quick

# ruff: noqa: N803
pytestmark = pytest.mark.on_gpu_too

# operand type, accumulator, precision, tolerance relative to sqrt(K)
DOTS = [
    (torch.float16, torch.float32, "ieee", 1e-6),
    (torch.bfloat16, torch.float32, "ieee", 1e-6),
    (torch.float16, torch.float16, "ieee", 4e-3),
    (torch.float32, torch.float32, "ieee", 1e-6),
    (torch.float32, torch.float32, "tf32", 2e-3),
    (torch.float32, torch.float32, "tf32x3", 2e-5),
    (torch.float32, torch.float32, "bf16x3", 2e-4),
    (torch.float64, torch.float64, "ieee", 1e-14),
    (torch.float8_e5m2, torch.float32, "ieee", 1e-6),
]


@pytest.mark.parametrize(("dtype", "out_dtype", "precision", "tolerance"), DOTS, ids=str)
@pytest.mark.parametrize("tile", [pytest.param((64, 64), marks=pytest.mark.exhaustive), (16, 16)], ids=str)
def test_dot(
    dtype: torch.dtype, out_dtype: torch.dtype, precision: str, tolerance: float, tile: tuple[int, int]
) -> None:
    depth = 96
    a = torch.randn(tile[0], depth).to(dtype)
    b = torch.randn(depth, tile[1]).to(dtype)
    c = torch.zeros(tile, dtype=out_dtype)
    dot_kernel[(1,)](a, b, c, depth, BLOCK_M=tile[0], BLOCK_N=tile[1], BLOCK_K=32, PRECISION=precision)
    expected = (a.double() @ b.double()).to(out_dtype)
    torch.testing.assert_close(c, expected, rtol=tolerance, atol=tolerance * math.sqrt(depth))


def test_int8_dot_is_exact() -> None:
    a = torch.randint(-128, 128, (64, 128), dtype=torch.int8)
    b = torch.randint(-128, 128, (128, 32), dtype=torch.int8)
    c = torch.zeros(64, 32, dtype=torch.int32)
    dot_kernel[(1,)](a, b, c, 128, BLOCK_M=64, BLOCK_N=32, BLOCK_K=32, PRECISION="ieee")
    assert torch.equal(c, a.int() @ b.int())


@triton.jit
def squashed_kernel(x_ptr, y_ptr, out_ptr, steps, SIDE: tl.constexpr):
    place = tl.arange(0, SIDE)[:, None] * SIDE + tl.arange(0, SIDE)[None, :]
    x, acc = tl.load(x_ptr + place), tl.zeros((SIDE, SIDE), tl.float32)
    for step in range(steps):
        y = tl.load(y_ptr + step * SIDE * SIDE + place)
        acc = tl.dot(libdevice.tanh(tl.dot(x, y)).to(tl.float16), y, acc)
    tl.store(out_ptr + place, acc)


def test_lanes_that_part_in_a_loop_meet_at_its_products() -> None:
    """tanh has a branch for each element; blocks that nothing leads to stand between those of the loop."""
    x, y, out = torch.randn(32, 32).half() / 10, torch.randn(3, 32, 32).half(), torch.empty(32, 32)
    squashed_kernel[(1,)](x, y, out, 3, SIDE=32, num_warps=1)
    squashed = torch.tanh(x.float() @ y.float()).half()
    torch.testing.assert_close(out, (squashed.float() @ y.float()).sum(0), rtol=1e-2, atol=1e-2)


def check_matmul(m: int, n: int, k: int, tile: int, **options: int) -> None:
    a, b = torch.randn(m, k).half(), torch.randn(k, n).half()
    c = torch.zeros(m, n).half()
    grid = (triton.cdiv(m, tile) * triton.cdiv(n, tile),)
    blocks = {"BLOCK_M": tile, "BLOCK_N": tile, "BLOCK_K": 32, "GROUP_M": 2}
    matmul_kernel[grid](a, b, c, m, n, k, k, n, n, **blocks, **options)
    torch.testing.assert_close(c, (a.float() @ b.float()).half(), rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize(
    ("warps", "stages"), quick(itertools.product((1, 2, 4, 8), (1, 3)), {(1, 3), (8, 3)})
)
def test_matmul(warps: int, stages: int) -> None:
    check_matmul(128, 96, 160, 64, num_warps=warps, num_stages=stages)


def test_matmul_of_odd_sizes() -> None:
    check_matmul(70, 45, 100, 32)
