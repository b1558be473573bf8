"""Fused softmax: persistent programs loop over the rows and keep a row in registers."""

from __future__ import annotations

import triton
import triton.language as tl

from tests.kernels.spec import Spec

# ruff: noqa: N803
__all__ = ["softmax_kernel", "specs"]


@triton.jit
def softmax_kernel(out_ptr, in_ptr, row_stride, n_rows, n_cols, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    start = tl.program_id(0)
    step = tl.num_programs(0)
    for row in tl.range(start, n_rows, step, num_stages=STAGES):
        cols = tl.arange(0, BLOCK)
        mask = cols < n_cols
        x = tl.load(in_ptr + row * row_stride + cols, mask=mask, other=-float("inf"))
        x = x - tl.max(x, axis=0)
        e = tl.exp(x)
        y = e / tl.sum(e, axis=0)
        tl.store(out_ptr + row * row_stride + cols, y, mask=mask)


def specs() -> list[Spec]:
    return [
        Spec(
            name="softmax",
            fn=softmax_kernel,
            signature={
                "out_ptr": "*fp32",
                "in_ptr": "*fp32",
                "row_stride": "i32",
                "n_rows": "i32",
                "n_cols": "i32",
            },
            constexprs={"BLOCK": 1024, "STAGES": 2},
            options={"num_warps": 4},
            aligned=("out_ptr", "in_ptr", "row_stride"),
        )
    ]
