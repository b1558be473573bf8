"""Kernels that do not end, each for another reason, and one that only takes long.

`release` is a word that ends each of them once the host has set it to 1, so that nothing has to be killed.
"""

from __future__ import annotations

import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
)

# ruff: noqa: N803
__all__ = [
    "all_flags_kernel",
    "barrier_kernel",
    "chase_kernel",
    "flags_in_turn_kernel",
    "grid_barrier_kernel",
    "pipelined_matmul_kernel",
    "slow_kernel",
    "spin_kernel",
    "tiles_kernel",
    "tuple_kernel",
]

_load_tile = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared  # its name before Triton 3.8


@triton.jit
def spin_kernel(x_ptr, release_ptr, steps, stuck, BLOCK: tl.constexpr):
    """CTA `stuck` waits in its fourth step for a flag that nobody sets."""
    pid = tl.program_id(0)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for step in range(steps):
        total += tl.load(x_ptr + at)
        if (pid == stuck) & (step == 3):
            while tl.atomic_add(release_ptr + 2, 0) == 0:
                pass
    tl.store(x_ptr + at, total)


@triton.jit
def tiles_kernel(x_ptr, next_ptr, done_ptr, tiles, BLOCK: tl.constexpr):
    """Persistent CTAs take tiles by a counter, and wait at the end until all are done; with a counter that is
    where the launch before has left it, none is."""
    tile = tl.atomic_add(next_ptr, 1)
    while tile < tiles:
        at = tile * BLOCK + tl.arange(0, BLOCK)
        tl.store(x_ptr + at, tl.load(x_ptr + at) + 1.0)
        tl.atomic_add(done_ptr, 1)
        tile = tl.atomic_add(next_ptr, 1)
    while tl.atomic_add(done_ptr, 0) < tiles:
        pass


@triton.jit
def barrier_kernel(x_ptr, BLOCK: tl.constexpr):
    """The first warp comes to a barrier of the whole CTA, the others to another one."""
    first = tl.inline_asm_elementwise(
        "{ .reg .pred p; .reg .b32 t; mov.u32 t, %tid.x; setp.lt.u32 p, t, 32; selp.u32 $0, 1, 0, p; }",
        "=r", [], dtype=tl.int32, is_pure=False, pack=1,
    )  # fmt: skip
    if first == 1:
        tl.debug_barrier()
    else:
        tl.inline_asm_elementwise(
            "bar.sync 1, 128; mov.u32 $0, 0;", "=r", [], dtype=tl.int32, is_pure=False, pack=1
        )
    at = tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at) + 1.0)


@triton.jit
def grid_barrier_kernel(x_ptr, arrived_ptr, BLOCK: tl.constexpr):
    """All CTAs of the grid wait for each other, which they cannot if the GPU does not run all of them."""
    pid = tl.program_id(0)
    tl.atomic_add(arrived_ptr, 1)
    while tl.atomic_add(arrived_ptr, 0) < tl.num_programs(0):
        pass
    at = pid * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at) + 1.0)


@triton.jit
def slow_kernel(x_ptr, steps, inner, BLOCK: tl.constexpr):
    """Takes long, and goes on."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    for _ in range(steps):
        for _ in range(inner):
            x = tl.sin(x)
    tl.store(x_ptr + at, x)


@gluon.jit
def _multiply(a_bufs, b_bufs, full, empty, out_ptr, k_tiles, FAULT: gl.constexpr):
    """FAULT "phase": waits for the wrong phase in the third round of the buffers; "arrive": does not free the
    last buffer of that round."""
    stages: gl.constexpr = a_bufs.type.shape[0]
    rows: gl.constexpr = a_bufs.type.shape[1]
    cols: gl.constexpr = b_bufs.type.shape[2]
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, cols, 16])
    acc = gl.zeros((rows, cols), gl.float32, layout)
    for k in range(k_tiles):
        slot = k % stages
        phase = (k // stages) & 1
        if FAULT == "phase":
            phase = gl.where(k >= stages, phase ^ 1 ^ (k // stages == 1), phase)
        mbarrier.wait(full.index(slot), phase)
        acc = warpgroup_mma(a_bufs.index(slot), b_bufs.index(slot), acc)
        free = (FAULT != "arrive") | (k != 3 * stages - 1)
        mbarrier.arrive(empty.index(slot), count=1, pred=free)
    out_layout: gl.constexpr = gl.BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0])
    out = gl.convert_layout(acc, out_layout)
    at_rows = gl.arange(0, rows, gl.SliceLayout(1, out_layout))
    at_cols = gl.arange(0, cols, gl.SliceLayout(0, out_layout))
    gl.store(out_ptr + gl.program_id(0) * rows * cols + at_rows[:, None] * cols + at_cols[None, :], out)


@gluon.jit
def _copy_tiles(a_desc, b_desc, a_bufs, b_bufs, full, empty, k_tiles):
    stages: gl.constexpr = a_bufs.type.shape[0]
    rows: gl.constexpr = a_bufs.type.shape[1]
    depth: gl.constexpr = a_bufs.type.shape[2]
    size: gl.constexpr = a_desc.block_type.nbytes + b_desc.block_type.nbytes
    for k in range(k_tiles):
        slot = k % stages
        mbarrier.wait(empty.index(slot), ((k // stages) & 1) ^ 1)
        mbarrier.expect(full.index(slot), size)
        _load_tile(a_desc, [gl.program_id(0) * rows, k * depth], full.index(slot), a_bufs.index(slot))
        _load_tile(b_desc, [k * depth, 0], full.index(slot), b_bufs.index(slot))


@gluon.jit
def pipelined_matmul_kernel(
    a_desc, b_desc, out_ptr, k_tiles, STAGES: gl.constexpr, FAULT: gl.constexpr, num_warps: gl.constexpr
):
    """A matmul in two partitions: one copies tiles by TMA, the other multiplies. FAULT: see `_multiply`."""
    a_bufs = gl.allocate_shared_memory(a_desc.dtype, [STAGES] + a_desc.block_type.shape, a_desc.layout)  # noqa: RUF005
    b_bufs = gl.allocate_shared_memory(b_desc.dtype, [STAGES] + b_desc.block_type.shape, b_desc.layout)  # noqa: RUF005
    full = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for at in gl.static_range(STAGES):
        mbarrier.init(full.index(at), count=1)
        mbarrier.init(empty.index(at), count=1)
    fence_async_shared()
    gl.warp_specialize(
        [
            (_multiply, (a_bufs, b_bufs, full, empty, out_ptr, k_tiles, FAULT)),
            (_copy_tiles, (a_desc, b_desc, a_bufs, b_bufs, full, empty, k_tiles)),
        ],
        [1],
        [24],
    )


@triton.jit
def all_flags_kernel(flags_ptr, out_ptr, BLOCK: tl.constexpr):
    """Waits until no flag is 0, which it reads as a tensor."""
    at = tl.arange(0, BLOCK)
    while tl.min(tl.load(flags_ptr + at, volatile=True)) == 0:
        pass
    tl.store(out_ptr, 1.0)


@triton.jit
def flags_in_turn_kernel(flags_ptr, out_ptr, flags):
    """Waits until no flag is 0, which it reads one after the other."""
    done = 0
    while done == 0:
        done = 1
        for at in range(flags):
            done = done & tl.load(flags_ptr + at, volatile=True)
    tl.store(out_ptr, 1.0)


@triton.jit
def chase_kernel(next_ptr, out_ptr, start):
    """Follows a list."""
    at = start
    while at != 0:
        at = tl.load(next_ptr + at)
    tl.store(out_ptr, at + 1.0)


@triton.jit
def tuple_kernel(tensors):
    """Waits for a word of the second tensor."""
    while tl.atomic_add(tensors[1] + 1, 0) == 0:
        pass
    tl.store(tensors[0], 2.0)
