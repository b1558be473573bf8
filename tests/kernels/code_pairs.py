"""Pairs of compiled kernels that differ in one thing each, for what is told of two compilations."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import triton
import triton.language as tl

from tests.kernels import matmul
from tests.kernels.spec import Spec

# ruff: noqa: N803
__all__ = ["PAIRS", "CodePair"]


class CodePair(NamedTuple):
    """What the first row must name: the fact, and its values in a and b."""

    a: Spec
    b: Spec
    fact: str
    values: tuple[str, str]


@triton.jit
def helper(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.exp(tl.load(x_ptr + at)))


@triton.jit(noinline=True)
def called_helper(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.exp(tl.load(x_ptr + at)))


@triton.jit
def inlined_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    helper(x_ptr, out_ptr, BLOCK)


@triton.jit
def called_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    called_helper(x_ptr, out_ptr, BLOCK)


@triton.jit
def aligned_mask_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n * 16)
    tl.store(out_ptr + at, x)


@triton.jit
def odd_mask_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n * 15)
    tl.store(out_ptr + at, x)


@triton.jit
def narrow_index_kernel(x_ptr, out_ptr, stride, BLOCK: tl.constexpr):
    at = tl.program_id(0) * stride + tl.arange(0, BLOCK)
    tl.store(out_ptr + tl.arange(0, BLOCK), tl.load(x_ptr + at))


@triton.jit
def wide_index_kernel(x_ptr, out_ptr, stride, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * stride + tl.arange(0, BLOCK)
    tl.store(out_ptr + tl.arange(0, BLOCK), tl.load(x_ptr + at))


@triton.jit
def unhinted_kernel(x_ptr, out_ptr, start, BLOCK: tl.constexpr):
    at = start + tl.arange(0, BLOCK)
    tl.store(out_ptr + tl.arange(0, BLOCK), tl.load(x_ptr + at))


@triton.jit
def hinted_kernel(x_ptr, out_ptr, start, BLOCK: tl.constexpr):
    at = tl.multiple_of(start + tl.arange(0, BLOCK), 16)
    tl.store(out_ptr + tl.arange(0, BLOCK), tl.load(x_ptr + at))


@triton.jit
def plain_operand_kernel(a_ptr, b_ptr, out_ptr, SIDE: tl.constexpr):
    at = tl.arange(0, SIDE)
    a = tl.load(a_ptr + at[:, None] * SIDE + at[None, :])
    b = tl.load(b_ptr + at[:, None] * SIDE + at[None, :])
    c = tl.dot(a, b)
    tl.store(out_ptr + at[:, None] * SIDE + at[None, :], c)


@triton.jit
def transposed_operand_kernel(a_ptr, b_ptr, out_ptr, SIDE: tl.constexpr):
    at = tl.arange(0, SIDE)
    a = tl.load(a_ptr + at[:, None] * SIDE + at[None, :])
    b = tl.load(b_ptr + at[:, None] * SIDE + at[None, :])
    c = tl.dot(a, b.T)
    tl.store(out_ptr + at[:, None] * SIDE + at[None, :], c)


@triton.jit
def promoted_kernel(a_ptr, b_ptr, out_ptr, SIDE: tl.constexpr):
    at = tl.arange(0, SIDE)
    a = tl.load(a_ptr + at[:, None] * SIDE + at[None, :])
    b = tl.load(b_ptr + at[:, None] + at[None, :] * SIDE)
    acc = tl.dot(a, b, max_num_imprecise_acc=32)
    tl.store(out_ptr + at[:, None] * SIDE + at[None, :], acc)


@triton.jit
def unpromoted_kernel(a_ptr, b_ptr, out_ptr, SIDE: tl.constexpr):
    at = tl.arange(0, SIDE)
    a = tl.load(a_ptr + at[:, None] * SIDE + at[None, :])
    b = tl.load(b_ptr + at[:, None] + at[None, :] * SIDE)
    acc = tl.dot(a, b, max_num_imprecise_acc=64)
    tl.store(out_ptr + at[:, None] * SIDE + at[None, :], acc)


def _rows(fn: Any, scalar: str = "", aligned: bool = True) -> Spec:
    """x to out in blocks, with a scalar argument."""
    signature = {"x_ptr": "*fp16", "out_ptr": "*fp16"} | ({scalar: "i32"} if scalar else {})
    pointers = ("x_ptr", "out_ptr") + ((scalar,) if scalar and aligned else ())
    return Spec(fn.__name__, fn, signature, {"BLOCK": 1024}, {"num_warps": 4}, pointers)


def _called(fn: Any) -> Spec:
    return Spec(fn.__name__, fn, {"x_ptr": "*fp32", "out_ptr": "*fp32"}, {"BLOCK": 1024}, {"num_warps": 4})


def _product(fn: Any, element: str) -> Spec:
    signature = {"a_ptr": f"*{element}", "b_ptr": f"*{element}", "out_ptr": "*fp32"}
    return Spec(fn.__name__, fn, signature, {"SIDE": 64}, {"num_warps": 4}, tuple(signature))


def _matmul(**options: int) -> Spec:
    (spec,) = matmul.specs()
    return Spec("matmul", spec.fn, spec.signature, spec.constexprs, {**spec.options, **options}, spec.aligned)


PAIRS: Final = {
    "a mask that loses vectors": CodePair(
        _rows(aligned_mask_kernel, "n"), _rows(odd_mask_kernel, "n", aligned=False),
        "load width", ("16 B", "2 B"),
    ),
    "stages": CodePair(_matmul(), _matmul(num_stages=4), "num_stages", ("3", "4")),
    "warps": CodePair(_matmul(), _matmul(num_warps=8), "num_warps", ("4", "8")),
    "a transposed operand": CodePair(
        _product(plain_operand_kernel, "fp16"), _product(transposed_operand_kernel, "fp16"),
        "transposed operand", ("none", "yes"),
    ),
    "a 64-bit index": CodePair(
        _rows(narrow_index_kernel, "stride"), _rows(wide_index_kernel, "stride"),
        "load index bits", ("32", "64"),
    ),
    "fp8 promotion": CodePair(
        _product(unpromoted_kernel, "fp8e4nv"), _product(promoted_kernel, "fp8e4nv"),
        "fp8 promotion", ("every 64 of K", "every 32 of K"),
    ),
    "a helper that is not inlined": CodePair(
        _called(inlined_kernel), _called(called_kernel), "calls", ("none", "called_helper")
    ),
    "a hint": CodePair(
        _rows(unhinted_kernel, "start", aligned=False), _rows(hinted_kernel, "start", aligned=False),
        "load width", ("2 B", "16 B"),
    ),
}  # fmt: skip
"""By what differs."""
