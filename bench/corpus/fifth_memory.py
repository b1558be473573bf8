"""Fifth round, faults of memory: how data is reached, how often, and what waits for it."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, Prepare, empty, faults_of, integers, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def warped_planes_kernel(
    image_ptr, x_ptr, y_ptr, out_ptr, SIDE: tl.constexpr, CHANNELS: tl.constexpr, POINTS: tl.constexpr
):
    """Samples of an image's planes, between pixels, at points that a flow moved; the tile is turned last."""
    point = tl.program_id(0) * POINTS + tl.arange(0, POINTS)
    plane = tl.arange(0, CHANNELS)
    x, y = tl.load(x_ptr + point), tl.load(y_ptr + point)
    left, top = tl.floor(x), tl.floor(y)
    right_share, low_share = (x - left)[None, :], (y - top)[None, :]
    corner = (top.to(tl.int32) * SIDE + left.to(tl.int32))[None, :] + plane[:, None] * (SIDE * SIDE)
    a = tl.load(image_ptr + corner)  # fault
    b = tl.load(image_ptr + corner + 1)  # fault
    c = tl.load(image_ptr + corner + SIDE)  # fault
    d = tl.load(image_ptr + corner + SIDE + 1)  # fault
    upper, lower = a + right_share * (b - a), c + right_share * (d - c)
    out = tl.trans(upper + low_share * (lower - upper))
    tl.store(out_ptr + point[:, None] * CHANNELS + plane[None, :], out)


@triton.jit
def warped_points_kernel(
    image_ptr, x_ptr, y_ptr, out_ptr, SIDE: tl.constexpr, CHANNELS: tl.constexpr, POINTS: tl.constexpr
):
    """As warped_planes_kernel; lanes load neighbouring points of a plane."""
    point = tl.program_id(0) * POINTS + tl.arange(0, POINTS)
    plane = tl.arange(0, CHANNELS)
    x, y = tl.load(x_ptr + point), tl.load(y_ptr + point)
    left, top = tl.floor(x), tl.floor(y)
    right_share, low_share = (x - left)[:, None], (y - top)[:, None]
    corner = (top.to(tl.int32) * SIDE + left.to(tl.int32))[:, None] + plane[None, :] * (SIDE * SIDE)
    a = tl.load(image_ptr + corner)
    b = tl.load(image_ptr + corner + 1)
    c = tl.load(image_ptr + corner + SIDE)
    d = tl.load(image_ptr + corner + SIDE + 1)
    upper, lower = a + right_share * (b - a), c + right_share * (d - c)
    tl.store(out_ptr + point[:, None] * CHANNELS + plane[None, :], upper + low_share * (lower - upper))


def _warped(lanes_are_points: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        side, channels = (32, 32) if small else (1024, 64)
        points = 256 if small else side * side
        image = random(channels, side, side)
        at = torch.arange(points)
        x = (at % side + torch.rand(points)).clamp(max=side - 2)
        y = (at // side + torch.rand(points)).clamp(max=side - 2)
        out = empty(points, channels)
        options = {"SIDE": side, "CHANNELS": channels, "POINTS": 32, "num_warps": 4}
        kernel = warped_points_kernel if lanes_are_points else warped_planes_kernel
        return Launch(kernel, (points // 32,), (image, x, y, out), (out,), options)

    return prepare


@triton.jit
def returns_kernel(reward_ptr, out_ptr, steps, episodes, step_stride, episode_stride, BLOCK: tl.constexpr):
    """Discounted sums of the rewards from each step on, of many episodes, which take their steps together."""
    episode = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for past in tl.range(0, steps, num_stages=4):
        step = steps - 1 - past
        total = tl.load(reward_ptr + step * episodes + episode) + 0.97 * total
        tl.store(out_ptr + step * step_stride + episode * episode_stride, total)  # fault


def _returns(by_step: bool) -> Prepare:
    """by_step: the sums of all episodes lie together, as their rewards do."""

    def prepare(small: bool) -> Launch:
        steps, episodes = (16, 1024) if small else (256, 1 << 18)
        reward, out = random(steps, episodes), empty(steps, episodes)
        result = out if by_step else out.view(episodes, steps).t()
        args = (reward, out, steps, episodes, *result.stride())
        options = {"BLOCK": 512, "num_warps": 4}
        return Launch(returns_kernel, (episodes // 512,), args, (result,), options)

    return prepare


@triton.jit
def bordered_planes_kernel(
    x_ptr, out_ptr, SIDE: tl.constexpr, CHANNELS: tl.constexpr, PIXELS: tl.constexpr, TURN: tl.constexpr
):
    """Puts images, whose pixels have their channels side by side, into planes with a border."""
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    channel = tl.program_id(1) * 64 + tl.arange(0, 64)
    image, y, x = pixel // (SIDE * SIDE), pixel // SIDE % SIDE, pixel % SIDE
    area: tl.constexpr = (SIDE + 2) * (SIDE + 2)
    inside = image * CHANNELS * area + (y + 1) * (SIDE + 2) + x + 1
    tile = tl.load(x_ptr + pixel[:, None] * CHANNELS + channel[None, :])
    if TURN:
        tl.store(out_ptr + inside[None, :] + channel[:, None] * area, tl.trans(tile))  # fault
    else:
        tl.store(out_ptr + inside[:, None] + channel[None, :] * area, tile)


def _bordered_planes(turn: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        images, side, channels = (64, 9, 64) if small else (512, 27, 256)
        x = random(images, side, side, channels, dtype=torch.float16)
        out = zeros(images, channels, side + 2, side + 2, dtype=torch.float16)
        options = {"SIDE": side, "CHANNELS": channels, "PIXELS": 64, "TURN": turn, "num_warps": 4}
        grid = (images * side * side // 64, channels // 64)
        return Launch(bordered_planes_kernel, grid, (x, out), (out,), options)

    return prepare


@triton.jit
def nibbles_kernel(code_ptr, scale_ptr, out_ptr, PAIRS: tl.constexpr, BLOCK: tl.constexpr):
    """Numbers out of codes of four bits, two of which share a byte; PAIRS: both come out of one load."""
    scale = tl.load(scale_ptr + tl.program_id(0))
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if PAIRS:
        pair = tl.load(code_ptr + tl.program_id(0) * (BLOCK // 2) + tl.arange(0, BLOCK // 2))
        code = tl.reshape(tl.join(pair & 15, pair >> 4), (BLOCK,))
    else:
        code = (tl.load(code_ptr + at // 2) >> (at % 2 * 4).to(tl.uint8)) & 15  # fault
    tl.store(out_ptr + at, (code.to(tl.float16) - 8.0) * scale)


def _nibbles(pairs: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        n = 1 << (14 if small else 28)
        code = integers(n // 2, below=256, dtype=torch.uint8)
        scale, out = torch.rand(n // 4096).half() + 0.5, empty(n, dtype=torch.float16)
        options = {"PAIRS": pairs, "BLOCK": 4096, "num_warps": 4}
        return Launch(nibbles_kernel, (n // 4096,), (code, scale, out), (out,), options)

    return prepare


@triton.jit
def ragged_bytes_kernel(
    code_ptr, length_ptr, scale_ptr, out_ptr, LONGEST: tl.constexpr, KNOWN: tl.constexpr, BLOCK: tl.constexpr
):
    """Numbers out of the bytes of sequences of different lengths; KNOWN: lengths are multiples of 16."""
    sequence = tl.program_id(1)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    length = tl.load(length_ptr + sequence)
    if KNOWN:
        length = tl.multiple_of(length, 16)
    base = sequence * LONGEST
    code = tl.load(code_ptr + base + at, mask=at < length, other=0)  # fault
    number = code.to(tl.float16) * tl.load(scale_ptr + sequence)
    tl.store(out_ptr + base + at, number, mask=at < length)  # fault


def _ragged_bytes(known: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        sequences, longest = (2, 8192) if small else (256, 1 << 20)
        code = (integers(sequences, longest, below=255) - 127).to(torch.int8)
        length = 16 * (longest // 20 + integers(sequences, below=longest // 80))
        scale, out = torch.rand(sequences).half(), zeros(sequences, longest, dtype=torch.float16)
        options = {"LONGEST": longest, "KNOWN": known, "BLOCK": 4096, "num_warps": 4}
        args = (code, length, scale, out)
        grid = (longest // 4096, sequences)
        return Launch(ragged_bytes_kernel, grid, args, (out,), options)

    return prepare


@triton.jit
def neighbour_means_kernel(
    x_ptr, neighbour_ptr, out_ptr, DIM: tl.constexpr, NODES: tl.constexpr, EACH: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Means of BLOCK features of nodes' neighbours; programs go over all nodes before the next features."""
    node = tl.program_id(0) * NODES + tl.arange(0, NODES)
    dims = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    neighbour = tl.load(neighbour_ptr + node[:, None] * EACH + tl.arange(0, EACH)[None, :])
    x = tl.load(x_ptr + neighbour[:, :, None] * DIM + dims[None, None, :])  # fault
    mean = tl.sum(x.to(tl.float32), 1) / EACH
    tl.store(out_ptr + node[:, None] * DIM + dims[None, :], mean.to(tl.float16))


def _neighbour_means(nodes_of_program: int, block: int) -> Prepare:
    """All rows do not fit into the L2 cache; 64 features of each do."""

    def prepare(small: bool) -> Launch:
        nodes, dim = (64, 512) if small else (1 << 17, 512)
        x, out = random(nodes, dim, dtype=torch.float16), empty(nodes, dim, dtype=torch.float16)
        neighbour = integers(nodes, 16, below=nodes)
        options = {"DIM": dim, "NODES": nodes_of_program, "EACH": 16, "BLOCK": block, "num_warps": 4}
        grid = (nodes // nodes_of_program, dim // block)
        return Launch(neighbour_means_kernel, grid, (x, neighbour, out), (out,), options)

    return prepare


@triton.jit
def quantised_scores_kernel(
    code_ptr, table_ptr, out_ptr, n, steps, part_stride, code_stride, PARTS: tl.constexpr, BLOCK: tl.constexpr
):
    """Scores of product-quantised vectors: the sum of what a table has for the code of each part."""
    part, lanes = tl.arange(0, PARTS), tl.arange(0, BLOCK)
    table = tl.load(table_ptr + tl.arange(0, PARTS * 256))
    for step in range(steps):
        vector = (tl.program_id(0) * steps + step) * BLOCK + lanes
        code = tl.load(code_ptr + part[:, None] * n + vector[None, :]).to(tl.int32)
        place = tl.reshape(part[:, None] * part_stride + code * code_stride, (PARTS * BLOCK,))
        score = tl.reshape(tl.gather(table, place, 0), (PARTS, BLOCK))  # fault
        tl.store(out_ptr + vector, tl.sum(score, 0))


def _quantised_scores(by_part: bool) -> Prepare:
    """by_part: the codes of a part lie together in the table; if not, those of a part share a bank."""

    def prepare(small: bool) -> Launch:
        n, steps = (512, 1) if small else (1 << 22, 16)
        code = integers(32, n, below=256, dtype=torch.uint8)
        table, out = random(32, 256), empty(n)
        table = table.contiguous() if by_part else table.t().contiguous()
        strides = (256, 1) if by_part else (1, 32)
        args = (code, table, out, n, steps, *strides)
        options = {"PARTS": 32, "BLOCK": 256, "num_warps": 8}
        return Launch(quantised_scores_kernel, (n // 256 // steps,), args, (out,), options)

    return prepare


@triton.jit
def mixture_density_kernel(
    x_ptr, centre_ptr, width_ptr, out_ptr, COMPONENTS: tl.constexpr, MEMORY: tl.constexpr, BLOCK: tl.constexpr
):
    """The density of a mixture of normal distributions; MEMORY: components are added up in the result."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    if MEMORY:
        tl.store(out_ptr + at, total)
    for component in range(COMPONENTS):
        centre, width = tl.load(centre_ptr + component), tl.load(width_ptr + component)
        if MEMORY:
            x = tl.load(x_ptr + at)  # fault
            total = tl.load(out_ptr + at)  # fault
        away = (x - centre) * width
        total += width * tl.exp2(-away * away)
        if MEMORY:
            tl.store(out_ptr + at, total)
    if not MEMORY:
        tl.store(out_ptr + at, total)


def _mixture_density(in_memory: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        n, components = (2048, 8) if small else (1 << 23, 32)
        x, centre, width, out = random(n), random(components), torch.rand(components) + 0.5, empty(n)
        options = {"COMPONENTS": components, "MEMORY": in_memory, "BLOCK": 1024, "num_warps": 4}
        return Launch(mixture_density_kernel, (n // 1024,), (x, centre, width, out), (out,), options)

    return prepare


_case = faults_of(5)


CASES = (
    _case(
        "flow's planes as lanes",
        ("uncoalesced-load",),
        ("counts",),
        True,
        _warped(False),
        _warped(True),
    ),
    _case(
        "returns kept by episode",
        ("uncoalesced-store",),
        ("counts",),
        True,
        _returns(False),
        _returns(True),
    ),
    _case(
        "channels stored across bordered planes",
        ("uncoalesced-store",),
        ("counts",),
        True,
        _bordered_planes(True),
        _bordered_planes(False),
    ),
    _case(
        "a byte for each of its two codes",
        ("unvectorized-access", "redundant-load"),
        ("counts",),
        True,
        _nibbles(False),
        _nibbles(True),
    ),
    _case(
        "lengths of unknown parity",
        ("unvectorized-access",),
        ("counts",),
        True,
        _ragged_bytes(False),
        _ragged_bytes(True),
    ),
    _case(
        "whole rows of random neighbours",
        ("tile-reread",),
        ("counters",),
        False,
        _neighbour_means(1, 512),
        _neighbour_means(8, 64),
    ),
    _case(
        "codes of a part in one bank",
        ("bank-conflict",),
        ("counts",),
        True,
        _quantised_scores(False),
        _quantised_scores(True),
    ),
    _case(
        "density added up in memory",
        ("redundant-load", "exposed-latency"),
        ("counts", "counters"),
        True,
        _mixture_density(True),
        _mixture_density(False),
    ),
)
