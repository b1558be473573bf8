"""The rest of the language: rearranging, choosing, compare-and-swap, assembly, where a program runs."""

from collections.abc import Callable

import pytest
import torch

from tests.kernels.shaping import (
    compare_swap_kernel,
    shape_kernel,
    where_am_i_kernel,
)
from tests.support.quick import quick

ROWS, COLS = 16, 32
SHAPES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "trans": lambda x: x.T,
    "flip": lambda x: x.flip(1),
    "gather": lambda x: x.gather(
        1, (torch.arange(ROWS)[:, None] * 7 + torch.arange(COLS)[None, :] * 3) % COLS
    ),
    "interleave": lambda x: torch.stack([x, -x], -1),
    "join": lambda x: torch.stack([x, x * 2]),
    "split": lambda x: x.view(ROWS, COLS // 2, 2).flip(2),
}


@pytest.mark.on_gpu_too
@pytest.mark.parametrize(
    ("name", "warps"),
    quick([(name, warps) for name in SHAPES for warps in (1, 4)], [(name, 4) for name in SHAPES]),
)
def test_shapes(name: str, warps: int) -> None:
    for dtype in (torch.float32, torch.float16):
        x = torch.randn(ROWS, COLS).to(dtype)
        expected = SHAPES[name](x).flatten()
        out = torch.zeros(expected.numel(), dtype=dtype)
        shape_kernel[(1,)](x, out, OP=name, ROWS=ROWS, COLS=COLS, num_warps=warps)
        tolerance = {torch.float32: 1e-5, torch.float16: 1e-2}[dtype]
        torch.testing.assert_close(out, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.on_gpu_too
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_compare_and_swap(dtype: torch.dtype) -> None:
    x = torch.randint(0, 3, (128,), dtype=dtype)
    expected, new = torch.randint(0, 3, (128,), dtype=dtype), torch.arange(100, 228, dtype=dtype)
    before = x.clone()
    old = torch.zeros(128, dtype=dtype)
    compare_swap_kernel[(1,)](x, expected, new, old, BLOCK=128)
    assert torch.equal(old, before)
    assert torch.equal(x, torch.where(before == expected, new, before))


def test_three_dimensional_grid() -> None:
    out = torch.full((3 * 4 * 5, 2), -1, dtype=torch.int64)
    where_am_i_kernel[(3, 4, 5)](out)
    sm, timer = out.T
    assert set(sm.tolist()) == set(range(4))
    assert (timer > 0).all()
