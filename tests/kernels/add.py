"""Vector add, the simplest masked kernel."""

from __future__ import annotations

import triton
import triton.language as tl

from tests.kernels.spec import Spec

# ruff: noqa: N803
__all__ = ["add_kernel", "specs"]


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(x_ptr + offs, mask=mask)
    y = tl.load(y_ptr + offs, mask=mask)
    tl.store(out_ptr + offs, x + y, mask=mask)


def specs() -> list[Spec]:
    pointers = {"x_ptr": "*fp32", "y_ptr": "*fp32", "out_ptr": "*fp32", "n": "i32"}
    return [
        Spec(
            name="add",
            fn=add_kernel,
            signature=pointers,
            constexprs={"BLOCK": 1024},
            options={"num_warps": 4},
            aligned=("x_ptr", "y_ptr", "out_ptr"),
        )
    ]
