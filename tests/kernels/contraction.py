"""A sum of two products, either of which may be fused into the addition: LLVM's choice hangs by a hair."""

from __future__ import annotations

import triton
import triton.language as tl

from tests.kernels.spec import Spec

# ruff: noqa: N803
__all__ = ["contraction_kernel", "normalised_kernel", "spec"]


@triton.jit
def contraction_kernel(c_ptr, k_ptr, v_ptr, out_ptr, forget, gain, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    k = tl.load(k_ptr + offs)
    v = tl.load(v_ptr + offs)
    c = tl.load(c_ptr + offs)
    tl.store(out_ptr + offs, forget * c + gain * (k * v))


def spec() -> Spec:
    pointers = dict.fromkeys(("c_ptr", "k_ptr", "v_ptr", "out_ptr"), "*fp32")
    scalars = {"forget": "fp32", "gain": "fp32"}
    return Spec("contraction", contraction_kernel, pointers | scalars, {"BLOCK": 32}, {"num_warps": 1})


@triton.jit
def normalised_kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    total = 0.0
    for start in range(0, cols, BLOCK):
        total += tl.sum(tl.load(x_ptr + start + at))
    mean = total / cols
    squares = 0.0
    for start in range(0, cols, BLOCK):
        apart = tl.load(x_ptr + start + at) - mean
        squares += tl.sum(apart * apart)
    scale = tl.rsqrt(squares / cols)
    for start in range(0, cols, BLOCK):
        tl.store(out_ptr + start + at, (tl.load(x_ptr + start + at) - mean) * scale + mean)
