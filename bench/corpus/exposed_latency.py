"""Loads that nothing hides."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, empty, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def indexed_sum_kernel(x_ptr, index_ptr, out_ptr, STEPS: tl.constexpr, DIM: tl.constexpr):
    """Sums rows; where the next one is, is loaded only when it is needed."""
    dims = tl.arange(0, DIM)
    at = tl.program_id(0)
    acc = tl.zeros((DIM,), dtype=tl.float32)
    for _ in range(STEPS):
        at = tl.load(index_ptr + at)  # fault
        acc += tl.load(x_ptr + at * DIM + dims)
    tl.store(out_ptr + tl.program_id(0) * DIM + dims, acc)


@triton.jit
def listed_sum_kernel(x_ptr, list_ptr, out_ptr, STEPS: tl.constexpr, DIM: tl.constexpr):
    """As indexed_sum_kernel: the rows are listed for each program, and loaded together."""
    dims, steps = tl.arange(0, DIM), tl.arange(0, STEPS)
    at = tl.load(list_ptr + tl.program_id(0) * STEPS + steps)
    x = tl.load(x_ptr + at[:, None] * DIM + dims[None, :])
    tl.store(out_ptr + tl.program_id(0) * DIM + dims, tl.sum(x, 0))


def _indexed_sum(listed: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, programs = (64, 4) if small else (1 << 17, 528)
        x, out = random(rows, 64), empty(programs, 64)
        chain = torch.randint(rows, (rows,), dtype=torch.int32)
        options = {"STEPS": 64, "DIM": 64, "num_warps": 4 if listed else 2}
        if not listed:
            return Launch(indexed_sum_kernel, (programs,), (x, chain, out), (out,), options)
        at = torch.arange(programs, dtype=torch.int64)
        found = []
        for _ in range(64):
            at = chain[at].long()
            found.append(at)
        lists = torch.stack(found, 1).int().contiguous()
        return Launch(listed_sum_kernel, (programs,), (x, lists, out), (out,), options)

    return prepare


@triton.jit
def orthogonal_vector_kernel(
    basis_ptr, x_ptr, factor_ptr, out_ptr, basis, SIZE: tl.constexpr, STAGES: tl.constexpr
):
    """A new vector of each Krylov space made orthogonal to its basis, vector by vector (Gram and Schmidt)."""
    system, at = tl.program_id(0), tl.arange(0, SIZE)
    x = tl.load(x_ptr + system * SIZE + at)
    for each in tl.range(0, basis, num_stages=STAGES):
        other = tl.load(basis_ptr + (system * basis + each).to(tl.int64) * SIZE + at)  # fault
        factor = tl.sum(x * other, 0)  # fault
        x -= factor * other  # fault
        tl.store(factor_ptr + system * basis + each, factor)
    tl.store(out_ptr + system * SIZE + at, x * tl.rsqrt(tl.sum(x * x, 0)))


def _orthogonal_vector(stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        systems, basis, size = (2, 8, 2048) if small else (128, 256, 2048)
        vectors = torch.nn.functional.normalize(random(systems, basis, size), dim=2)
        x, factor, out = random(systems, size), empty(systems, basis), empty(systems, size)
        options = {"SIZE": size, "STAGES": stages, "num_warps": 4}
        args = (vectors, x, factor, out, basis)
        return Launch(orthogonal_vector_kernel, (systems,), args, (factor, out), options)

    return prepare


CASES = (
    Case("chain of rows", ("exposed-latency",), _indexed_sum(False), _indexed_sum(True), emulator=False),
    Case(
        "basis vectors loaded when their step begins",
        ("exposed-latency", "few-stages"),
        _orthogonal_vector(1),
        _orthogonal_vector(4),
        emulator=False,
    ),
)
