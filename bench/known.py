# ruff: noqa: N803  constexprs are written in capitals
"""Spans around code whose time is known: what do they say, and what do records add?

    python -m bench.known --json known.json

- `spin`: reads the clock until so many cycles have passed, and says how many did between its own first and
  last read. `by hand` is the same code in the bare kernel, between two clock reads right beside it.
- `chain`: dependent fused multiply-adds, of four cycles each on Volta and later (Jia et al., "Dissecting the
  NVIDIA Volta GPU Architecture via Microbenchmarking", 2018).
- `nested`: a loop around a chain, whose scope has a scope inside or none: what do records inside add?

All by one warp of one CTA, so that nothing else takes its turns; the median of the launches.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import torch
import triton
import triton.language as tl

import profscope
import profscope.language as psl

__all__ = ["chain", "main", "nested", "rows", "spin"]

SPINS: Final = (50, 200, 1_000, 10_000, 100_000)
CHAINS: Final = (1, 16, 64, 256)
NESTED: Final = ((16, 1), (16, 8), (64, 8))  # trips, length
CYCLES_PER_FMA: Final = 4
_LAUNCHES: Final = 9


@triton.jit
def _clock():
    return tl.inline_asm_elementwise("mov.u32 $0, %clock;", "=r", [], dtype=tl.int32, is_pure=False, pack=1)


@triton.jit
def _spin(cycles):
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
def _fma(x):
    return tl.inline_asm_elementwise(
        "fma.rn.f32 $0, $1, $1, $1;", "=f,f", [x], dtype=tl.float32, is_pure=False, pack=1
    )


@triton.jit
def spin(out_ptr, cycles, BY_HAND: tl.constexpr):
    tl.store(out_ptr + 2, cycles)
    if BY_HAND:
        begin = _clock()
        took = _spin(cycles)
        tl.store(out_ptr + 1, _clock() - begin)
    else:
        with psl.scope("known"):
            took = _spin(cycles)
    tl.store(out_ptr, took)


@triton.jit
def chain(out_ptr, x, LENGTH: tl.constexpr, BY_HAND: tl.constexpr):
    tl.store(out_ptr + 2, 0)
    if BY_HAND:
        begin = _clock()
        for _ in tl.static_range(LENGTH):
            x = _fma(x)
        tl.store(out_ptr + 1, _clock() - begin)
    else:
        with psl.scope("known"):
            for _ in tl.static_range(LENGTH):
                x = _fma(x)
    tl.store(out_ptr, x.to(tl.int32))


@triton.jit
def nested(out_ptr, x, trips, LENGTH: tl.constexpr, INSIDE: tl.constexpr):
    tl.store(out_ptr + 2, trips)
    with psl.scope("known"):
        for _ in range(trips):
            if INSIDE:
                with psl.scope("inside"):
                    for _ in tl.static_range(LENGTH):
                        x = _fma(x)
            else:
                for _ in tl.static_range(LENGTH):
                    x = _fma(x)
    tl.store(out_ptr, x.to(tl.int32))


def rows(backend: str = "auto") -> list[dict[str, Any]]:
    """A row for each kernel and length: known, what is right as far as it is known, by_hand, raw and
    corrected cycles, the last of the span called "known"."""
    table = []
    for cycles in SPINS:
        own, by_hand, span = _figures(spin, (cycles,), backend)
        table.append({"kernel": "spin", "asked": cycles, "known": own, "by_hand": by_hand, **span})
    for length in CHAINS:
        _, by_hand, span = _figures(chain, (1.5, length), backend)
        known = CYCLES_PER_FMA * length
        table.append({"kernel": "chain", "asked": length, "known": known, "by_hand": by_hand, **span})
    for trips, length in NESTED:
        for inside in (False, True):
            span = _span(
                lambda out, t=trips, n=length, i=inside: nested[(1,)](out, 1.5, t, n, i, num_warps=1), backend
            )
            name = "nested" if inside else "not nested"
            table.append({"kernel": name, "asked": [trips, length], "known": None, "by_hand": None, **span})
    return table


def _figures(kernel: Any, arguments: tuple[Any, ...], backend: str) -> tuple[int, int, dict[str, Any]]:
    """What the code says of itself, what clock reads by hand say, and what its span says."""
    out = torch.zeros(4, dtype=torch.int32, device="cuda" if torch.cuda.is_available() else "cpu")
    own, by_hand = [], []
    if torch.cuda.is_available():
        for _ in range(_LAUNCHES):
            kernel[(1,)](out, *arguments, BY_HAND=True, num_warps=1)
            values = out.tolist()
            by_hand.append(values[1])
    took = []

    def launch(target: Any) -> None:
        kernel[(1,)](target, *arguments, BY_HAND=False, num_warps=1)
        took.append(target)

    span = _span(launch, backend)
    own = [int(each[0]) for each in took]
    return statistics.median(own), statistics.median(by_hand) if by_hand else 0, span


def _span(launch: Callable[[Any], Any], backend: str) -> dict[str, Any]:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with profscope.session(backend=backend, instrument="light") as prof:
        for _ in range(_LAUNCHES):
            launch(torch.zeros(4, dtype=torch.int32, device=device))
    df = prof.df
    known = df[df["scope"] == "known"].groupby("launch").first().iloc[1:]
    figures = {"raw": float(known["duration_cycles"].median())}
    if "corrected_cycles" in known and known["corrected_cycles"].notna().all():
        figures["corrected"] = float(known["corrected_cycles"].median())
    inside = df[df["scope"] == "inside"]
    if len(inside):
        figures["inside"] = float(inside["duration_cycles"].median())
    return figures


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.known", description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="auto", choices=("auto", "gpu", "emulator"))
    parser.add_argument("--json", type=Path, help="write the figures there")
    options = parser.parse_args(arguments)
    table = rows(options.backend)
    for row in table:
        print("  ".join(f"{name}={value}" for name, value in row.items()))
    if options.json:
        options.json.write_text(json.dumps(table, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
