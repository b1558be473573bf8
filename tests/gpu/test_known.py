# ruff: noqa: N803  constexprs are written in capitals
"""Spans around code whose time is known, and times of bare launches, on a real device.

    pytest -m gpu -s tests/gpu/test_known.py     # prints the figures

- `spin`: reads the clock until so many cycles have passed, and says how many did between its own first and
  last read. `by hand` is the same code in the bare kernel, between two clock reads right beside it.
- `chain`: dependent fused multiply-adds, of four cycles each on Volta and later (Jia et al., "Dissecting the
  NVIDIA Volta GPU Architecture via Microbenchmarking", 2018).
- `nested`: a loop around a chain, whose scope has a scope inside or none: what do records inside add?

All by one warp of one CTA, so that nothing else takes its turns; the median of the launches.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
import triton
import triton.language as tl

import profscope
import profscope.language as psl
from bench.kernels import matmul, surroundings
from profscope.device.record_cost import record_cost

_SPINS: Final = (50, 200, 1_000, 10_000, 100_000)
_CHAINS: Final = (1, 16, 64, 256)
_NESTED: Final = ((16, 1), (16, 8), (64, 8))  # trips, length
_CYCLES_PER_FMA: Final = 4
_LAUNCHES: Final = 9


@triton.jit
def clock():
    return tl.inline_asm_elementwise("mov.u32 $0, %clock;", "=r", [], dtype=tl.int32, is_pure=False, pack=1)


@triton.jit
def spun(cycles):
    return tl.inline_asm_elementwise(
        """{ .reg .b32 begin, now, took; .reg .pred on; mov.u32 begin, %clock;
        again: mov.u32 now, %clock; sub.u32 took, now, begin; setp.lt.u32 on, took, $1; @on bra again;
        mov.u32 $0, took; }""",
        "=r,r",
        [cycles],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )


@triton.jit
def fma(x):
    return tl.inline_asm_elementwise(
        "fma.rn.f32 $0, $1, $1, $1;", "=f,f", [x], dtype=tl.float32, is_pure=False, pack=1
    )


@triton.jit
def spin(out_ptr, cycles, BY_HAND: tl.constexpr):
    tl.store(out_ptr + 2, cycles)
    if BY_HAND:
        begin = clock()
        took = spun(cycles)
        tl.store(out_ptr + 1, clock() - begin)
    else:
        with psl.scope("known"):
            took = spun(cycles)
    tl.store(out_ptr, took)


@triton.jit
def chain(out_ptr, x, LENGTH: tl.constexpr, BY_HAND: tl.constexpr):
    tl.store(out_ptr + 2, 0)
    if BY_HAND:
        begin = clock()
        for _ in tl.static_range(LENGTH):
            x = fma(x)
        tl.store(out_ptr + 1, clock() - begin)
    else:
        with psl.scope("known"):
            for _ in tl.static_range(LENGTH):
                x = fma(x)
    tl.store(out_ptr, x.to(tl.int32))


@triton.jit
def nested(out_ptr, x, trips, LENGTH: tl.constexpr, INSIDE: tl.constexpr):
    tl.store(out_ptr + 2, trips)
    with psl.scope("known"):
        for _ in range(trips):
            if INSIDE:
                with psl.scope("inside"):
                    for _ in tl.static_range(LENGTH):
                        x = fma(x)
            else:
                for _ in tl.static_range(LENGTH):
                    x = fma(x)
    tl.store(out_ptr, x.to(tl.int32))


def timed(kernel: Any, *arguments: Any) -> dict[str, float]:
    """Cycles: own, what a spin says of itself; by_hand; raw and corrected, of its span."""
    by_hand = []
    for _ in range(_LAUNCHES):
        out = torch.zeros(4, dtype=torch.int32, device="cuda")
        kernel[(1,)](out, *arguments, BY_HAND=True, num_warps=1)
        by_hand.append(int(out[1]))
    outs = []

    def launch() -> None:
        outs.append(torch.zeros(4, dtype=torch.int32, device="cuda"))
        kernel[(1,)](outs[-1], *arguments, BY_HAND=False, num_warps=1)

    span = span_of(launch)
    own = statistics.median(int(out[0]) for out in outs)
    return {"own": own, "by_hand": statistics.median(by_hand), **span}


def span_of(launch: Callable[[], Any]) -> dict[str, float]:
    with profscope.session(backend="gpu", instrument="light") as prof:
        for _ in range(_LAUNCHES):
            launch()
    known = prof.df[prof.df["scope"] == "known"].groupby("launch").first().iloc[1:]
    return {
        "raw": float(known["duration_cycles"].median()),
        "corrected": float(known["corrected_cycles"].median()),
    }


def test_a_record_costs_a_few_cycles() -> None:
    cost = record_cost(torch.cuda.current_device())
    assert cost is not None
    assert 1 <= cost.read <= 40
    assert 0 <= cost.row <= 200


def test_a_longer_chain_is_longer_by_what_it_has_more() -> None:
    """The shortest chain's span has the load of the argument in it, and so has each of the others."""
    chains = {length: timed(chain, 1.5, length) for length in _CHAINS}
    print("chain", chains)
    for length, found in chains.items():
        more = _CYCLES_PER_FMA * (length - 16)
        assert found["corrected"] - chains[16]["corrected"] == pytest.approx(more, rel=0.01, abs=4)


@pytest.mark.parametrize("cycles", _SPINS)
def test_a_span_of_a_spin_is_what_the_bare_kernel_takes_for_it(cycles: int) -> None:
    found = timed(spin, cycles)
    print("spin", cycles, found)
    assert found["corrected"] == pytest.approx(found["by_hand"], rel=0.01, abs=8)


@pytest.mark.parametrize(("trips", "length"), _NESTED)
def test_records_inside_are_taken_out_of_what_is_around_them(trips: int, length: int) -> None:
    out = torch.zeros(4, dtype=torch.int32, device="cuda")
    plain, inside = (
        span_of(lambda inside=inside: nested[(1,)](out, 1.5, trips, length, inside, num_warps=1))
        for inside in (False, True)
    )
    print("nested", trips, length, plain, inside)
    assert abs(inside["corrected"] - plain["corrected"]) < 0.4 * (inside["raw"] - plain["corrected"])


def test_bare_launches_are_timed() -> None:
    """Shorter kernels than their launches, so that the GPU has to wait for the host."""
    workload = matmul(1024, (128, 128, 64), 8)
    with surroundings():
        inputs = workload.inputs("cuda")
        workload.launch(inputs)
        bare = inputs["c_ptr"].clone()
        with profscope.session(backend="gpu", baseline=20) as prof:
            for _ in range(50):
                inputs["c_ptr"].zero_()
                workload.launch(inputs)
                assert torch.equal(inputs["c_ptr"], bare)
    (row,) = prof.overhead().to_dict("records")
    assert row["basis"] == "measured"
    assert row["bare_launches"] >= 10
    assert row["slowdown_low"] < row["slowdown"] < row["slowdown_high"]
    assert 0.9 < row["slowdown"] < 1.5
    assert row["bare_registers"] > 0
    assert row["instructions"] > 0
