"""Warp-specialised matmul: the compiler splits the loop into partitions of warps."""

from __future__ import annotations

import triton
import triton.language as tl

from tests.kernels.spec import Spec

# ruff: noqa: N803
__all__ = ["matmul_ws_kernel", "specs"]


@triton.jit
def matmul_ws_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    a_desc = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    off_m = tl.program_id(0) * BLOCK_M
    off_n = tl.program_id(1) * BLOCK_N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in tl.range(0, tl.cdiv(K, BLOCK_K), warp_specialize=True):
        a = a_desc.load([off_m, k * BLOCK_K])
        b = b_desc.load([off_n, k * BLOCK_K])
        acc = tl.dot(a, b.T, acc)
    c_desc.store([off_m, off_n], acc.to(tl.float16))


def specs() -> list[Spec]:
    signature = dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp16")
    signature |= dict.fromkeys(("M", "N", "K"), "i32")
    return [
        Spec(
            name="matmul_ws",
            fn=matmul_ws_kernel,
            signature=signature,
            constexprs={"BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 64},
            options={"num_warps": 4, "num_stages": 3},
            aligned=tuple(signature),
        ),
    ]
