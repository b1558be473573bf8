"""Kernels whose TTGIR has forms that the others lack: odd strings, shared result types, irregular nesting."""

from __future__ import annotations

import triton
import triton.language as tl

from tests.kernels.spec import GFX942, Spec

# ruff: noqa: N803
__all__ = ["irregular_kernel", "shapes_kernel", "specs", "strings_kernel"]


@triton.jit
def strings_kernel(x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0, cache_modifier=".cg", eviction_policy="evict_last")
    tl.device_print('x {<" -> // %5:', x, offs)
    tl.device_assert(x >= 0, 'x must be "positive" } {')
    less, more = tl.inline_asm_elementwise(
        '{ // "two" results\n sub.f32 $0, $2, 0f3f800000;\n add.f32 $1, $2, 0f3f800000; }',
        "=r,=r,r",
        [x],
        dtype=(tl.float32, tl.float32),
        is_pure=True,
        pack=1,
    )
    clock = tl.inline_asm_elementwise("mov.u32 $0, %clock;", "=r", [], dtype=tl.int32, is_pure=False, pack=1)
    tl.store(x_ptr + offs, less * more + clock * 0, mask=offs < n)


@triton.jit
def shapes_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    x = tl.load(x_ptr + offs)
    even, odd = tl.split(tl.join(x, tl.trans(x)))
    flat = tl.reshape(even + odd, (BLOCK * BLOCK,))
    y = tl.gather(x, offs % BLOCK, axis=0) + tl.flip(x, 1) + tl.sum(flat)
    tl.store(out_ptr + offs, y)


@triton.jit
def irregular_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    acc = tl.zeros([BLOCK], tl.float32)
    i = 0
    while i < n:
        j = i
        while (j < n) & (j < 100):
            if j % 3 == 1:
                acc += tl.load(x_ptr + j * BLOCK + offs)
                for k in range(j):
                    acc = acc * 0.5
                    if k > 5:
                        tl.store(out_ptr + BLOCK + k, k)
            elif j % 7 == 2:
                acc -= 1.0
            j += 1
        i = j + 1
    tl.store(out_ptr + offs, acc)


def specs() -> list[Spec]:
    pointers = {"x_ptr": "*fp32", "out_ptr": "*fp32"}
    return [
        Spec(
            name="strings",
            fn=strings_kernel,
            signature={"x_ptr": "*fp32", "n": "i32"},
            constexprs={"BLOCK": 128},
            options={"debug": True},
            unsupported={GFX942: "its inline assembly is PTX"},
        ),
        Spec("shapes", shapes_kernel, pointers, {"BLOCK": 32}),
        Spec("irregular", irregular_kernel, pointers | {"n": "i32"}, {"BLOCK": 128}),
    ]
