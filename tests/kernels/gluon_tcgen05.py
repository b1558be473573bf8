"""Blackwell tensor cores by hand: products that only a later commit ties to an mbarrier."""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    allocate_tensor_memory,
    fence_async_shared,
    mbarrier,
    tcgen05_commit,
    tcgen05_mma,
)

from tests.kernels.spec import CUDA80, CUDA90, GFX942, Spec

# ruff: noqa: N803
__all__ = ["gluon_commit_kernel", "specs"]


@gluon.jit
def gluon_commit_kernel(a_ptr, b_ptr, c_ptr, steps, BLOCK: gl.constexpr):
    rows: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    shared: gl.constexpr = gl.NVMMASharedLayout.get_default_for([BLOCK, BLOCK], gl.float16)
    offs = gl.arange(0, BLOCK, gl.SliceLayout(1, rows))[:, None] * BLOCK
    offs += gl.arange(0, BLOCK, gl.SliceLayout(0, rows))[None, :]
    a = gl.allocate_shared_memory(gl.float16, [BLOCK, BLOCK], shared)
    b = gl.allocate_shared_memory(gl.float16, [BLOCK, BLOCK], shared)
    tmem: gl.constexpr = TensorMemoryLayout((BLOCK, BLOCK), col_stride=1)
    left = allocate_tensor_memory(gl.float32, [BLOCK, BLOCK], tmem)
    right = allocate_tensor_memory(gl.float32, [BLOCK, BLOCK], tmem)
    bar = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(bar, count=1)
    phase = 0
    for step in range(steps):
        a.store(gl.load(a_ptr + step * BLOCK * BLOCK + offs))
        b.store(gl.load(b_ptr + step * BLOCK * BLOCK + offs))
        fence_async_shared()
        tcgen05_mma(a, b, left, use_acc=step > 0)
        tcgen05_mma(b, a, right, use_acc=step > 0)
        tcgen05_commit(bar)
        mbarrier.wait(bar, phase)
        phase ^= 1
    mbarrier.invalidate(bar)
    out: gl.constexpr = gl.BlockedLayout([1, BLOCK], [32, 1], [4, 1], [0, 1])
    total = left.load(out) + right.load(out)
    gl.store(c_ptr + gl.convert_layout(offs, out), total)


def specs() -> list[Spec]:
    missing = "tensor memory needs sm_100"
    return [
        Spec(
            name="gluon_commit",
            fn=gluon_commit_kernel,
            signature={"a_ptr": "*fp16", "b_ptr": "*fp16", "c_ptr": "*fp32", "steps": "i32"},
            constexprs={"BLOCK": 128},
            options={"num_warps": 4},
            aligned=("a_ptr", "b_ptr", "c_ptr"),
            unsupported={CUDA80: missing, CUDA90: missing, GFX942: missing},
        )
    ]
