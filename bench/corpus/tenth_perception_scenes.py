"""Tenth round, faults of perception: rays, scenes, points, graphs, recommenders and robots."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, Prepare, empty, faults_of, integers, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def place_waves_kernel(
    x_ptr, out_ptr, points, LEVELS: tl.constexpr, BLOCK: tl.constexpr, DOUBLE: tl.constexpr
):
    """Sines and cosines of a place, each level of twice the frequency (NeRF); a plane for each of them.
    DOUBLE: from those of the last level."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for axis in range(3):
        phase = 3.14159265 * tl.load(x_ptr + axis * points + at)
        sine, cosine = tl.sin(phase), tl.cos(phase)
        out = out_ptr + axis * LEVELS * 2 * points + at
        for _ in range(LEVELS):
            tl.store(out, sine.to(tl.float16))
            tl.store(out + points, cosine.to(tl.float16))
            out += 2 * points
            if DOUBLE:
                sine, cosine = 2.0 * sine * cosine, 1.0 - 2.0 * sine * sine
            else:
                phase *= 2.0
                sine, cosine = tl.sin(phase), tl.cos(phase)  # fault


def _place_waves(double: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        points = 2048 if small else 1 << 22
        x, out = 2.0 * torch.rand(3, points) - 1.0, empty(60, points, dtype=torch.float16)
        options = {"LEVELS": 10, "BLOCK": 1024, "DOUBLE": double, "num_warps": 4}
        return Launch(place_waves_kernel, (points // 1024,), (x, out, points), (out,), options)

    return prepare


@triton.jit
def arm_poses_kernel(
    angle_ptr, joint_ptr, out_ptr, poses, JOINTS: tl.constexpr, BLOCK: tl.constexpr, EXACT: tl.constexpr
):
    """Where an arm's hand is, and where it points, for sampled angles of its joints."""
    number: tl.constexpr = tl.float64 if EXACT else tl.float32
    pose = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    zero = tl.zeros((BLOCK,), dtype=number)
    x, y, z = zero, zero, zero
    ax, ay, az, bx, by, bz, cx, cy, cz = (
        zero + 1.0,
        zero,
        zero,
        zero,
        zero + 1.0,
        zero,
        zero,
        zero,
        zero + 1.0,
    )
    for joint in range(JOINTS):
        angle = tl.load(angle_ptr + joint * poses + pose).to(number)
        sine, cosine = tl.sin(angle), tl.cos(angle)  # fault
        twist_sine = tl.load(joint_ptr + joint * 4).to(number)
        twist_cosine = tl.load(joint_ptr + joint * 4 + 1).to(number)
        length = tl.load(joint_ptr + joint * 4 + 2).to(number)
        offset = tl.load(joint_ptr + joint * 4 + 3).to(number)
        ax, bx = cosine * ax + sine * bx, cosine * bx - sine * ax  # fault
        ay, by = cosine * ay + sine * by, cosine * by - sine * ay  # fault
        az, bz = cosine * az + sine * bz, cosine * bz - sine * az  # fault
        x, y, z = x + length * ax + offset * cx, y + length * ay + offset * cy, z + length * az + offset * cz
        bx, cx = twist_cosine * bx + twist_sine * cx, twist_cosine * cx - twist_sine * bx
        by, cy = twist_cosine * by + twist_sine * cy, twist_cosine * cy - twist_sine * by
        bz, cz = twist_cosine * bz + twist_sine * cz, twist_cosine * cz - twist_sine * bz
    out = out_ptr + pose
    tl.store(out, x.to(tl.float32))
    tl.store(out + poses, y.to(tl.float32))
    tl.store(out + 2 * poses, z.to(tl.float32))
    tl.store(out + 3 * poses, cx.to(tl.float32))
    tl.store(out + 4 * poses, cy.to(tl.float32))
    tl.store(out + 5 * poses, cz.to(tl.float32))


def _arm_poses(exact: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        poses = 1024 if small else 1 << 22
        angle, out = 6.0 * torch.rand(7, poses) - 3.0, empty(6, poses)
        twist = random(7)
        joint = torch.stack([twist.sin(), twist.cos(), 0.3 * torch.rand(7), 0.4 * torch.rand(7)], 1)
        options = {"JOINTS": 7, "BLOCK": 256, "EXACT": exact, "num_warps": 4}
        args = (angle, joint.contiguous(), out, poses)
        return Launch(arm_poses_kernel, (poses // 256,), args, (out,), options)

    return prepare


@triton.jit
def class_features_kernel(
    x_ptr, label_ptr, out_ptr, each, DIM: tl.constexpr, CLASSES: tl.constexpr, PIXELS: tl.constexpr
):
    """Sums of the features of each class' pixels, as prototypes of segmentation need them."""
    dim = tl.arange(0, DIM)[None, :]
    for step in range(0, each, PIXELS):
        pixel = tl.program_id(0) * each + step + tl.arange(0, PIXELS)
        label = tl.load(label_ptr + pixel)[:, None]
        x = tl.load(x_ptr + pixel[:, None] * DIM + dim).to(tl.float32)
        tl.atomic_add(out_ptr + label * DIM + dim, x, sem="relaxed")  # fault


@triton.jit
def marked_features_kernel(
    x_ptr, label_ptr, out_ptr, each, DIM: tl.constexpr, CLASSES: tl.constexpr, PIXELS: tl.constexpr
):
    """As class_features_kernel, by products with what belongs to each class, and a sum for each program."""
    dim, kind = tl.arange(0, DIM)[None, :], tl.arange(0, CLASSES)[:, None]
    total = tl.zeros((CLASSES, DIM), dtype=tl.float32)
    for step in range(0, each, PIXELS):
        pixel = tl.program_id(0) * each + step + tl.arange(0, PIXELS)
        mine = tl.load(label_ptr + pixel)[None, :] == kind
        x = tl.load(x_ptr + pixel[:, None] * DIM + dim)
        total = tl.dot(mine.to(tl.float16), x, total)
    tl.atomic_add(out_ptr + kind * DIM + dim, total, sem="relaxed")


def _class_features(by_product: bool) -> Prepare:
    """Of 19 classes; neighbouring pixels are mostly of one."""

    def prepare(small: bool) -> Launch:
        pixels, each = (512, 128) if small else (1 << 20, 1024)
        x = random(pixels, 64, dtype=torch.float16) + 0.5
        label = integers(pixels // 32, below=19).repeat_interleave(32)
        out = zeros(32, 64)
        options = {"DIM": 64, "CLASSES": 32, "PIXELS": 64, "num_warps": 4}
        kernel = marked_features_kernel if by_product else class_features_kernel
        return Launch(kernel, (pixels // each,), (x, label, out, each), (out,), options)

    return prepare


@triton.jit
def neighbour_statistics_kernel(
    x_ptr, neighbour_ptr, out_ptr, NODES: tl.constexpr, NEAR: tl.constexpr, DIM: tl.constexpr
):
    """Mean, spread, most and least of the features of each node's neighbours (PNA)."""
    node, near = tl.program_id(0) * NODES + tl.arange(0, NODES), tl.arange(0, NEAR)[:, None]
    dim = tl.arange(0, DIM)
    source = tl.load(neighbour_ptr + node[None, :] * NEAR + near)
    x = tl.load(x_ptr + source[:, :, None] * DIM + dim[None, None, :]).to(tl.float32)  # fault
    mean = tl.sum(x, 0) * (1.0 / NEAR)
    away = x - mean[None, :, :]  # fault
    spread = tl.sqrt(tl.sum(away * away, 0) * (1.0 / NEAR))  # fault
    out = out_ptr + node[:, None] * (4 * DIM) + dim[None, :]
    tl.store(out, mean.to(tl.float16))
    tl.store(out + DIM, spread.to(tl.float16))
    tl.store(out + 2 * DIM, tl.max(x, 0).to(tl.float16))  # fault
    tl.store(out + 3 * DIM, tl.min(x, 0).to(tl.float16))  # fault


def _neighbour_statistics(nodes_of_program: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        nodes = 64 if small else 1 << 16
        x = random(nodes, 128, dtype=torch.float16)
        neighbour = integers(nodes, 16, below=nodes)
        out = empty(nodes, 512, dtype=torch.float16)
        options = {"NODES": nodes_of_program, "NEAR": 16, "DIM": 128, "num_warps": 4}
        args = (x, neighbour, out)
        return Launch(neighbour_statistics_kernel, (nodes // nodes_of_program,), args, (out,), options)

    return prepare


@triton.jit
def normal_equations_kernel(jacobian_ptr, out_ptr, rows, WIDTH: tl.constexpr, ROWS: tl.constexpr):
    """Products of each camera's derivatives and residuals with themselves (bundle adjustment)."""
    camera, each = tl.program_id(0), rows // tl.num_programs(1)
    row, column = tl.program_id(1) * each + tl.arange(0, ROWS), tl.arange(0, WIDTH)
    at = jacobian_ptr + (camera * rows + row[:, None]) * WIDTH + column[None, :]
    total = tl.zeros((WIDTH, WIDTH), dtype=tl.float32)
    for _ in range(0, each, ROWS):
        jacobian = tl.load(at)  # fault
        total = tl.dot(tl.trans(jacobian), jacobian, total)
        at += ROWS * WIDTH
    out = out_ptr + (camera * WIDTH + column[:, None]) * WIDTH + column[None, :]
    tl.atomic_add(out, total, sem="relaxed")


def _normal_equations(parts: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        cameras, rows = (2, 512) if small else (64, 65536)
        jacobian, out = random(cameras, rows, 16), zeros(cameras, 16, 16)
        programs = min(parts, 2) if small else parts
        options = {"WIDTH": 16, "ROWS": 128, "num_warps": 4, "num_stages": 4}
        args = (jacobian, out, rows)
        return Launch(normal_equations_kernel, (cameras, programs), args, (out,), options)

    return prepare


@triton.jit
def julia_kernel(out_ptr, width, steps, scale, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """How far rays go to a Julia set of quaternions, by steps as long as it is away at least."""
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    right, down = column * scale - 0.5, row * scale - 0.5
    shorter = tl.rsqrt(right * right + down * down + 1.0)
    way = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for _ in range(steps):
        a, b, c = way * shorter * right, way * shorter * down, way * shorter - 2.0
        d, slope = tl.zeros_like(way), tl.full((ROWS, COLUMNS), 1.0, dtype=tl.float32)
        square = a * a + b * b + c * c
        for _ in tl.static_range(8):
            inside = square < 16.0
            slope = tl.where(inside, 4.0 * square * slope, slope)
            b = tl.where(inside, 2.0 * a * b + 0.6, b)
            c, d = tl.where(inside, 2.0 * a * c, c), tl.where(inside, 2.0 * a * d, d)
            a = tl.where(inside, 2.0 * a * a - square - 0.2, a)
            square = a * a + b * b + c * c + d * d
        way += tl.clamp(0.25 * tl.sqrt(square / slope) * tl.log(square), 0.0, 0.1)
    tl.store(out_ptr + row * width + column, way)


def _julia(rows: int, columns: int, warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        height, width, steps = (128, 128, 2) if small else (1024, 1152, 64)
        out = empty(height, width)
        options = {"ROWS": rows, "COLUMNS": columns, "num_warps": warps}
        args = (out, width, steps, 1.0 / height)
        return Launch(julia_kernel, (width // columns, height // rows), args, (out,), options)

    return prepare


@triton.jit
def target_interest_kernel(
    history_ptr, target_ptr, out_ptr, events, DIM: tl.constexpr, EACH: tl.constexpr, STAGES: tl.constexpr
):
    """What a user has seen, weighted by how it is like what may be shown next (DIN)."""
    user, dim = tl.program_id(0), tl.arange(0, DIM)
    target = tl.load(target_ptr + user * DIM + dim).to(tl.float32)[None, :]
    history = history_ptr + (user * events + tl.arange(0, EACH)[:, None]) * DIM + dim[None, :]
    total = tl.zeros((EACH, DIM), dtype=tl.float32)
    for _ in tl.range(0, events, EACH, num_stages=STAGES):
        x = tl.load(history).to(tl.float32)
        score = tl.sum(x * target, 1)  # fault
        total += tl.sigmoid(score)[:, None] * x
        history += EACH * DIM
    tl.store(out_ptr + user * DIM + dim, tl.sum(total, 0).to(tl.float16))


def _target_interest(together: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        users, events = (4, 32) if small else (4096, 256)
        history = random(users, events, 256, dtype=torch.float16)
        target = 0.1 * random(users, 256, dtype=torch.float16)
        out = empty(users, 256, dtype=torch.float16)
        options = {"DIM": 256, "EACH": together, "STAGES": 4, "num_warps": 4}
        args = (history, target, out, events)
        return Launch(target_interest_kernel, (users,), args, (out,), options)

    return prepare


@triton.jit
def packed_rays_kernel(
    first_ptr, density_ptr, colour_ptr, out_ptr, samples, rays, blocks, RAYS: tl.constexpr,
    SAMPLES: tl.constexpr, STRIDED: tl.constexpr,
):  # fmt: skip
    """Colours of rays from as many samples as each has (NeRF over a grid of what is occupied)."""
    each = blocks // tl.num_programs(0)
    start = tl.program_id(0) if STRIDED else tl.program_id(0) * each  # fault
    for turn in range(each):
        block = start + turn * (tl.num_programs(0) if STRIDED else 1)  # fault
        ray = block * RAYS + tl.arange(0, RAYS)
        first = tl.load(first_ptr + ray)
        count = tl.load(first_ptr + ray + 1) - first
        through = tl.full((RAYS,), 1.0, dtype=tl.float32)
        red = tl.zeros((RAYS, SAMPLES), dtype=tl.float32)
        green, blue = red, red
        for part in range(0, tl.max(count, 0), SAMPLES):  # fault
            sample = part + tl.arange(0, SAMPLES)[None, :]
            inside, at = sample < count[:, None], first[:, None] + sample
            density = tl.load(density_ptr + at, mask=inside, other=0.0)
            passed = tl.cumsum(density, 1)
            weight = through[:, None] * (tl.exp(density - passed) - tl.exp(-passed))
            red += weight * tl.load(colour_ptr + at, mask=inside, other=0.0)
            green += weight * tl.load(colour_ptr + samples + at, mask=inside, other=0.0)
            blue += weight * tl.load(colour_ptr + 2 * samples + at, mask=inside, other=0.0)
            through *= tl.exp(-tl.sum(density, 1))
        tl.store(out_ptr + ray, tl.sum(red, 1))
        tl.store(out_ptr + rays + ray, tl.sum(green, 1))
        tl.store(out_ptr + 2 * rays + ray, tl.sum(blue, 1))


def _packed_rays(strided: bool) -> Prepare:
    """A ball in the middle of a picture, whose rays have up to 256 samples; those beside it have 8."""

    def prepare(small: bool) -> Launch:
        height, width, programs = (32, 32, 4) if small else (528, 512, 132)
        y, x = (torch.arange(height)[:, None] + 0.5) / height, (torch.arange(width) + 0.5) / width
        inside = (0.14 - (y - 0.5) ** 2 - (x - 0.5) ** 2).clamp(min=0.0).sqrt().flatten()
        count = (8 + (56 if small else 248) / 0.375 * inside).int()
        first = torch.nn.functional.pad(count.cumsum(0), (1, 0)).int()
        samples, rays = int(first[-1]), height * width
        density, colour = 0.05 * torch.rand(samples), torch.rand(3, samples)
        out = empty(3, rays)
        options = {"RAYS": 64, "SAMPLES": 32, "STRIDED": strided, "num_warps": 8}
        args = (first, density, colour, out, samples, rays, rays // 64)
        return Launch(packed_rays_kernel, (programs,), args, (out,), options)

    return prepare


_fault = faults_of(10)


CASES = (
    _fault(
        "waves of a place level by level",
        ("slow-math",),
        ("counts",),
        True,
        _place_waves(False),
        _place_waves(True),
    ),
    _fault(
        "poses of an arm of seven joints",
        ("fp64-arithmetic", "slow-math"),
        ("counts", "samples"),
        True,
        _arm_poses(True),
        _arm_poses(False),
    ),
    _fault(
        "features of classes added pixel by pixel",
        ("atomics",),
        ("counts", "samples"),
        True,
        _class_features(False),
        _class_features(True),
    ),
    _fault(
        "statistics of the neighbours of 32 nodes",
        ("register-spills",),
        ("resources", "counts"),
        False,
        _neighbour_statistics(32),
        _neighbour_statistics(8),
    ),
    _fault(
        "normal equations camera by camera",
        ("idle-sms", "low-occupancy", "exposed-latency"),
        ("spans", "ctas"),
        False,
        _normal_equations(1),
        _normal_equations(32),
    ),
    _fault(
        "a Julia set in large tiles",
        ("tail", "idle-sms"),
        ("spans", "ctas"),
        False,
        _julia(64, 128, 16),
        _julia(32, 32, 4),
    ),
    _fault(
        "interest in a target event by event",
        ("serial-reduction", "too-many-warps"),
        ("counts", "samples"),
        True,
        _target_interest(1),
        _target_interest(16),
    ),
    _fault(
        "rays of a picture's rows by one program",
        ("load-imbalance", "tail"),
        ("ctas", "spans"),
        True,
        _packed_rays(False),
        _packed_rays(True),
    ),
)
