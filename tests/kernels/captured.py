"""Kernels of one text that differ in the operation they capture."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

# ruff: noqa: N803
__all__ = ["EXPS", "applied", "heavy", "light", "passed_kernel", "times"]

EXPS = 50


@triton.jit
def light(x):
    return x + 1.0


@triton.jit
def heavy(x):
    for _ in range(50):
        x = tl.exp(x * 0.01)
    return x


def applied(op: Any) -> Any:
    @triton.jit
    def apply_kernel(out, x, B: tl.constexpr):
        at = tl.program_id(0) * B + tl.arange(0, B)
        tl.store(out + at, op(tl.load(x + at)))

    return apply_kernel


def times(factor: float) -> Any:
    """An operation whose name and text say nothing of the factor."""
    scale = tl.constexpr(factor)

    @triton.jit
    def scaled(x):
        return x * scale

    return scaled


@triton.jit
def passed_kernel(out, x, OP: tl.constexpr, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + at, OP(tl.load(x + at)))
