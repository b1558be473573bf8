"""Ninth round, faults of finance and statistics: smiles of volatility, paths of rates, options on means."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from bench.corpus.case import Launch, Prepare, empty, faults_of, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def smiles_kernel(
    set_ptr, strike_ptr, out_ptr, sets, STRIKES: tl.constexpr, BLOCK: tl.constexpr, FAST: tl.constexpr
):
    """Implied volatilities at all strikes for sets of parameters of the SABR model (Hagan's formula)."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    index = at // STRIKES
    forward, alpha = tl.load(set_ptr + index), tl.load(set_ptr + sets + index)
    beta, rho = tl.load(set_ptr + 2 * sets + index), tl.load(set_ptr + 3 * sets + index)
    nu, years = tl.load(set_ptr + 4 * sets + index), tl.load(set_ptr + 5 * sets + index)
    strike = tl.load(strike_ptr + at % STRIKES)
    rest, both, distance = 1.0 - beta, forward * strike, tl.log(forward / strike)
    if FAST:
        root = tl.exp2(0.5 * rest * tl.log2(both))
        whole, square, less = root * root, distance * distance, rest * rest
        spread = root * (1.0 + less * square * (1.0 / 24.0) + less * less * square * square * (1.0 / 1920.0))
    else:
        root, whole = libdevice.pow(both, 0.5 * rest), libdevice.pow(both, rest)  # fault
        square, fourth = libdevice.pow(distance, 2.0), libdevice.pow(distance, 4.0)  # fault
        less = libdevice.pow(rest, 2.0)  # fault
        spread = root * (1.0 + less * square / 24.0 + libdevice.pow(rest, 4.0) * fourth / 1920.0)  # fault
    z = nu / alpha * root * distance
    tilt = tl.log((tl.sqrt(1.0 - 2.0 * rho * z + z * z) + z - rho) / (1.0 - rho))
    ratio = tl.where(tl.abs(z) < 1e-3, 1.0 - 0.5 * rho * z, z / tilt)
    time = less * alpha * alpha / (24.0 * whole) + rho * beta * nu * alpha / (4.0 * root)
    time += (2.0 - 3.0 * rho * rho) * nu * nu * (1.0 / 24.0)
    tl.store(out_ptr + at, alpha / spread * ratio * (1.0 + time * years))


def _smiles(fast: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        sets = 32 if small else 131072
        low = torch.tensor([0.02, 0.05, 0.2, -0.6, 0.2, 0.5])
        high = torch.tensor([0.05, 0.3, 0.9, 0.2, 0.8, 5.0])
        values = low[:, None] + (high - low)[:, None] * torch.rand(6, sets)
        strike, out = 0.005 + 0.09 * torch.rand(128), empty(sets, 128)
        options = {"STRIKES": 128, "BLOCK": 512, "FAST": fast, "num_warps": 4}
        return Launch(smiles_kernel, (sets * 128 // 512,), (values, strike, out, sets), (out,), options)

    return prepare


@triton.jit
def rate_paths_kernel(
    normal_ptr, out_ptr, paths, steps, start, pull, mean, wild, PATH: tl.constexpr, STEP: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Paths of short rates that return to a mean (Cox, Ingersoll and Ross), each kept for the pricing."""
    path = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    normal, out = normal_ptr + path, out_ptr + path * PATH
    rate = tl.full((BLOCK,), 0.0, dtype=tl.float32) + start
    for _ in range(steps):
        above = tl.maximum(rate, 0.0)
        rate += pull * (mean - above) + wild * tl.sqrt(above) * tl.load(normal)
        tl.store(out, rate)  # fault
        normal += paths
        out += STEP


def _rate_paths(by_path: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        paths, steps = (512, 16) if small else (262144, 128)
        normal = random(steps, paths)
        out = empty(paths, steps) if by_path else empty(steps, paths)
        path, step = (steps, 1) if by_path else (1, paths)
        options = {"PATH": path, "STEP": step, "BLOCK": 128, "num_warps": 4}
        args = (normal, out, paths, steps, 0.03, 0.005, 0.04, 0.004)
        result = out if by_path else out.T
        return Launch(rate_paths_kernel, (paths // 128,), args, (result,), options)

    return prepare


@triton.jit
def average_options_kernel(option_ptr, out_ptr, count, batches, dates, BLOCK: tl.constexpr):
    """Mean payoffs, batch by batch of paths, of calls on the average of a share's prices at some dates."""
    option = tl.program_id(0)
    spot, strike = tl.load(option_ptr + option), tl.load(option_ptr + count + option)
    drift, spread = tl.load(option_ptr + 2 * count + option), tl.load(option_ptr + 3 * count + option)
    for batch in range(tl.program_id(1), batches, tl.num_programs(1)):
        path = (option * batches + batch) * BLOCK + tl.arange(0, BLOCK)
        growth = tl.zeros((BLOCK,), dtype=tl.float32)
        total = tl.zeros((BLOCK,), dtype=tl.float32)
        for date in range(0, dates, 4):
            a, b, c, d = tl.randn4x(date, path)
            growth += drift + spread * a
            total += tl.exp(growth)
            growth += drift + spread * b
            total += tl.exp(growth)
            growth += drift + spread * c
            total += tl.exp(growth)
            growth += drift + spread * d
            total += tl.exp(growth)
        payoff = tl.maximum(spot * total / dates - strike, 0.0)
        tl.store(out_ptr + option * batches + batch, tl.sum(payoff, 0) / BLOCK)


def _average_options(programs: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        count, batches, dates = (3, 4, 8) if small else (48, 32, 64)
        low = torch.tensor([90.0, 85.0, 0.0, 0.01])
        high = torch.tensor([110.0, 95.0, 0.002, 0.03])
        option = low[:, None] + (high - low)[:, None] * torch.rand(4, count)
        out = empty(count, batches)
        args = (option, out, count, batches, dates)
        grid = (count, min(programs, batches))
        return Launch(average_options_kernel, grid, args, (out,), {"BLOCK": 256, "num_warps": 4})

    return prepare


_case = faults_of(9)


CASES = (
    _case(
        "smiles of volatility by pow",
        ("slow-math",),
        ("counts",),
        True,
        _smiles(False),
        _smiles(True),
    ),
    _case(
        "paths of rates stored one by one",
        ("uncoalesced-store",),
        ("counts",),
        True,
        _rate_paths(True),
        _rate_paths(False),
    ),
    _case(
        "options on averages by one program each",
        ("idle-sms",),
        ("spans", "ctas"),
        False,
        _average_options(1),
        _average_options(32),
    ),
)
