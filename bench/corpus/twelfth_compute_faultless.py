"""Twelfth round, computing without a fault: genomes, tables, graphs, images, fields, chains, walks."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, Prepare, empty, faultless_of, integers, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def packed_bases_kernel(base_ptr, out_ptr, words, BLOCK: tl.constexpr):
    """Bases of a genome, four to a word as letters, packed into two bits each (as of 2bit files).
    Bound by DRAM."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    letters = tl.load(base_ptr + at)
    code = (letters >> 1) & 0x03030303
    packed = code | (code >> 6) | (code >> 12) | (code >> 18)
    tl.store(out_ptr + at, (packed & 0xFF).to(tl.uint8))


def _packed_bases(block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        words = 2 * block if small else 1 << 26
        base, out = integers(words, below=2147483647), empty(words, dtype=torch.uint8)
        options = {"BLOCK": block, "num_warps": num_warps}
        return Launch(packed_bases_kernel, (words // block,), (base, out, words), (out,), options)

    return prepare


@triton.jit
def priced_orders_kernel(item_ptr, count_ptr, price_ptr, out_ptr, BLOCK: tl.constexpr):
    """What each order costs, by a table of a million prices that orders name in no order. Bound by L2."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    item, count = tl.load(item_ptr + at), tl.load(count_ptr + at)
    tl.store(out_ptr + at, tl.load(price_ptr + item) * count.to(tl.float32))


def _priced_orders(block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        orders, items = (2 * block, 1000) if small else (1 << 25, 1 << 20)
        item, count = integers(orders, below=items), integers(orders, below=100)
        price, out = torch.rand(items), empty(orders)
        options = {"BLOCK": block, "num_warps": num_warps}
        grid = (orders // block,)
        return Launch(priced_orders_kernel, grid, (item, count, price, out), (out,), options)

    return prepare


@triton.jit
def degrees_kernel(tail_ptr, degree_ptr, BLOCK: tl.constexpr):
    """How many links of a graph, listed in no order, lead to each of its nodes. Bound by atomics in L2, which
    have to be: few links of a program lead to the same node."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(degree_ptr + tl.load(tail_ptr + at), 1, sem="relaxed")


def _degrees(block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        links, nodes = (2 * block, 1000) if small else (1 << 25, 1 << 22)
        tail, degree = integers(links, below=nodes), zeros(nodes, dtype=torch.int32)
        options = {"BLOCK": block, "num_warps": num_warps}
        return Launch(degrees_kernel, (links // block,), (tail, degree), (degree,), options)

    return prepare


@triton.jit
def bilateral_kernel(x_ptr, out_ptr, pitch, width, sharpness, RADIUS: tl.constexpr, BLOCK: tl.constexpr):
    """Images smoothed but for their edges: a pixel's neighbours count by how alike they are (bilateral).
    Bound by exponentials."""
    row, column = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = x_ptr + row * pitch + column
    middle = tl.load(at + RADIUS * pitch + RADIUS)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    weights = tl.zeros((BLOCK,), dtype=tl.float32)
    for down in tl.static_range(2 * RADIUS + 1):
        for right in tl.static_range(2 * RADIUS + 1):
            x = tl.load(at + down * pitch + right)
            apart = x - middle
            far = -0.1 * ((down - RADIUS) * (down - RADIUS) + (right - RADIUS) * (right - RADIUS))
            weight = tl.exp2(far - apart * apart * sharpness)
            weights += weight
            total += weight * x
    tl.store(out_ptr + row * width + column, total / weights)


def _bilateral(block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        height, width = (2, 2 * block) if small else (4096, 8192)
        x, out = torch.rand(height + 4, width + 16), empty(height, width)
        options = {"RADIUS": 2, "BLOCK": block, "num_warps": num_warps}
        args = (x, out, width + 16, width, 10.0)
        return Launch(bilateral_kernel, (width // block, height), args, (out,), options)

    return prepare


@triton.jit
def carried_tracer_kernel(
    tracer_ptr, wind_ptr, out_ptr, length, plane, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """A step of a tracer that the wind carries along a lattice around a world of padded rows, upwind.
    Bound by DRAM."""
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    at = (row + 1) * length + column + 4
    own = tl.load(tracer_ptr + at)
    west, east = tl.load(tracer_ptr + at - 1), tl.load(tracer_ptr + at + 1)
    north, south = tl.load(tracer_ptr + at - length), tl.load(tracer_ptr + at + length)
    across, along = tl.load(wind_ptr + at), tl.load(wind_ptr + plane + at)
    change = tl.maximum(across, 0.0) * (own - west) + tl.minimum(across, 0.0) * (east - own)
    change += tl.maximum(along, 0.0) * (own - north) + tl.minimum(along, 0.0) * (south - own)
    tl.store(out_ptr + at, own - change)


def _carried_tracer(rows: int, columns: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        height, width = (2 * rows, columns) if small else (8192, 4096)
        length = width + 16
        tracer, wind = torch.rand(height + 2, length), 0.3 * random(2, height + 2, length)
        out = zeros(height + 2, length)
        options = {"ROWS": rows, "COLUMNS": columns, "num_warps": num_warps}
        args = (tracer, wind, out, length, (height + 2) * length)
        grid = (width // columns, height // rows)
        return Launch(carried_tracer_kernel, grid, args, (out,), options)

    return prepare


@triton.jit
def projected_snapshots_kernel(
    x_ptr,
    mode_ptr,
    out_ptr,
    WIDTH: tl.constexpr,
    MODES: tl.constexpr,
    ROWS: tl.constexpr,
    DEPTH: tl.constexpr,
):
    """Snapshots of a flow at places, in columns, projected to a few modes of it. Bound by DRAM."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inner, mode = tl.arange(0, DEPTH), tl.arange(0, MODES)
    x_at = x_ptr + row[:, None] * WIDTH + inner[None, :]
    mode_at = mode_ptr + inner[:, None] * MODES + mode[None, :]
    total = tl.zeros((ROWS, MODES), dtype=tl.float32)
    for start in range(0, WIDTH, DEPTH):
        total = tl.dot(tl.load(x_at + start), tl.load(mode_at + start * MODES), total)
    tl.store(out_ptr + row[:, None] * MODES + mode[None, :], total.to(tl.bfloat16))


def _projected_snapshots(rows: int, depth: int, num_warps: int, num_stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        places = 2 * rows if small else 1 << 20
        x = random(places, 512, dtype=torch.bfloat16)
        mode, out = random(512, 32, dtype=torch.bfloat16), empty(places, 32, dtype=torch.bfloat16)
        options = {"WIDTH": 512, "MODES": 32, "ROWS": rows, "DEPTH": depth, "num_warps": num_warps}
        options |= {"num_stages": num_stages}
        return Launch(projected_snapshots_kernel, (places // rows,), (x, mode, out), (out,), options)

    return prepare


@triton.jit
def stretched_keys_kernel(seed_ptr, out_ptr, rounds, BLOCK: tl.constexpr):
    """Keys stretched: a hash of each word, of the hash, and so on (the last step of MurmurHash3). Bound by a
    chain of multiplications and shifts, as each needs the last: there are few keys."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    seed = tl.load(seed_ptr + at).to(tl.uint32, bitcast=True)
    key = seed
    for _ in range(rounds):
        key ^= key >> 16
        key *= 0x85EBCA6B
        key ^= key >> 13
        key *= 0xC2B2AE35
        key = (key ^ (key >> 16)) + seed
    tl.store(out_ptr + at, key.to(tl.int32, bitcast=True))


def _stretched_keys(block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        keys, rounds = (2 * block, 8) if small else (16896, 4096)
        seed, out = integers(keys, below=2147483647), empty(keys, dtype=torch.int32)
        options = {"BLOCK": block, "num_warps": num_warps}
        return Launch(stretched_keys_kernel, (keys // block,), (seed, out, rounds), (out,), options)

    return prepare


@triton.jit
def parsed_numbers_kernel(text_ptr, out_ptr, BLOCK: tl.constexpr):
    """Numbers of eight decimal digits parsed, all digits of a number at once in two words. Bound by DRAM."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    digits = tl.load(text_ptr + at) & 0x0F0F0F0F0F0F0F0F
    high, low = digits.to(tl.int32), (digits >> 32).to(tl.int32)
    high, low = high * 10 + (high >> 8), low * 10 + (low >> 8)
    high = (high & 0xFF) * 100 + ((high >> 16) & 0xFF)
    low = (low & 0xFF) * 100 + ((low >> 16) & 0xFF)
    tl.store(out_ptr + at, high * 10000 + low)


def _parsed_numbers(block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        numbers = 2 * block if small else 1 << 25
        text = integers(numbers, 8, below=10, dtype=torch.uint8) + 48
        out = empty(numbers, dtype=torch.int32)
        options = {"BLOCK": block, "num_warps": num_warps}
        args = (text.view(torch.int64).flatten(), out)
        return Launch(parsed_numbers_kernel, (numbers // block,), args, (out,), options)

    return prepare


@triton.jit
def reached_walks_kernel(out_ptr, seed, rounds, BLOCK: tl.constexpr):
    """How far from home random walks get, by four words of a generator each round (Philox).
    Bound by the multiplications of integers and the instructions of the generator."""
    walk = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    far = tl.zeros((BLOCK,), dtype=tl.int32)
    place = tl.zeros((BLOCK,), dtype=tl.int32)
    for each in range(rounds):
        a, b, c, d = tl.randint4x(seed, walk * rounds + each)
        place += (a >> 24).to(tl.int32) - (b >> 24).to(tl.int32)
        far = tl.maximum(far, tl.abs(place))
        place += (c >> 24).to(tl.int32) - (d >> 24).to(tl.int32)
        far = tl.maximum(far, tl.abs(place))
    tl.store(out_ptr + walk, far)


def _reached_walks(block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        walks, rounds = (2 * block, 2) if small else (1 << 22, 16)
        out = empty(walks, dtype=torch.int32)
        options = {"BLOCK": block, "num_warps": num_warps}
        return Launch(reached_walks_kernel, (walks // block,), (out, 1234, rounds), (out,), options)

    return prepare


@triton.jit
def particles_in_order_kernel(
    particle_ptr, order_ptr, out_ptr, FIELDS: tl.constexpr, PARTICLES: tl.constexpr
):
    """Particles of eight fields, in a row each, put in the order of their cells. Bound by DRAM."""
    at, field = tl.program_id(0) * PARTICLES + tl.arange(0, PARTICLES), tl.arange(0, FIELDS)[None, :]
    order = tl.load(order_ptr + at)
    particle = tl.load(particle_ptr + order[:, None] * FIELDS + field)
    tl.store(out_ptr + at[:, None] * FIELDS + field, particle)


def _particles_in_order(particles_of_program: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        particles = 2 * particles_of_program if small else 1 << 24
        particle, out = random(particles, 8), empty(particles, 8)
        order = torch.randperm(particles, dtype=torch.int32)
        options = {"FIELDS": 8, "PARTICLES": particles_of_program, "num_warps": num_warps}
        grid = (particles // particles_of_program,)
        return Launch(particles_in_order_kernel, grid, (particle, order, out), (out,), options)

    return prepare


_good = faultless_of(12)

CASES = (
    _good("good packed bases", _packed_bases(2048, 4)),
    _good("good prices of orders", _priced_orders(512, 16)),
    _good("good degrees of nodes", _degrees(1024, 4)),
    _good("good bilateral filter", _bilateral(1024, 8)),
    _good("good carried tracer", _carried_tracer(4, 256, 4)),
    _good("good projected snapshots", _projected_snapshots(64, 256, 4, 2)),
    _good("good stretched keys", _stretched_keys(32, 1)),
    _good("good parsed numbers", _parsed_numbers(256, 4)),
    _good("good reach of walks", _reached_walks(256, 2)),
    _good("good order of particles", _particles_in_order(128, 4)),
)
