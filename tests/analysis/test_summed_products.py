"""Which sums of multiplications are products of matrices."""

from __future__ import annotations

import pytest
import triton
import triton.language as tl

from profscope.analysis.diagnosis.products import summed_products
from tests.support.kernel_facts import facts_in
from tests.support.sessions import session

torch = pytest.importorskip("torch")

# ruff: noqa: N803


@triton.jit
def sums_kernel(x_ptr, y_ptr, out_ptr, steps, SIDE: tl.constexpr, OF: tl.constexpr):
    at = tl.arange(0, SIDE)
    total = tl.zeros((SIDE, SIDE), tl.float32)
    for step in range(steps):
        x, y = tl.load(x_ptr + step * SIDE + at), tl.load(y_ptr + step * SIDE + at)
        if OF == "outer products":
            total += x[:, None] * 2.0 * y[None, :]
        elif OF == "distances":
            away = x[:, None] - y[None, :]
            total += away * away
        elif OF == "transposed":
            total += tl.trans(x[None, :] + tl.zeros((SIDE, SIDE), tl.float32)) * tl.trans(y[:, None])
        elif OF == "squares of sums":
            both = (x[:, None] + y[None, :]) * 0.5
            total += both * both + both * x[:, None]
        else:  # all of one axis
            total += x[:, None] * y[:, None]
    tl.store(out_ptr + at[:, None] * SIDE + at[None, :], total)


@pytest.mark.parametrize(
    ("of", "is_product"),
    [
        ("outer products", True),
        ("distances", True),
        ("transposed", True),
        ("squares of sums", False),
        ("one axis", False),
    ],
)
def test_each_factor_of_a_product_lacks_an_axis_that_the_other_has(of: str, is_product: bool) -> None:
    x, y, out = torch.rand(4 * 32), torch.rand(4 * 32), torch.empty(32, 32)
    with session() as prof:
        sums_kernel[(1,)](x, y, out, 4, SIDE=32, OF=of)
    assert bool(summed_products(facts_in(prof.profile.tables)).sums) == is_product
