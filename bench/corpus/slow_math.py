"""Exact divisions and roots."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, empty, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def divided_kernel(x_ptr, out_ptr, s_ptr, BLOCK: tl.constexpr):
    """Divides by what is the same for all, correctly rounded."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    for i in tl.static_range(8):
        x = tl.div_rn(x + 1.0, tl.load(s_ptr + i))  # fault
    tl.store(out_ptr + offs, x)


@triton.jit
def multiplied_kernel(x_ptr, out_ptr, s_ptr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    for i in tl.static_range(8):
        x = (x + 1.0) * (1.0 / tl.load(s_ptr + i))
    tl.store(out_ptr + offs, x)


def _divided(kernel: Any) -> Prepare:
    def prepare(small: bool) -> Launch:
        n = 1 << (12 if small else 26)
        x, out, divisors = random(n), empty(n), torch.rand(8) + 1.0
        return Launch(kernel, (n // 1024,), (x, out, divisors), (out,), {"BLOCK": 1024})

    return prepare


@triton.jit
def exact_forces_kernel(x_ptr, y_ptr, m_ptr, fx_ptr, fy_ptr, n, BODIES: tl.constexpr, OTHERS: tl.constexpr):
    """Forces between bodies of a plane, with a root and a division that are rounded exactly."""
    body = tl.program_id(0) * BODIES + tl.arange(0, BODIES)
    x, y = tl.load(x_ptr + body), tl.load(y_ptr + body)
    fx, fy = tl.zeros((BODIES, OTHERS), dtype=tl.float32), tl.zeros((BODIES, OTHERS), dtype=tl.float32)
    for start in range(0, n, OTHERS):
        other = start + tl.arange(0, OTHERS)
        dx = tl.load(x_ptr + other)[None, :] - x[:, None]
        dy = tl.load(y_ptr + other)[None, :] - y[:, None]
        away = tl.sqrt_rn(dx * dx + dy * dy + 0.01)  # fault
        pull = tl.div_rn(tl.load(m_ptr + other)[None, :], away * away * away)  # fault
        fx += dx * pull
        fy += dy * pull
    tl.store(fx_ptr + body, tl.sum(fx, 1))
    tl.store(fy_ptr + body, tl.sum(fy, 1))


@triton.jit
def forces_kernel(x_ptr, y_ptr, m_ptr, fx_ptr, fy_ptr, n, BODIES: tl.constexpr, OTHERS: tl.constexpr):
    """As exact_forces_kernel, by the approximate inverse root."""
    body = tl.program_id(0) * BODIES + tl.arange(0, BODIES)
    x, y = tl.load(x_ptr + body), tl.load(y_ptr + body)
    fx, fy = tl.zeros((BODIES, OTHERS), dtype=tl.float32), tl.zeros((BODIES, OTHERS), dtype=tl.float32)
    for start in range(0, n, OTHERS):
        other = start + tl.arange(0, OTHERS)
        dx = tl.load(x_ptr + other)[None, :] - x[:, None]
        dy = tl.load(y_ptr + other)[None, :] - y[:, None]
        near = tl.rsqrt(dx * dx + dy * dy + 0.01)
        pull = tl.load(m_ptr + other)[None, :] * near * near * near
        fx += dx * pull
        fy += dy * pull
    tl.store(fx_ptr + body, tl.sum(fx, 1))
    tl.store(fy_ptr + body, tl.sum(fy, 1))


def _forces(kernel: Any, bodies: int = 132 * 128) -> Prepare:
    def prepare(small: bool) -> Launch:
        n = 128 if small else bodies
        x, y, m = random(n), random(n), torch.rand(n)
        fx, fy = empty(n), empty(n)
        options = {"BODIES": 16, "OTHERS": 128, "num_warps": 4}
        return Launch(kernel, (n // 16,), (x, y, m, fx, fy, n), (fx, fy), options)

    return prepare


CASES = (
    Case("division by a scalar", ("slow-math",), _divided(divided_kernel), _divided(multiplied_kernel)),
    Case(
        "forces rounded exactly",
        ("slow-math", "issue-bound"),
        _forces(exact_forces_kernel),
        _forces(forces_kernel),
    ),
    Case("good forces", (), _forces(forces_kernel, 132 * 160)),
)
