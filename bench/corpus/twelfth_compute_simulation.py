"""Twelfth round, faults of simulations: light, fields, matrices, bonds, chance, molecules, lines."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from bench.corpus.case import Launch, Prepare, empty, faults_of, integers, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def occlusion_kernel(place_ptr, normal_ptr, sphere_ptr, out_ptr, points, spheres, BLOCK: tl.constexpr):
    """How much of the sky spheres hide from points of a surface, each as if alone (ambient occlusion)."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(place_ptr + at), tl.load(place_ptr + points + at)
    z = tl.load(place_ptr + 2 * points + at)
    across, along = tl.load(normal_ptr + at), tl.load(normal_ptr + points + at)
    up = tl.load(normal_ptr + 2 * points + at)
    hidden = tl.zeros((BLOCK,), dtype=tl.float32)
    for each in range(spheres):
        sphere = sphere_ptr + 4 * each
        dx, dy = tl.load(sphere) - x, tl.load(sphere + 1) - y
        dz = tl.load(sphere + 2) - z
        near = tl.rsqrt(dx * dx + dy * dy + dz * dz + 0.01)
        facing = (dx * across + dy * along + dz * up) * near
        hidden += tl.maximum(facing, 0.0) * tl.minimum(tl.load(sphere + 3) * near * near, 1.0)
    tl.store(out_ptr + at, hidden)


def _occlusion(block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        points, spheres = (16384, 16) if small else (148 * 8192, 1024)
        place, normal = random(3, points), torch.nn.functional.normalize(random(3, points), dim=0)
        sphere, out = torch.rand(spheres, 4), empty(points)
        args = (place, normal, sphere, out, points, spheres)
        options = {"BLOCK": block, "num_warps": num_warps}
        return Launch(occlusion_kernel, (points // block,), args, (out,), options)

    return prepare


@triton.jit
def depth_derivative_kernel(
    x_ptr, weight_ptr, out_ptr, plane, BLOCK: tl.constexpr, LEVEL_FIRST: tl.constexpr
):
    """Derivatives along the depth of an ocean, of eighth order, of planes one below the other."""
    if LEVEL_FIRST:
        level, block = tl.program_id(0), tl.program_id(1)
    else:
        level, block = tl.program_id(1), tl.program_id(0)  # fault
    at = level * plane + block * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for each in tl.static_range(1, 5):  # fault
        below = tl.load(x_ptr + at + (4 + each) * plane)  # fault
        above = tl.load(x_ptr + at + (4 - each) * plane)  # fault
        total += tl.load(weight_ptr + each - 1) * (below - above)
    tl.store(out_ptr + at, total)


def _depth_derivative(level_first: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        levels, plane = (4, 2048) if small else (24, 2048 * 2048)
        x, out = random(levels + 8, plane), empty(levels, plane)
        weight = torch.tensor([4 / 5, -1 / 5, 4 / 105, -1 / 280])
        options = {"BLOCK": 1024, "LEVEL_FIRST": level_first, "num_warps": 4}
        grid = (levels, plane // 1024) if level_first else (plane // 1024, levels)
        return Launch(depth_derivative_kernel, grid, (x, weight, out, plane), (out,), options)

    return prepare


@triton.jit
def block_cyclic_kernel(
    x_ptr, out_ptr, scale, size, block, across, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    BLOCK: tl.constexpr, ACROSS: tl.constexpr,
):  # fmt: skip
    """A matrix put together from the parts that a square of processes holds in turn (ScaLAPACK),
    scaled. BLOCK: size of blocks, if the compiler may know it."""
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    if BLOCK:
        row_block, column_block = row // BLOCK, column // BLOCK
        part = (row_block % ACROSS) * ACROSS + column_block % ACROSS
        inner_row = row_block // ACROSS * BLOCK + row % BLOCK
        inner_column = column_block // ACROSS * BLOCK + column % BLOCK
        length = size // ACROSS
        x = tl.load(x_ptr + part * length * length + inner_row * length + inner_column)
    else:
        flat = row.to(tl.int64) * size + column  # fault
        i, j = flat // size, flat % size  # fault
        row_block, column_block = i // block, j // block  # fault
        part = (row_block % across) * across + column_block % across  # fault
        inner_row = row_block // across * block + i % block  # fault
        inner_column = column_block // across * block + j % block  # fault
        length = size // across
        x = tl.load(x_ptr + part * length * length + inner_row * length + inner_column)  # fault
    tl.store(out_ptr + row * size + column, x * scale)


def _block_cyclic(known: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        size = 256 if small else 8192
        x, out = random(size, size), empty(size, size)
        rows, columns = (64, 128) if small else (4, 1024)
        options = {"ROWS": rows, "COLUMNS": columns, "BLOCK": 64 if known else 0, "ACROSS": 2}
        args = (x, out, 0.5, size, 64, 2)
        grid = (size // columns, size // rows)
        return Launch(block_cyclic_kernel, grid, args, (out,), options | {"num_warps": 8})

    return prepare


@triton.jit
def star_colours_kernel(
    heat_ptr, band_ptr, out_ptr, stars, bands, power, BLOCK: tl.constexpr, POWER: tl.constexpr
):
    """Red, green and blue of stars from their temperatures, by the law of Planck at many wavelengths."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    heat = tl.load(heat_ptr + at)
    red, green = tl.zeros((BLOCK,), dtype=tl.float32), tl.zeros((BLOCK,), dtype=tl.float32)
    blue = tl.zeros((BLOCK,), dtype=tl.float32)
    for each in range(bands):
        band = band_ptr + each * 4
        share = 1.0 / (heat * tl.load(band))
        if POWER:
            fifth = libdevice.pow(share, power)  # fault
        else:
            square = share * share
            fifth = square * square * share
        light = fifth / (tl.exp2(20.76 * share) - 1.0)
        red += light * tl.load(band + 1)
        green += light * tl.load(band + 2)
        blue += light * tl.load(band + 3)
    tl.store(out_ptr + at, red)
    tl.store(out_ptr + stars + at, green)
    tl.store(out_ptr + 2 * stars + at, blue)


def _star_colours(power: bool) -> Prepare:
    """Temperatures in thousands of degrees, wavelengths in um."""

    def prepare(small: bool) -> Launch:
        stars, bands = (1024, 8) if small else (1 << 22, 32)
        heat, band, out = 3.0 + 7.0 * torch.rand(stars), torch.rand(bands, 4), empty(3, stars)
        band[:, 0] = torch.linspace(0.38, 0.72, bands)
        options = {"BLOCK": 512, "POWER": power, "num_warps": 4}
        args = (heat, band, out, stars, bands, 5.0)
        return Launch(star_colours_kernel, (stars // 512,), args, (out,), options)

    return prepare


@triton.jit
def bond_yields_kernel(
    coupon_ptr, price_ptr, out_ptr, payments, STEPS: tl.constexpr, BLOCK: tl.constexpr, WIDE: tl.constexpr
):
    """Yields of bonds from their prices, by steps of Newton on the discount of a period."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    coupon, price = tl.load(coupon_ptr + at), tl.load(price_ptr + at)
    if WIDE:
        coupon, price = coupon.to(tl.float64), price.to(tl.float64)  # fault
    discount = coupon * 0.0 + 1.0
    for _ in range(STEPS):
        value, slope = coupon * 0.0 + 1.0, coupon * 0.0
        for _ in range(payments):
            due = value + coupon  # fault
            slope = slope * discount + due  # fault
            value = due * discount  # fault
        discount -= (value - price) / slope  # fault
    tl.store(out_ptr + at, (1.0 / discount - 1.0).to(tl.float32))


def _bond_yields(wide: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        bonds, payments = (1024, 8) if small else (1 << 22, 40)
        coupon, price, out = 0.01 + 0.03 * torch.rand(bonds), 0.8 + 0.3 * torch.rand(bonds), empty(bonds)
        options = {"STEPS": 8, "BLOCK": 512, "WIDE": wide, "num_warps": 4}
        grid = (bonds // 512,)
        return Launch(bond_yields_kernel, grid, (coupon, price, out, payments), (out,), options)

    return prepare


@triton.jit
def legendre_kernel(
    legendre_ptr, field_ptr, out_ptr, degrees, fields, latitudes, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Spherical harmonics of fields of the atmosphere: Legendre's functions times rings of latitude."""
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    column, inner = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS), tl.arange(0, DEPTH)
    legendre_at = legendre_ptr + row[:, None] * latitudes + inner[None, :]
    field_at = field_ptr + column[None, :] * latitudes + inner[:, None]
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for _ in range(0, latitudes, DEPTH):
        legendre, field = tl.load(legendre_at), tl.load(field_at)
        total = tl.dot(legendre, field, total, input_precision=PRECISION)  # fault
        legendre_at += DEPTH
        field_at += DEPTH
    tl.store(out_ptr + row[:, None] * fields + column[None, :], total)


def _legendre(precision: str) -> Prepare:
    def prepare(small: bool) -> Launch:
        degrees, fields, latitudes = (256, 256, 64) if small else (4096, 4096, 2048)
        legendre, field = random(degrees, latitudes), random(fields, latitudes)
        out = empty(degrees, fields)
        options = {"ROWS": 128, "COLUMNS": 128, "DEPTH": 32, "PRECISION": precision, "num_warps": 8}
        args = (legendre, field, out, degrees, fields, latitudes)
        grid = (fields // 128, degrees // 128)
        return Launch(legendre_kernel, grid, args, (out,), options | {"num_stages": 3})

    return prepare


@triton.jit
def losses_drawn_kernel(state_ptr, out_ptr, streams, chance, draws, BLOCK: tl.constexpr):
    """How many loans of each scenario fail, by generators of Tausworthe (taus88)."""
    stream = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = state_ptr + stream
    a = tl.load(at).to(tl.uint32, bitcast=True)
    b = tl.load(at + streams).to(tl.uint32, bitcast=True)
    c = tl.load(at + 2 * streams).to(tl.uint32, bitcast=True)
    failed = tl.zeros((BLOCK,), dtype=tl.int32)
    for _ in range(draws):  # fault
        a = ((a & 0xFFFFFFFE) << 12) ^ (((a << 13) ^ a) >> 19)  # fault
        b = ((b & 0xFFFFFFF8) << 4) ^ (((b << 2) ^ b) >> 25)  # fault
        c = ((c & 0xFFFFFFF0) << 17) ^ (((c << 3) ^ c) >> 11)  # fault
        number = ((a ^ b ^ c) >> 8).to(tl.int32).to(tl.float32) * (1.0 / 16777216.0)  # fault
        failed += (number < chance).to(tl.int32)  # fault
    tl.store(out_ptr + stream, failed)


def _losses_drawn(block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        streams, draws = (16384, 4) if small else (1056 * 8192, 16)
        state = integers(3, streams, below=2147483647)
        out = empty(streams, dtype=torch.int32)
        options = {"BLOCK": block, "num_warps": num_warps}
        args = (state, out, streams, 0.3, draws)
        return Launch(losses_drawn_kernel, (streams // block,), args, (out,), options)

    return prepare


@triton.jit
def probed_volume_kernel(
    volume_ptr, place_ptr, out_ptr, probes, steps, SIDE: tl.constexpr, BLOCK: tl.constexpr
):
    """The values of a scanned volume at places anywhere in it, linear between its voxels."""
    for step in tl.range(steps, num_stages=1):
        at = (step * tl.num_programs(0) + tl.program_id(0)) * BLOCK + tl.arange(0, BLOCK)
        x, y = tl.load(place_ptr + at), tl.load(place_ptr + probes + at)
        z = tl.load(place_ptr + 2 * probes + at)
        i, j, k = x.to(tl.int32), y.to(tl.int32), z.to(tl.int32)
        x, y, z = x - i.to(tl.float32), y - j.to(tl.float32), z - k.to(tl.float32)
        voxel = volume_ptr + (i * SIDE + j) * SIDE + k
        total = tl.zeros((BLOCK,), dtype=tl.float32)
        for corner in tl.static_range(4):
            row = voxel + (corner // 2 * SIDE + corner % 2) * SIDE
            share = (x if corner // 2 else 1.0 - x) * (y if corner % 2 else 1.0 - y)
            first, second = tl.load(row), tl.load(row + 1)
            total += share * (first + z * (second - first))
        tl.store(out_ptr + at, total)


def _probed_volume(programs: int, block: int, num_warps: int) -> Prepare:
    """programs: 0 for one for each block of probes."""

    def prepare(small: bool) -> Launch:
        side, probes = (16, 1024) if small else (512, 132 * 32 * 1024)
        volume, out = random(side, side, side), empty(probes)
        place = torch.rand(3, probes) * (side - 1.01)
        grid = (min(programs, 4) if small else programs) if programs else probes // block
        args = (volume, place, out, probes, probes // block // grid)
        options = {"SIDE": side, "BLOCK": block, "num_warps": num_warps}
        return Launch(probed_volume_kernel, (grid,), args, (out,), options)

    return prepare


@triton.jit
def potential_kernel(
    atom_ptr, out_ptr, length, height, atoms, spacing, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """The potential of a molecule's charges at the points of a lattice around it, summed directly."""
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)  # fault
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    x, y = column.to(tl.float32) * spacing, (row % height).to(tl.float32) * spacing
    z = (row // height).to(tl.float32) * spacing
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for each in range(atoms):  # fault
        atom = atom_ptr + each * 4
        dx, dy, dz = x - tl.load(atom), y - tl.load(atom + 1), z - tl.load(atom + 2)  # fault
        near = tl.rsqrt((dy * dy + dz * dz + 0.01)[:, None] + (dx * dx)[None, :])  # fault
        total += tl.load(atom + 3) * near  # fault
    at = row[:, None] * length + column[None, :]
    tl.store(out_ptr + at, total, mask=(column < length)[None, :])  # fault


def _potential(rows: int, columns: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        length, height, depth, atoms = (144, 32, 1, 32) if small else (144, 144, 128, 512)
        atom, out = torch.rand(atoms, 4), empty(depth * height, length)
        grid = (-(-length // columns), depth * height // rows)
        options = {"ROWS": rows, "COLUMNS": columns, "num_warps": 4}
        args = (atom, out, length, height, atoms, 1.0 / 144.0)
        return Launch(potential_kernel, grid, args, (out,), options)

    return prepare


@triton.jit
def hough_votes_kernel(
    x_ptr, y_ptr, angle_ptr, votes_ptr, STEPS: tl.constexpr, BLOCK: tl.constexpr, BINS: tl.constexpr,
    SHARED: tl.constexpr,
):  # fmt: skip
    """Votes of an image's edges for straight lines: one of each edge for each angle (Hough)."""
    angle = tl.program_id(1)
    cosine, sine = tl.load(angle_ptr + 2 * angle), tl.load(angle_ptr + 2 * angle + 1)
    votes_at = votes_ptr + angle * BINS
    counts = tl.zeros((BINS,), dtype=tl.int32)
    for step in range(STEPS):
        at = (tl.program_id(0) * STEPS + step) * BLOCK + tl.arange(0, BLOCK)
        far = tl.load(x_ptr + at) * cosine + tl.load(y_ptr + at) * sine
        place = (far * 0.04 + BINS // 2).to(tl.int32)
        if SHARED:
            counts += tl.histogram(place, BINS)
        else:
            tl.atomic_add(votes_at + place, 1, sem="relaxed")  # fault
    if SHARED:
        tl.atomic_add(votes_at + tl.arange(0, BINS), counts, sem="relaxed")


def _hough_votes(shared: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        edges, angles, steps, block = (1024, 2, 2, 512) if small else (1 << 18, 256, 8, 4096)
        x, y = torch.rand(edges) * 1000.0, torch.rand(edges) * 1000.0
        turn = torch.arange(angles) * (torch.pi / angles)
        angle = torch.stack([torch.cos(turn), torch.sin(turn)], 1)
        votes = zeros(angles, 128, dtype=torch.int32)
        options = {"STEPS": steps, "BLOCK": block, "BINS": 128, "SHARED": shared, "num_warps": 8}
        grid = (edges // block // steps, angles)
        return Launch(hough_votes_kernel, grid, (x, y, angle, votes), (votes,), options)

    return prepare


_fault = faults_of(12)


CASES = (
    _fault(
        "hidden sky of points by 148 programs",
        ("tail", "load-imbalance"),
        ("ctas", "spans"),
        False,
        _occlusion(8192, 16),
        _occlusion(512, 4),
    ),
    _fault(
        "derivatives along the depth plane by plane",
        ("tile-reread", "redundant-load"),
        ("counts", "counters"),
        False,
        _depth_derivative(False),
        _depth_derivative(True),
    ),
    _fault(
        "blocks of a matrix found by division",
        ("index-arithmetic", "issue-bound", "unvectorized-access"),
        ("counts", "samples"),
        True,
        _block_cyclic(False),
        _block_cyclic(True),
    ),
    _fault(
        "colours of stars by pow",
        ("slow-math",),
        ("counts", "samples"),
        True,
        _star_colours(True),
        _star_colours(False),
    ),
    _fault(
        "yields of bonds in float64",
        ("fp64-arithmetic",),
        ("counts", "samples"),
        True,
        _bond_yields(True),
        _bond_yields(False),
    ),
    _fault(
        "spherical harmonics of three products each",
        ("small-mma", "mma-not-overlapped", "conversions"),
        ("counts", "counters"),
        True,
        _legendre("tf32x3"),
        _legendre("tf32"),
    ),
    _fault(
        "failed loans of scenarios by 4 warps",
        ("register-spills",),
        ("resources", "counts"),
        True,
        _losses_drawn(8192, 4),
        _losses_drawn(1024, 4),
    ),
    _fault(
        "probes of a volume by 132 lone warps",
        ("low-occupancy", "exposed-latency"),
        ("ctas", "samples", "spans"),
        False,
        _probed_volume(132, 32, 1),
        _probed_volume(0, 256, 4),
    ),
    _fault(
        "potential at rows of 144 points by 256",
        ("masked-work",),
        ("counts",),
        True,
        _potential(2, 256),
        _potential(32, 16),
    ),
    _fault(
        "votes for lines one by one",
        ("atomics",),
        ("counts", "samples"),
        True,
        _hough_votes(False),
        _hough_votes(True),
    ),
)
