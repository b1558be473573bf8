"""Seventh round, faults in recurrences, their states, and chunks of them."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia import ampere

from bench.corpus.case import Launch, Prepare, empty, faults_of, random

# ruff: noqa: N803
__all__ = ["CASES"]

_barrier = gl.barrier if hasattr(gl, "barrier") else gl.thread_barrier  # the latter until Triton 3.6


@triton.jit
def reflections_kernel(v_ptr, out_ptr, SIZE: tl.constexpr, COLUMNS: tl.constexpr):
    """An orthogonal weight out of as many Householder reflections as it has rows, one after the other."""
    rows, columns = tl.arange(0, SIZE), tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    base = tl.program_id(1) * SIZE
    weight = tl.where(rows[:, None] == columns[None, :], 1.0, 0.0)
    for step in tl.range(0, SIZE, num_stages=4):
        v = tl.load(v_ptr + (base + step) * SIZE + rows)
        along = 2.0 * tl.sum(v[:, None] * weight, 0)  # fault
        weight -= v[:, None] * along[None, :]
    tl.store(out_ptr + (base + rows)[:, None] * SIZE + columns[None, :], weight)


def _reflections(columns: int, warps: int) -> Prepare:
    """As many warps in all, with as much of a weight each."""

    def prepare(small: bool) -> Launch:
        weights = 1 if small else 16
        v = torch.nn.functional.normalize(random(weights, 256, 256), dim=2)
        out = empty(weights, 256, 256)
        options = {"SIZE": 256, "COLUMNS": columns, "num_warps": warps}
        return Launch(reflections_kernel, (256 // columns, weights), (v, out), (out,), options)

    return prepare


@triton.jit
def triangle_inverse_kernel(a_ptr, out_ptr, SIZE: tl.constexpr):
    """The inverse of one and a strictly lower triangle, row after row, as chunks of a delta rule need it."""
    lanes = tl.arange(0, SIZE)
    a_ptr += tl.program_id(0) * SIZE * SIZE
    at = lanes[:, None] * SIZE + lanes[None, :]
    inverse = -tl.load(a_ptr + at).to(tl.float32)
    for row in range(2, SIZE):
        coefficient = -tl.load(a_ptr + row * SIZE + lanes).to(tl.float32)
        coefficient += tl.sum(coefficient[:, None] * inverse, 0)
        inverse = tl.where((lanes == row)[:, None], coefficient[None, :], inverse)
    inverse += tl.where(lanes[:, None] == lanes[None, :], 1.0, 0.0)
    tl.store(out_ptr + tl.program_id(0) * SIZE * SIZE + at, inverse.to(tl.bfloat16))


def _triangle_inverse(warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        chunks = 4 if small else 1 << 16
        a = torch.tril(random(chunks, 32, 32) * 0.1, -1).to(torch.bfloat16)
        out = torch.empty_like(a)
        options = {"SIZE": 32, "num_warps": warps}
        return Launch(triangle_inverse_kernel, (chunks,), (a, out), (out,), options)

    return prepare


@triton.jit
def gated_unit_kernel(
    gate_ptr, candidate_ptr, out_ptr, length, channels, STAGES: tl.constexpr, BLOCK: tl.constexpr
):
    """A minimal gated recurrent unit: a state for each channel, which its gate mixes with a candidate."""
    at = tl.program_id(1) * length * channels + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    state = tl.zeros((BLOCK,), dtype=tl.float32)
    for step in tl.range(0, length, num_stages=STAGES):
        gate = tl.load(gate_ptr + at + step * channels).to(tl.float32)  # fault
        candidate = tl.load(candidate_ptr + at + step * channels).to(tl.float32)  # fault
        state += (candidate - state) / (1.0 + tl.exp2(-1.44269504 * gate))
        tl.store(out_ptr + at + step * channels, state.to(tl.bfloat16))


def _gated_unit(stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        batch, length, channels = (1, 64, 256) if small else (16, 4096, 2048)
        gate = random(batch, length, channels, dtype=torch.bfloat16)
        candidate, out = torch.randn_like(gate), torch.empty_like(gate)
        options = {"STAGES": stages, "BLOCK": 256, "num_warps": 4}
        args = (gate, candidate, out, length, channels)
        return Launch(gated_unit_kernel, (channels // 256, batch), args, (out,), options)

    return prepare


@triton.jit
def matrix_memory_kernel(
    state_ptr, k_ptr, v_ptr, q_ptr, gate_ptr, out_ptr, blocks, K: tl.constexpr, V: tl.constexpr,
    BLOCK_V: tl.constexpr,
):  # fmt: skip
    """A token's step of the matrix memory of an xLSTM: forget, learn, and read."""
    head, offs_k = tl.program_id(1), tl.arange(0, K)
    k, q = tl.load(k_ptr + head * K + offs_k), tl.load(q_ptr + head * K + offs_k)
    forget, learn = tl.load(gate_ptr + 2 * head), tl.load(gate_ptr + 2 * head + 1)
    for block in range(blocks):
        offs_v = (tl.program_id(0) * blocks + block) * BLOCK_V + tl.arange(0, BLOCK_V)
        state = state_ptr + head * K * V + offs_v[:, None] * K + offs_k[None, :]
        v = learn * tl.load(v_ptr + head * V + offs_v)
        memory = forget * tl.load(state) + v[:, None] * k[None, :]
        tl.store(state, memory)
        tl.store(out_ptr + head * V + offs_v, tl.sum(memory * q[None, :], 1))


def _matrix_memory(blocks: int) -> Prepare:
    """16 texts of 8 heads; a program with one warp goes over a head, or over few of its values."""

    def prepare(small: bool) -> Launch:
        heads, v = (4, 512) if small else (128, 1024)
        state, value, gate = random(heads, v, 256), random(heads, v), torch.rand(heads, 2)
        k, q, out = random(heads, 256), random(heads, 256) / 16, empty(heads, v)
        steps = min(blocks, v // 4)
        options = {"K": 256, "V": v, "BLOCK_V": 4, "num_warps": 1}
        args = (state, k, value, q, gate, out, steps)
        return Launch(matrix_memory_kernel, (v // 4 // steps, heads), args, (out, state), options)

    return prepare


@triton.jit
def retention_chunk_kernel(
    q_ptr, k_ptr, v_ptr, state_ptr, fade_ptr, out_ptr, length, K: tl.constexpr, V: tl.constexpr,
    CHUNK: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """Results of retention for the tokens of a chunk: from its own keys, and from the state before it."""
    offs_v = tl.program_id(0) * BLOCK_V + tl.arange(0, BLOCK_V)
    rows, offs_k = tl.arange(0, CHUNK), tl.arange(0, BLOCK_K)
    chunk, head = tl.program_id(1), tl.program_id(2)
    base, at_state = head * length + chunk * CHUNK, head * (length // CHUNK) + chunk
    fade = tl.load(fade_ptr + head)
    score = tl.zeros((CHUNK, CHUNK), dtype=tl.float32)
    acc = tl.zeros((CHUNK, BLOCK_V), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        q = tl.load(q_ptr + (base + rows)[:, None] * K + start + offs_k[None, :])  # fault
        k = tl.load(k_ptr + (base + rows)[None, :] * K + start + offs_k[:, None])  # fault
        state = tl.load(state_ptr + (at_state * K + start + offs_k)[:, None] * V + offs_v[None, :])
        score = tl.dot(q, k, score)  # fault
        acc = tl.dot(q, state, acc)
    acc *= tl.exp2(fade * (rows + 1))[:, None]
    age = rows[:, None] - rows[None, :]
    score = tl.where(age >= 0, score * tl.exp2(fade * age), 0.0)
    v = tl.load(v_ptr + (base + rows)[:, None] * V + offs_v[None, :])
    acc = tl.dot(score.to(tl.bfloat16), v, acc)
    tl.store(out_ptr + (base + rows)[:, None] * V + offs_v[None, :], acc.to(tl.bfloat16))


def _retention_chunk(block_v: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        heads, length = (1, 128) if small else (64, 4096)
        q, k = (random(heads, length, 256, dtype=torch.bfloat16) / 4 for _ in range(2))
        v = random(heads, length, 512, dtype=torch.bfloat16)
        state = random(heads, length // 64, 256, 512, dtype=torch.bfloat16)
        fade, out = -torch.rand(heads) * 0.2, torch.empty_like(v)
        options = {"K": 256, "V": 512, "CHUNK": 64, "BLOCK_K": 64, "BLOCK_V": block_v}
        options |= {"num_warps": 4, "num_stages": 3}
        grid = (512 // block_v, length // 64, heads)
        return Launch(retention_chunk_kernel, grid, (q, k, v, state, fade, out, length), (out,), options)

    return prepare


@gluon.jit
def style_kernel(
    x_ptr, out_ptr, pixels, SWIZZLED: gl.constexpr, CHANNELS: gl.constexpr, TILE: gl.constexpr,
    BLOCK: gl.constexpr,
):  # fmt: skip
    """Products of all pairs of an image's channels, as a loss of styles has them."""
    mma: gl.constexpr = gl.NVMMADistributedLayout([2, 0], [2, 2], [16, 8])
    left_layout: gl.constexpr = gl.DotOperandLayout(0, mma, 2)
    right_layout: gl.constexpr = gl.DotOperandLayout(1, mma, 2)
    load: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    if SWIZZLED:
        memory: gl.constexpr = gl.SwizzledSharedLayout(8, 1, 8, [1, 0])
    else:
        memory: gl.constexpr = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
    left = gl.allocate_shared_memory(gl.float16, [3, TILE, BLOCK], memory)
    right = gl.allocate_shared_memory(gl.float16, [3, TILE, BLOCK], memory)
    row, column = gl.arange(0, TILE, gl.SliceLayout(1, load)), gl.arange(0, BLOCK, gl.SliceLayout(0, load))
    x_ptr += gl.program_id(2) * CHANNELS * pixels
    at = row[:, None] * pixels + column[None, :]
    a, b = gl.program_id(0) * TILE * pixels + at, gl.program_id(1) * TILE * pixels + at
    for first in gl.static_range(2):
        ampere.async_copy.async_copy_global_to_shared(left.index(first), x_ptr + a + first * BLOCK)
        ampere.async_copy.async_copy_global_to_shared(right.index(first), x_ptr + b + first * BLOCK)
        ampere.async_copy.commit_group()
    acc = gl.zeros([TILE, TILE], gl.float32, mma)
    for start in range(0, pixels, BLOCK):
        stage = start // BLOCK % 3
        ampere.async_copy.wait_group(1)
        _barrier()
        x = left.index(stage).load(left_layout)  # fault
        y = right.index(stage).permute([1, 0]).load(right_layout)  # fault
        acc = ampere.mma_v2(x, y, acc)
        following = start + 2 * BLOCK
        inside = column[None, :] + following < pixels
        to = (stage + 2) % 3
        ampere.async_copy.async_copy_global_to_shared(left.index(to), x_ptr + a + following, mask=inside)
        ampere.async_copy.async_copy_global_to_shared(right.index(to), x_ptr + b + following, mask=inside)
        ampere.async_copy.commit_group()
    ampere.async_copy.wait_group(0)
    out_row = gl.program_id(0) * TILE + gl.arange(0, TILE, gl.SliceLayout(1, mma))
    out_column = gl.program_id(1) * TILE + gl.arange(0, TILE, gl.SliceLayout(0, mma))
    out = out_ptr + gl.program_id(2) * CHANNELS * CHANNELS
    gl.store(out + out_row[:, None] * CHANNELS + out_column[None, :], acc)


def _style(swizzled: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        images, channels, pixels = (1, 128, 256) if small else (66, 256, 4096)
        x = random(images, channels, pixels, dtype=torch.float16)
        out = empty(images, channels, channels)
        options = {"SWIZZLED": swizzled, "CHANNELS": channels, "TILE": 128, "BLOCK": 64, "num_warps": 4}
        grid = (channels // 128, channels // 128, images)
        return Launch(style_kernel, grid, (x, out, pixels), (out,), options)

    return prepare


_case = faults_of(7)


CASES = (
    _case(
        "reflections by 8 warps each",
        ("serial-reduction", "too-many-warps"),
        ("counts", "samples"),
        True,
        _reflections(32, 8),
        _reflections(4, 1),
    ),
    _case(
        "triangles of 32 rows by 8 warps",
        ("too-many-warps", "serial-reduction"),
        ("counts", "samples"),
        True,
        _triangle_inverse(8),
        _triangle_inverse(1),
    ),
    _case(
        "gates loaded when their step begins",
        ("exposed-latency", "few-stages"),
        ("spans", "samples"),
        False,
        _gated_unit(1),
        _gated_unit(6),
    ),
    _case(
        "matrix memories by 128 lone warps",
        ("low-occupancy", "exposed-latency"),
        ("resources", "counters"),
        False,
        _matrix_memory(256),
        _matrix_memory(8),
    ),
    _case(
        "scores of a chunk for each 32 values",
        ("tile-reread", "redundant-load"),
        ("counts", "counters"),
        True,
        _retention_chunk(32),
        _retention_chunk(128),
    ),
    _case(
        "styles through plain shared memory",
        ("bank-conflict",),
        ("counts", "counters"),
        True,
        _style(False),
        _style(True),
    ),
)
