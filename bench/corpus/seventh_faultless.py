"""Seventh round, kernels without a fault."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, empty, faultless_of, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def squared_relu_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """The square of what is positive. Bound by DRAM."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.maximum(tl.load(x_ptr + at).to(tl.float32), 0.0)
    tl.store(out_ptr + at, (x * x).to(tl.bfloat16))


def _squared_relu(small: bool) -> Launch:
    n = 1 << (12 if small else 27)
    x = random(n, dtype=torch.bfloat16)
    out = torch.empty_like(x)
    options = {"BLOCK": 2048, "num_warps": 8}
    return Launch(squared_relu_kernel, (n // 2048,), (x, out), (out,), options)


@triton.jit
def adaptive_norm_kernel(x_ptr, shift_ptr, scale_ptr, out_ptr, tokens, DIM: tl.constexpr):
    """A layer norm whose scale and shift depend on the image (a diffusion transformer). Bound by DRAM."""
    dim, row = tl.arange(0, DIM), tl.program_id(1) * tokens + tl.program_id(0)
    x = tl.load(x_ptr + row * DIM + dim).to(tl.float32)
    shift = tl.load(shift_ptr + tl.program_id(1) * DIM + dim).to(tl.float32)
    scale = tl.load(scale_ptr + tl.program_id(1) * DIM + dim).to(tl.float32)
    x -= tl.sum(x, 0) / DIM
    x *= tl.rsqrt(tl.sum(x * x, 0) / DIM + 1e-6)
    tl.store(out_ptr + row * DIM + dim, (x * (1.0 + scale) + shift).to(tl.bfloat16))


def _adaptive_norm(small: bool) -> Launch:
    images, tokens = (2, 4) if small else (128, 1024)
    x = random(images, tokens, 1024, dtype=torch.bfloat16)
    shift, scale = random(images, 1024, dtype=torch.bfloat16), random(images, 1024, dtype=torch.bfloat16)
    out = torch.empty_like(x)
    options = {"DIM": 1024, "num_warps": 4}
    args = (x, shift, scale, out, tokens)
    return Launch(adaptive_norm_kernel, (tokens, images), args, (out,), options)


@triton.jit
def merged_states_kernel(
    first_ptr, first_sum_ptr, second_ptr, second_sum_ptr, out_ptr, ROWS: tl.constexpr, DIM: tl.constexpr
):
    """Results of attention to two parts of a context, merged by their log-sums. Bound by DRAM."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = row[:, None] * DIM + tl.arange(0, DIM)[None, :]
    first, second = tl.load(first_ptr + at).to(tl.float32), tl.load(second_ptr + at).to(tl.float32)
    share = tl.sigmoid(tl.load(first_sum_ptr + row) - tl.load(second_sum_ptr + row))[:, None]
    tl.store(out_ptr + at, (second + share * (first - second)).to(tl.bfloat16))


def _merged_states(small: bool) -> Launch:
    rows = 64 if small else 1 << 19
    first, second = (random(rows, 128, dtype=torch.bfloat16) for _ in range(2))
    first_sum, second_sum, out = random(rows), random(rows), torch.empty_like(first)
    options = {"ROWS": 16, "DIM": 128, "num_warps": 4}
    args = (first, first_sum, second, second_sum, out)
    return Launch(merged_states_kernel, (rows // 16,), args, (out,), options)


@triton.jit
def noised_kernel(x_ptr, noise_ptr, kept_ptr, out_ptr, size, BLOCK: tl.constexpr):
    """Images with as much noise as their steps of diffusion have. Bound by DRAM."""
    kept = tl.load(kept_ptr + tl.program_id(1))
    at = tl.program_id(1) * size + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, noise = tl.load(x_ptr + at).to(tl.float32), tl.load(noise_ptr + at).to(tl.float32)
    tl.store(out_ptr + at, (tl.sqrt(kept) * x + tl.sqrt(1.0 - kept) * noise).to(tl.float16))


def _noised(small: bool) -> Launch:
    images, size = (2, 4096) if small else (512, 1 << 17)
    x, noise = (random(images, size, dtype=torch.float16) for _ in range(2))
    kept, out = torch.rand(images), torch.empty_like(x)
    options = {"BLOCK": 2048, "num_warps": 8}
    args = (x, noise, kept, out, size)
    return Launch(noised_kernel, (size // 2048, images), args, (out,), options)


@triton.jit
def guided_kernel(x_ptr, guess_ptr, out_ptr, size, guidance, step, BLOCK: tl.constexpr):
    """A step of a sampler, along what the prompt changes of the guess without it. Bound by DRAM."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    plain, prompted = tl.load(guess_ptr + at).to(tl.float32), tl.load(guess_ptr + size + at).to(tl.float32)
    guess = plain + guidance * (prompted - plain)
    tl.store(out_ptr + at, (tl.load(x_ptr + at).to(tl.float32) + step * guess).to(tl.float16))


def _guided(small: bool) -> Launch:
    n = 1 << (12 if small else 26)
    x, guess = random(n, dtype=torch.float16), random(2, n, dtype=torch.float16)
    out = torch.empty_like(x)
    options = {"BLOCK": 2048, "num_warps": 8}
    return Launch(guided_kernel, (n // 2048,), (x, guess, out, n, 5.0, -0.05), (out,), options)


@triton.jit
def unpadded_kernel(x_ptr, place_ptr, out_ptr, ROWS: tl.constexpr, DIM: tl.constexpr):
    """The tokens of texts without their padding, row behind row. Bound by DRAM."""
    row, dim = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, DIM)[None, :]
    place = tl.load(place_ptr + row)
    tl.store(out_ptr + row[:, None] * DIM + dim, tl.load(x_ptr + place[:, None] * DIM + dim))


def _unpadded(small: bool) -> Launch:
    """Three of five places hold a token."""
    tokens = 16 if small else 3 << 15
    places = tokens // 3 * 5 + 5
    x = random(places, 2048, dtype=torch.bfloat16)
    place = torch.sort(torch.randperm(places)[:tokens])[0].int()
    out = empty(tokens, 2048, dtype=torch.bfloat16)
    options = {"ROWS": 2, "DIM": 2048, "num_warps": 4}
    return Launch(unpadded_kernel, (tokens // 2,), (x, place, out), (out,), options)


@triton.jit
def gray_kernel(x_ptr, out_ptr, PIXELS: tl.constexpr, BLOCK: tl.constexpr):
    """Brightness of pixels whose three colours are in planes, as a network reads it. Bound by DRAM."""
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = x_ptr + tl.program_id(1) * 3 * PIXELS + pixel
    red, green = tl.load(x).to(tl.float32), tl.load(x + PIXELS).to(tl.float32)
    light = 0.299 * red + 0.587 * green + 0.114 * tl.load(x + 2 * PIXELS).to(tl.float32)
    tl.store(out_ptr + tl.program_id(1) * PIXELS + pixel, (light * (1 / 57.4) - 2.1).to(tl.float16))


def _gray(small: bool) -> Launch:
    images, pixels = (1, 8192) if small else (256, 1 << 19)
    x = torch.randint(256, (images, 3, pixels), dtype=torch.uint8)
    out = empty(images, pixels, dtype=torch.float16)
    options = {"PIXELS": pixels, "BLOCK": 2048, "num_warps": 4}
    return Launch(gray_kernel, (pixels // 2048, images), (x, out), (out,), options)


@triton.jit
def lattice_step_kernel(x_ptr, out_ptr, plane, rate, ROW: tl.constexpr, BLOCK: tl.constexpr):
    """A step of a lattice Boltzmann fluid of nine speeds: what arrives in a cell is mixed. Bound by DRAM."""
    at = (tl.program_id(1) + 1) * ROW + 16 + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    f0, f1 = tl.load(x_ptr + at), tl.load(x_ptr + plane + at - 1)
    f2, f3 = tl.load(x_ptr + 2 * plane + at + 1), tl.load(x_ptr + 3 * plane + at - ROW)
    f4, f5 = tl.load(x_ptr + 4 * plane + at + ROW), tl.load(x_ptr + 5 * plane + at - ROW - 1)
    f6, f7 = tl.load(x_ptr + 6 * plane + at + ROW + 1), tl.load(x_ptr + 7 * plane + at - ROW + 1)
    f8 = tl.load(x_ptr + 8 * plane + at + ROW - 1)
    mass = f0 + f1 + f2 + f3 + f4 + f5 + f6 + f7 + f8
    east = (f1 - f2 + f5 - f6 - f7 + f8) / mass
    north = (f3 - f4 + f5 - f6 + f7 - f8) / mass
    rest = 1.0 - 1.5 * (east * east + north * north)
    straight, slant = rate * mass / 9.0, rate * mass / 36.0
    left, up, down = 1.0 - rate, east + north, north - east
    out = out_ptr + at
    tl.store(out, left * f0 + 4.0 * straight * rest)
    tl.store(out + plane, left * f1 + straight * (rest + 3.0 * east + 4.5 * east * east))
    tl.store(out + 2 * plane, left * f2 + straight * (rest - 3.0 * east + 4.5 * east * east))
    tl.store(out + 3 * plane, left * f3 + straight * (rest + 3.0 * north + 4.5 * north * north))
    tl.store(out + 4 * plane, left * f4 + straight * (rest - 3.0 * north + 4.5 * north * north))
    tl.store(out + 5 * plane, left * f5 + slant * (rest + 3.0 * up + 4.5 * up * up))
    tl.store(out + 6 * plane, left * f6 + slant * (rest - 3.0 * up + 4.5 * up * up))
    tl.store(out + 7 * plane, left * f7 + slant * (rest + 3.0 * down + 4.5 * down * down))
    tl.store(out + 8 * plane, left * f8 + slant * (rest - 3.0 * down + 4.5 * down * down))


def _lattice_step(small: bool) -> Launch:
    rows, columns = (4, 1024) if small else (4096, 4096)
    row = columns + 32
    x = 0.1 + 0.02 * torch.rand(9, rows + 2, row)
    out = torch.zeros_like(x)
    options = {"ROW": row, "BLOCK": 512, "num_warps": 4}
    args = (x, out, (rows + 2) * row, 1.2)
    return Launch(lattice_step_kernel, (columns // 512, rows), args, (out,), options)


@triton.jit
def conjugate_step_kernel(x_ptr, direction_ptr, residual_ptr, image_ptr, step_ptr, BLOCK: tl.constexpr):
    """Both updates of vectors in a step of conjugate gradients, in float64. Bound by DRAM."""
    at, step = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.load(step_ptr)
    x, residual = tl.load(x_ptr + at), tl.load(residual_ptr + at)
    tl.store(x_ptr + at, x + step * tl.load(direction_ptr + at))
    tl.store(residual_ptr + at, residual - step * tl.load(image_ptr + at))


def _conjugate_step(small: bool) -> Launch:
    n = 1 << (12 if small else 25)
    x, direction, residual, image = (random(n, dtype=torch.float64) for _ in range(4))
    step = torch.full((1,), 0.01, dtype=torch.float64)
    options = {"BLOCK": 1024, "num_warps": 8}
    args = (x, direction, residual, image, step)
    return Launch(conjugate_step_kernel, (n // 1024,), args, (x, residual), options)


@triton.jit
def lorenz_kernel(x_ptr, y_ptr, z_ptr, steps, BLOCK: tl.constexpr):
    """Many of Lorenz' systems in steps of the midpoint. Bound by FP32 units."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y, z = tl.load(x_ptr + at), tl.load(y_ptr + at), tl.load(z_ptr + at)
    for _ in range(steps):
        middle_x = x + 0.01 * (y - x)
        middle_y = y + 0.001 * (x * (28.0 - z) - y)
        middle_z = z + 0.001 * (x * y - 2.6666667 * z)
        x += 0.02 * (middle_y - middle_x)
        y += 0.002 * (middle_x * (28.0 - middle_z) - middle_y)
        z += 0.002 * (middle_x * middle_y - 2.6666667 * middle_z)
    tl.store(x_ptr + at, x)
    tl.store(y_ptr + at, y)
    tl.store(z_ptr + at, z)


def _lorenz(small: bool) -> Launch:
    n, steps = (2048, 16) if small else (132 * 16 * 512 * 2, 512)
    x, y, z = random(n), random(n), 25 + random(n)
    options = {"BLOCK": 512, "num_warps": 4}
    return Launch(lorenz_kernel, (n // 512,), (x, y, z, steps), (x, y, z), options)


@triton.jit
def replicas_kernel(x_ptr, out_ptr, size, REPLICAS: tl.constexpr, BLOCK: tl.constexpr):
    """The sum of gradients that eight devices have sent. Bound by DRAM."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(x_ptr + at).to(tl.float32)
    for replica in tl.static_range(1, REPLICAS):
        total += tl.load(x_ptr + replica * size + at).to(tl.float32)
    tl.store(out_ptr + at, total.to(tl.bfloat16))


def _replicas(small: bool) -> Launch:
    n = 1 << (12 if small else 25)
    x, out = random(8, n, dtype=torch.bfloat16), empty(n, dtype=torch.bfloat16)
    options = {"REPLICAS": 8, "BLOCK": 2048, "num_warps": 8}
    return Launch(replicas_kernel, (n // 2048,), (x, out, n), (out,), options)


@triton.jit
def router_kernel(logit_ptr, out_ptr, TOKENS: tl.constexpr, EXPERTS: tl.constexpr):
    """Chances of 64 experts for each token. Bound by DRAM."""
    token, expert = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS), tl.arange(0, EXPERTS)
    at = token[:, None] * EXPERTS + expert[None, :]
    logit = tl.load(logit_ptr + at) * 1.44269504
    weight = tl.exp2(logit - tl.max(logit, 1)[:, None])
    tl.store(out_ptr + at, weight * (1.0 / tl.sum(weight, 1))[:, None])


def _router(small: bool) -> Launch:
    tokens = 64 if small else 1 << 20
    logit, out = random(tokens, 64), empty(tokens, 64)
    options = {"TOKENS": 32, "EXPERTS": 64, "num_warps": 4}
    return Launch(router_kernel, (tokens // 32,), (logit, out), (out,), options)


_good = faultless_of(7)

CASES = (
    _good("good squared ReLU", _squared_relu),
    _good("good adaptive norm", _adaptive_norm),
    _good("good merged states", _merged_states),
    _good("good noised images", _noised),
    _good("good guided step", _guided),
    _good("good removed padding", _unpadded),
    _good("good gray images", _gray),
    _good("good lattice fluid", _lattice_step),
    _good("good conjugate gradients", _conjugate_step),
    _good("good Lorenz systems", _lorenz),
    _good("good sum of replicas", _replicas),
    _good("good router", _router),
)
