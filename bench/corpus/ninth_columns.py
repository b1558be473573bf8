"""Ninth round, faults of kernels for databases, sound and the preparation of data."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, Prepare, empty, faults_of, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def _mixed(x):
    """The last step of MurmurHash3."""
    x = (x ^ (x >> 16)) * 0x85EBCA6B
    x = (x ^ (x >> 13)) * 0xC2B2AE35
    return x ^ (x >> 16)


@triton.jit
def murmur_kernel(key_ptr, out_ptr, BYTES: tl.constexpr, BLOCK: tl.constexpr, WORDS: tl.constexpr):
    """Hash values of keys of a fixed length (MurmurHash3). WORDS: keys come as words instead of bytes."""
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.full((BLOCK,), 42, tl.uint32)
    for word in tl.static_range(BYTES // 4):
        if WORDS:
            part = tl.load(key_ptr + row * (BYTES // 4) + word).to(tl.uint32, bitcast=True)
        else:
            byte = key_ptr + row * BYTES + word * 4
            part = tl.load(byte).to(tl.uint32)  # fault
            part |= tl.load(byte + 1).to(tl.uint32) << 8  # fault
            part |= tl.load(byte + 2).to(tl.uint32) << 16  # fault
            part |= tl.load(byte + 3).to(tl.uint32) << 24  # fault
        part *= 0xCC9E2D51
        part = ((part << 15) | (part >> 17)) * 0x1B873593
        value ^= part
        value = ((value << 13) | (value >> 19)) * 5 + 0xE6546B64
    tl.store(out_ptr + row, _mixed(value ^ BYTES).to(tl.int32, bitcast=True))


def _murmur(words: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows = 1 << (10 if small else 24)
        key, out = torch.randint(256, (rows, 16), dtype=torch.uint8), empty(rows, dtype=torch.int32)
        if words:
            key = key.view(torch.int32)
        options = {"BYTES": 16, "BLOCK": 256, "WORDS": words, "num_warps": 4}
        return Launch(murmur_kernel, (rows // 256,), (key, out), (out,), options)

    return prepare


@triton.jit
def sorted_groups_kernel(key_ptr, value_ptr, out_ptr, BLOCK: tl.constexpr, TOGETHER: tl.constexpr):
    """Sums of the values of each group, of rows sorted by group. TOGETHER: once for a block of one group."""
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(value_ptr + row)
    first = tl.load(key_ptr + tl.program_id(0) * BLOCK)
    last = tl.load(key_ptr + tl.program_id(0) * BLOCK + BLOCK - 1)
    if TOGETHER and first == last:
        tl.atomic_add(out_ptr + first, tl.sum(value, 0), sem="relaxed")
    else:
        tl.atomic_add(out_ptr + tl.load(key_ptr + row), value, sem="relaxed")  # fault


def _sorted_groups(together: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows, groups = (1 << 13, 3) if small else (1 << 24, 2000)
        key = (torch.arange(rows, dtype=torch.float64) * groups / rows).int()
        value, out = torch.rand(rows), zeros(groups)
        options = {"BLOCK": 1024, "TOGETHER": together, "num_warps": 4}
        return Launch(sorted_groups_kernel, (rows // 1024,), (key, value, out), (out,), options)

    return prepare


@triton.jit
def great_circle_kernel(
    latitude_ptr, longitude_ptr, home_ptr, out_ptr, BLOCK: tl.constexpr, NARROW: tl.constexpr
):
    """Distances of places from a home, in km. NARROW: only the places' differences are of float64."""
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    latitude = tl.load(latitude_ptr + row) * 0.017453292519943295
    longitude = tl.load(longitude_ptr + row) * 0.017453292519943295
    own = tl.load(home_ptr) * 0.017453292519943295
    north, east = latitude - own, longitude - tl.load(home_ptr + 1) * 0.017453292519943295
    if NARROW:
        north, east = north.to(tl.float32), east.to(tl.float32)
        latitude, own = latitude.to(tl.float32), own.to(tl.float32)
    across, along = tl.sin(0.5 * north), tl.sin(0.5 * east)  # fault
    share = across * across + tl.cos(latitude) * tl.cos(own) * along * along  # fault
    chord = tl.sqrt(share)  # fault
    square = chord * chord  # fault
    series = 1.0 + square * (1 / 6 + square * (3 / 40 + square * (15 / 336 + square * (105 / 3456))))  # fault
    tl.store(out_ptr + row, (12742.0 * chord * series).to(tl.float32))


def _great_circle(narrow: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows = 1 << (10 if small else 24)
        latitude = 40.0 + 20.0 * torch.rand(rows, dtype=torch.float64)
        longitude = -10.0 + 40.0 * torch.rand(rows, dtype=torch.float64)
        home, out = torch.tensor([52.52, 13.405], dtype=torch.float64), empty(rows)
        options = {"BLOCK": 256, "NARROW": narrow, "num_warps": 4}
        args = (latitude, longitude, home, out)
        return Launch(great_circle_kernel, (rows // 256,), args, (out,), options)

    return prepare


@triton.jit
def brightness_counts_kernel(x_ptr, out_ptr, pixels, BLOCK: tl.constexpr):
    """How often each of 256 values is in a picture, before it is equalised."""
    picture = tl.program_id(1)
    first = x_ptr + (picture * tl.num_programs(0) + tl.program_id(0)) * pixels
    counts = tl.zeros((256,), dtype=tl.int32)
    for start in range(0, pixels, BLOCK):
        counts += tl.histogram(tl.load(first + start + tl.arange(0, BLOCK)).to(tl.int32), 256)
    tl.atomic_add(out_ptr + picture * 256 + tl.arange(0, 256), counts, sem="relaxed")


def _brightness_counts(parts: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        pictures, pixels, few = (2, 8192, min(parts, 2)) if small else (24, 1 << 21, parts)
        x = torch.randint(256, (pictures, pixels), dtype=torch.uint8)
        out = zeros(pictures, 256, dtype=torch.int32)
        options = {"BLOCK": 2048, "num_warps": 4}
        args = (x, out, pixels // few)
        return Launch(brightness_counts_kernel, (few, pictures), args, (out,), options)

    return prepare


@triton.jit
def dilated_convolution_kernel(
    x_ptr, weight_ptr, out_ptr, times, filters, CHANNELS: tl.constexpr, DILATION: tl.constexpr,
    TIMES: tl.constexpr, FILTERS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """A convolution of three far taps over time, with channels last (a vocoder's residual block)."""
    time, clip = tl.program_id(1) * TIMES + tl.arange(0, TIMES), tl.program_id(2)
    kind, inner = tl.program_id(0) * FILTERS + tl.arange(0, FILTERS), tl.arange(0, DEPTH)
    x = x_ptr + (clip * (times + 2 * DILATION) + time[:, None]) * CHANNELS + inner[None, :]
    weight = weight_ptr + inner[:, None] * filters + kind[None, :]
    total = tl.zeros((TIMES, FILTERS), dtype=tl.float32)
    for step in range(3 * (CHANNELS // DEPTH)):
        tap, part = step // (CHANNELS // DEPTH), step % (CHANNELS // DEPTH) * DEPTH
        sound = tl.load(x + tap * DILATION * CHANNELS + part)  # fault
        total = tl.dot(sound, tl.load(weight + step * DEPTH * filters), total)  # fault
    total = tl.where(total > 0.0, total, 0.1 * total)
    out = out_ptr + (clip * times + time[:, None]) * filters + kind[None, :]
    tl.store(out, total.to(tl.bfloat16))


def _dilated_convolution(stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        clips, times, channels = (2, 128, 256) if small else (8, 16384, 512)
        x = random(clips, times + 18, channels, dtype=torch.bfloat16)
        weight = random(3 * channels, channels, dtype=torch.bfloat16) * 0.03
        out = empty(clips, times, channels, dtype=torch.bfloat16)
        options = {"CHANNELS": channels, "DILATION": 9, "TIMES": 128, "FILTERS": 256, "DEPTH": 64}
        options |= {"num_warps": 8, "num_stages": stages}
        args = (x, weight, out, times, channels)
        grid = (channels // 256, times // 128, clips)
        return Launch(dilated_convolution_kernel, grid, args, (out,), options)

    return prepare


_case = faults_of(9)


CASES = (
    _case(
        "keys hashed byte by byte",
        ("unvectorized-access", "uncoalesced-load"),
        ("counts",),
        True,
        _murmur(False),
        _murmur(True),
    ),
    _case(
        "sorted groups added row by row",
        ("atomics",),
        ("counts", "samples"),
        True,
        _sorted_groups(False),
        _sorted_groups(True),
    ),
    _case(
        "distances on Earth in float64",
        ("fp64-arithmetic",),
        ("counts",),
        True,
        _great_circle(False),
        _great_circle(True),
    ),
    _case(
        "brightness counted by 24 programs",
        ("idle-sms",),
        ("spans", "ctas"),
        False,
        _brightness_counts(1),
        _brightness_counts(64),
    ),
    _case(
        "far taps over time of 1 stage",
        ("few-stages", "exposed-latency"),
        ("spans", "samples"),
        False,
        _dilated_convolution(1),
        _dilated_convolution(4),
    ),
)
