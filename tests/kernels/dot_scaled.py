"""A block-scaled product of one tile: 8-bit and packed 4-bit floats, a scale for every 32 values along K."""

from __future__ import annotations

import triton
import triton.language as tl

from tests.kernels.spec import Spec

# ruff: noqa: N803
__all__ = ["dot_scaled_kernel", "spec"]

TILE = 128
POINTERS = {"e4m3": "*fp8e4nv", "e2m1": "*u8"}


@triton.jit
def dot_scaled_kernel(
    a_ptr, a_scale_ptr, b_ptr, b_scale_ptr, c_ptr,
    TILE: tl.constexpr, LHS: tl.constexpr, RHS: tl.constexpr, A_BYTES: tl.constexpr, B_BYTES: tl.constexpr,
):  # fmt: skip
    """C (TILE, TILE) = A (TILE, K) @ B (K, TILE), K = TILE; A_BYTES and B_BYTES are the bytes of K values."""
    offs = tl.arange(0, TILE)
    offs_s = tl.arange(0, TILE // 32)
    a = tl.load(a_ptr + offs[:, None] * A_BYTES + tl.arange(0, A_BYTES)[None, :])
    b = tl.load(b_ptr + tl.arange(0, B_BYTES)[:, None] * TILE + offs[None, :])
    a_scale = tl.load(a_scale_ptr + offs[:, None] * (TILE // 32) + offs_s[None, :])
    b_scale = tl.load(b_scale_ptr + offs[:, None] * (TILE // 32) + offs_s[None, :])
    c = tl.dot_scaled(a, a_scale, LHS, b, b_scale, RHS)
    tl.store(c_ptr + offs[:, None] * TILE + offs[None, :], c)


def spec(lhs: str, rhs: str) -> Spec:
    """`lhs` and `rhs` are "e4m3" or "e2m1", the latter packed two values a byte."""
    size = {name: TILE // 2 if name == "e2m1" else TILE for name in POINTERS}
    return Spec(
        f"dot_scaled_{lhs}_{rhs}",
        dot_scaled_kernel,
        {
            "a_ptr": POINTERS[lhs],
            "a_scale_ptr": "*u8",
            "b_ptr": POINTERS[rhs],
            "b_scale_ptr": "*u8",
            "c_ptr": "*fp32",
        },
        {"TILE": TILE, "LHS": lhs, "RHS": rhs, "A_BYTES": size[lhs], "B_BYTES": size[rhs]},
    )
