"""Work on operands or results that tensor cores wait for."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, empty, random

# ruff: noqa: N803
__all__ = ["CASES"]


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


def _scaled(once: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        m, k = (128, 256) if small else (4096, 4096)
        a, b = random(m, k, dtype=torch.float16), random(k, m, dtype=torch.float16)
        c, scale = empty(m, m), random(1)
        options: dict[str, Any] = {
            "BLOCK_M": 128,
            "BLOCK_N": 128,
            "BLOCK_K": 64,
            "num_warps": 8,
            "num_stages": 3,
        }
        if once:
            options["DTYPE"] = tl.float32
        args = (a, b, c, scale, m, k, *b.stride())
        kernel = scaled_once_kernel if once else scaled_steps_kernel
        return Launch(kernel, (m // 128, m // 128), args, (c,), options)

    return prepare


@triton.jit
def covariance_kernel(
    x_ptr, mean_ptr, out_ptr, samples, DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr, LATE: tl.constexpr,
):  # fmt: skip
    """Covariances of features over samples. LATE: means are taken out of the finished sum."""
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    mean_m, mean_n = tl.load(mean_ptr + offs_m), tl.load(mean_ptr + offs_n)
    a_at, b_at = (
        x_ptr + offs_k[:, None] * DIM + offs_m[None, :],
        x_ptr + offs_k[:, None] * DIM + offs_n[None, :],
    )
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, samples, BLOCK_K):
        a, b = tl.load(a_at), tl.load(b_at)
        if not LATE:
            a, b = a - mean_m[None, :], b - mean_n[None, :]  # fault
        acc = tl.dot(tl.trans(a), b, acc)
        a_at += BLOCK_K * DIM
        b_at += BLOCK_K * DIM
    acc *= 1.0 / samples
    if LATE:
        acc -= mean_m.to(tl.float32)[:, None] * mean_n.to(tl.float32)[None, :]
    tl.store(out_ptr + offs_m[:, None] * DIM + offs_n[None, :], acc)


def _covariance(late: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        samples, dim = (256, 256) if small else (8192, 4096)
        x = (random(samples, dim) + 0.3 * random(dim)).half()
        mean, out = x.float().mean(0).half(), empty(dim, dim)
        options = {"DIM": dim, "BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "LATE": late}
        options |= {"num_warps": 8, "num_stages": 3}
        args = (x, mean, out, samples)
        return Launch(covariance_kernel, (dim // 128, dim // 128), args, (out,), options)

    return prepare


CASES = (
    Case("product scaled each step", ("mma-not-overlapped",), _scaled(False), _scaled(True), emulator=False),
    Case(
        "features centred in the product",
        ("mma-not-overlapped",),
        _covariance(False),
        _covariance(True),
        emulator=False,
    ),
)
