"""Which kernels may wait for another one, by the PTX that Triton makes of them."""

from __future__ import annotations

from typing import Any

import pytest
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.language.extra import libdevice

from profscope.binaries.spinning import may_wait

# ruff: noqa: N803


@triton.jit
def spin_kernel(flag_ptr, out_ptr, n, BLOCK: tl.constexpr):
    while tl.atomic_add(flag_ptr, 0) == 0:
        pass
    tl.store(out_ptr, 1)


@triton.jit
def poll_kernel(flag_ptr, out_ptr, n, BLOCK: tl.constexpr):
    while tl.load(flag_ptr, volatile=True) == 0:
        pass
    tl.store(out_ptr, 1)


@triton.jit
def poll_many_kernel(flag_ptr, out_ptr, n, BLOCK: tl.constexpr):
    lowest = 0
    while lowest == 0:
        lowest = tl.min(tl.load(flag_ptr + tl.arange(0, BLOCK), volatile=True), axis=0)
    tl.store(out_ptr, 1)


@triton.jit
def poll_each_kernel(flag_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = 0
    while at < n:
        if tl.load(flag_ptr + at) != 0:
            tl.store(out_ptr + at, 1)
            at += 1


@triton.jit
def next_of_kernel(flag_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.load(flag_ptr)
    steps = n
    while at > 0:
        at = tl.load(flag_ptr + at)
        steps += at
    tl.store(out_ptr, steps)


@triton.jit
def first_kernel(flag_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Chunk after chunk, until one has what is looked for."""
    at, found = 0, n
    while at < found:
        chunk = at + tl.arange(0, BLOCK)
        found = tl.minimum(found, tl.min(tl.where(tl.load(flag_ptr + chunk) == 0, chunk, n), axis=0))
        at += BLOCK
    tl.store(out_ptr, found)


@triton.jit
def some_kernel(flag_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """What is read chooses a branch, and no more."""
    total = tl.zeros([BLOCK], tl.float32)
    for step in range(n):
        if tl.load(flag_ptr + step) != 0:
            total += libdevice.tanh(tl.load(out_ptr + step * BLOCK + tl.arange(0, BLOCK)).to(tl.float32))
    tl.store(out_ptr + tl.arange(0, BLOCK), total.to(tl.int32))


@triton.jit
def count_kernel(flag_ptr, out_ptr, n, BLOCK: tl.constexpr):
    total = 0
    for step in range(n):
        total += tl.atomic_add(flag_ptr, 1)
        total += tl.sum(tl.load(out_ptr + step * BLOCK + tl.arange(0, BLOCK)), axis=0)
    tl.store(out_ptr, total)


@triton.jit
def bounded_kernel(flag_ptr, out_ptr, n, BLOCK: tl.constexpr):
    total = 0
    for step in range(tl.load(flag_ptr)):
        total += tl.load(out_ptr + step)
    tl.store(out_ptr, total)


@triton.jit
def waves_kernel(flag_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Sines of numbers of any size look a table up, of which nobody else writes anything."""
    at = tl.arange(0, BLOCK)
    for axis in range(3):
        phase = tl.load(flag_ptr + axis * BLOCK + at).to(tl.float32)
        sine, cosine = tl.sin(phase), tl.cos(phase)
        for level in range(n):
            tl.store(out_ptr + (axis * n + level) * BLOCK + at, (1000.0 * sine).to(tl.int32))
            sine, cosine = 2.0 * sine * cosine, 1.0 - 2.0 * sine * sine


def ptx_of(kernel: Any) -> str:
    signature = {"flag_ptr": "*i32", "out_ptr": "*i32", "n": "i32", "BLOCK": "constexpr"}
    source = ASTSource(fn=kernel, signature=signature, constexprs={"BLOCK": 256})
    return str(triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"])


@pytest.mark.parametrize(
    "kernel", [spin_kernel, poll_kernel, poll_many_kernel, poll_each_kernel, next_of_kernel]
)
def test_a_loop_that_ends_by_what_it_reads_may_wait(kernel: Any) -> None:
    assert may_wait(ptx_of(kernel))


@pytest.mark.parametrize("kernel", [count_kernel, bounded_kernel, first_kernel, some_kernel, waves_kernel])
def test_a_loop_that_goes_on_whatever_it_reads_does_not_wait(kernel: Any) -> None:
    assert not may_wait(ptx_of(kernel))


# Each iteration runs `always`, which is between two branches, and may go around `sometimes`.
_BRANCHES = """
$again:
    {read} %r1, [%rd1];
    setp.eq.s32 %p1, %r1, 0;
    @%p1 bra $behind;
    {sometimes}
$behind:
    {always}
    setp.gt.s32 %p2, %r1, 7;
    @%p2 bra $end;
    add.s32 %r3, %r3, 1;
$end:
    setp.ne.s64 %p3, %rd1, %rd9;
    @%p3 bra $again;
    ret;
"""
_STEP, _OTHER = "add.s64 %rd1, %rd1, 4;", "add.s32 %r2, %r2, 1;"


@pytest.mark.parametrize(
    ("read", "sometimes", "always", "waits"),
    [
        ("ld.global.b32", _OTHER, _STEP, False),
        ("ld.global.b32", _STEP, _OTHER, True),
        ("ld.global.nc.b32", _STEP, _OTHER, False),
        ("ld.volatile.global.b32", _STEP, _OTHER, True),
    ],
)
def test_a_counter_moves_if_no_iteration_goes_around_it(
    read: str, sometimes: str, always: str, waits: bool
) -> None:
    """`ld.global.nc` reads what nobody writes meanwhile, as the tables of sines."""
    assert may_wait(_BRANCHES.format(read=read, sometimes=sometimes, always=always)) == waits
