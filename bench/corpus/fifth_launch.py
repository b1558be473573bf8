"""Fifth round, faults of the launch: how work is shared among SMs, CTAs and warps."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from bench.corpus.case import Launch, Prepare, empty, faults_of, integers, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def lab_colour_kernel(image_ptr, out_ptr, pixels, steps, BLOCK: tl.constexpr):
    """Lightness and two axes of colour of images in three planes; a program walks over a part of an image."""
    first = tl.program_id(1) * 3 * pixels + tl.program_id(0) * steps * BLOCK + tl.arange(0, BLOCK)
    for step in range(steps):
        at = first + step * BLOCK
        red = tl.load(image_ptr + at).to(tl.float32)
        green = tl.load(image_ptr + at + pixels).to(tl.float32)
        blue = tl.load(image_ptr + at + 2 * pixels).to(tl.float32)
        red = tl.exp2(libdevice.fast_log2f(red * 0.948 + 0.052) * 2.4)
        green = tl.exp2(libdevice.fast_log2f(green * 0.948 + 0.052) * 2.4)
        blue = tl.exp2(libdevice.fast_log2f(blue * 0.948 + 0.052) * 2.4)
        x = tl.exp2(libdevice.fast_log2f(0.4339 * red + 0.3762 * green + 0.1899 * blue) * 0.33333)
        y = tl.exp2(libdevice.fast_log2f(0.2126 * red + 0.7152 * green + 0.0722 * blue) * 0.33333)
        z = tl.exp2(libdevice.fast_log2f(0.0178 * red + 0.1095 * green + 0.8727 * blue) * 0.33333)
        tl.store(out_ptr + at, (116.0 * y - 16.0).to(tl.float16))
        tl.store(out_ptr + at + pixels, (500.0 * (x - y)).to(tl.float16))
        tl.store(out_ptr + at + 2 * pixels, (200.0 * (y - z)).to(tl.float16))


def _lab_colour(parts: int) -> Prepare:
    """parts: programs for an image."""

    def prepare(small: bool) -> Launch:
        images, pixels, programs = (2, 16384, min(parts, 2)) if small else (40, 1 << 20, parts)
        image = torch.rand(images, 3, pixels).half()
        out = torch.empty_like(image)
        args = (image, out, pixels, pixels // programs // 4096)
        options = {"BLOCK": 4096, "num_warps": 16}
        return Launch(lab_colour_kernel, (programs, images), args, (out,), options)

    return prepare


@triton.jit
def summed_neighbours_kernel(
    x_ptr, edge_ptr, node_ptr, first_ptr, last_ptr, out_ptr, ADD: tl.constexpr, DIM: tl.constexpr,
    EDGES: tl.constexpr,
):  # fmt: skip
    """Sums of the features of nodes' neighbours; a program has some edges of a node, or all of them."""
    dims = tl.arange(0, DIM)
    last = tl.load(last_ptr + tl.program_id(0))
    acc = tl.zeros((EDGES, DIM), dtype=tl.float32)
    for start in range(tl.load(first_ptr + tl.program_id(0)), last, EDGES):  # fault
        edge = start + tl.arange(0, EDGES)
        inside = edge < last
        neighbour = tl.load(edge_ptr + edge, mask=inside, other=0)
        at = x_ptr + neighbour[:, None] * DIM + dims[None, :]
        acc += tl.load(at, mask=inside[:, None], other=0.0).to(tl.float32)
    out = out_ptr + tl.load(node_ptr + tl.program_id(0)) * DIM + dims
    if ADD:
        tl.atomic_add(out, tl.sum(acc, 0), sem="relaxed")
    else:
        tl.store(out, tl.sum(acc, 0))


def _summed_neighbours(most: int) -> Prepare:
    """most: edges of a program. Eight nodes of the graph have hundreds of times the edges of the others."""

    def prepare(small: bool) -> Launch:
        nodes, of_hubs = (16, 256) if small else (32768, 16384)
        degree = 16 + integers(nodes, below=32, dtype=torch.int64)
        degree[:: nodes // 8] = of_hubs
        end = torch.cumsum(degree, 0)
        parts = (degree + most - 1) // most
        node = torch.repeat_interleave(torch.arange(nodes), parts)
        part = torch.arange(len(node)) - torch.repeat_interleave(torch.cumsum(parts, 0) - parts, parts)
        first = (end - degree)[node] + part * most
        last = torch.minimum(first + most, end[node])
        x, out = random(nodes, 128, dtype=torch.float16), zeros(nodes, 128)
        edge = integers(int(end[-1]), below=nodes)
        args = (x, edge, node.int(), first.int(), last.int(), out)
        options = {"ADD": most < of_hubs, "DIM": 128, "EDGES": 16, "num_warps": 4}
        return Launch(summed_neighbours_kernel, (len(node),), args, (out,), options)

    return prepare


@triton.jit
def ranking_loss_kernel(
    score_ptr, label_ptr, out_ptr, n, FOLD: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    """The logistic loss of each row with all later rows; FOLD: a program has an early and a late block."""
    for part in tl.static_range(2 if FOLD else 1):
        block = tl.program_id(0)
        if part == 1:
            block = n // ROWS - 1 - block
        row = block * ROWS + tl.arange(0, ROWS)
        score, label = tl.load(score_ptr + row)[:, None], tl.load(label_ptr + row)[:, None]
        acc = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
        for start in range(block * ROWS // BLOCK * BLOCK, n, BLOCK):  # fault
            column = start + tl.arange(0, BLOCK)
            ahead = score - tl.load(score_ptr + column)[None, :]
            above = label - tl.load(label_ptr + column)[None, :]
            loss = libdevice.fast_log2f(1.0 + tl.exp2(tl.where(above > 0.0, -ahead, ahead)))
            acc += tl.where((column[None, :] > row[:, None]) & (above != 0.0), loss, 0.0)
        tl.store(out_ptr + row, tl.sum(acc, 1))


def _ranking_loss(fold: bool) -> Prepare:
    """The first of 132 programs has all columns, and the last almost none."""

    def prepare(small: bool) -> Launch:
        rows = 128 if fold else 256
        n = 512 if small else 132 * 256
        score, label, out = random(n), integers(n, below=5).float(), empty(n)
        options = {"FOLD": fold, "ROWS": rows, "BLOCK": 32, "num_warps": 16}
        grid = (n // 256,)
        return Launch(ranking_loss_kernel, grid, (score, label, out, n), (out,), options)

    return prepare


@triton.jit
def group_codes_kernel(x_ptr, code_ptr, scale_ptr, GROUPS: tl.constexpr, SIZE: tl.constexpr):
    """Numbers as signed bytes, with a scale for each group of 128 neighbours."""
    group = tl.program_id(0) * GROUPS + tl.arange(0, GROUPS)
    at = group[:, None] * SIZE + tl.arange(0, SIZE)[None, :]
    x = tl.load(x_ptr + at).to(tl.float32)
    peak = tl.max(tl.abs(x), 1)
    tl.store(scale_ptr + group, peak * (1.0 / 127.0))
    tl.store(code_ptr + at, (x * (127.0 / peak)[:, None]).to(tl.int8))


def _group_codes(groups: int, warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        count = 64 if small else 1 << 19
        x, scale = random(count, 128, dtype=torch.bfloat16), empty(count)
        code = empty(count, 128, dtype=torch.int8)
        options = {"GROUPS": groups, "SIZE": 128, "num_warps": warps}
        args = (x, code, scale)
        return Launch(group_codes_kernel, (count // groups,), args, (scale, code), options)

    return prepare


@triton.jit
def cached_keys_kernel(key_ptr, slot_ptr, cache_ptr, HEADS: tl.constexpr, GROUP: tl.constexpr):
    """Writes the keys of new tokens to their slots of a cache; a program writes GROUP heads of a token."""
    heads = tl.program_id(1) * GROUP + tl.arange(0, GROUP)
    inside = heads[:, None] * 64 + tl.arange(0, 64)[None, :]
    slot = tl.load(slot_ptr + tl.program_id(0)).to(tl.int64)
    key = tl.load(key_ptr + tl.program_id(0) * HEADS * 64 + inside)
    tl.store(cache_ptr + slot * HEADS * 64 + inside, key)


def _cached_keys(group: int, warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        tokens, heads = (16, 32) if small else (32768, 32)
        key = random(tokens, heads, 64, dtype=torch.bfloat16)
        slot, cache = torch.randperm(tokens).int(), torch.empty_like(key)
        options = {"HEADS": heads, "GROUP": group, "num_warps": warps}
        grid = (tokens, heads // group)
        return Launch(cached_keys_kernel, grid, (key, slot, cache), (cache,), options)

    return prepare


@triton.jit
def price_paths_kernel(out_ptr, paths, steps, BLOCK: tl.constexpr):
    """The last price on each path of a model of stochastic variance; a path draws its own numbers."""
    for first in range(tl.program_id(0) * BLOCK, paths, tl.num_programs(0) * BLOCK):
        at = first + tl.arange(0, BLOCK)
        state = at.to(tl.uint32) * 747796405 + 289133645
        price = tl.full((BLOCK,), 1.0, dtype=tl.float32)
        variance = tl.full((BLOCK,), 0.04, dtype=tl.float32)
        for _ in range(steps):
            state = state * 1664525 + 1013904223
            one = ((state >> 9) | 0x3F800000).to(tl.float32, bitcast=True) - 1.5
            state = state * 1664525 + 1013904223
            two = ((state >> 9) | 0x3F800000).to(tl.float32, bitcast=True) - 1.5
            spread = tl.sqrt(variance)
            price += price * spread * one * 0.2
            variance += 0.01 * (0.04 - variance) + 0.05 * spread * (0.5 * two - 0.7 * one)
            variance = tl.maximum(variance, 1e-4)
        tl.store(out_ptr + at, price)


def _price_paths(programs: int) -> Prepare:
    """With one program of four warps, each scheduler of an SM has one warp."""

    def prepare(small: bool) -> Launch:
        paths, steps = (1024, 16) if small else (132 * 1024, 512)
        out = empty(paths)
        options = {"BLOCK": 128, "num_warps": 4}
        grid = (programs // 132 if small else programs,)
        return Launch(price_paths_kernel, grid, (out, paths, steps), (out,), options)

    return prepare


@triton.jit
def balanced_kernel(x_ptr, out_ptr, STEPS: tl.constexpr, SIDE: tl.constexpr):
    """Sinkhorn's balance of small matrices: the sums of rows and of columns become 1."""
    row, column = tl.arange(0, SIDE), tl.arange(0, SIDE)
    at = tl.program_id(0) * SIDE * SIDE + row[:, None] * SIDE + column[None, :]
    x = tl.exp(tl.load(x_ptr + at))
    for _ in range(STEPS):
        x *= (1.0 / tl.sum(x, 1))[:, None]
        x *= (1.0 / tl.sum(x, 0))[None, :]
    tl.store(out_ptr + at, x)


def _balanced(warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        matrices = 2 if small else 1 << 14
        x, out = random(matrices, 32, 32), empty(matrices, 32, 32)
        options = {"STEPS": 16, "SIDE": 32, "num_warps": warps}
        return Launch(balanced_kernel, (matrices,), (x, out), (out,), options)

    return prepare


_case = faults_of(5)


CASES = (
    _case(
        "a program for each of 40 images",
        ("idle-sms", "low-occupancy"),
        ("ctas", "counters"),
        False,
        _lab_colour(1),
        _lab_colour(64),
    ),
    _case(
        "a hub's edges in one program",
        ("load-imbalance", "tail"),
        ("ctas", "spans"),
        False,
        _summed_neighbours(1 << 20),
        _summed_neighbours(64),
    ),
    _case(
        "pairs of a row and all later rows",
        ("load-imbalance", "tail"),
        ("ctas", "spans"),
        False,
        _ranking_loss(False),
        _ranking_loss(True),
    ),
    _case(
        "a CTA for each group's scale",
        ("tiny-ctas",),
        ("ctas", "counters"),
        False,
        _group_codes(1, 1),
        _group_codes(32, 4),
    ),
    _case(
        "each head's key cached by a CTA",
        ("tiny-ctas",),
        ("ctas", "counters"),
        False,
        _cached_keys(1, 1),
        _cached_keys(32, 4),
    ),
    _case(
        "price paths by 132 programs",
        ("low-occupancy",),
        ("ctas", "counters", "samples"),
        False,
        _price_paths(132),
        _price_paths(132 * 8),
    ),
    _case(
        "small matrices balanced by 8 warps",
        ("too-many-warps", "serial-reduction"),
        ("counts", "resources"),
        True,
        _balanced(8),
        _balanced(1),
    ),
)
