"""Seventh round, faults of the launch: grids, sizes of blocks, numbers of warps, unequal work."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, Prepare, empty, faults_of, integers, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def penalties_kernel(
    logit_ptr, count_ptr, prompt_ptr, penalty_ptr, out_ptr, vocabulary, steps, BLOCK: tl.constexpr
):
    """Logits lowered for words that a request's text has already, before the next one is sampled."""
    request = tl.program_id(1)
    repetition, frequency = tl.load(penalty_ptr + 4 * request), tl.load(penalty_ptr + 4 * request + 1)
    presence, temperature = tl.load(penalty_ptr + 4 * request + 2), tl.load(penalty_ptr + 4 * request + 3)
    for step in range(steps):
        word = (tl.program_id(0) * steps + step) * BLOCK + tl.arange(0, BLOCK)
        at = request * vocabulary + word
        logit, count, prompt = tl.load(logit_ptr + at), tl.load(count_ptr + at), tl.load(prompt_ptr + at)
        repeated = tl.where(logit > 0, logit / repetition, logit * repetition)
        logit = tl.where((count > 0) | (prompt > 0), repeated, logit)
        logit -= frequency * count + tl.where(count > 0, presence, 0.0)
        tl.store(out_ptr + at, logit / temperature)


def _penalties(parts: int) -> Prepare:
    """151,552 words: 74 blocks of 2048."""

    def prepare(small: bool) -> Launch:
        requests, vocabulary = 2 if small else 64, 148 * 1024
        logit = random(requests, vocabulary)
        count = integers(requests, vocabulary, below=64) // 62
        prompt = (torch.rand(requests, vocabulary) > 0.99).to(torch.uint8)
        penalty, out = 1 + torch.rand(requests, 4), empty(requests, vocabulary)
        args = (logit, count, prompt, penalty, out, vocabulary, 74 // parts)
        options = {"BLOCK": 2048, "num_warps": 8}
        return Launch(penalties_kernel, (parts, requests), args, (out,), options)

    return prepare


@triton.jit
def nearest_points_kernel(point_ptr, target_ptr, out_ptr, points, targets, BLOCK: tl.constexpr):
    """The squared distance of each point of a cloud to the nearest one of another (Chamfer)."""
    cloud = tl.program_id(1)
    at = cloud * 3 * points + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(point_ptr + at), tl.load(point_ptr + points + at)
    z = tl.load(point_ptr + 2 * points + at)
    nearest = tl.full((BLOCK,), 1e30, dtype=tl.float32)
    target = target_ptr + cloud * 3 * targets
    for _ in range(targets):
        dx, dy = x - tl.load(target), y - tl.load(target + targets)
        dz = z - tl.load(target + 2 * targets)
        nearest = tl.minimum(nearest, dx * dx + dy * dy + dz * dz)
        target += 1
    tl.store(out_ptr + cloud * points + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), nearest)


def _nearest_points(block: int, warps: int) -> Prepare:
    """18 blocks of 8192 points of 8 clouds are 144; an SM of 132 has room for one of them at a time."""

    def prepare(small: bool) -> Launch:
        clouds, points, targets = (1, 8192, 8) if small else (8, 18 * 8192, 1024)
        point, target, out = random(clouds, 3, points), random(clouds, 3, targets), empty(clouds, points)
        args = (point, target, out, points, targets)
        options = {"BLOCK": block, "num_warps": warps}
        return Launch(nearest_points_kernel, (points // block, clouds), args, (out,), options)

    return prepare


@triton.jit
def splats_kernel(
    order_ptr, start_ptr, id_ptr, splat_ptr, out_ptr, columns, SIDE: tl.constexpr, PLANE: tl.constexpr
):
    """A tile of an image: the Gaussians that its list names, blended from front to back."""
    tile = tl.load(order_ptr + tl.program_id(0))
    lanes = tl.arange(0, SIDE * SIDE)
    x = (tile % columns * SIDE + lanes % SIDE).to(tl.float32)
    y = (tile // columns * SIDE + lanes // SIDE).to(tl.float32)
    light = tl.full((SIDE * SIDE,), 1.0, dtype=tl.float32)
    red, green, blue = light * 0.0, light * 0.0, light * 0.0
    for entry in range(tl.load(start_ptr + tile), tl.load(start_ptr + tile + 1)):  # fault
        splat = splat_ptr + tl.load(id_ptr + entry) * 12
        dx, dy = x - tl.load(splat), y - tl.load(splat + 1)
        a, b, c = tl.load(splat + 2), tl.load(splat + 3), tl.load(splat + 4)
        alpha = tl.load(splat + 5) * tl.exp2(a * dx * dx + b * dx * dy + c * dy * dy)
        seen = light * tl.minimum(alpha, 0.99)
        red += seen * tl.load(splat + 6)
        green += seen * tl.load(splat + 7)
        blue += seen * tl.load(splat + 8)
        light -= seen
    out = out_ptr + tile * SIDE * SIDE + lanes
    tl.store(out, red)
    tl.store(out + PLANE, green)
    tl.store(out + 2 * PLANE, blue)


def _splats(longest_first: bool) -> Prepare:
    """The last of 68 rows of tiles shows the ground in front of the camera, with four times the splats."""

    def prepare(small: bool) -> Launch:
        columns, rows, splats = (2, 4, 256) if small else (120, 68, 1 << 17)
        tiles = columns * rows
        few, many = (8, 24) if small else (400, 1300)
        length = few // 4 + integers(tiles, below=few)
        length[-columns:] = many
        start = torch.nn.functional.pad(torch.cumsum(length, 0), (1, 0)).int()
        ids = integers(tiles * many, below=splats)
        splat = torch.rand(splats, 12)
        splat[:, 0] *= 16 * columns
        splat[:, 1] *= 16 * rows
        splat[:, 2:5] *= -0.001
        order = torch.argsort(length, descending=True) if longest_first else torch.arange(tiles)
        out = empty(3, tiles, 256)
        args = (order.int(), start, ids, splat, out, columns)
        options = {"SIDE": 16, "PLANE": tiles * 256, "num_warps": 4}
        return Launch(splats_kernel, (tiles,), args, (out,), options)

    return prepare


@triton.jit
def head_norm_kernel(x_ptr, weight_ptr, out_ptr, HEADS: tl.constexpr, DIM: tl.constexpr):
    """An RMS norm of each head's query, before attention."""
    dim = tl.arange(0, DIM)[None, :]
    at = (tl.program_id(0) * HEADS + tl.arange(0, HEADS))[:, None] * DIM + dim
    x = tl.load(x_ptr + at).to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, 1) / DIM + 1e-6)
    tl.store(out_ptr + at, (x * scale[:, None] * tl.load(weight_ptr + dim)).to(tl.bfloat16))


def _head_norm(heads: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows = 64 if small else 16384 * 40
        x, weight = random(rows, 128, dtype=torch.bfloat16), torch.rand(128)
        out = torch.empty_like(x)
        options = {"HEADS": heads, "DIM": 128, "num_warps": 4}
        return Launch(head_norm_kernel, (rows // heads,), (x, weight, out), (out,), options)

    return prepare


@triton.jit
def layer_scale_kernel(x_ptr, grad_ptr, scale_ptr, x_grad_ptr, scale_grad_ptr, rows, DIM: tl.constexpr):
    """The gradients of a layer whose channels are scaled; a program adds up those of its rows' scales."""
    dim = tl.arange(0, DIM)
    scale, total = tl.load(scale_ptr + dim), tl.zeros((DIM,), dtype=tl.float32)
    for row in range(tl.program_id(0) * rows, tl.program_id(0) * rows + rows):
        at = row * DIM + dim
        x, grad = tl.load(x_ptr + at).to(tl.float32), tl.load(grad_ptr + at).to(tl.float32)
        tl.store(x_grad_ptr + at, (grad * scale).to(tl.bfloat16))
        total += grad * x
    tl.atomic_add(scale_grad_ptr + dim, total, sem="relaxed")


def _layer_scale(programs: int) -> Prepare:
    """492 rows for each SM."""

    def prepare(small: bool) -> Launch:
        grid, rows = (programs // 132, 24) if small else (programs, 132 * 492)
        x, grad = random(rows, 1024, dtype=torch.bfloat16), random(rows, 1024, dtype=torch.bfloat16)
        scale, x_grad, scale_grad = torch.rand(1024), torch.empty_like(x), zeros(1024)
        args = (x, grad, scale, x_grad, scale_grad, rows // grid)
        options = {"DIM": 1024, "num_warps": 4}
        return Launch(layer_scale_kernel, (grid,), args, (x_grad, scale_grad), options)

    return prepare


@triton.jit
def nucleus_kernel(logit_ptr, out_ptr, share, CANDIDATES: tl.constexpr):
    """Probabilities of sorted candidates, of which only the first remain that hold the share (top-p)."""
    at = tl.program_id(0) * CANDIDATES + tl.arange(0, CANDIDATES)
    logit = tl.load(logit_ptr + at)
    weight = tl.exp(logit - tl.max(logit, 0))
    chance = weight / tl.sum(weight, 0)
    kept = tl.where(tl.cumsum(chance, 0) - chance < share, chance, 0.0)
    tl.store(out_ptr + at, kept / tl.sum(kept, 0))


def _nucleus(warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows = 4 if small else 1 << 15
        logit, _ = torch.sort(2 * random(rows, 1024), descending=True)
        out = empty(rows, 1024)
        options = {"CANDIDATES": 1024, "num_warps": warps}
        return Launch(nucleus_kernel, (rows,), (logit, out, 0.9), (out,), options)

    return prepare


@triton.jit
def farthest_points_kernel(point_ptr, out_ptr, picks, POINTS: tl.constexpr):
    """Points of a cloud, each of them the farthest from those picked before (PointNet++)."""
    lanes = tl.arange(0, POINTS)
    cloud = point_ptr + tl.program_id(0) * 3 * POINTS
    x, y, z = tl.load(cloud + lanes), tl.load(cloud + POINTS + lanes), tl.load(cloud + 2 * POINTS + lanes)
    distance = tl.full((POINTS,), 1e30, dtype=tl.float32)
    last = 0
    for pick in range(picks):
        tl.store(out_ptr + tl.program_id(0) * picks + pick, last)
        dx, dy = x - tl.load(cloud + last), y - tl.load(cloud + POINTS + last)
        dz = z - tl.load(cloud + 2 * POINTS + last)
        distance = tl.minimum(distance, dx * dx + dy * dy + dz * dz)
        last = tl.argmax(distance, 0)


def _farthest_points(warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        clouds, picks = (2, 8) if small else (264, 256)
        point, out = random(clouds, 3, 2048), empty(clouds, picks, dtype=torch.int32)
        options = {"POINTS": 2048, "num_warps": warps}
        return Launch(farthest_points_kernel, (clouds,), (point, out, picks), (out,), options)

    return prepare


_case = faults_of(7)


CASES = (
    _case(
        "penalties by one program a request",
        ("idle-sms", "low-occupancy"),
        ("spans", "ctas"),
        False,
        _penalties(1),
        _penalties(37),
    ),
    _case(
        "nearest points by 144 programs",
        ("tail",),
        ("spans", "ctas"),
        False,
        _nearest_points(8192, 32),
        _nearest_points(1024, 4),
    ),
    _case(
        "crowded tiles of splats last",
        ("load-imbalance", "tail"),
        ("spans", "ctas"),
        False,
        _splats(False),
        _splats(True),
    ),
    _case(
        "a CTA for each head's norm",
        ("tiny-ctas",),
        ("spans", "ctas"),
        False,
        _head_norm(1),
        _head_norm(32),
    ),
    _case(
        "gradients of scales by 132 programs",
        ("low-occupancy", "exposed-latency"),
        ("ctas", "samples"),
        False,
        _layer_scale(132),
        _layer_scale(1584),
    ),
    _case(
        "nucleus of 1024 candidates by 32 warps",
        ("too-many-warps", "serial-reduction"),
        ("counts", "samples"),
        True,
        _nucleus(32),
        _nucleus(4),
    ),
    _case(
        "farthest points by 32 warps",
        ("too-many-warps", "serial-reduction"),
        ("counts", "samples"),
        True,
        _farthest_points(32),
        _farthest_points(4),
    ),
)
