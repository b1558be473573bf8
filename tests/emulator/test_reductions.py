"""Kernels whose threads exchange values, against torch."""

import itertools

import pytest
import torch

from tests.kernels.reductions import (
    argmax_kernel,
    cumsum_kernel,
    reduce_kernel,
    sort_kernel,
)
from tests.support.quick import quick

pytestmark = pytest.mark.on_gpu_too

ROWS, COLS = 5, 600


@pytest.mark.parametrize("warps", quick((1, 4, 8), (4,)))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_reductions(dtype: torch.dtype, warps: int) -> None:
    x = torch.randn(ROWS, COLS).to(dtype)
    for name, expected in (("sum", x.float().sum(1)), ("max", x.float().amax(1)), ("min", x.float().amin(1))):
        out = torch.zeros(ROWS, dtype=torch.float32)
        reduce_kernel[(ROWS,)](x, out, COLS, OP=name, BLOCK=1024, num_warps=warps)
        tolerance = 0.3 if name == "sum" and dtype != torch.float32 else 1e-4
        torch.testing.assert_close(out, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("warps", quick((1, 4), (4,)))
def test_argmax(warps: int) -> None:
    x = torch.randint(0, 40, (ROWS, COLS)).float()  # with ties: the first wins
    value, index = torch.zeros(ROWS), torch.zeros(ROWS, dtype=torch.int32)
    argmax_kernel[(ROWS,)](x, value, index, COLS, BLOCK=1024, num_warps=warps)
    assert torch.equal(value, x.amax(1))
    first = [int((row == row.max()).nonzero()[0]) for row in x]
    assert index.tolist() == first


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int32], ids=str)
def test_cumsum(dtype: torch.dtype, reverse: bool) -> None:
    x = (torch.randn(ROWS, COLS) * 10).to(dtype)
    out = torch.zeros_like(x)
    cumsum_kernel[(ROWS,)](x, out, COLS, REVERSE=reverse, BLOCK=1024)
    expected = x.flip(1).cumsum(1).flip(1) if reverse else x.cumsum(1)
    torch.testing.assert_close(out, expected.to(dtype), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("dtype", "descending"),
    quick(
        itertools.product((torch.float32, torch.int32, torch.float16), (False, True)),
        {(torch.float32, False), (torch.int32, True)},
    ),
    ids=str,
)
def test_sort(dtype: torch.dtype, descending: bool) -> None:
    x = (torch.randn(3, 64) * 1000).to(dtype)
    out = torch.zeros_like(x)
    sort_kernel[(3,)](x, out, DESCENDING=descending, BLOCK=64)
    assert torch.equal(out, x.sort(1, descending=descending).values)
