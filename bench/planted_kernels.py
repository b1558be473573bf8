"""Kernels with a known fault. A comment `# fault: NAME` stands on each line that a finding may name.

What mends a kernel is an argument of it, an option of its launch, or, where there is no other way, a twin.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

# ruff: noqa: N803
__all__ = [
    "atomics_kernel",
    "attention_kernel",
    "late_warp_kernel",
    "layer_norm_kernel",
    "matmul_kernel",
    "matmul_ws_kernel",
    "one_pass_kernel",
    "spills_kernel",
    "strided_kernel",
    "swizzled",
    "tiles_kernel",
    "transpose_kernel",
    "unswizzled",
    "waves_kernel",
]


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, K, stride_bk, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    """One tile of c a program. With one stage each load is waited for before the dot."""
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + offs_m[:, None] * K + offs_k[None, :]
    b_ptrs = b_ptr + offs_k[:, None] * stride_bk + offs_n[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_ptrs)  # fault: few-stages
        b = tl.load(b_ptrs)  # fault: few-stages
        acc = tl.dot(a, b, acc)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * stride_bk
    tl.store(c_ptr + offs_m[:, None] * stride_bk + offs_n[None, :], acc.to(tl.float16))


@triton.jit
def matmul_ws_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, BUFFERS: tl.constexpr,
):  # fmt: skip
    """A partition of warps copies, others multiply. With few buffers those that multiply wait."""
    a_desc = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    off_m = tl.program_id(0) * BLOCK_M
    off_n = tl.program_id(1) * BLOCK_N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in tl.range(0, tl.cdiv(K, BLOCK_K), warp_specialize=True, num_stages=BUFFERS):
        a = a_desc.load([off_m, k * BLOCK_K])  # fault: partition-starved
        b = b_desc.load([off_n, k * BLOCK_K])  # fault: partition-starved
        acc = tl.dot(a, b.T, acc)  # fault: partition-starved
    c_desc.store([off_m, off_n], acc.to(tl.float16))


@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, length, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, HEAD: tl.constexpr
):
    """Dots and softmax of a CTA take turns. With one CTA on an SM nothing runs beside either."""
    base = tl.program_id(1) * length * HEAD
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, HEAD)
    q = tl.load(q_ptr + base + offs_m[:, None] * HEAD + offs_d[None, :])
    acc = tl.zeros([BLOCK_M, HEAD], dtype=tl.float32)
    total = tl.zeros([BLOCK_M], dtype=tl.float32)
    peak = tl.full([BLOCK_M], -float("inf"), dtype=tl.float32)
    for n in range(0, length, BLOCK_N):
        k = tl.load(k_ptr + base + (n + offs_n)[None, :] * HEAD + offs_d[:, None])
        scores = tl.dot(q, k) * 0.125  # fault: mma-not-overlapped
        new_peak = tl.maximum(peak, tl.max(scores, 1))  # fault: mma-not-overlapped
        p = tl.exp2(scores - new_peak[:, None])  # fault: mma-not-overlapped
        shrink = tl.exp2(peak - new_peak)  # fault: mma-not-overlapped
        total = total * shrink + tl.sum(p, 1)  # fault: mma-not-overlapped
        v = tl.load(v_ptr + base + (n + offs_n)[:, None] * HEAD + offs_d[None, :])
        acc = tl.dot(p.to(v.dtype), v, acc * shrink[:, None])  # fault: mma-not-overlapped
        peak = new_peak
    tl.store(out_ptr + base + offs_m[:, None] * HEAD + offs_d[None, :], (acc / total[:, None]).to(tl.float16))


@triton.jit
def layer_norm_kernel(x_ptr, y_ptr, n_cols, eps, BLOCK: tl.constexpr):
    """A row a program, read three times."""
    x_ptr += tl.program_id(0) * n_cols
    y_ptr += tl.program_id(0) * n_cols
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for off in range(0, n_cols, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / n_cols
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for off in range(0, n_cols, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)  # fault: redundant-load
        x = tl.where(cols < n_cols, x - mean, 0.0)
        squares += x * x
    rstd = 1 / tl.sqrt(tl.sum(squares, axis=0) / n_cols + eps)
    for off in range(0, n_cols, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)  # fault: redundant-load
        tl.store(y_ptr + cols, (x - mean) * rstd, mask=cols < n_cols)


@triton.jit
def one_pass_kernel(x_ptr, y_ptr, n_cols, eps, BLOCK: tl.constexpr):
    """The same, with the row in registers."""
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + tl.program_id(0) * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    x = tl.where(mask, x - tl.sum(x, axis=0) / n_cols, 0.0)
    rstd = 1 / tl.sqrt(tl.sum(x * x, axis=0) / n_cols + eps)
    tl.store(y_ptr + tl.program_id(0) * n_cols + cols, x * rstd, mask=mask)


@triton.jit
def waves_kernel(x_ptr, out_ptr, steps, BLOCK: tl.constexpr):  # fault: tail # fault: idle-sms
    """`steps` dependent multiply-adds on a tile; how many programs share the steps is up to the grid."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    for _ in range(steps):
        x = x * 0.999 + 0.5
    tl.store(out_ptr + offs, x)


@triton.jit
def tiles_kernel(x_ptr, lengths_ptr, out_ptr, tiles, BLOCK: tl.constexpr):
    """A program takes every n-th tile; a tile takes as many steps as its length says."""
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):  # fault: load-imbalance
        length = tl.load(lengths_ptr + tile)
        for _ in range(length):  # fault: load-imbalance
            x = x * 0.999 + 0.5
        tl.store(out_ptr + tile * BLOCK + offs, x)


@triton.jit
def spills_kernel(x_ptr, y_ptr, out_ptr, steps, BLOCK: tl.constexpr):  # fault: register-spills
    """Two tiles in registers."""
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    y = tl.load(y_ptr + offs)
    for _ in range(steps):  # fault: register-spills
        x = x * 0.999 + y
        y = y * 0.998 + x
    tl.store(out_ptr + tl.program_id(0) * BLOCK + offs, x + y)


@triton.jit
def strided_kernel(x_ptr, out_ptr, steps, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    """Sums every STRIDE-th element."""
    base = tl.program_id(0).to(tl.int64) * steps * BLOCK
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for step in range(steps):
        offs = base + step * BLOCK + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + offs * STRIDE)  # fault: uncoalesced-load
    tl.store(out_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), total)


@triton.jit
def atomics_kernel(x_ptr, counter_ptr, out_ptr, steps, EACH: tl.constexpr, BLOCK: tl.constexpr):
    """Adds up to one counter: each step, or once."""
    offs = tl.arange(0, BLOCK)
    total = 0.0
    ticket = 0.0
    for step in range(steps):
        x = tl.sum(tl.load(x_ptr + step * BLOCK + offs), axis=0)
        if EACH:
            ticket += tl.atomic_add(counter_ptr, x)  # fault: atomics
        else:
            total += x
    if not EACH:
        ticket = tl.atomic_add(counter_ptr, total)
    tl.store(out_ptr + tl.program_id(0), ticket)


@triton.jit
def late_warp_kernel(x_ptr, turns_ptr, out_ptr, rounds, BLOCK: tl.constexpr):
    """Threads go round as often as their element says; then the CTA reduces."""
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    turns = tl.load(turns_ptr + offs)
    total = 0.0
    for _ in range(rounds):
        x = tl.inline_asm_elementwise(  # fault: late-warp
            """{
            .reg .pred %more;
            .reg .u32 %i;
            mov.u32 %i, $2;
            mov.f32 $0, $1;
            again:
            fma.rn.f32 $0, $0, 0f3F7FBE77, 0f3F000000;
            sub.u32 %i, %i, 1;
            setp.ne.u32 %more, %i, 0;
            @%more bra again;
            }""",
            "=&f,f,r",
            [x, turns],  # fault: late-warp
            dtype=tl.float32,
            is_pure=False,
            pack=1,
        )
        total += tl.sum(x, axis=0)  # fault: late-warp
    tl.store(out_ptr + tl.program_id(0), total)


def unswizzled() -> gl.SwizzledSharedLayout:
    """A column of a tile lies in one bank."""
    return gl.SwizzledSharedLayout(1, 1, 1, [1, 0])


def swizzled() -> gl.SwizzledSharedLayout:
    """A column of a tile lies in all banks."""
    return gl.SwizzledSharedLayout(1, 1, 32, [1, 0])


@gluon.jit
def transpose_kernel(x_ptr, out_ptr, rounds, SIZE: gl.constexpr, SHARED: gl.constexpr):
    """A tile goes into shared memory by rows and comes back by columns."""
    rows: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    columns: gl.constexpr = gl.BlockedLayout([1, 1], [32, 1], [1, 4], [0, 1])
    i = gl.arange(0, SIZE, layout=gl.SliceLayout(1, rows))
    j = gl.arange(0, SIZE, layout=gl.SliceLayout(0, rows))
    x = gl.load(x_ptr + i[:, None] * SIZE + j[None, :])
    tile = gl.allocate_shared_memory(gl.float32, [SIZE, SIZE], SHARED)
    total = gl.zeros([SIZE, SIZE], gl.float32, columns)
    for _ in range(rounds):
        tile.store(x)
        y = tile.load(columns)  # fault: bank-conflict
        total += y
        x = x * 0.5
    i = gl.arange(0, SIZE, layout=gl.SliceLayout(1, columns))
    j = gl.arange(0, SIZE, layout=gl.SliceLayout(0, columns))
    gl.store(out_ptr + gl.program_id(0) * SIZE * SIZE + j[None, :] * SIZE + i[:, None], total)
