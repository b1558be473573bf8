"""Faults of matrix products."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, empty, integers, random
from bench.corpus.traffic import ordered_matmul

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def float32_matmul_kernel(
    a_ptr, b_ptr, c_ptr, N, K, PRECISION: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):  # fmt: skip
    offs_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + offs_m[:, None] * K + (k + offs_k)[None, :])
        b = tl.load(b_ptr + (k + offs_k)[:, None] * N + offs_n[None, :])
        acc = tl.dot(a, b, acc, input_precision=PRECISION)  # fault
    tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc)


def _float32_matmul(precision: str, tile: tuple[int, int, int]) -> Prepare:
    def prepare(small: bool) -> Launch:
        m = 64 if small else 2048
        a, b, c = random(m, m), random(m, m), empty(m, m)
        options: dict[str, Any] = dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), tile, strict=True))
        options |= {"PRECISION": precision, "num_warps": 4, "num_stages": 3}
        return Launch(float32_matmul_kernel, (m // tile[1], m // tile[0]), (a, b, c, m, m), (c,), options)

    return prepare


@triton.jit
def broadcast_matmul_kernel(
    a_ptr, b_ptr, c_ptr, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    offs_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + offs_m[:, None] * K + (k + offs_k)[None, :])
        b = tl.load(b_ptr + offs_n[:, None] * K + (k + offs_k)[None, :])
        acc += tl.sum(a.to(tl.float32)[:, None, :] * b.to(tl.float32)[None, :, :], 2)  # fault
    tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc)


@triton.jit
def transposed_matmul_kernel(
    a_ptr, b_ptr, c_ptr, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    """b is stored by columns."""
    offs_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + offs_m[:, None] * K + (k + offs_k)[None, :])
        b = tl.load(b_ptr + offs_n[:, None] * K + (k + offs_k)[None, :])
        acc = tl.dot(a, tl.trans(b), acc)
    tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc)


def _transposed_matmul(
    kernel: Any, m: int, n: int, k: int, tile: tuple[int, int, int], warps: int = 4
) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, cols, depth = (64, 64, 128) if small else (m, n, k)
        a, b = random(rows, depth, dtype=torch.bfloat16), random(cols, depth, dtype=torch.bfloat16)
        c = empty(rows, cols)
        options = dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), tile, strict=True))
        options |= {"num_warps": warps, "num_stages": 3}
        grid = (cols // tile[1], rows // tile[0])
        return Launch(kernel, grid, (a, b, c, cols, depth), (c,), options)

    return prepare


@triton.jit
def scaled_steps_kernel(
    a_ptr, b_ptr, c_ptr, scale_ptr, N, K, stride_bk, stride_bn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """The scale of the whole product is applied to each step's."""
    offs_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    scale = tl.load(scale_ptr)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + offs_m[:, None] * K + (k + offs_k)[None, :])
        b = tl.load(b_ptr + (k + offs_k)[:, None] * stride_bk + offs_n[None, :] * stride_bn)
        acc += tl.dot(a, b).to(tl.float32) * scale  # fault
    tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc)


@triton.jit
def scaled_once_kernel(
    a_ptr, b_ptr, c_ptr, scale_ptr, N, K, stride_bk, stride_bn, DTYPE: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    offs_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=DTYPE)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + offs_m[:, None] * K + (k + offs_k)[None, :])
        b = tl.load(b_ptr + (k + offs_k)[:, None] * stride_bk + offs_n[None, :] * stride_bn)
        acc = tl.dot(a, b, acc, out_dtype=DTYPE)
    out = acc.to(tl.float32) * tl.load(scale_ptr)
    tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], out)


def _scaled(once: bool, integer: bool, tile: tuple[int, int, int], warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        m, k = (128, 256) if small else (4096, 4096)
        if integer:
            a, b = (integers(*shape, below=127, dtype=torch.int8) for shape in ((m, k), (m, k)))
            b = b.t()  # bytes are multiplied by columns
        else:
            a, b = (random(*shape, dtype=torch.float16) for shape in ((m, k), (k, m)))
        c, scale = empty(m, m), random(1)
        options: dict[str, Any] = dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), tile, strict=True))
        options |= {"num_warps": warps, "num_stages": 3}
        if once:
            options["DTYPE"] = tl.int32 if integer else tl.float32
        args = (a, b, c, scale, m, k, b.stride(0), b.stride(1))
        kernel = scaled_once_kernel if once else scaled_steps_kernel
        return Launch(kernel, (m // tile[1], m // tile[0]), args, (c,), options)

    return prepare


@triton.jit
def cast_matmul_kernel(
    a_ptr, b_ptr, c_ptr, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    """b is float32 and is rounded in each step, by each program again."""
    offs_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + offs_m[:, None] * K + (k + offs_k)[None, :]).to(tl.float16)  # fault
        b = tl.load(b_ptr + (k + offs_k)[:, None] * N + offs_n[None, :]).to(tl.float16)  # fault
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc)


def _cast_matmul(cast: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        m, k = (128, 256) if small else (4096, 4096)
        a, b, c = random(m, k), random(k, m), empty(m, m)
        if not cast:
            a, b = a.half(), b.half()
        options = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "num_warps": 8, "num_stages": 3}
        return Launch(cast_matmul_kernel, (m // 128, m // 128), (a, b, c, m, k), (c,), options)

    return prepare


@triton.jit
def specialised_matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    a_desc = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b_ptr, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    c_desc = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BLOCK_M, BLOCK_N])
    off_m, off_n = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in tl.range(0, tl.cdiv(K, BLOCK_K), warp_specialize=True, num_stages=STAGES):
        a = a_desc.load([off_m, k * BLOCK_K])  # fault
        b = b_desc.load([off_n, k * BLOCK_K])  # fault
        acc = tl.dot(a, b.T, acc)
    c_desc.store([off_m, off_n], acc.to(tl.float16))


def _specialised(tile: tuple[int, int, int], stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        m = 256 if small else 4096
        a, b = (random(m, m, dtype=torch.float16) for _ in range(2))
        c = empty(m, m, dtype=torch.float16)
        options = dict(zip(("BLOCK_M", "BLOCK_N", "BLOCK_K"), tile, strict=True))
        options |= {"STAGES": stages, "num_warps": 4}
        grid = (m // tile[0], m // tile[1])
        return Launch(specialised_matmul_kernel, grid, (a, b, c, m, m, m), (c,), options)

    return prepare


_CUBE = (4096,) * 3

CASES = (
    Case(
        "float32 product",
        ("no-tensor-cores",),
        ("counts", "counters"),
        True,
        _float32_matmul("ieee", (64, 64, 32)),
        _float32_matmul("tf32", (64, 64, 32)),
    ),
    Case(
        "product by broadcast",
        ("no-tensor-cores",),
        ("counts", "counters"),
        True,
        _transposed_matmul(broadcast_matmul_kernel, 512, 1024, 1024, (16, 32, 32)),
        _transposed_matmul(transposed_matmul_kernel, 512, 1024, 1024, (32, 32, 64)),
    ),
    Case(
        "decode by broadcast",
        ("no-tensor-cores",),
        ("counts", "counters"),
        True,
        _transposed_matmul(broadcast_matmul_kernel, 64, 8192, 4096, (16, 32, 64), 8),
        _transposed_matmul(transposed_matmul_kernel, 64, 8192, 4096, (64, 64, 64)),
    ),
    Case(
        "matmul by 16 columns",
        ("small-mma", "tile-reread"),
        ("counts", "resources"),
        True,
        ordered_matmul((4096, 4096, 2048), (64, 16, 64), 8, 4, 3),
        ordered_matmul((4096, 4096, 2048), (128, 128, 64), 8, 4, 3),
    ),
    Case(
        "matmul by 2 warps",
        ("small-mma",),
        ("counts", "resources", "sm90"),
        False,
        ordered_matmul(_CUBE, (64, 128, 64), 8, 2, 3),
        ordered_matmul(_CUBE, (64, 128, 64), 8, 4, 3),
    ),
    Case(
        "matmul by 32 warps",
        ("small-mma", "too-many-warps"),
        ("counts", "resources"),
        False,
        ordered_matmul(_CUBE, (128, 128, 64), 8, 32, 3),
        ordered_matmul(_CUBE, (128, 128, 64), 8, 8, 3),
    ),
    Case(
        "product scaled each step",
        ("mma-not-overlapped",),
        ("spans", "samples", "sm90"),
        False,
        _scaled(False, False, (128, 128, 64), 8),
        _scaled(True, False, (128, 128, 64), 8),
    ),
    Case(
        "bytes converted each step",
        ("conversions", "mma-not-overlapped"),
        ("spans", "samples", "counts"),
        True,
        _scaled(False, True, (128, 128, 128), 8),
        _scaled(True, True, (128, 128, 128), 8),
    ),
    Case(
        "matrices rounded each step",
        ("conversions",),
        ("counts", "spans"),
        True,
        _cast_matmul(True),
        _cast_matmul(False),
    ),
    Case(
        "matmul of 1 stage",
        ("few-stages", "exposed-latency"),
        ("spans", "samples"),
        False,
        ordered_matmul(_CUBE, (128, 256, 64), 8, 8, 1),
        ordered_matmul(_CUBE, (128, 256, 64), 8, 8, 3),
    ),
    Case(
        "partitions with two buffers",
        ("partition-starved", "few-stages"),
        ("spans", "samples", "sm90"),
        False,
        _specialised((128, 128, 64), 2),
        _specialised((128, 128, 64), 4),
    ),
    Case(
        "partitions of two thin buffers",
        ("partition-starved", "few-stages"),
        ("spans", "samples", "sm90"),
        False,
        _specialised((128, 128, 32), 2),
        _specialised((128, 128, 64), 4),
    ),
)
