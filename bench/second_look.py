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
from triton.language.extra import libdevice

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


@triton.jit
def _share_above(x, bell):
    t = libdevice.fast_dividef(1.0, 1.0 + 0.2316419 * tl.abs(x))
    series = t * (0.31938153 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    return tl.where(x >= 0.0, 1.0 - bell * series, bell * series)


@triton.jit
def implied_spreads_kernel(price_ptr, money_ptr, out_ptr, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    """Divisions are approximate."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    price, money = tl.load(price_ptr + at), tl.load(money_ptr + at)
    strike = tl.exp2(-1.4426950408889634 * money)
    spread = tl.sqrt(2.0 * tl.abs(money)) + 0.1
    for _ in range(STEPS):
        near = libdevice.fast_dividef(money, spread) + 0.5 * spread
        far = near - spread
        bell = 0.3989422804014327 * tl.exp2(-0.7213475204444817 * near * near)
        far_bell = 0.3989422804014327 * tl.exp2(-0.7213475204444817 * far * far)
        off = _share_above(near, bell) - strike * _share_above(far, far_bell) - price
        spread = tl.minimum(tl.maximum(spread - libdevice.fast_dividef(off, bell + 1e-4), 0.01), 4.0)
    tl.store(out_ptr + at, spread)


@triton.jit
def pose_scores_kernel(
    grid_ptr, atom_ptr, pose_ptr, out_ptr, poses, atoms, SIDE: tl.constexpr, BLOCK: tl.constexpr
):
    """The gathers of four atoms are under way at the same time."""
    pose = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    pose_at = pose_ptr + pose
    a, b, c = tl.load(pose_at), tl.load(pose_at + poses), tl.load(pose_at + 2 * poses)
    d, e, f = tl.load(pose_at + 3 * poses), tl.load(pose_at + 4 * poses), tl.load(pose_at + 5 * poses)
    g, h, i = tl.load(pose_at + 6 * poses), tl.load(pose_at + 7 * poses), tl.load(pose_at + 8 * poses)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    middle: tl.constexpr = 0.5 * SIDE
    for atom in tl.range(0, atoms, loop_unroll_factor=4):
        atom_at = atom_ptr + 4 * atom
        x, y, z = tl.load(atom_at), tl.load(atom_at + 1), tl.load(atom_at + 2)
        across = (a * x + b * y + c * z + middle).to(tl.int32)
        along = (d * x + e * y + f * z + middle).to(tl.int32)
        up = (g * x + h * y + i * z + middle).to(tl.int32)
        total += tl.load(atom_at + 3) * tl.load(grid_ptr + (across * SIDE + along) * SIDE + up)
    tl.store(out_ptr + pose, total)


NAMES = (
    "good Verlet step",
    "good covariances a step later",
    "good mean and spread of forecasts",
    "good density of points",
    "good convolution",
    "good causal attention",
    "good implied volatilities",
    "good scores of poses",
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
    elif name == "good implied volatilities":
        yield "fast divisions", replace(case, kernel=implied_spreads_kernel)
    elif name == "good scores of poses":
        yield "four atoms at a time", replace(case, kernel=pose_scores_kernel)
        for block, warps in product((256, 512, 1024), (4, 8)):
            grid = (case.grid[0] * case.options["BLOCK"] // block,)
            yield from _with(case, grid, BLOCK=block, num_warps=warps)
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
