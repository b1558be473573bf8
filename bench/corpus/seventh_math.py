"""Seventh round, faults of arithmetic: expensive or wide operations, reductions, and masked work."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from bench.corpus.case import Launch, Prepare, empty, faults_of, integers, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def focal_loss_kernel(logit_ptr, label_ptr, out_ptr, share, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    """The focal loss of each box and class of a detector; WIDE: by float64, for small probabilities."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, label = tl.load(logit_ptr + at).to(tl.float32), tl.load(label_ptr + at) > 0
    x = tl.where(label, x, -x)
    weight = tl.where(label, share, 1.0 - share)
    if WIDE:
        chance = 1.0 / (1.0 + tl.exp(-x.to(tl.float64)))  # fault
        loss = (-(1.0 - chance) * (1.0 - chance) * tl.log(chance)).to(tl.float32)  # fault
    else:
        power = tl.exp2(-1.44269504 * tl.abs(x))
        other = tl.where(x > 0, power, 1.0) / (1.0 + power)
        lost = 0.69314718 * tl.log2(1.0 + power) - tl.minimum(x, 0.0)
        loss = other * other * lost
    tl.store(out_ptr + at, weight * loss)


def _focal_loss(wide: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        n = 4096 if small else 1 << 25
        logit, out = random(n, dtype=torch.bfloat16) - 2, empty(n)
        label = (torch.rand(n) > 0.98).to(torch.uint8)
        options = {"WIDE": wide, "BLOCK": 1024, "num_warps": 4}
        return Launch(focal_loss_kernel, (n // 1024,), (logit, label, out, 0.25), (out,), options)

    return prepare


@triton.jit
def ewald_kernel(atom_ptr, out_ptr, atoms, width, LIBRARY: tl.constexpr, BLOCK: tl.constexpr):
    """The near part of the electric field at each atom of a box of salt (Ewald's sum)."""
    box = atom_ptr + tl.program_id(1) * 4 * atoms
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y, z = tl.load(box + at), tl.load(box + atoms + at), tl.load(box + 2 * atoms + at)
    east, north, up = x * 0.0, x * 0.0, x * 0.0
    for other in range(atoms):
        dx, dy = x - tl.load(box + other), y - tl.load(box + atoms + other)
        dz, charge = z - tl.load(box + 2 * atoms + other), tl.load(box + 3 * atoms + other)
        square = dx * dx + dy * dy + dz * dz + 1e-4
        inverse = tl.rsqrt(square)
        wide = square * inverse * width
        if LIBRARY:
            bell = libdevice.exp(-wide * wide)  # fault
            rest = libdevice.erfc(wide)  # fault
        else:
            bell = tl.exp2(-1.44269504 * wide * wide)
            t = 1.0 / (1.0 + 0.3275911 * wide)
            rest = t * (1.42141374 + t * (-1.45315203 + t * 1.06140543))
            rest = t * (0.25482959 + t * (-0.28449674 + rest)) * bell
        pull = charge * inverse * inverse * (rest * inverse + 1.12837917 * width * bell)
        east, north, up = east + pull * dx, north + pull * dy, up + pull * dz
    out = out_ptr + tl.program_id(1) * 3 * atoms + at
    tl.store(out, east)
    tl.store(out + atoms, north)
    tl.store(out + 2 * atoms, up)


def _ewald(library: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        boxes, atoms = (1, 256) if small else (64, 2048)
        atom, out = torch.rand(boxes, 4, atoms), empty(boxes, 3, atoms)
        options = {"LIBRARY": library, "BLOCK": 256, "num_warps": 4}
        args = (atom, out, atoms, 3.0)
        return Launch(ewald_kernel, (atoms // 256, boxes), args, (out,), options)

    return prepare


@triton.jit
def companded_kernel(x_ptr, out_ptr, LIBRARY: tl.constexpr, BLOCK: tl.constexpr):
    """Samples of sound as 256 codes, which are finer for quiet ones (the mu-law)."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at).to(tl.float32)
    if LIBRARY:
        loud = libdevice.log1p(255.0 * tl.abs(x)) / libdevice.log1p(255.0)  # fault
        code = libdevice.copysign(loud, x)  # fault
    else:
        loud = 0.125 * libdevice.fast_log2f(1.0 + 255.0 * tl.abs(x))
        code = tl.where(x < 0, -loud, loud)
    tl.store(out_ptr + at, (code * 127.5 + 128.0).to(tl.int32).to(tl.uint8))


def _companded(library: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        n = 8192 if small else 1 << 28
        x = (2 * torch.rand(n) - 1).half()
        out = empty(n, dtype=torch.uint8)
        options = {"LIBRARY": library, "BLOCK": 2048, "num_warps": 4}
        return Launch(companded_kernel, (n // 2048,), (x, out), (out,), options)

    return prepare


@triton.jit
def rolled_kernel(x_ptr, out_ptr, height, width, down, right, BLOCK: tl.constexpr, BY_ROWS: tl.constexpr):
    """Images rolled around their edges (augmentation); BY_ROWS: a program moves a part of one row."""
    if BY_ROWS:
        row, column = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        at = (tl.program_id(2) * height + row) * width + column
        row, column = (row + down) % height, column + right
        column = tl.where(column < width, column, column - width)
        line = tl.program_id(2) * height + row
    else:
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        row, column = at // width, at % width  # fault
        image, row = row // height, row % height  # fault
        row, column = (row + down) % height, (column + right) % width  # fault
        line = image * height + row
    tl.store(out_ptr + at, tl.load(x_ptr + line * width + column))


def _rolled(by_rows: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        images, height, width = (1, 4, 1024) if small else (192, 768, 1024)
        x = integers(images, height, width, below=256).to(torch.uint8)
        out = torch.empty_like(x)
        options = {"BLOCK": 1024, "BY_ROWS": by_rows, "num_warps": 4}
        grid = (1, height, images) if by_rows else (images * height,)
        args = (x, out, height, width, 3, 37)
        return Launch(rolled_kernel, grid, args, (out,), options)

    return prepare


@triton.jit
def depthwise_bytes_kernel(
    x_ptr, weight_ptr, out_ptr, scale, height, WIDTH: tl.constexpr, CHANNELS: tl.constexpr,
    PIXELS: tl.constexpr, WHOLE: tl.constexpr,
):  # fmt: skip
    """Each channel of bytes with its own filter of 7 by 7; WHOLE: the products are added as integers."""
    lanes = tl.arange(0, PIXELS * CHANNELS)
    line = tl.program_id(2) * (height + 6) + tl.program_id(1)
    x = x_ptr + (line * (WIDTH + 6) + tl.program_id(0) * PIXELS) * CHANNELS + lanes
    filters = weight_ptr + lanes % CHANNELS
    if WHOLE:
        total = tl.zeros((PIXELS * CHANNELS,), dtype=tl.int32)
    else:
        total = tl.zeros((PIXELS * CHANNELS,), dtype=tl.float32)
    for down in range(7):
        for right in tl.static_range(7):
            value = tl.load(x + (down * (WIDTH + 6) + right) * CHANNELS)
            weight = tl.load(filters + (down * 7 + right) * CHANNELS)
            if WHOLE:
                total += value.to(tl.int32) * weight.to(tl.int32)
            else:
                total += value.to(tl.float32) * weight.to(tl.float32)  # fault
    out = ((tl.program_id(2) * height + tl.program_id(1)) * WIDTH + tl.program_id(0) * PIXELS) * CHANNELS
    rounded = tl.minimum(tl.maximum(total.to(tl.float32) * scale, -128.0), 127.0)
    tl.store(out_ptr + out + lanes, rounded.to(tl.int8))


def _depthwise_bytes(whole: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        images, height, width = (1, 2, 8) if small else (8, 64, 64)
        x = (integers(images, height + 6, width + 6, 512, below=256) - 128).to(torch.int8)
        weight = (integers(49, 512, below=256) - 128).to(torch.int8)
        out = empty(images, height, width, 512, dtype=torch.int8)
        args = (x, weight, out, 2.0**-10, height)
        options = {"WIDTH": width, "CHANNELS": 512, "PIXELS": 4, "WHOLE": whole, "num_warps": 4}
        return Launch(depthwise_bytes_kernel, (width // 4, height, images), args, (out,), options)

    return prepare


@triton.jit
def delta_rule_kernel(
    query_ptr, key_ptr, value_ptr, rate_ptr, out_ptr, length, KEYS: tl.constexpr, VALUES: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """The delta rule token by token, as in decoding: what a key finds moves to its value."""
    key, value = tl.arange(0, KEYS), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    state = tl.zeros((KEYS, BLOCK), dtype=tl.float32)
    for token in range(tl.program_id(1) * length, tl.program_id(1) * length + length):
        k = tl.load(key_ptr + token * KEYS + key).to(tl.float32)
        q = tl.load(query_ptr + token * KEYS + key).to(tl.float32)
        v = tl.load(value_ptr + token * VALUES + value).to(tl.float32)
        found = tl.sum(state * k[:, None], 0)  # fault
        change = tl.load(rate_ptr + token) * (v - found)
        state += k[:, None] * change[None, :]
        out = tl.sum(state * q[:, None], 0)  # fault
        tl.store(out_ptr + token * VALUES + value, out.to(tl.bfloat16))


def _delta_rule(warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        heads, length = (1, 8) if small else (256, 256)
        query, key = (
            torch.nn.functional.normalize(random(heads, length, 128), dim=-1).bfloat16() for _ in range(2)
        )
        value, rate = random(heads, length, 128, dtype=torch.bfloat16), torch.rand(heads, length)
        out = torch.empty_like(value)
        args = (query, key, value, rate, out, length)
        options = {"KEYS": 128, "VALUES": 128, "BLOCK": 8, "num_warps": warps}
        return Launch(delta_rule_kernel, (16, heads), args, (out,), options)

    return prepare


@triton.jit
def box_overlaps_kernel(box_ptr, out_ptr, boxes, BLOCK: tl.constexpr, EARLIER: tl.constexpr):
    """How much each box overlaps one of a higher score, at most (Fast NMS). Boxes are sorted by scores."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    box = box_ptr + tl.program_id(1) * 4 * boxes
    left, top = tl.load(box + at), tl.load(box + boxes + at)
    right, bottom = tl.load(box + 2 * boxes + at), tl.load(box + 3 * boxes + at)
    area = (right - left) * (bottom - top)
    most = tl.zeros((BLOCK,), dtype=tl.float32)
    last = boxes
    if EARLIER:
        last = tl.program_id(0) * BLOCK + BLOCK
    for other in range(last):  # fault
        x0, y0 = tl.load(box + other), tl.load(box + boxes + other)  # fault
        x1, y1 = tl.load(box + 2 * boxes + other), tl.load(box + 3 * boxes + other)  # fault
        width = tl.maximum(tl.minimum(right, x1) - tl.maximum(left, x0), 0.0)  # fault
        common = width * tl.maximum(tl.minimum(bottom, y1) - tl.maximum(top, y0), 0.0)  # fault
        overlap = common / (area + (x1 - x0) * (y1 - y0) - common)  # fault
        most = tl.maximum(most, tl.where(other < at, overlap, 0.0))  # fault
    tl.store(out_ptr + tl.program_id(1) * boxes + at, most)


def _box_overlaps(earlier: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        images, boxes = (1, 512) if small else (64, 4096)
        box, out = torch.rand(images, 4, boxes), empty(images, boxes)
        box[:, 2:] = box[:, :2] + 0.2 * box[:, 2:] + 0.01
        options = {"BLOCK": 256, "EARLIER": earlier, "num_warps": 4}
        return Launch(box_overlaps_kernel, (boxes // 256, images), (box, out, boxes), (out,), options)

    return prepare


_case = faults_of(7)


CASES = (
    _case(
        "focal loss in float64",
        ("fp64-arithmetic",),
        ("counts",),
        True,
        _focal_loss(True),
        _focal_loss(False),
    ),
    _case(
        "salt's field by erfc",
        ("slow-math",),
        ("counts",),
        True,
        _ewald(True),
        _ewald(False),
    ),
    _case(
        "sound's codes by log1p",
        ("slow-math",),
        ("counts",),
        True,
        _companded(True),
        _companded(False),
    ),
    _case(
        "images rolled by division",
        ("index-arithmetic",),
        ("counts",),
        True,
        _rolled(False),
        _rolled(True),
    ),
    _case(
        "depthwise bytes in float32",
        ("conversions",),
        ("counts",),
        True,
        _depthwise_bytes(False),
        _depthwise_bytes(True),
    ),
    _case(
        "delta rule of 4 warps",
        ("serial-reduction", "too-many-warps"),
        ("counts", "samples"),
        True,
        _delta_rule(4),
        _delta_rule(1),
    ),
    _case(
        "boxes compared with all others",
        ("masked-work",),
        ("counts",),
        True,
        _box_overlaps(False),
        _box_overlaps(True),
    ),
)
