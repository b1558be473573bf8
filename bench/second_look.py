"""What advice saves on a GPU where the corpus says that a finding is wrong.

    python -m bench.second_look

Of kernels that were written as faultless and have a finding, and of two with a fault whose first finding is
another one: a reduction of 4 warps in each step.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import triton
import triton.language as tl

from bench.corpus.case import Launch, agree
from bench.corpus.cases import CASES
from bench.corpus.recording import prepared, timed

__all__ = ["NAMES", "OTHER_CAUSES", "main", "tries"]

# ruff: noqa: N803


@triton.jit
def verlet_kernel(x_ptr, v_ptr, force_ptr, mass_ptr, x_out_ptr, v_out_ptr, step, BLOCK: tl.constexpr):
    """Neighbouring programs have the same masses, of another axis."""
    first = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    at = tl.program_id(0) * tl.num_programs(1) * BLOCK + first
    inverse = tl.load(mass_ptr + first)
    v = tl.load(v_ptr + at) + 0.5 * step * inverse * tl.load(force_ptr + at)
    tl.store(v_out_ptr + at, v)
    tl.store(x_out_ptr + at, tl.load(x_ptr + at) + step * v)


@triton.jit
def covariance_step_kernel(step_ptr, noise_ptr, covariance_ptr, out_ptr, SIZE: tl.constexpr):
    """The step's matrix is loaded once, and transposed where it is."""
    lanes, at = tl.arange(0, SIZE), tl.program_id(0) * SIZE * SIZE
    tile = lanes[:, None] * SIZE + lanes[None, :]
    step = tl.load(step_ptr + tile)
    half = tl.dot(step, tl.load(covariance_ptr + at + tile)).to(tl.float16)
    out = tl.dot(half, tl.trans(step), tl.load(noise_ptr + tile))
    tl.store(out_ptr + at + tile, out.to(tl.float16))


NAMES = (
    "good Verlet step",
    "good covariances a step later",
    "good mean and spread of forecasts",
    "good density of points",
    "good convolution",
    "good causal attention",
)
OTHER_CAUSES = ("chances of hidden states step by step", "matrices loaded for each Jacobi sweep")


def tries(name: str, small: bool) -> Iterator[tuple[str, Launch]]:
    """What was changed, and the launch with it; the first is the case as it is."""
    case = prepared(CASES[name].prepare, small)
    yield "as it is", case
    if name == "good Verlet step":
        yield "axes first", replace(case, kernel=verlet_kernel, grid=case.grid[::-1])
    elif name == "good covariances a step later":
        yield "transposed in registers", replace(case, kernel=covariance_step_kernel)
    elif name == "good mean and spread of forecasts":
        for members, block in product((4, 8), (512, 1024)):
            grid = (case.grid[0] * case.options["BLOCK"] // block,)
            yield from _with(case, grid, MEMBERS=members, BLOCK=block, num_warps=block // 128)
    elif name == "good density of points":
        for points, warps in product((64, 128), (4, 8)):
            grid = (case.grid[0] * case.options["POINTS"] // points,)
            yield from _with(case, grid, POINTS=points, num_warps=warps)
    elif name in OTHER_CAUSES:
        for warps in (1, 2):
            yield from _with(case, case.grid, num_warps=warps)
    elif name == "good convolution":
        for depth, stages in product((64, 128), (2, 3)):
            yield from _with(case, case.grid, BLOCK_K=depth, num_stages=stages)
    else:
        for rows, warps, stages in product((64, 128), (4, 8), (3, 4)):
            grid = (case.grid[0] * case.options["BLOCK_M"] // rows, case.grid[1])
            yield from _with(case, grid, BLOCK_M=rows, num_warps=warps, num_stages=stages)


def _with(case: Launch, grid: tuple[int, ...], **options: int) -> Iterator[tuple[str, Launch]]:
    label = ", ".join(f"{name} {value}" for name, value in options.items())
    yield label, replace(case, grid=grid, options={**case.options, **options})


def main() -> int:
    """Command line: of each kernel the fastest try whose results are the same."""
    for name in (*NAMES, *OTHER_CAUSES):
        every = tries(name, small=False)
        _, case = next(every)
        case()
        expected = case.outputs()
        found = []
        for label, other in every:
            other()
            if agree(expected, other.outputs()):
                before, after = (statistics.median(times) for times in timed((case, other)))
                found.append((1 - after / before, before, after, label))
        saved, before, after, label = max(found)
        line = f"{name:36} {before:8.1f} us {after:8.1f} us  {100 * saved:5.1f} % {label}\n"
        sys.stdout.write(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
