"""A kernel that calls functions in all ways: Triton's, its own, inlined and not, one from another."""

from __future__ import annotations

import triton
import triton.language as tl

import profscope.language as psl
from tests.kernels.spec import Spec

# ruff: noqa: N803
__all__ = ["call_chains_kernel", "spec"]


@triton.jit
def _average(x, count):
    return tl.sum(x, axis=0) / count


@triton.jit
def _spread(x, count):
    with psl.scope("centre"):
        centred = x - _average(x, count)
    return tl.max(tl.abs(centred), axis=0)


@triton.jit(noinline=True)
def _shifted(x_ptr, by):
    first = tl.load(x_ptr + by)
    row = tl.load(x_ptr + tl.arange(0, 64))
    return first + _average(row, 64)


@triton.jit
def call_chains_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    mean = _average(x, n)
    total = tl.sum(x * x, axis=0)
    spread = _spread(x, n)
    soft = tl.softmax(x)
    shift = _shifted(x_ptr, n - 1)
    tl.store(out_ptr + offs, soft * mean + total + spread + shift + _average(soft, n))


def spec() -> Spec:
    pointers = {"x_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32"}
    return Spec("call_chains", call_chains_kernel, pointers, {"BLOCK": 128})
