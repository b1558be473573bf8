"""Products of float32 that the compiler takes apart into several of what tensor cores multiply."""

from __future__ import annotations

import pytest
import triton
import triton.language as tl

from profscope.analysis.diagnosis.products import split_products
from profscope.profiles import Profile
from tests.support.kernel_facts import facts_in
from tests.support.sessions import session

torch = pytest.importorskip("torch")

# ruff: noqa: N803


@triton.jit
def product_kernel(
    x_ptr, y_ptr, out_ptr, steps, SIDE: tl.constexpr, WIDEN: tl.constexpr, PRECISION: tl.constexpr
):  # fmt: skip
    at = tl.arange(0, SIDE)
    place = at[:, None] * SIDE + at[None, :]
    total = tl.zeros((SIDE, SIDE), tl.float32)
    for step in range(steps):
        x, y = tl.load(x_ptr + step * SIDE * SIDE + place), tl.load(y_ptr + place)
        if WIDEN:
            x, y = x.to(tl.float32), y.to(tl.float32)
        total = tl.dot(x, y, total, input_precision=PRECISION)  # the product
    tl.store(out_ptr + place, total)


def profile_of(precision: str, *, narrow: bool) -> Profile:
    x = torch.rand(4 * 32 * 32, dtype=torch.bfloat16 if narrow else torch.float32)
    with session() as prof:
        product_kernel[(2,)](
            x, x[:1024], torch.empty(1024), 4, SIDE=32, WIDEN=narrow, PRECISION=precision, num_warps=4
        )
    return prof.profile


@pytest.mark.parametrize("narrow", [False, True])
def test_three_products_of_tf32_are_one_of_float32(narrow: bool) -> None:
    profile = profile_of("tf32x3", narrow=narrow)
    (split,) = split_products(facts_in(profile.tables).ttgir_ops).values()
    assert split[:2] == (3, narrow)
    (found,) = profile.findings().query("finding == 'small-mma'").to_dict("records")
    (source,) = profile.metadata["sources"]
    assert "# the product" in source["text"].splitlines()[found["line"] - source["line"]]
    assert found["evidence_values"]["count"] == {"value": 3, "unit": "products"}
    assert ("bfloat16" in found["advice"]) == narrow


@triton.jit
def _added(x, y, total):
    return tl.dot(x, y, total, input_precision="tf32x3")


@triton.jit
def several_kernel(x_ptr, y_ptr, out_ptr, steps, enough, SIDE: tl.constexpr, HOW: tl.constexpr):
    at = tl.arange(0, SIDE)
    place = at[:, None] * SIDE + at[None, :]
    y, total = tl.load(y_ptr + place), tl.zeros((SIDE, SIDE), tl.float32)
    for step in range(steps):
        x = tl.load(x_ptr + step * SIDE * SIDE + place)
        if HOW == "by a function":
            total = _added(x, y, _added(y, x, total))
        elif HOW == "unrolled":
            for _ in tl.static_range(3):
                total = tl.dot(x, y, total, input_precision="tf32x3")
        else:
            if tl.load(y_ptr) > enough:
                total = tl.dot(x, y, total, input_precision="tf32x3")
    tl.store(out_ptr + place, total)


@pytest.mark.parametrize("how", ["by a function", "unrolled", "never"])
def test_products_of_a_line_are_each_taken_apart_into_three(how: str) -> None:
    x = torch.rand(4 * 32 * 32)
    with session() as prof:
        several_kernel[(2,)](x, x[:1024], torch.empty(1024), 4, 1e9, SIDE=32, HOW=how)
    split = split_products(facts_in(prof.profile.tables).ttgir_ops)
    assert [each.products for each in split.values()] == [3]
    assert (how == "never") != ("small-mma" in set(prof.profile.findings()["finding"]))


@triton.jit
def tiles_kernel(x_ptr, y_ptr, out_ptr, depth, SIDE: tl.constexpr, PRECISION: tl.constexpr):
    at = tl.arange(0, SIDE)
    row = (tl.program_id(0) * SIDE + at)[:, None] * depth
    total = tl.zeros((SIDE, SIDE), tl.float32)
    for start in range(0, depth, SIDE):
        x = tl.load(x_ptr + row + start + at[None, :])
        y = tl.load(y_ptr + at[None, :] * depth + (start + at)[:, None])
        total = tl.dot(x, y, total, input_precision=PRECISION)
    tl.store(out_ptr + row // depth * SIDE + at[None, :], total)


@pytest.mark.parametrize(("precision", "count"), [("bf16x3", 3), ("bf16x6", 6)])
def test_what_takes_operands_apart_is_no_conversion_of_the_kernels_own(precision: str, count: int) -> None:
    x, y, out = torch.rand(1024, 256), torch.rand(64, 256), torch.empty(1024, 64)
    with session() as prof:
        tiles_kernel[(16,)](x, y, out, 256, SIDE=64, PRECISION=precision)
    (split,) = split_products(facts_in(prof.profile.tables).ttgir_ops).values()
    assert split.products == count
    assert len(split.lines) > 1  # each operand is taken apart where it was loaded
    found = prof.profile.findings()["finding"].tolist()
    assert "small-mma" in found
    assert "conversions" not in found


@triton.jit
def _product(x, y, total, PRECISION: tl.constexpr):
    return tl.dot(x, y, total, input_precision=PRECISION)


@triton.jit
def both_kernel(x_ptr, y_ptr, out_ptr, steps, SIDE: tl.constexpr):
    at = tl.arange(0, SIDE)
    place = at[:, None] * SIDE + at[None, :]
    y, total = tl.load(y_ptr + place), tl.zeros((SIDE, SIDE), tl.float32)
    for step in range(steps):
        x = tl.load(x_ptr + step * SIDE * SIDE + place)
        total = _product(x, y, _product(y, x, total, "tf32x3"), "tf32")
    tl.store(out_ptr + place, total)


def test_products_of_a_function_are_taken_apart_call_by_call() -> None:
    x = torch.rand(4 * 32 * 32)
    with session() as prof:
        both_kernel[(2,)](x, x[:1024], torch.empty(1024), 4, SIDE=32)
    (split,) = split_products(facts_in(prof.profile.tables).ttgir_ops).values()
    assert split.products == 3


@pytest.mark.parametrize("precision", ["tf32", "ieee"])
def test_other_products_of_float32_are_whole(precision: str) -> None:
    assert not split_products(facts_in(profile_of(precision, narrow=False).tables).ttgir_ops)
