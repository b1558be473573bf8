"""Fourteenth round, faults of medical imaging: coils, fields, scans, slices, tensors, diffusion, axes."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, Prepare, empty, faults_of, integers, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def joined_coils_kernel(echo_ptr, map_ptr, out_ptr, coils, of_pixel, of_coil, of_part, BLOCK: tl.constexpr):
    """Complex pictures of all coils of a scanner joined by the coils' sensitivities (Roemer)."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    real, imaginary = tl.zeros((BLOCK,), dtype=tl.float32), tl.zeros((BLOCK,), dtype=tl.float32)
    weight = tl.zeros((BLOCK,), dtype=tl.float32) + 1e-3
    for coil in range(coils):
        place = at * of_pixel + coil * of_coil
        a, b = tl.load(echo_ptr + place), tl.load(echo_ptr + place + of_part)  # fault
        c, d = tl.load(map_ptr + place), tl.load(map_ptr + place + of_part)  # fault
        real += a * c + b * d
        imaginary += b * c - a * d
        weight += c * c + d * d
    tl.store(out_ptr + at, tl.sqrt(real * real + imaginary * imaginary) / weight)


def _joined_coils(coil_last: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        pixels, coils = 2048 if small else 1 << 21, 16
        echo, sensitivity = random(pixels, coils, 2), random(pixels, coils, 2)
        strides = (2 * coils, 2, 1)
        if not coil_last:
            echo, sensitivity = (each.permute(1, 2, 0).contiguous() for each in (echo, sensitivity))
            strides = (1, 2 * pixels, pixels)
        out = empty(pixels)
        args = (echo, sensitivity, out, coils, *strides)
        return Launch(joined_coils_kernel, (pixels // 512,), args, (out,), {"BLOCK": 512, "num_warps": 4})

    return prepare


@triton.jit
def susceptible_kernel(
    source_ptr, low_ptr, high_ptr, out_ptr, planes, rows, sources, LENGTH: tl.constexpr, SPREAD: tl.constexpr
):
    """The field that small magnets shift in a body, whose rows of voxels in each plane a contour bounds.
    SPREAD: the rows of each plane are shared by all programs, not planes one after the other."""
    programs = tl.num_programs(0)
    column = tl.arange(0, LENGTH)
    x = column.to(tl.float32) * 0.01
    if SPREAD:
        first, last, step = 0, planes, programs
    else:
        first = tl.program_id(0) * (planes // programs)
        last, step = first + planes // programs, 1
    for plane in range(first, last):  # fault
        low, high = tl.load(low_ptr + plane), tl.load(high_ptr + plane)
        if SPREAD:
            low += (tl.program_id(0) + plane * 61) % programs
        z = plane.to(tl.float32) * 0.01
        for row in range(low, high, step):  # fault
            y = row.to(tl.float32) * 0.01
            total = tl.zeros((LENGTH,), dtype=tl.float32)
            for source in range(sources):  # fault
                at = source_ptr + 4 * source
                dx = x - tl.load(at)  # fault
                dy, dz = y - tl.load(at + 1), z - tl.load(at + 2)
                square = dx * dx + (dy * dy + dz * dz + 0.01)  # fault
                near = tl.rsqrt(square)  # fault
                second = near * near  # fault
                total += (second * near) * ((3.0 * tl.load(at + 3) * dz * dz) * second - 1.0)  # fault
            tl.store(out_ptr + (plane * rows + row) * LENGTH + column, total)


def _susceptible(spread: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        programs, rows, sources = (4, 16, 4) if small else (132, 256, 64)
        planes = 2 * programs
        across = (torch.arange(planes) + 0.5) * (2.0 / planes) - 1.0
        half = (0.5 * rows * (1.0 - across * across)).int() + 1
        low, high = (rows // 2 - half).clamp(min=0).int(), (rows // 2 + half).clamp(max=rows).int()
        source, out = 2.0 * torch.rand(sources, 4), zeros(planes, rows, 1024)
        options = {"LENGTH": 1024, "SPREAD": spread, "num_warps": 16}
        args = (source, low, high, out, planes, rows, sources)
        return Launch(susceptible_kernel, (programs,), args, (out,), options)

    return prepare


@triton.jit
def foreground_kernel(x_ptr, out_ptr, least, voxels, steps, BLOCK: tl.constexpr):
    """Number, sum and squares of the voxels of each scan that are not air, to make scans alike."""
    scan = tl.program_id(1)
    at = x_ptr + scan * voxels + tl.program_id(0) * steps * BLOCK + tl.arange(0, BLOCK)
    number, total = tl.zeros((BLOCK,), dtype=tl.float32), tl.zeros((BLOCK,), dtype=tl.float32)
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for _ in range(steps):
        x = tl.load(at).to(tl.float32)
        tissue = tl.where(x > least, x, 0.0)
        number += tl.where(x > least, 1.0, 0.0)
        total += tissue
        squares += tissue * tissue
        at += BLOCK
    tl.atomic_add(out_ptr + 3 * scan, tl.sum(number, 0), sem="relaxed")
    tl.atomic_add(out_ptr + 3 * scan + 1, tl.sum(total, 0), sem="relaxed")
    tl.atomic_add(out_ptr + 3 * scan + 2, tl.sum(squares, 0), sem="relaxed")


def _foreground(parts: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        scans, voxels, shares = (2, 4 * 4096, min(parts, 2)) if small else (20, 1 << 22, parts)
        x, out = random(scans, voxels, dtype=torch.float16), zeros(scans, 3)
        args = (x, out, 0.1, voxels, voxels // shares // 4096)
        return Launch(foreground_kernel, (shares, scans), args, (out,), {"BLOCK": 4096, "num_warps": 8})

    return prepare


@triton.jit
def round_view_kernel(
    line_ptr, angle_ptr, out_ptr, height, width, bins, views, square, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr, SKIP: tl.constexpr,
):  # fmt: skip
    """Slices from filtered lines of parallel rays, in the circle that the detector sees, zero around it.
    SKIP: no work for tiles that are all outside of it."""
    slice_at, view_at = tl.program_id(2) * views * bins, angle_ptr
    row, column = tl.program_id(1) * ROWS + tl.arange(0, ROWS), tl.program_id(0) * COLUMNS
    column += tl.arange(0, COLUMNS)
    y, x = row.to(tl.float32) - 0.5 * height, column.to(tl.float32) - 0.5 * width
    inside = x[None, :] * x[None, :] + y[:, None] * y[:, None] < square  # fault
    steps = views
    if SKIP:
        steps = tl.where(tl.min(y * y, 0) + tl.min(x * x, 0) < square, views, 0)
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    at = line_ptr + slice_at
    for _ in range(steps):  # fault
        far = (x * tl.load(view_at))[None, :] + (y * tl.load(view_at + 1) + 0.5 * bins)[:, None]  # fault
        low = far.to(tl.int32)  # fault
        low = tl.minimum(tl.maximum(low, 0), bins - 2)  # fault
        share = far - low.to(tl.float32)  # fault
        first, second = tl.load(at + low), tl.load(at + low + 1)  # fault
        total += first + share * (second - first)  # fault
        at += bins
        view_at += 2
    out_at = out_ptr + (tl.program_id(2) * height + row[:, None]) * width + column[None, :]
    tl.store(out_at, tl.where(inside, total, 0.0))  # fault


def _round_view(skip: bool) -> Prepare:
    """Few bins outside of the circle are still inside of the lines, so that nothing gets far from them."""

    def prepare(small: bool) -> Launch:
        slices, height, width = (1, 32, 256) if small else (64, 512, 512)
        views, square = (4, 50.0**2) if small else (192, 200.0**2)
        line, turn = random(slices, views, 512), torch.arange(views) * (torch.pi / views)
        angle, out = torch.stack([torch.cos(turn), torch.sin(turn)], 1), empty(slices, height, width)
        options = {"ROWS": 32, "COLUMNS": 32, "SKIP": skip, "num_warps": 4}
        args = (line, angle, out, height, width, 512, views, square)
        return Launch(round_view_kernel, (width // 32, height // 32, slices), args, (out,), options)

    return prepare


@triton.jit
def main_direction_kernel(tensor_ptr, power_ptr, out_ptr, voxels, steps, BLOCK: tl.constexpr):
    """Main directions of tensors of diffusion, as columns of powers of them: squared again and again.
    Their traces, weighed, say how long tensors are and lean along x."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    xx, xy = tl.load(tensor_ptr + at), tl.load(tensor_ptr + voxels + at)  # fault
    xz, yy = tl.load(tensor_ptr + 2 * voxels + at), tl.load(tensor_ptr + 3 * voxels + at)  # fault
    yz, zz = tl.load(tensor_ptr + 4 * voxels + at), tl.load(tensor_ptr + 5 * voxels + at)  # fault
    size, lean = tl.zeros((BLOCK,), dtype=tl.float32), tl.zeros((BLOCK,), dtype=tl.float32)  # fault
    for step in range(steps):  # fault
        trace = xx + yy + zz  # fault
        weight = tl.load(power_ptr + step)
        size, lean = size + weight * trace, lean + weight * (xx * trace)  # fault
        scale = 1.0 / trace  # fault
        xx, xy, xz = xx * scale, xy * scale, xz * scale  # fault
        yy, yz, zz = yy * scale, yz * scale, zz * scale  # fault
        new_xx, new_yy = xx * xx + xy * xy + xz * xz, xy * xy + yy * yy + yz * yz  # fault
        new_zz, new_xy = xz * xz + yz * yz + zz * zz, xx * xy + xy * yy + xz * yz  # fault
        xz, yz = xx * xz + xy * yz + xz * zz, xy * xz + yy * yz + yz * zz  # fault
        xx, yy, zz, xy = new_xx, new_yy, new_zz, new_xy  # fault
    length = tl.rsqrt(xx * xx + xy * xy + xz * xz + 1e-12)
    tl.store(out_ptr + at, xx * length)
    tl.store(out_ptr + voxels + at, xy * length)
    tl.store(out_ptr + 2 * voxels + at, xz * length)
    tl.store(out_ptr + 3 * voxels + at, size)
    tl.store(out_ptr + 4 * voxels + at, lean)


def _main_direction(block: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        voxels, steps = (16384, 4) if small else (1 << 23, 16)
        a, b, c = random(3, voxels), 0.3 * random(3, voxels), 0.3 * random(3, voxels)
        pairs = ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))
        tensor = torch.stack([sum((v[i] * v[j] for v in (a, b, c)), 0.01 * (i == j)) for i, j in pairs])
        power, out = 0.5 ** torch.arange(steps), empty(5, voxels)
        options = {"BLOCK": block, "num_warps": 4}
        args = (tensor, power, out, voxels, steps)
        return Launch(main_direction_kernel, (voxels // block,), args, (out,), options)

    return prepare


@triton.jit
def harmonics_kernel(
    signal_ptr, basis_ptr, out_ptr, ROWS: tl.constexpr, DIRECTIONS: tl.constexpr, TERMS: tl.constexpr,
    DEPTH: tl.constexpr, DOT: tl.constexpr,
):  # fmt: skip
    """Coefficients of spherical harmonics of signals that were measured in many directions of diffusion."""
    row, term = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, TERMS)
    inner = tl.arange(0, DEPTH)
    signal_at = signal_ptr + row[:, None] * DIRECTIONS + inner[None, :]
    basis_at = basis_ptr + inner[:, None] * TERMS + term[None, :]
    total = tl.zeros((ROWS, TERMS), dtype=tl.float32)
    for _ in range(0, DIRECTIONS, DEPTH):
        signal, basis = tl.load(signal_at), tl.load(basis_at)
        if DOT:
            total = tl.dot(signal, basis, total)
        else:
            product = signal.to(tl.float32)[:, :, None] * basis.to(tl.float32)[None, :, :]  # fault
            total += tl.sum(product, 1)  # fault
        signal_at += DEPTH
        basis_at += DEPTH * TERMS
    tl.store(out_ptr + row[:, None] * TERMS + term[None, :], total.to(tl.float16))


def _harmonics(dot: bool, rows: int, depth: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        voxels = 4 * rows if small else 1 << 20
        voxels = max(voxels, 512)
        signal, basis = torch.rand(voxels, 128).half(), random(128, 64, dtype=torch.float16)
        out = empty(voxels, 64, dtype=torch.float16)
        options = {"ROWS": rows, "DIRECTIONS": 128, "TERMS": 64, "DEPTH": depth, "DOT": dot}
        args = (signal, basis, out)
        return Launch(harmonics_kernel, (voxels // rows,), args, (out,), options | {"num_warps": 4})

    return prepare


@triton.jit
def common_axes_kernel(
    x_ptr, out_ptr, slope, offset, depth, height, width, BLOCK: tl.constexpr, COLUMNS: tl.constexpr,
    FLAT: tl.constexpr,
):  # fmt: skip
    """Values of a scan as densities, planes and rows turned round so that axes point as in all scans."""
    if FLAT:
        at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)  # fault
        plane = height.to(tl.int64) * width  # fault
        z, y, x = at // plane, at % plane // width, at % width  # fault
        source = ((depth - 1 - z) * height + (height - 1 - y)) * width + x  # fault
        value = tl.load(x_ptr + source)  # fault
    else:
        x = tl.arange(0, COLUMNS)[None, :]
        y = (tl.program_id(0) * (BLOCK // COLUMNS) + tl.arange(0, BLOCK // COLUMNS))[:, None]
        z = tl.program_id(1)
        at = (z * height + y) * width + x
        value = tl.load(x_ptr + ((depth - 1 - z) * height + (height - 1 - y)) * width + x)
    tl.store(out_ptr + at, value.to(tl.float32) * slope + offset)


def _common_axes(flat: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        depth, height, width = (2, 16, 512) if small else (640, 512, 512)
        x = integers(depth, height, width, below=4096, dtype=torch.int16)
        out = empty(depth, height, width)
        grid = (depth * height // 8,) if flat else (height // 8, depth)
        options = {"BLOCK": 4096, "COLUMNS": 512, "FLAT": flat, "num_warps": 4}
        args = (x, out, 0.01, -10.0, depth, height, width)
        return Launch(common_axes_kernel, grid, args, (out,), options)

    return prepare


@triton.jit
def shrunk_kernel(
    x_ptr, grad_ptr, old_ptr, out_ptr, ahead_ptr, rate, least, share, blocks, BLOCK: tl.constexpr
):
    """A step towards a picture of few wavelets from too few measurements (FISTA)."""
    for block in tl.range(tl.program_id(0), blocks, tl.num_programs(0), num_stages=1):
        at = block * BLOCK + tl.arange(0, BLOCK)
        x, grad, old = tl.load(x_ptr + at), tl.load(grad_ptr + at), tl.load(old_ptr + at)
        moved = x - rate * grad
        size = tl.maximum(tl.abs(moved) - least, 0.0)
        new = tl.where(moved < 0.0, -size, size)
        tl.store(out_ptr + at, new)
        tl.store(ahead_ptr + at, new + share * (new - old))


def _shrunk(programs: int, block: int) -> Prepare:
    """programs: 0 for one for each block."""

    def prepare(small: bool) -> Launch:
        wavelets = 8192 if small else 1 << 25
        x, grad, old = random(wavelets), random(wavelets), random(wavelets)
        out, ahead = empty(wavelets), empty(wavelets)
        blocks = wavelets // block
        grid = (min(programs, 4) if small else programs) if programs else blocks
        args = (x, grad, old, out, ahead, 0.1, 0.5, 0.7, blocks)
        options = {"BLOCK": block, "num_warps": 4}
        return Launch(shrunk_kernel, (grid,), args, (out, ahead), options)

    return prepare


_fault = faults_of(14)

CASES = (
    _fault(
        "coils joined with the coil last",
        ("uncoalesced-load", "unvectorized-access"),
        ("counts", "samples"),
        True,
        _joined_coils(True),
        _joined_coils(False),
    ),
    _fault(
        "fields in a body by two planes a program",
        ("load-imbalance", "tail"),
        ("ctas", "spans"),
        False,
        _susceptible(False),
        _susceptible(True),
    ),
    _fault(
        "tissue of 20 scans by one program each",
        ("idle-sms", "low-occupancy"),
        ("ctas", "spans"),
        False,
        _foreground(1),
        _foreground(64),
    ),
    _fault(
        "slices projected back around the seen circle",
        ("masked-work",),
        ("counts", "spans"),
        True,
        _round_view(False),
        _round_view(True),
    ),
    _fault(
        "directions of diffusion of 32 voxels a thread",
        ("register-spills",),
        ("resources", "counts"),
        True,
        _main_direction(4096),
        _main_direction(512),
    ),
    _fault(
        "harmonics of diffusion by sums of products",
        ("no-tensor-cores", "serial-reduction"),
        ("counts", "samples"),
        True,
        _harmonics(False, 16, 8),
        _harmonics(True, 128, 32),
    ),
    _fault(
        "scans turned to common axes from flat numbers",
        ("index-arithmetic", "issue-bound", "unvectorized-access"),
        ("counts", "samples"),
        True,
        _common_axes(True),
        _common_axes(False),
    ),
    _fault(
        "wavelets shrunk by 132 programs",
        ("low-occupancy", "exposed-latency"),
        ("ctas", "samples", "spans"),
        False,
        _shrunk(132, 256),
        _shrunk(0, 1024),
    ),
)
