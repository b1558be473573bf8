"""Eighth round, kernels for pictures, recommenders and points in space without a fault."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, empty, faultless_of, integers, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def residual_norm_kernel(
    x_ptr, skip_ptr, scale_ptr, shift_ptr, out_ptr, ROWS: tl.constexpr, CHANNELS: tl.constexpr
):
    """The end of a residual block: batch norm, sum, ReLU, with channels last. Bound by DRAM."""
    row, channel = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, CHANNELS)
    at = row[:, None] * CHANNELS + channel[None, :]
    scale, shift = tl.load(scale_ptr + channel), tl.load(shift_ptr + channel)
    x = tl.load(x_ptr + at).to(tl.float32) * scale[None, :] + shift[None, :]
    tl.store(out_ptr + at, tl.maximum(x + tl.load(skip_ptr + at).to(tl.float32), 0.0).to(tl.float16))


def _residual_norm(small: bool) -> Launch:
    rows = 64 if small else 256 * 28 * 28
    x, skip = (random(rows, 512, dtype=torch.float16) for _ in range(2))
    scale, shift, out = random(512), random(512), torch.empty_like(x)
    options = {"ROWS": 8, "CHANNELS": 512, "num_warps": 8}
    args = (x, skip, scale, shift, out)
    return Launch(residual_norm_kernel, (rows // 8,), args, (out,), options)


@triton.jit
def composite_kernel(front_ptr, back_ptr, alpha_ptr, out_ptr, pixels, BLOCK: tl.constexpr):
    """A picture laid over another where its mask is opaque; all in planes. Bound by DRAM."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    alpha = tl.load(alpha_ptr + tl.program_id(1) * pixels + at).to(tl.float32)
    first = tl.program_id(1) * 3 * pixels + at
    for colour in tl.static_range(3):
        front = tl.load(front_ptr + first + colour * pixels).to(tl.float32)
        back = tl.load(back_ptr + first + colour * pixels).to(tl.float32)
        tl.store(out_ptr + first + colour * pixels, (back + alpha * (front - back)).to(tl.float16))


def _composite(small: bool) -> Launch:
    images, pixels = (1, 8192) if small else (32, 1 << 20)
    front, back = (random(images, 3, pixels, dtype=torch.float16) for _ in range(2))
    alpha, out = torch.rand(images, pixels).half(), torch.empty_like(front)
    options = {"BLOCK": 1024, "num_warps": 4}
    args = (front, back, alpha, out, pixels)
    return Launch(composite_kernel, (pixels // 1024, images), args, (out,), options)


@triton.jit
def excited_kernel(x_ptr, gate_ptr, out_ptr, pixels, ROWS: tl.constexpr, CHANNELS: tl.constexpr):
    """Channels of each image weighted by its gates (squeeze and excite), channels last. Bound by DRAM."""
    row = tl.program_id(1) * pixels + tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    channel = tl.arange(0, CHANNELS)
    gate = tl.sigmoid(tl.load(gate_ptr + tl.program_id(1) * CHANNELS + channel).to(tl.float32))
    at = row[:, None] * CHANNELS + channel[None, :]
    tl.store(out_ptr + at, (tl.load(x_ptr + at).to(tl.float32) * gate[None, :]).to(tl.bfloat16))


def _excited(small: bool) -> Launch:
    images, pixels = (2, 64) if small else (128, 4096)
    x, gate = random(images, pixels, 256, dtype=torch.bfloat16), random(images, 256, dtype=torch.bfloat16)
    out = torch.empty_like(x)
    options = {"ROWS": 16, "CHANNELS": 256, "num_warps": 8}
    args = (x, gate, out, pixels)
    return Launch(excited_kernel, (pixels // 16, images), args, (out,), options)


@triton.jit
def overlap_kernel(logit_ptr, mask_ptr, out_ptr, pixels, each, BLOCK: tl.constexpr):
    """What predicted and true masks have in common, and their sizes (Dice's loss). Bound by DRAM."""
    image = tl.program_id(1)
    first = image * pixels + tl.program_id(0) * each
    common, predicted = tl.zeros((BLOCK,), dtype=tl.float32), tl.zeros((BLOCK,), dtype=tl.float32)
    true = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, each, BLOCK):
        at = first + start + tl.arange(0, BLOCK)
        chance = tl.sigmoid(tl.load(logit_ptr + at).to(tl.float32))
        mask = tl.load(mask_ptr + at).to(tl.float32)
        common += chance * mask
        predicted += chance
        true += mask
    tl.atomic_add(out_ptr + 3 * image, tl.sum(common, 0), sem="relaxed")
    tl.atomic_add(out_ptr + 3 * image + 1, tl.sum(predicted, 0), sem="relaxed")
    tl.atomic_add(out_ptr + 3 * image + 2, tl.sum(true, 0), sem="relaxed")


def _overlap(small: bool) -> Launch:
    images, pixels = (2, 1 << 14) if small else (256, 1 << 20)
    each = 4096 if small else 1 << 14
    logit = random(images, pixels)
    mask = torch.randint(2, (images, pixels), dtype=torch.uint8)
    out = zeros(images, 3)
    options = {"BLOCK": 512, "num_warps": 4}
    args = (logit, mask, out, pixels, each)
    return Launch(overlap_kernel, (pixels // each, images), args, (out,), options)


@triton.jit
def click_loss_kernel(logit_ptr, click_ptr, loss_ptr, grad_ptr, share, BLOCK: tl.constexpr):
    """Loss and gradient of predicted clicks of several tasks. Bound by DRAM."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    logit = tl.load(logit_ptr + at).to(tl.float32)
    click = tl.load(click_ptr + at).to(tl.float32)
    small = tl.exp(-tl.abs(logit))
    loss = tl.maximum(logit, 0.0) - logit * click + tl.log(1.0 + small)
    chance = tl.where(logit > 0, 1.0, small) / (1.0 + small)
    tl.store(loss_ptr + at, loss)
    tl.store(grad_ptr + at, (share * (chance - click)).to(tl.bfloat16))


def _click_loss(small: bool) -> Launch:
    n = 1 << (13 if small else 26)
    logit, click = random(n, dtype=torch.bfloat16), torch.randint(2, (n,), dtype=torch.uint8)
    loss, grad = empty(n), torch.empty_like(logit)
    options = {"BLOCK": 1024, "num_warps": 4}
    args = (logit, click, loss, grad, 0.25)
    return Launch(click_loss_kernel, (n // 1024,), args, (loss, grad), options)


@triton.jit
def factorisation_kernel(x_ptr, out_ptr, FIELDS: tl.constexpr, DIM: tl.constexpr, ROWS: tl.constexpr):
    """Products of all pairs of an example's fields, by the square of their sum (DeepFM). Bound by DRAM."""
    row, dim = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None], tl.arange(0, DIM)[None, :]
    total, squares = tl.zeros((ROWS, DIM), dtype=tl.float32), tl.zeros((ROWS, DIM), dtype=tl.float32)
    for field in tl.static_range(FIELDS):
        x = tl.load(x_ptr + (row * FIELDS + field) * DIM + dim).to(tl.float32)
        total += x
        squares += x * x
    tl.store(out_ptr + row * DIM + dim, (0.5 * (total * total - squares)).to(tl.bfloat16))


def _factorisation(small: bool) -> Launch:
    rows = 64 if small else 1 << 17
    x, out = random(rows, 26, 64, dtype=torch.bfloat16), empty(rows, 64, dtype=torch.bfloat16)
    options = {"FIELDS": 26, "DIM": 64, "ROWS": 8, "num_warps": 4}
    return Launch(factorisation_kernel, (rows // 8,), (x, out), (out,), options)


@triton.jit
def coupled_maps_kernel(out_ptr, steps, share, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Means of two coupled logistic maps, of other rates for each pixel. Bound by float32 arithmetic."""
    row, column = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    one, two = 3.0 + column.to(tl.float32) * (1.0 / WIDTH), 3.0 + row * (1.0 / WIDTH)
    x = tl.full((BLOCK,), 0.3, dtype=tl.float32)
    y, mean = x, x
    for _ in range(steps):
        x *= one
        y *= two
        next_x, next_y = x - 0.25 * x * x, y - 0.25 * y * y
        apart = share * (next_y - next_x)
        x, y = next_x + apart, next_y - apart
        x, y = 0.9 * x, 0.9 * y
        mean = 0.96875 * mean + 0.03125 * x
    tl.store(out_ptr + row * WIDTH + column, mean)


def _coupled_maps(small: bool) -> Launch:
    width, height, steps = (1024, 4, 16) if small else (4096, 4096, 128)
    out = empty(height, width)
    options = {"WIDTH": width, "BLOCK": 1024, "num_warps": 8}
    args = (out, steps, 0.125)
    return Launch(coupled_maps_kernel, (width // 1024, height), args, (out,), options)


@triton.jit
def unprojected_kernel(
    depth_ptr, x_ptr, y_ptr, z_ptr, focal, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr
):
    """Points in space of the pixels of depth images. Bound by DRAM."""
    row, image = tl.program_id(1), tl.program_id(2)
    column = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = (image * HEIGHT + row) * WIDTH + column
    z = tl.load(depth_ptr + at).to(tl.float32) * 0.001
    tl.store(x_ptr + at, z * ((column - WIDTH // 2) * focal))
    tl.store(y_ptr + at, z * ((row - HEIGHT // 2) * focal))
    tl.store(z_ptr + at, z)


def _unprojected(small: bool) -> Launch:
    images, height, width = (1, 4, 1024) if small else (64, 1024, 1024)
    depth = integers(images, height, width, below=8000, dtype=torch.int16)
    x, y, z = (empty(images, height, width) for _ in range(3))
    options = {"HEIGHT": height, "WIDTH": width, "BLOCK": 512, "num_warps": 4}
    args = (depth, x, y, z, 0.0015)
    grid = (width // 512, height, images)
    return Launch(unprojected_kernel, grid, args, (x, y, z), options)


_good = faultless_of(8)

CASES = (
    _good("good end of a residual block", _residual_norm),
    _good("good picture over another", _composite),
    _good("good gates of channels", _excited),
    _good("good overlap of masks", _overlap),
    _good("good loss of clicks", _click_loss),
    _good("good pairs of fields", _factorisation),
    _good("good coupled maps", _coupled_maps),
    _good("good points of depths", _unprojected),
)
