"""State that does not fit into registers."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, empty, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def gate_and_up_kernel(
    x_ptr, gate_ptr, up_ptr, out_ptr, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Both products of a gated layer, and the gate applied to the other."""
    offs_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    gate = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    up = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        x = tl.load(x_ptr + offs_m[:, None] * K + (k + offs_k)[None, :])
        weights = (k + offs_k)[:, None] * N + offs_n[None, :]
        gate = tl.dot(x, tl.load(gate_ptr + weights), gate)  # fault
        up = tl.dot(x, tl.load(up_ptr + weights), up)  # fault
    out = gate * tl.sigmoid(gate) * up
    tl.store(out_ptr + offs_m[:, None] * N + offs_n[None, :], out.to(tl.bfloat16))


def _gate_and_up(warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        m, n, depth = (128, 128, 128) if small else (4224, 4096, 2048)
        x = random(m, depth, dtype=torch.bfloat16)
        gate, up = (random(depth, n, dtype=torch.bfloat16) for _ in range(2))
        out = empty(m, n, dtype=torch.bfloat16)
        options = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "num_warps": warps, "num_stages": 3}
        args = (x, gate, up, out, n, depth)
        return Launch(gate_and_up_kernel, (n // 128, m // 128), args, (out,), options)

    return prepare


@triton.jit
def wide_update_kernel(x_ptr, y_ptr, out_ptr, steps, BLOCK: tl.constexpr):
    """Two coupled recurrences whose state is held in registers."""
    offs = tl.arange(0, BLOCK)
    base = tl.program_id(0) * BLOCK
    x, y = tl.load(x_ptr + base + offs), tl.load(y_ptr + base + offs)
    for _ in range(steps):  # fault
        x, y = x * 0.5 + y * 0.25, y * 0.5 - x * 0.25  # fault
    tl.store(out_ptr + base + offs, x + y)


def _wide_update(registers: int | None) -> Prepare:
    def prepare(small: bool) -> Launch:
        n, steps = (1 << 14, 4) if small else (1 << 22, 200)
        x, y, out = random(n), random(n), empty(n)
        options: dict[str, Any] = {"BLOCK": 8192, "num_warps": 8}
        if registers:
            options["maxnreg"] = registers
        return Launch(wide_update_kernel, (n // 8192,), (x, y, out, steps), (out,), options)

    return prepare


CASES = (
    Case("gate and up by 4 warps", ("register-spills",), _gate_and_up(4), _gate_and_up(8), emulator=False),
    Case(
        "state in 48 registers",
        ("register-spills",),
        _wide_update(48),
        _wide_update(None),
        emulator=False,
    ),
)
