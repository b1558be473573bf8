"""One warp that the others wait for in each step."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, empty

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def iterated_kernel(count_ptr, out_ptr, steps, BLOCK: tl.constexpr):
    """Iterates each element as often as it says, and sums over the CTA in each step."""
    lanes = tl.arange(0, BLOCK)
    total = 0.0
    for step in range(steps):
        count = tl.load(count_ptr + (tl.program_id(0) * steps + step) * BLOCK + lanes)
        y = tl.inline_asm_elementwise(
            """{
            .reg .pred p; .reg .s32 n; .reg .f32 y;
            mov.s32 n, $1; mov.f32 y, 0f3F800000;
            more:
            fma.rn.f32 y, y, 0f3F000000, 0f3E800000;
            sub.s32 n, n, 1; setp.gt.s32 p, n, 0;
            @p bra more;
            mov.f32 $0, y; }""",
            "=f,r", [count], dtype=tl.float32, is_pure=False, pack=1,
        )  # fmt: skip
        total += tl.sum(y, 0)  # fault
    tl.store(out_ptr + tl.program_id(0), total)


def _iterated(together: bool) -> Prepare:
    """together: what is long in a step is so for all warps; else in each step for one warp of four."""

    def prepare(small: bool) -> Launch:
        programs, steps = (2, 4) if small else (528, 64)
        step, warp = torch.arange(steps)[:, None, None], torch.arange(4)[None, :, None]
        late = step % 4 == 0 if together else step % 4 == warp
        count = torch.where(late, 60 if small else 800, 20).to(torch.int32)
        count = count.expand(steps, 4, 32).repeat(programs, 1, 1).contiguous()
        out = empty(programs)
        return Launch(
            iterated_kernel, (programs,), (count, out, steps), (out,), {"BLOCK": 128, "num_warps": 4}
        )

    return prepare


@triton.jit
def divisor_kernel(a_ptr, b_ptr, out_ptr, steps, BLOCK: tl.constexpr):
    """Greatest common divisors by Euclid; each step's sum is mixed into the next one's."""
    lanes = tl.arange(0, BLOCK)
    state = 0.0
    for step in range(steps):
        offs = (tl.program_id(0) * steps + step) * BLOCK + lanes
        a, b = tl.load(a_ptr + offs), tl.load(b_ptr + offs)
        divisor = tl.inline_asm_elementwise(
            """{
            .reg .pred p; .reg .u32 x, y, r;
            mov.u32 x, $1; mov.u32 y, $2;
            again:
            rem.u32 r, x, y; mov.u32 x, y; mov.u32 y, r;
            setp.ne.u32 p, y, 0;
            @p bra again;
            mov.u32 $0, x; }""",
            "=r,r,r", [a, b], dtype=tl.int32, is_pure=False, pack=1,
        )  # fmt: skip
        state = 0.5 * state + tl.sum(divisor.to(tl.float32), 0)  # fault
    tl.store(out_ptr + tl.program_id(0), state)


def _divisors(together: bool) -> Prepare:
    """Pairs that take 40 divisions: of one warp in each step, or (together) of all in one step of four."""

    def prepare(small: bool) -> Launch:
        programs, steps = (2, 4) if small else (1056, 64)
        step, warp = torch.arange(steps)[:, None, None], torch.arange(4)[None, :, None]
        late = step % 4 == 0 if together else step % 4 == warp
        pair = (165580141, 102334155)  # neighbours in Fibonacci's sequence
        a, b = (
            torch.where(late, long, short).to(torch.int32).expand(steps, 4, 32).repeat(programs, 1, 1)
            for long, short in zip(pair, (7, 1), strict=True)
        )
        out = empty(programs)
        args = (a.contiguous(), b.contiguous(), out, steps)
        return Launch(divisor_kernel, (programs,), args, (out,), {"BLOCK": 128, "num_warps": 4})

    return prepare


CASES = (
    Case("a late warp each step", ("late-warp",), _iterated(False), _iterated(True)),
    Case("one warp of long divisions", ("late-warp",), _divisors(False), _divisors(True), emulator=False),
)
