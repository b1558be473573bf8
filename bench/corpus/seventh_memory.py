"""Seventh round, faults of memory: accesses that are scattered, narrow, repeated, or atomic."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, Prepare, empty, faults_of, integers, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def channel_norm_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, PIXELS: tl.constexpr, CHANNELS: tl.constexpr, BLOCK: tl.constexpr
):
    """A layer norm over the channels of each pixel of an image whose planes are apart (ConvNeXt)."""
    channel = tl.arange(0, CHANNELS)
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = (tl.program_id(1) * CHANNELS + channel)[:, None] * PIXELS + pixel[None, :]
    x = tl.load(x_ptr + at).to(tl.float32)  # fault
    mean = tl.sum(x, 0) / CHANNELS
    x -= mean[None, :]
    scale = tl.rsqrt(tl.sum(x * x, 0) / CHANNELS + 1e-6)
    weight, bias = tl.load(weight_ptr + channel), tl.load(bias_ptr + channel)
    out = x * scale[None, :] * weight[:, None] + bias[:, None]
    tl.store(out_ptr + at, out.to(tl.float16))  # fault


def _channel_norm(block: int, warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        images, pixels = (1, 64) if small else (64, 4096)
        x = random(images, 256, pixels, dtype=torch.float16)
        weight, bias, out = torch.rand(256), random(256), torch.empty_like(x)
        options = {"PIXELS": pixels, "CHANNELS": 256, "BLOCK": block, "num_warps": warps}
        grid = (pixels // block, images)
        return Launch(channel_norm_kernel, grid, (x, weight, bias, out), (out,), options)

    return prepare


@triton.jit
def pixel_shuffle_kernel(
    x_ptr, out_ptr, height, WIDTH: tl.constexpr, FACTOR: tl.constexpr, TOGETHER: tl.constexpr
):
    """FACTOR squared channels become pixels of one larger plane; a program makes one row of it."""
    column, row = tl.arange(0, WIDTH), tl.program_id(0)
    y, down = row // FACTOR, row % FACTOR
    plane = (tl.program_id(1) * FACTOR + down) * FACTOR
    out = out_ptr + (tl.program_id(1) * height * FACTOR + row) * WIDTH * FACTOR
    if TOGETHER:
        right = tl.arange(0, FACTOR)[None, :]
        x = tl.load(x_ptr + ((plane + right) * height + y) * WIDTH + column[:, None])
        tl.store(out + column[:, None] * FACTOR + right, x)
    else:
        for right in tl.static_range(FACTOR):
            x = tl.load(x_ptr + ((plane + right) * height + y) * WIDTH + column)
            tl.store(out + column * FACTOR + right, x)  # fault


def _pixel_shuffle(together: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        planes, height = (1, 2) if small else (12, 512)
        x = random(planes * 64, height, 512, dtype=torch.float16)
        out = empty(planes, height * 8, 4096, dtype=torch.float16)
        options = {"WIDTH": 512, "FACTOR": 8, "TOGETHER": together, "num_warps": 4}
        return Launch(pixel_shuffle_kernel, (height * 8, planes), (x, out, height), (out,), options)

    return prepare


@triton.jit
def spherical_harmonics_kernel(x_ptr, y_ptr, z_ptr, out_ptr, BLOCK: tl.constexpr, JOINED: tl.constexpr):
    """The first 16 spherical harmonics of each direction, as a network reads them."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y, z = tl.load(x_ptr + at), tl.load(y_ptr + at), tl.load(z_ptr + at)
    s0 = tl.full((BLOCK,), 0.28209479, dtype=tl.float32)
    s1, s2, s3 = -0.48860251 * y, 0.48860251 * z, -0.48860251 * x
    s4, s5, s7 = 1.09254843 * x * y, -1.09254843 * y * z, -1.09254843 * x * z
    s6, s8 = 0.94617469 * z * z - 0.31539157, 0.54627421 * (x * x - y * y)
    s9, s10 = 0.59004358 * y * (y * y - 3.0 * x * x), 2.89061144 * x * y * z
    s11, s13 = 0.45704579 * y * (1.0 - 5.0 * z * z), 0.45704579 * x * (1.0 - 5.0 * z * z)
    s12, s14 = 0.37317633 * z * (5.0 * z * z - 3.0), 1.44530572 * z * (x * x - y * y)
    s15 = 0.59004358 * x * (3.0 * y * y - x * x)
    if JOINED:
        a = tl.join(tl.join(tl.join(s0, s8), tl.join(s4, s12)), tl.join(tl.join(s2, s10), tl.join(s6, s14)))
        b = tl.join(tl.join(tl.join(s1, s9), tl.join(s5, s13)), tl.join(tl.join(s3, s11), tl.join(s7, s15)))
        all_ = tl.reshape(tl.join(a, b), (BLOCK, 16))
        tl.store(out_ptr + at[:, None] * 16 + tl.arange(0, 16)[None, :], all_)
    else:
        tl.store(out_ptr + at * 16, s0)  # fault
        tl.store(out_ptr + at * 16 + 1, s1)  # fault
        tl.store(out_ptr + at * 16 + 2, s2)  # fault
        tl.store(out_ptr + at * 16 + 3, s3)  # fault
        tl.store(out_ptr + at * 16 + 4, s4)  # fault
        tl.store(out_ptr + at * 16 + 5, s5)  # fault
        tl.store(out_ptr + at * 16 + 6, s6)  # fault
        tl.store(out_ptr + at * 16 + 7, s7)  # fault
        tl.store(out_ptr + at * 16 + 8, s8)  # fault
        tl.store(out_ptr + at * 16 + 9, s9)  # fault
        tl.store(out_ptr + at * 16 + 10, s10)  # fault
        tl.store(out_ptr + at * 16 + 11, s11)  # fault
        tl.store(out_ptr + at * 16 + 12, s12)  # fault
        tl.store(out_ptr + at * 16 + 13, s13)  # fault
        tl.store(out_ptr + at * 16 + 14, s14)  # fault
        tl.store(out_ptr + at * 16 + 15, s15)  # fault


def _spherical_harmonics(joined: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        n = 1 << (10 if small else 23)
        x, y, z = torch.nn.functional.normalize(random(3, n), dim=0)
        out = empty(n, 16)
        options = {"BLOCK": 256, "JOINED": joined, "num_warps": 4}
        return Launch(spherical_harmonics_kernel, (n // 256,), (x, y, z, out), (out,), options)

    return prepare


@triton.jit
def clamped_swiglu_kernel(x_ptr, out_ptr, limit, BLOCK: tl.constexpr, SPLIT: tl.constexpr):
    """A clamped SwiGLU whose gates and values alternate in memory; SPLIT: one load reads both."""
    first = tl.program_id(0) * BLOCK
    out = first + tl.arange(0, BLOCK)
    if SPLIT:
        both = tl.load(x_ptr + 2 * first + tl.arange(0, 2 * BLOCK)).to(tl.float32)
        gate, value = tl.split(tl.reshape(both, (BLOCK, 2)))
    else:
        gate = tl.load(x_ptr + 2 * out).to(tl.float32)  # fault
        value = tl.load(x_ptr + 2 * out + 1).to(tl.float32)  # fault
    gate = tl.minimum(gate, limit)
    value = tl.minimum(tl.maximum(value, -limit), limit)
    gated = gate / (1.0 + tl.exp(-1.702 * gate))
    tl.store(out_ptr + out, (gated * (value + 1.0)).to(tl.bfloat16))


def _clamped_swiglu(split: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        tokens = 16 if small else 24576
        x = 3 * random(tokens, 2 * 2880, dtype=torch.bfloat16)
        out = empty(tokens, 2880, dtype=torch.bfloat16)
        options = {"BLOCK": 1024, "SPLIT": split, "num_warps": 4}
        grid = (tokens * 2880 // 1024,)
        return Launch(clamped_swiglu_kernel, grid, (x, out, 7.0), (out,), options)

    return prepare


@triton.jit
def averaged_weights_kernel(mean_ptr, weight_ptr, out_ptr, share, steps, BLOCK: tl.constexpr):
    """The mean of a model's weights over checkpoints, moved by one more of them."""
    first = tl.program_id(0) * steps * BLOCK + tl.arange(0, BLOCK)
    for step in range(steps):
        at = first + step * BLOCK
        mean = tl.load(mean_ptr + at).to(tl.float32)  # fault
        weight = tl.load(weight_ptr + at).to(tl.float32)  # fault
        tl.store(out_ptr + at, (mean + share * (weight - mean)).to(tl.bfloat16))  # fault


def _averaged_weights(block: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        n = 1 << (15 if small else 27)
        mean, weight = random(n, dtype=torch.bfloat16), random(n, dtype=torch.bfloat16)
        out = torch.empty_like(mean)
        options = {"BLOCK": block, "num_warps": 8}
        args = (mean, weight, out, 0.125, 16384 // block)
        return Launch(averaged_weights_kernel, (n // 16384,), args, (out,), options)

    return prepare


@triton.jit
def stereo_costs_kernel(
    left_ptr, right_ptr, out_ptr, channels, height, disparities, WIDTH: tl.constexpr, EACH: tl.constexpr
):
    """How alike a row's pixels are to those of the other camera, at EACH disparities."""
    x, y, image = tl.arange(0, WIDTH), tl.program_id(1), tl.program_id(2)
    disparity = tl.program_id(0) * EACH + tl.arange(0, EACH)
    left = left_ptr + (image * channels * height + y) * WIDTH + x
    shifted = (
        right_ptr + (image * channels * height + y) * 2 * WIDTH + WIDTH - disparity[:, None] + x[None, :]
    )
    total = tl.zeros((EACH, WIDTH), dtype=tl.float32)
    for channel in range(channels):
        a = tl.load(left + channel * height * WIDTH).to(tl.float32)  # fault
        b = tl.load(shifted + channel * height * 2 * WIDTH).to(tl.float32)  # fault
        total += a[None, :] * b
    out = ((image * disparities + disparity[:, None]) * height + y) * WIDTH + x[None, :]
    tl.store(out_ptr + out, total.to(tl.float16))


def _stereo_costs(each: int) -> Prepare:
    """The other camera's rows have a border, from which what lies outside of its picture is read."""

    def prepare(small: bool) -> Launch:
        images, channels, height, disparities = (1, 4, 1, 16) if small else (4, 64, 256, 64)
        left = random(images, channels, height, 512, dtype=torch.float16)
        right = random(images, channels, height, 1024, dtype=torch.float16)
        out = empty(images, disparities, height, 512, dtype=torch.float16)
        args = (left, right, out, channels, height, disparities)
        options = {"WIDTH": 512, "EACH": each, "num_warps": 8}
        grid = (disparities // each, height, images)
        return Launch(stereo_costs_kernel, grid, args, (out,), options)

    return prepare


@triton.jit
def wave_kernel(
    now_ptr, before_ptr, speed_ptr, out_ptr, plane, ROW: tl.constexpr, DEEP: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, MARCH: tl.constexpr,
):  # fmt: skip
    """A step of a sound wave in rock, of eighth order; MARCH: a program keeps the planes around its own."""
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS) + 4
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS) + 8
    inside = row[:, None] * ROW + column[None, :]
    first = tl.program_id(2) * DEEP + 4
    if MARCH:
        start = now_ptr + first * plane + inside
        a, b = tl.load(start - 4 * plane), tl.load(start - 3 * plane)
        c, d, e = tl.load(start - 2 * plane), tl.load(start - plane), tl.load(start)
        f, g, h = tl.load(start + plane), tl.load(start + 2 * plane), tl.load(start + 3 * plane)
    for z in range(first, first + DEEP):
        at = now_ptr + z * plane + inside
        if MARCH:
            i = tl.load(at + 4 * plane)
        else:
            a, b = tl.load(at - 4 * plane), tl.load(at - 3 * plane)  # fault
            c, d, e = tl.load(at - 2 * plane), tl.load(at - plane), tl.load(at)  # fault
            f, g, h = tl.load(at + plane), tl.load(at + 2 * plane), tl.load(at + 3 * plane)  # fault
            i = tl.load(at + 4 * plane)
        total = -8.5416 * e + 1.6 * (d + f) - 0.2 * (c + g) + 0.025397 * (b + h) - 0.001786 * (a + i)
        total += 1.6 * (tl.load(at - ROW) + tl.load(at + ROW) + tl.load(at - 1) + tl.load(at + 1))
        total -= 0.2 * (tl.load(at - 2 * ROW) + tl.load(at + 2 * ROW) + tl.load(at - 2) + tl.load(at + 2))
        total += 0.025397 * (
            tl.load(at - 3 * ROW) + tl.load(at + 3 * ROW) + tl.load(at - 3) + tl.load(at + 3)
        )
        total -= 0.001786 * (
            tl.load(at - 4 * ROW) + tl.load(at + 4 * ROW) + tl.load(at - 4) + tl.load(at + 4)
        )
        speed, before = tl.load(speed_ptr + z * plane + inside), tl.load(before_ptr + z * plane + inside)
        tl.store(out_ptr + z * plane + inside, 2.0 * e - before + speed * total)
        if MARCH:
            a, b, c, d, e, f, g, h = b, c, d, e, f, g, h, i


def _wave(march: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        depth, rows, columns = (8, 8, 128) if small else (256, 512, 512)
        shape = (depth + 8, rows + 8, columns + 16)
        now, before, speed, out = random(*shape), random(*shape), torch.rand(shape), zeros(*shape)
        deep = 32 if march and not small else min(depth, 8)
        plane = shape[1] * shape[2]
        options = {"ROW": shape[2], "DEEP": deep, "ROWS": 8, "COLUMNS": 128, "MARCH": march, "num_warps": 8}
        grid = (columns // 128, rows // 8, depth // deep)
        return Launch(wave_kernel, grid, (now, before, speed, out, plane), (out,), options)

    return prepare


@triton.jit
def window_bias_kernel(grad_ptr, out_ptr, heads, windows, PLACES: tl.constexpr, LATE: tl.constexpr):
    """The gradient of a bias that all windows of an image share; LATE: a program adds its windows first."""
    query, key, head = tl.arange(0, PLACES)[:, None], tl.arange(0, PLACES)[None, :], tl.program_id(0)
    inside = query * PLACES + key
    total = tl.zeros((PLACES, PLACES), dtype=tl.float32)
    for step in range(windows):
        window = tl.program_id(1) * windows + step
        grad = tl.load(grad_ptr + (window * heads + head) * PLACES * PLACES + inside).to(tl.float32)
        if LATE:
            total += grad
        else:
            tl.atomic_add(out_ptr + head * PLACES * PLACES + inside, grad, sem="relaxed")  # fault
    if LATE:
        tl.atomic_add(out_ptr + head * PLACES * PLACES + inside, total, sem="relaxed")


def _window_bias(late: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        programs, windows, heads = (2, 4, 1) if small else (128, 32, 8)
        grad = random(programs * windows, heads, 64, 64, dtype=torch.bfloat16)
        out = zeros(heads, 64, 64)
        options = {"PLACES": 64, "LATE": late, "num_warps": 8}
        args = (grad, out, heads, windows)
        return Launch(window_bias_kernel, (heads, programs), args, (out,), options)

    return prepare


@triton.jit
def neighbours_kernel(
    x_ptr, source_ptr, weight_ptr, out_ptr, BLOCK: tl.constexpr, EACH: tl.constexpr, DIM: tl.constexpr,
    BY_POINT: tl.constexpr,
):  # fmt: skip
    """Weighted features of each point's EACH neighbours, added to the point (a graph convolution)."""
    row, dim = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, DIM)[None, :]
    if BY_POINT:
        total = tl.zeros((BLOCK, DIM), dtype=tl.float32)
        for edge in tl.static_range(EACH):
            source, weight = tl.load(source_ptr + row * EACH + edge), tl.load(weight_ptr + row * EACH + edge)
            total += tl.load(x_ptr + source[:, None] * DIM + dim).to(tl.float32) * weight[:, None]
        tl.store(out_ptr + row[:, None] * DIM + dim, total)
    else:
        source, weight = tl.load(source_ptr + row), tl.load(weight_ptr + row)
        message = tl.load(x_ptr + source[:, None] * DIM + dim).to(tl.float32) * weight[:, None]
        tl.atomic_add(out_ptr + (row // EACH)[:, None] * DIM + dim, message, sem="relaxed")  # fault


def _neighbours(by_point: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        points = 64 if small else 1 << 18
        x, source = random(points, 64, dtype=torch.float16), integers(points, 16, below=points)
        weight, out = torch.rand(points, 16), zeros(points, 64)
        options = {"BLOCK": 32, "EACH": 16, "DIM": 64, "BY_POINT": by_point, "num_warps": 4}
        grid = (points // 32 if by_point else points // 2,)
        return Launch(neighbours_kernel, grid, (x, source, weight, out), (out,), options)

    return prepare


@triton.jit
def row_peak(row, SIZE: tl.constexpr):
    """The largest of SIZE pixels from each pixel on."""
    peak = tl.load(row)
    for right in tl.static_range(1, SIZE):
        peak = tl.maximum(peak, tl.load(row + right))
    return peak


@triton.jit
def peaks_kernel(
    x_ptr, out_ptr, ROWS: tl.constexpr, WIDTH: tl.constexpr, PITCH: tl.constexpr, KEEP: tl.constexpr
):
    """The largest of 5 by 5 pixels around each one (a detector's pyramid); KEEP: four rows' peaks stay."""
    column = tl.arange(0, WIDTH)
    strip, strips = tl.program_id(0), tl.num_programs(0)
    x = x_ptr + (tl.program_id(1) * (strips * ROWS + 4) + strip * ROWS) * PITCH + column
    out = out_ptr + (tl.program_id(1) * strips + strip) * ROWS * WIDTH + column
    if KEEP:
        a, b = row_peak(x, 5), row_peak(x + PITCH, 5)
        c, d = row_peak(x + 2 * PITCH, 5), row_peak(x + 3 * PITCH, 5)
    for row in range(ROWS):
        here = x + row * PITCH
        if not KEEP:
            a, b = row_peak(here, 5), row_peak(here + PITCH, 5)  # fault
            c, d = row_peak(here + 2 * PITCH, 5), row_peak(here + 3 * PITCH, 5)  # fault
        e = row_peak(here + 4 * PITCH, 5)
        tl.store(out + row * WIDTH, tl.maximum(tl.maximum(tl.maximum(a, b), tl.maximum(c, d)), e))
        if KEEP:
            a, b, c, d = b, c, d, e


def _peaks(keep: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        planes, strips = (2, 1) if small else (8192, 4)
        x = random(planes, strips * 32 + 4, 144, dtype=torch.float16)
        out = empty(planes, strips * 32, 128, dtype=torch.float16)
        options = {"ROWS": 32, "WIDTH": 128, "PITCH": 144, "KEEP": keep, "num_warps": 4}
        return Launch(peaks_kernel, (strips, planes), (x, out), (out,), options)

    return prepare


_case = faults_of(7)


CASES = (
    _case(
        "channels normed four pixels at a time",
        ("uncoalesced-load", "uncoalesced-store"),
        ("counts",),
        True,
        _channel_norm(4, 4),
        _channel_norm(32, 8),
    ),
    _case(
        "pixels shuffled one channel at a time",
        ("uncoalesced-store",),
        ("counts",),
        True,
        _pixel_shuffle(False),
        _pixel_shuffle(True),
    ),
    _case(
        "spherical harmonics stored one by one",
        ("uncoalesced-store",),
        ("counts",),
        True,
        _spherical_harmonics(False),
        _spherical_harmonics(True),
    ),
    _case(
        "interleaved gates loaded apart",
        ("uncoalesced-load", "unvectorized-access"),
        ("counts",),
        True,
        _clamped_swiglu(False),
        _clamped_swiglu(True),
    ),
    _case(
        "checkpoints averaged a weight a thread",
        ("unvectorized-access",),
        ("counts", "samples"),
        True,
        _averaged_weights(256),
        _averaged_weights(2048),
    ),
    _case(
        "stereo costs of one disparity",
        ("tile-reread", "redundant-load"),
        ("counters", "counts"),
        True,
        _stereo_costs(1),
        _stereo_costs(16),
    ),
    _case(
        "rock planes loaded nine times",
        ("tile-reread", "redundant-load"),
        ("counters", "counts"),
        True,
        _wave(False),
        _wave(True),
    ),
    _case(
        "shared bias added to by each window",
        ("atomics",),
        ("counts", "samples"),
        True,
        _window_bias(False),
        _window_bias(True),
    ),
    _case(
        "features added neighbour by neighbour",
        ("atomics",),
        ("counts", "samples"),
        True,
        _neighbours(False),
        _neighbours(True),
    ),
    _case(
        "peaks of all 25 pixels",
        ("redundant-load",),
        ("counts",),
        True,
        _peaks(False),
        _peaks(True),
    ),
)
