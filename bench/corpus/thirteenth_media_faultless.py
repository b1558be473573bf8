"""Thirteenth round, kernels of sound and of rendering without a fault."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, Prepare, empty, faultless_of, integers, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def tone_curve_kernel(x_ptr, out_ptr, exposure, BLOCK: tl.constexpr):
    """Light of pictures on a curve as of film, and its root as code. Bound by DRAM."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.maximum(tl.load(x_ptr + at).to(tl.float32) * exposure, 0.0)
    y = x * (2.51 * x + 0.03) / (x * (2.43 * x + 0.59) + 0.14)
    tl.store(out_ptr + at, tl.sqrt(tl.minimum(y, 1.0)).to(tl.float16))


def _tone_curve(block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        values = 4 * block if small else 1 << 27
        x = random(values, dtype=torch.float16)
        out, options = torch.empty_like(x), {"BLOCK": block, "num_warps": num_warps}
        return Launch(tone_curve_kernel, (values // block,), (x, out, 0.8), (out,), options)

    return prepare


@triton.jit
def raw_quads_kernel(x_ptr, out_ptr, black, red, blue, width, BLOCK: tl.constexpr):
    """Pixels of half size from quads of a sensor: red and green in a row, green and blue in the next.
    Bound by DRAM."""
    row, column = tl.program_id(1), tl.program_id(0) * (2 * BLOCK) + tl.arange(0, 2 * BLOCK)
    at = x_ptr + row * 2 * width + column
    upper, lower = tl.load(at).to(tl.float32), tl.load(at + width).to(tl.float32)
    first, second = tl.split(tl.reshape(upper, (BLOCK, 2)))
    third, fourth = tl.split(tl.reshape(lower, (BLOCK, 2)))
    out_at = row * (width // 2) + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    plane = tl.num_programs(1) * (width // 2)
    tl.store(out_ptr + out_at, ((first - black) * red).to(tl.float16))
    tl.store(out_ptr + plane + out_at, (0.5 * (second + third) - black).to(tl.float16))
    tl.store(out_ptr + 2 * plane + out_at, ((fourth - black) * blue).to(tl.float16))


def _raw_quads(block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        height, width = (4, 4 * block) if small else (16384, 8192)
        x = integers(height, width, below=4096, dtype=torch.int16)
        out = empty(3, height // 2, width // 2, dtype=torch.float16)
        options = {"BLOCK": block, "num_warps": num_warps}
        args = (x, out, 64.0, 1.9, 1.6, width)
        return Launch(raw_quads_kernel, (width // (2 * block), height // 2), args, (out,), options)

    return prepare


@triton.jit
def overlapped_frames_kernel(x_ptr, window_ptr, out_ptr, ROWS: tl.constexpr, HOP: tl.constexpr):
    """Sound from frames that overlap by three quarters, each under a window. Bound by DRAM."""
    lane = tl.arange(0, HOP)
    first, second = tl.load(window_ptr + lane), tl.load(window_ptr + HOP + lane)
    third, fourth = tl.load(window_ptr + 2 * HOP + lane), tl.load(window_ptr + 3 * HOP + lane)
    for each in tl.static_range(ROWS):
        row = tl.program_id(0) * ROWS + each
        at = x_ptr + row * (4 * HOP) + lane
        total = tl.load(at + 12 * HOP) * first + tl.load(at + 9 * HOP) * second
        total += tl.load(at + 6 * HOP) * third + tl.load(at + 3 * HOP) * fourth
        tl.store(out_ptr + row * HOP + lane, total)


def _overlapped_frames(rows_of_program: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, hop = 4 * rows_of_program if small else 1 << 17, 256
        x, window = random(rows + 3, 4 * hop), random(4 * hop)
        out, options = empty(rows, hop), {"ROWS": rows_of_program, "HOP": hop, "num_warps": num_warps}
        grid = (rows // rows_of_program,)
        return Launch(overlapped_frames_kernel, grid, (x, window, out), (out,), options)

    return prepare


@triton.jit
def scene_box_kernel(ray_ptr, out_ptr, rays, low, high, BLOCK: tl.constexpr):
    """Where rays enter and leave the box of a scene. Bound by DRAM."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    near, far = tl.full((BLOCK,), 0.05, dtype=tl.float32), tl.full((BLOCK,), 1e4, dtype=tl.float32)
    for axis in tl.static_range(3):
        start, inverse = tl.load(ray_ptr + axis * rays + at), tl.load(ray_ptr + (3 + axis) * rays + at)
        one, other = (low - start) * inverse, (high - start) * inverse
        near, far = tl.maximum(near, tl.minimum(one, other)), tl.minimum(far, tl.maximum(one, other))
    tl.store(out_ptr + at, near)
    tl.store(out_ptr + rays + at, tl.maximum(near, far))


def _scene_box(block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        rays = 4 * block if small else 1 << 24
        ray, out = random(6, rays), empty(2, rays)
        options = {"BLOCK": block, "num_warps": num_warps}
        return Launch(scene_box_kernel, (rays // block,), (ray, out, rays, -1.0, 1.0), (out,), options)

    return prepare


@triton.jit
def cube_colours_kernel(x_ptr, table_ptr, out_ptr, pixels, BLOCK: tl.constexpr, SIZE: tl.constexpr):
    """Pixels graded by a cube of colours, from the corners of the tetrahedron that each lies in. Any pixel
    may need any entry. Bound by gathers from the cube in L1."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    r = tl.load(x_ptr + at).to(tl.float32) * (SIZE - 1.001)
    g = tl.load(x_ptr + pixels + at).to(tl.float32) * (SIZE - 1.001)
    b = tl.load(x_ptr + 2 * pixels + at).to(tl.float32) * (SIZE - 1.001)
    ri, gi, bi = r.to(tl.int32), g.to(tl.int32), b.to(tl.int32)
    r, g, b = r - ri.to(tl.float32), g - gi.to(tl.float32), b - bi.to(tl.float32)
    most, least = tl.maximum(r, tl.maximum(g, b)), tl.minimum(r, tl.minimum(g, b))
    middle = r + g + b - most - least
    first = tl.where(r == most, SIZE * SIZE, tl.where(g == most, SIZE, 1))
    last = tl.where(b == least, 1, tl.where(g == least, SIZE, SIZE * SIZE))
    base = table_ptr + (ri * SIZE + gi) * SIZE + bi
    whole: tl.constexpr = SIZE * SIZE + SIZE + 1
    one, two = tl.load(base), tl.load(base + first)
    three, four = tl.load(base + whole - last), tl.load(base + whole)
    near, far = 1.0 - most, most - middle
    for colour in tl.static_range(3):
        y = near * ((one >> (10 * colour)) & 1023).to(tl.float32) + far * ((two >> (10 * colour)) & 1023).to(
            tl.float32
        )
        y += (middle - least) * ((three >> (10 * colour)) & 1023).to(tl.float32)
        y += least * ((four >> (10 * colour)) & 1023).to(tl.float32)
        tl.store(out_ptr + colour * pixels + at, (y * (1.0 / 1023.0)).to(tl.float16))


def _cube_colours(block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        pixels = 4 * block if small else 1 << 24
        x, table = torch.rand(3, pixels).to(torch.float16), integers(33**3, below=1 << 30)
        out, options = torch.empty_like(x), {"BLOCK": block, "SIZE": 33, "num_warps": num_warps}
        return Launch(cube_colours_kernel, (pixels // block,), (x, table, out, pixels), (out,), options)

    return prepare


@triton.jit
def decoded_codes_kernel(
    code_ptr, table_ptr, out_ptr, CODES: tl.constexpr, DIM: tl.constexpr, ROWS: tl.constexpr,
    BOOKS: tl.constexpr,
):  # fmt: skip
    """Frames of sound as sums of a vector of each of eight codebooks. Bound by L2, where the books lie."""
    row, column = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, DIM)[None, :]
    total = tl.zeros((ROWS, DIM), dtype=tl.float32)
    for book in tl.static_range(BOOKS):
        code = tl.load(code_ptr + row * BOOKS + book) + book * CODES
        total += tl.load(table_ptr + code[:, None] * DIM + column).to(tl.float32)
    tl.store(out_ptr + row[:, None] * DIM + column, total.to(tl.bfloat16))


def _decoded_codes(rows_of_program: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        frames, books, codes, dim = (4 * rows_of_program if small else 1 << 18), 8, 1024, 512
        code, table = integers(frames, books, below=codes), random(books * codes, dim, dtype=torch.bfloat16)
        out = empty(frames, dim, dtype=torch.bfloat16)
        options = {"CODES": codes, "DIM": dim, "ROWS": rows_of_program, "BOOKS": books}
        options |= {"num_warps": num_warps}
        grid = (frames // rows_of_program,)
        return Launch(decoded_codes_kernel, grid, (code, table, out), (out,), options)

    return prepare


@triton.jit
def lapped_transform_kernel(
    x_ptr, basis_ptr, out_ptr, hop, bins, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr
):
    """Spectra of sound's frames that overlap by half, by a product (MDCT). Bound by tensor cores."""
    row, inner = tl.program_id(1) * ROWS + tl.arange(0, ROWS), tl.arange(0, DEPTH)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    x_at = x_ptr + row[:, None] * hop + inner[None, :]
    basis_at = basis_ptr + inner[:, None] * bins + column[None, :]
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for _ in range(0, 2 * hop, DEPTH):
        total = tl.dot(tl.load(x_at), tl.load(basis_at), total)
        x_at += DEPTH
        basis_at += DEPTH * bins
    tl.store(out_ptr + row[:, None] * bins + column[None, :], total.to(tl.bfloat16))


def _lapped_transform(rows: int, columns: int, depth: int, num_warps: int, num_stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        frames, hop = (2 * rows, 256) if small else (132 * 512, 1024)
        x, basis = random((frames + 1) * hop, dtype=torch.bfloat16), random(2 * hop, hop).bfloat16()
        out = empty(frames, hop, dtype=torch.bfloat16)
        options = {"ROWS": rows, "COLUMNS": columns, "DEPTH": depth}
        options |= {"num_warps": num_warps, "num_stages": num_stages}
        args, grid = (x, basis, out, hop, hop), (hop // columns, frames // rows)
        return Launch(lapped_transform_kernel, grid, args, (out,), options)

    return prepare


@triton.jit
def corner_normals_kernel(face_ptr, place_ptr, normal_ptr, faces, BLOCK: tl.constexpr):
    """Normals of triangles added to their corners; a list says which these are. Bound by atomics in L2,
    which each corner needs."""
    face = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b = tl.load(face_ptr + face) * 4, tl.load(face_ptr + faces + face) * 4
    c = tl.load(face_ptr + 2 * faces + face) * 4
    x, y, z = tl.load(place_ptr + a), tl.load(place_ptr + a + 1), tl.load(place_ptr + a + 2)
    bx, by, bz = tl.load(place_ptr + b) - x, tl.load(place_ptr + b + 1) - y, tl.load(place_ptr + b + 2) - z
    cx, cy, cz = tl.load(place_ptr + c) - x, tl.load(place_ptr + c + 1) - y, tl.load(place_ptr + c + 2) - z
    across, along, up = by * cz - bz * cy, bz * cx - bx * cz, bx * cy - by * cx
    for corner in tl.static_range(3):
        at = normal_ptr + (a if corner == 0 else b if corner == 1 else c)
        tl.atomic_add(at, across, sem="relaxed")
        tl.atomic_add(at + 1, along, sem="relaxed")
        tl.atomic_add(at + 2, up, sem="relaxed")


def _corner_normals(block: int, num_warps: int) -> Prepare:
    """Of a mesh whose corners are in no order."""

    def prepare(small: bool) -> Launch:
        faces, corners = (4 * block, 1000) if small else (1 << 22, 1 << 21)
        face, place, normal = integers(3, faces, below=corners), random(corners, 4), zeros(corners, 4)
        options = {"BLOCK": block, "num_warps": num_warps}
        return Launch(
            corner_normals_kernel, (faces // block,), (face, place, normal, faces), (normal,), options
        )

    return prepare


@triton.jit
def hashed_field_kernel(
    place_ptr, table_ptr, size_ptr, out_ptr, points, MASK: tl.constexpr, BLOCK: tl.constexpr
):
    """Two features of points at each level of a hashed field, from eight corners that may be anywhere.
    Bound by gathers from L2."""
    level, at = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    size = tl.load(size_ptr + level)
    x, y = tl.load(place_ptr + at) * size, tl.load(place_ptr + points + at) * size
    z = tl.load(place_ptr + 2 * points + at) * size
    xi, yi, zi = x.to(tl.uint32), y.to(tl.uint32), z.to(tl.uint32)
    x, y, z = x - xi.to(tl.float32), y - yi.to(tl.float32), z - zi.to(tl.float32)
    yi, zi = yi * 2654435761, zi * 805459861
    table_at = table_ptr + level * (MASK + 1)
    first, second = tl.zeros((BLOCK,), dtype=tl.float32), tl.zeros((BLOCK,), dtype=tl.float32)
    for corner in tl.static_range(8):
        cell = (xi + corner % 2) ^ (yi + 2654435761 * (corner // 2 % 2)) ^ (zi + 805459861 * (corner // 4))
        both = tl.load(table_at + (cell & MASK).to(tl.int32))
        share = (x if corner % 2 == 1 else 1.0 - x) * (y if corner // 2 % 2 == 1 else 1.0 - y)
        share *= z if corner // 4 == 1 else 1.0 - z
        first += share * (both << 16).to(tl.float32, bitcast=True)
        second += share * (both & -65536).to(tl.float32, bitcast=True)
    tl.store(out_ptr + 2 * level * points + at, first.to(tl.bfloat16))
    tl.store(out_ptr + (2 * level + 1) * points + at, second.to(tl.bfloat16))


def _hashed_field(block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        points, levels = (2 * block, 2) if small else (1 << 20, 16)
        place, size = torch.rand(3, points), torch.linspace(128.0, 2048.0, levels)
        table = random(levels << 19, 2, dtype=torch.bfloat16).view(torch.int32)
        out = empty(levels, 2, points, dtype=torch.bfloat16)
        options = {"MASK": (1 << 19) - 1, "BLOCK": block, "num_warps": num_warps}
        args = (place, table, size, out, points)
        return Launch(hashed_field_kernel, (points // block, levels), args, (out,), options)

    return prepare


@triton.jit
def stereo_kernel(x_ptr, gain_ptr, out_ptr, samples, CHANNELS: tl.constexpr, BLOCK: tl.constexpr):
    """Six channels of a film's sound mixed to two. Bound by DRAM."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left, right = tl.zeros((BLOCK,), dtype=tl.float32), tl.zeros((BLOCK,), dtype=tl.float32)
    for channel in tl.static_range(CHANNELS):
        x = tl.load(x_ptr + channel * samples + at)
        left += tl.load(gain_ptr + 2 * channel) * x
        right += tl.load(gain_ptr + 2 * channel + 1) * x
    tl.store(out_ptr + at, left)
    tl.store(out_ptr + samples + at, right)


def _stereo(block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        samples = 4 * block if small else 1 << 24
        x, gain, out = random(6, samples), torch.rand(6, 2), empty(2, samples)
        options = {"CHANNELS": 6, "BLOCK": block, "num_warps": num_warps}
        return Launch(stereo_kernel, (samples // block,), (x, gain, out, samples), (out,), options)

    return prepare


@triton.jit
def packed_texture_kernel(end_ptr, code_ptr, out_ptr, width, BLOCKS: tl.constexpr):
    """Texels of blocks of four by four, each between two colours by a code of two bits (BC1).
    Bound by DRAM."""
    block = tl.program_id(0) * BLOCKS + tl.arange(0, BLOCKS)[None, :, None]
    row, column = tl.arange(0, 4)[:, None, None], tl.arange(0, 4)[None, None, :]
    here = tl.program_id(1) * (width // 4) + block
    ends, codes = tl.load(end_ptr + here), tl.load(code_ptr + here)
    both = ((ends & 0x001F001F) * 33) >> 2 & 0x00FF00FF
    greens = ((ends >> 5) & 0x003F003F) * 65 >> 4 & 0x00FF00FF
    reds = ((ends >> 11) & 0x001F001F) * 33 >> 2 & 0x00FF00FF
    second = (0x9C >> (2 * ((codes >> (8 * row + 2 * column)) & 3))) & 3
    first = 3 - second
    blue = ((both & 255) * first + (both >> 16) * second) * 85 >> 8
    green = ((greens & 255) * first + (greens >> 16) * second) * 85 >> 8
    red = ((reds & 255) * first + (reds >> 16) * second) * 85 >> 8
    at = (tl.program_id(1) * 4 + row) * width + block * 4 + column
    tl.store(out_ptr + at, -16777216 | (blue << 16) | (green << 8) | red)


def _packed_texture(blocks: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        height, width = (8, 8 * blocks) if small else (8192, 16384)
        end, code = (integers(height // 4, width // 4, below=(1 << 31) - 1) for _ in range(2))
        out = empty(height, width, dtype=torch.int32)
        options = {"BLOCKS": blocks, "num_warps": num_warps}
        grid = (width // 4 // blocks, height // 4)
        return Launch(packed_texture_kernel, grid, (end, code, out, width), (out,), options)

    return prepare


@triton.jit
def plane_images_kernel(x_ptr, out_ptr, pixels, PLANES: tl.constexpr, BLOCK: tl.constexpr):
    """A view from planes of colours at 16 depths, the nearest first. Bound by DRAM."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    red, green = tl.zeros((BLOCK,), dtype=tl.float32), tl.zeros((BLOCK,), dtype=tl.float32)
    blue, left = tl.zeros((BLOCK,), dtype=tl.float32), tl.full((BLOCK,), 1.0, dtype=tl.float32)
    for plane in tl.static_range(PLANES):
        x_at = x_ptr + plane * 4 * pixels + at
        share = tl.load(x_at + 3 * pixels).to(tl.float32) * left
        red += share * tl.load(x_at).to(tl.float32)
        green += share * tl.load(x_at + pixels).to(tl.float32)
        blue += share * tl.load(x_at + 2 * pixels).to(tl.float32)
        left -= share
    tl.store(out_ptr + at, red.to(tl.float16))
    tl.store(out_ptr + pixels + at, green.to(tl.float16))
    tl.store(out_ptr + 2 * pixels + at, blue.to(tl.float16))


def _plane_images(block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        pixels = 4 * block if small else 1 << 22
        x, out = torch.rand(16, 4, pixels).to(torch.float16), empty(3, pixels, dtype=torch.float16)
        options = {"PLANES": 16, "BLOCK": block, "num_warps": num_warps}
        return Launch(plane_images_kernel, (pixels // block,), (x, out, pixels), (out,), options)

    return prepare


@triton.jit
def limiter_kernel(x_ptr, out_ptr, steps, channels, fade, roof, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    """Channels made quieter where they lately were too loud, sample by sample. Bound by DRAM."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    loud = tl.zeros((BLOCK,), dtype=tl.float32)
    for step in tl.range(0, steps, num_stages=STAGES):
        x = tl.load(x_ptr + step * channels + at)
        loud = tl.maximum(tl.abs(x), loud * fade)
        tl.store(out_ptr + step * channels + at, x * tl.minimum(roof / tl.maximum(loud, 1e-6), 1.0))


def _limiter(block: int, num_warps: int, stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        steps, channels = (16, 2 * block) if small else (512, 132 * 1024)
        x, out = random(steps, channels), empty(steps, channels)
        options = {"BLOCK": block, "STAGES": stages, "num_warps": num_warps}
        args = (x, out, steps, channels, 0.99, 1.0)
        return Launch(limiter_kernel, (channels // block,), args, (out,), options)

    return prepare


_good = faultless_of(13)

CASES = (
    _good("good curve of film", _tone_curve(2048, 4)),
    _good("good quads of a sensor", _raw_quads(512, 4)),
    _good("good sound from frames", _overlapped_frames(1, 2)),
    _good("good rays into a box", _scene_box(1024, 8)),
    _good("good cube of colours", _cube_colours(1024, 8)),
    _good("good frames of eight codebooks", _decoded_codes(2, 1)),
    _good("good lapped transforms", _lapped_transform(128, 256, 64, 8, 4)),
    _good("good normals of corners", _corner_normals(128, 4)),
    _good("good hashed field", _hashed_field(128, 4)),
    _good("good mix of six channels", _stereo(1024, 8)),
    _good("good packed texture", _packed_texture(256, 8)),
    _good("good view of 16 planes", _plane_images(512, 4)),
    _good("good limiter of sound", _limiter(128, 1, 6)),
)
