"""Sixth round, faults of the launch: how work is shared among SMs, CTAs and warps."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from bench.corpus.case import Launch, Prepare, empty, faults_of, integers, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def _closeness(x, y, z, plane_ptr):
    """From 0 to 1, for points with three coordinates and a plane."""
    a, b = tl.load(plane_ptr), tl.load(plane_ptr + 1)
    c, d = tl.load(plane_ptr + 2), tl.load(plane_ptr + 3)
    away = a * x + b * y + c * z - d
    return tl.maximum(1.0 - away * away, 0.0)


@triton.jit
def plane_votes_kernel(
    point_ptr, plane_ptr, out_ptr, points, share, SPLIT: tl.constexpr, BLOCK: tl.constexpr
):
    """How well points lie on planes that were guessed; a program has all points, or some."""
    first, lanes = tl.program_id(1) * share, tl.arange(0, BLOCK)
    plane = plane_ptr + tl.program_id(0) * 12
    one = tl.zeros((BLOCK,), dtype=tl.float32)
    two, three = one, one
    for start in range(first, first + share, BLOCK):
        at = point_ptr + start + lanes
        x = tl.load(at).to(tl.float32)
        y = tl.load(at + points).to(tl.float32)
        z = tl.load(at + 2 * points).to(tl.float32)
        one += _closeness(x, y, z, plane)
        two += _closeness(x, y, z, plane + 4)
        three += _closeness(x, y, z, plane + 8)
    out = out_ptr + tl.program_id(0) * 3
    if SPLIT:
        tl.atomic_add(out, tl.sum(one, 0), sem="relaxed")
        tl.atomic_add(out + 1, tl.sum(two, 0), sem="relaxed")
        tl.atomic_add(out + 2, tl.sum(three, 0), sem="relaxed")
    else:
        tl.store(out, tl.sum(one, 0))
        tl.store(out + 1, tl.sum(two, 0))
        tl.store(out + 2, tl.sum(three, 0))


def _plane_votes(parts: int) -> Prepare:
    """parts: programs for the same planes."""

    def prepare(small: bool) -> Launch:
        points, planes = (65536, 6) if small else (1 << 20, 192)
        point, plane = random(3, points, dtype=torch.float16), random(planes, 4)
        out = zeros(planes)
        args = (point, plane, out, points, points // parts)
        options = {"SPLIT": parts > 1, "BLOCK": 4096, "num_warps": 16}
        return Launch(plane_votes_kernel, (planes // 3, parts), args, (out,), options)

    return prepare


@triton.jit
def _lattice_value(x, y):
    """A number from 0 to 1 for each point of a lattice."""
    mixed = (x * 374761393 + y * 668265263).to(tl.uint32)
    mixed = (mixed ^ (mixed >> 13)) * 1274126177
    return ((mixed >> 9) | 0x3F800000).to(tl.float32, bitcast=True) - 1.0


@triton.jit
def _noise(x, y, SIZE: tl.constexpr):
    """Values between the four points of a lattice around each pixel."""
    column, row = x // SIZE, y // SIZE
    right = (x % SIZE).to(tl.float32) * (1.0 / SIZE)
    low = (y % SIZE).to(tl.float32) * (1.0 / SIZE)
    right, low = right * right * (3.0 - 2.0 * right), low * low * (3.0 - 2.0 * low)
    a, b = _lattice_value(column, row), _lattice_value(column + 1, row)
    c, d = _lattice_value(column, row + 1), _lattice_value(column + 1, row + 1)
    upper, lower = a + right * (b - a), c + right * (d - c)
    return upper + low * (lower - upper)


@triton.jit
def terrain_kernel(out_ptr, blocks, OCTAVES: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Heights of a landscape: noise of several scales, between the points of a lattice."""
    for block in range(tl.program_id(0), blocks, tl.num_programs(0)):
        at = block * BLOCK + tl.arange(0, BLOCK)
        x, y = at % WIDTH, at // WIDTH
        height = tl.zeros((BLOCK,), dtype=tl.float32)
        for octave in tl.static_range(OCTAVES):
            height += _noise(x, y, 512 >> octave) * (1.0 / (1 << octave))
        tl.store(out_ptr + at, height)


def _terrain(programs: int) -> Prepare:
    """Blocks come out even for 72 programs, the SMs of another GPU, as well as for 132."""

    def prepare(small: bool) -> Launch:
        blocks = 22 if small else 72 * 11 * 8
        out = empty(blocks * 2048)
        options = {"OCTAVES": 6, "WIDTH": 4096, "BLOCK": 2048, "num_warps": 16}
        grid = (programs // 12 if small else programs,)
        return Launch(terrain_kernel, grid, (out, blocks), (out,), options)

    return prepare


@triton.jit
def nonces_kernel(out_ptr, seed, rounds, BLOCK: tl.constexpr):
    """What a hash makes of each nonce after some rounds."""
    nonce = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = nonce.to(tl.uint32) ^ seed
    b = nonce.to(tl.uint32) * 2654435769
    for _ in range(rounds):
        a = (a + b) * 2246822519
        b = ((b << 7) | (b >> 25)) ^ a
        a = a ^ (a >> 15)
    tl.store(out_ptr + nonce, ((a ^ b) >> 8).to(tl.int32))


def _nonces(block: int, warps: int) -> Prepare:
    """150 programs of 16384 nonces; an SM has room for one."""

    def prepare(small: bool) -> Launch:
        n, rounds = (32768, 8) if small else (150 * 16384, 256)
        out = empty(n, dtype=torch.int32)
        options = {"BLOCK": block, "num_warps": warps}
        return Launch(nonces_kernel, (n // block,), (out, 12345, rounds), (out,), options)

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


@triton.jit
def unit_quaternions_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """The turns of joints as quaternions of length 1, whose first part is positive."""
    at = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))[:, None] * 4 + tl.arange(0, 4)[None, :]
    x = tl.load(x_ptr + at).to(tl.float32)
    x *= tl.rsqrt(tl.sum(x * x, 1) + 1e-6)[:, None]
    first = tl.sum(tl.where(tl.arange(0, 4)[None, :] == 0, x, 0.0), 1)
    tl.store(out_ptr + at, tl.where(first[:, None] < 0.0, -x, x).to(tl.float16))


def _unit_quaternions(block: int, warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        n = 1 << (10 if small else 23)
        x = random(n, 4, dtype=torch.float16)
        out = torch.empty_like(x)
        options = {"BLOCK": block, "num_warps": warps}
        return Launch(unit_quaternions_kernel, (n // block,), (x, out), (out,), options)

    return prepare


@triton.jit
def chosen_beams_kernel(cache_ptr, beam_ptr, out_ptr, rows, length, SIZE: tl.constexpr):
    """Copies the cached keys of the beams that live on to their new places, position by position."""
    inside = tl.arange(0, SIZE)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        beam = tl.load(beam_ptr + row // length)
        source = (beam * length + row % length).to(tl.int64) * SIZE
        key = tl.load(cache_ptr + source + inside)
        tl.store(out_ptr + row.to(tl.int64) * SIZE + inside, key)


def _chosen_beams(programs: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        beams, length = (4, 16) if small else (32, 2048)
        cache = random(beams, length, 2048, dtype=torch.bfloat16)
        beam, out = integers(beams, below=beams), torch.empty_like(cache)
        args = (cache, beam, out, beams * length, length)
        options = {"SIZE": 2048, "num_warps": 4}
        grid = (programs // 132 if small else programs,)
        return Launch(chosen_beams_kernel, grid, args, (out,), options)

    return prepare


@triton.jit
def warped_distance_kernel(x_ptr, y_ptr, out_ptr, pairs, LENGTH: tl.constexpr):
    """The distance of two series that may run at different speeds (dynamic time warping), along diagonals."""
    at = tl.arange(0, LENGTH)
    before = tl.maximum(at - 1, 0)
    for pair in range(tl.program_id(0), pairs, tl.num_programs(0)):
        x = tl.load(x_ptr + pair * LENGTH + at)
        last = tl.where(at == 0, 0.0, 1e9)
        diagonal = tl.full((LENGTH,), 1e9, dtype=tl.float32)
        for step in range(2 * LENGTH - 1):
            other = step - at
            y = tl.load(y_ptr + pair * LENGTH + other, mask=(other >= 0) & (other < LENGTH), other=1e5)
            above = tl.where(at == 0, 1e9, tl.gather(diagonal, before, 0))
            corner = tl.where((at == 0) & (step > 0), 1e9, last)
            last = tl.where(at == 0, 1e9, above)
            diagonal = tl.minimum(tl.abs(x - y) + tl.minimum(corner, tl.minimum(above, diagonal)), 1e9)
        tl.store(out_ptr + pair, tl.sum(tl.where(at == LENGTH - 1, diagonal, 0.0), 0))


def _warped_distance(programs: int) -> Prepare:
    """With 528 programs of a warp, each scheduler of an SM has one."""

    def prepare(small: bool) -> Launch:
        pairs, length = (8, 32) if small else (4224 * 4, 128)
        x, y = (random(pairs, length) for _ in range(2))
        out = empty(pairs)
        options = {"LENGTH": length, "num_warps": 1}
        grid = (programs // 264 if small else programs,)
        return Launch(warped_distance_kernel, grid, (x, y, out, pairs), (out,), options)

    return prepare


@triton.jit
def sparsemax_kernel(x_ptr, out_ptr, STEPS: tl.constexpr, COLUMNS: tl.constexpr):
    """Sparsemax of rows: what is above a threshold, which halving an interval finds, adds up to 1."""
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + at).to(tl.float32)
    high = tl.max(x, 0)
    low = high - 1.0
    for _ in range(STEPS):
        middle = 0.5 * (low + high)
        above = tl.sum(tl.maximum(x - middle, 0.0), 0) > 1.0
        low, high = tl.where(above, middle, low), tl.where(above, high, middle)
    tl.store(out_ptr + at, tl.maximum(x - low, 0.0))


def _sparsemax(warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows = 4 if small else 1 << 15
        x, out = random(rows, 512, dtype=torch.float16), empty(rows, 512)
        options = {"STEPS": 24, "COLUMNS": 512, "num_warps": warps}
        return Launch(sparsemax_kernel, (rows,), (x, out), (out,), options)

    return prepare


@triton.jit
def pulse_power_kernel(phase_ptr, out_ptr, steps, HARMONICS: tl.constexpr, BLOCK: tl.constexpr):
    """The power of a pulse in photons' phases, summed over batches, of which each has its own power."""
    power = 0.0
    for step in range(steps):
        at = (tl.program_id(0) * steps + step) * BLOCK + tl.arange(0, BLOCK)
        phase = tl.load(phase_ptr + at)
        wave = tl.zeros((BLOCK,), dtype=tl.float32)
        for harmonic in tl.static_range(1, HARMONICS + 1):
            wave += libdevice.sin(phase * harmonic) * (1.0 / harmonic)  # fault
        power += tl.sum(wave * wave, 0)  # fault
    tl.store(out_ptr + tl.program_id(0), power)


def _pulse_power(in_step: bool) -> Prepare:
    """Each batch has 32 photons that came late, whose phases are large; one warp has them. in_step: those
    of eight batches are in the same one."""

    def prepare(small: bool) -> Launch:
        programs, steps = (1, 8) if small else (264, 64)
        shape = (programs * steps // 8, 8, 8, 32)
        batch, warp = torch.arange(8)[:, None], torch.arange(8)[None, :]
        late = (batch == (0 if in_step else warp)).expand(8, 8)[None, :, :, None]
        early_phase, late_phase = 50.0 * torch.rand(shape), 2e5 + 1e5 * torch.rand(shape)
        old_batch = (batch + warp) % 8 if in_step else batch.expand(8, 8)
        old_warp = warp.expand(8, 8)
        early_phase, late_phase = early_phase[:, old_batch, old_warp], late_phase[:, old_batch, old_warp]
        phase, out = torch.where(late, late_phase, early_phase).contiguous(), empty(programs)
        options = {"HARMONICS": 6, "BLOCK": 256, "num_warps": 8}
        return Launch(pulse_power_kernel, (programs,), (phase, out, steps), (out,), options)

    return prepare


_case = faults_of(6)


CASES = (
    _case(
        "64 programs for guessed planes",
        ("idle-sms", "low-occupancy"),
        ("ctas", "counters"),
        False,
        _plane_votes(1),
        _plane_votes(16),
    ),
    _case(
        "terrain by 72 programs",
        ("idle-sms", "low-occupancy"),
        ("ctas", "counters"),
        False,
        _terrain(72),
        _terrain(132),
    ),
    _case(
        "nonces in 1.14 waves",
        ("tail",),
        ("ctas",),
        False,
        _nonces(16384, 32),
        _nonces(1024, 4),
    ),
    _case(
        "neighbouring lines of sight in one program",
        ("load-imbalance", "tail"),
        ("ctas", "spans"),
        False,
        _limb_rays(False),
        _limb_rays(True),
    ),
    _case(
        "a CTA for each pose of 16 joints",
        ("tiny-ctas",),
        ("ctas", "counters"),
        False,
        _unit_quaternions(16, 1),
        _unit_quaternions(512, 4),
    ),
    _case(
        "beams copied by 132 programs",
        ("low-occupancy", "exposed-latency"),
        ("ctas", "counters", "samples"),
        False,
        _chosen_beams(132),
        _chosen_beams(132 * 8),
    ),
    _case(
        "series warped by 528 lone warps",
        ("low-occupancy", "exposed-latency"),
        ("ctas", "counters", "samples"),
        False,
        _warped_distance(528),
        _warped_distance(4224),
    ),
    _case(
        "sparsemax by 8 warps",
        ("too-many-warps", "serial-reduction"),
        ("counts", "resources"),
        True,
        _sparsemax(8),
        _sparsemax(1),
    ),
    _case(
        "late photons of one warp",
        ("late-warp",),
        ("spans", "samples"),
        False,
        _pulse_power(False),
        _pulse_power(True),
    ),
)
