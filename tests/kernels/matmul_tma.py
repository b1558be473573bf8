"""Persistent matmul with tensor descriptors made on the device: TMA loads and stores, global scratch."""

from __future__ import annotations

import triton
import triton.language as tl

from tests.kernels.spec import Spec

# ruff: noqa: N803
__all__ = ["matmul_tma_kernel", "specs"]


@triton.jit
def matmul_tma_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, FLATTEN: tl.constexpr,
):  # fmt: skip
    a_desc = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    blocks_n = tl.cdiv(N, BLOCK_N)
    tiles = tl.cdiv(M, BLOCK_M) * blocks_n
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=FLATTEN):
        off_m = (tile // blocks_n) * BLOCK_M
        off_n = (tile % blocks_n) * BLOCK_N
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(tl.cdiv(K, BLOCK_K)):
            a = a_desc.load([off_m, k * BLOCK_K])
            b = b_desc.load([off_n, k * BLOCK_K])
            acc = tl.dot(a, b.T, acc)
        c_desc.store([off_m, off_n], acc.to(tl.float16))


def specs() -> list[Spec]:
    signature = dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp16")
    signature |= dict.fromkeys(("M", "N", "K"), "i32")
    blocks = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64}
    return [
        Spec(
            name="matmul_tma",
            fn=matmul_tma_kernel,
            signature=signature,
            constexprs=blocks | {"FLATTEN": False},
            options={"num_warps": 4, "num_stages": 3},
            aligned=tuple(signature),
        ),
    ]
