"""Programs with far more work than others."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Case, Launch, Prepare, empty, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def ragged_scale_kernel(x_ptr, begin_ptr, scale_ptr, out_ptr, BLOCK: tl.constexpr):
    """A program for each segment, however long it is."""
    segment = tl.program_id(0)
    scale = tl.load(scale_ptr + segment)
    begin, end = tl.load(begin_ptr + segment), tl.load(begin_ptr + segment + 1)
    for start in range(begin, end, BLOCK):  # fault
        offs = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offs, mask=offs < end)
        tl.store(out_ptr + offs, tl.exp(x * scale), mask=offs < end)


@triton.jit
def even_scale_kernel(x_ptr, segment_ptr, scale_ptr, out_ptr, BLOCK: tl.constexpr):
    """A program for a block of one segment; segments are whole blocks."""
    scale = tl.load(scale_ptr + tl.load(segment_ptr + tl.program_id(0)))
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.exp(tl.load(x_ptr + offs) * scale))


def _ragged(even: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        segments = 8 if small else 1056
        blocks = torch.ones(segments, dtype=torch.int64, device="cpu") * (1 if small else 8)
        blocks[:: segments // 8] *= 8 if small else 64
        begins = torch.zeros(segments + 1, dtype=torch.int32, device="cpu")
        begins[1:] = torch.cumsum(blocks * 1024, 0)
        total = int(begins[-1])
        x, scale, out = random(total), torch.rand(segments), empty(total)
        device = x.device
        if even:
            owner = torch.repeat_interleave(torch.arange(segments, dtype=torch.int32, device="cpu"), blocks)
            args = (x, owner.to(device), scale, out)
            return Launch(even_scale_kernel, (total // 1024,), args, (out,), {"BLOCK": 1024})
        return Launch(
            ragged_scale_kernel, (segments,), (x, begins.to(device), scale, out), (out,), {"BLOCK": 1024}
        )

    return prepare


@triton.jit
def limb_rays_kernel(count_ptr, tilt_ptr, out_ptr, rows, APART: tl.constexpr, WIDTH: tl.constexpr):
    """How much light passes through an atmosphere: rays of a line of sight take as many steps as it needs."""
    pixel = tl.arange(0, WIDTH)
    tilt = tl.load(tilt_ptr + pixel)
    each = rows // tl.num_programs(0)
    for turn in range(each):
        row = tl.program_id(0) * each + turn
        if APART:
            row = tl.program_id(0) + turn * tl.num_programs(0)
        height = tl.zeros((WIDTH,), dtype=tl.float32)
        depth = tl.zeros((WIDTH,), dtype=tl.float32)
        for _ in range(tl.load(count_ptr + row)):  # fault
            height += 0.01 + tilt * (1.0 - height)
            thin = 1.0 - 0.5 * height + 0.11 * height * height
            depth += thin * thin * (0.002 + 0.0005 * thin)
        tl.store(out_ptr + row * WIDTH + pixel, tl.exp(-depth))


def _limb_rays(apart: bool) -> Prepare:
    """apart: neighbouring lines, which need about as many steps, go to different programs."""

    def prepare(small: bool) -> Launch:
        programs = 2 if small else 132
        rows, width = programs * 8, 1024
        from_middle = (torch.arange(rows) - rows / 2) / (rows / 6)
        count = (32 + (64 if small else 736) * torch.exp(-from_middle * from_middle)).int()
        tilt, out = 1e-3 * torch.rand(width), empty(rows, width)
        options = {"APART": apart, "WIDTH": width, "num_warps": 16}
        return Launch(limb_rays_kernel, (programs,), (count, tilt, out, rows), (out,), options)

    return prepare


CASES = (
    Case("ragged segments", ("load-imbalance", "tail"), _ragged(False), _ragged(True), emulator=False),
    Case(
        "neighbouring lines of sight in one program",
        ("load-imbalance", "tail"),
        _limb_rays(False),
        _limb_rays(True),
        emulator=False,
    ),
)
