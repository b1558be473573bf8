"""Tenth round, faults of perception: pictures, videos and sound."""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, Prepare, empty, faults_of, integers, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def centroid_kernel(
    x_ptr, out_ptr, frames, step, BINS: tl.constexpr, CHUNK: tl.constexpr, FRAMES: tl.constexpr
):
    """The mean frequency of each frame's spectrum and its width; spectra as torch.stft gives them."""
    clip, frame = tl.program_id(1), tl.program_id(0) * FRAMES + tl.arange(0, FRAMES)[None, :]
    total = tl.zeros((CHUNK, FRAMES), dtype=tl.float32)
    first = tl.zeros((CHUNK, FRAMES), dtype=tl.float32)
    second = tl.zeros((CHUNK, FRAMES), dtype=tl.float32)
    for start in range(0, BINS, CHUNK):
        bin_ = start + tl.arange(0, CHUNK)[:, None]
        x = tl.load(x_ptr + (clip * BINS + bin_) * frames + frame)  # fault
        hertz = bin_.to(tl.float32) * step
        total += x
        first += x * hertz
        second += x * hertz * hertz
    weight = 1.0 / tl.sum(total, 0)[None, :]
    mean = tl.sum(first, 0)[None, :] * weight
    width = tl.sqrt(tl.maximum(tl.sum(second, 0)[None, :] * weight - mean * mean, 0.0))
    tl.store(out_ptr + clip * 2 * frames + frame, mean)
    tl.store(out_ptr + (clip * 2 + 1) * frames + frame, width)


def _centroid(together: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        clips, bins, frames = (1, 128, 8) if small else (64, 1024, 1536)
        x, out = torch.rand(clips, bins, frames), empty(clips, 2, frames)
        each = min(together, frames)
        options = {"BINS": bins, "CHUNK": 16 if each > 1 else bins, "FRAMES": each, "num_warps": 4}
        args = (x, out, frames, 22050.0 / 2048)
        return Launch(centroid_kernel, (frames // each, clips), args, (out,), options)

    return prepare


@triton.jit
def shown_frame_kernel(
    luma_ptr, chroma_ptr, out_ptr, height, width, PIXELS: tl.constexpr, WORDS: tl.constexpr
):
    """Frames as a decoder gives them (NV12) as red, green, blue and opacity. WORDS: of 32 bits a pixel."""
    row, frame = tl.program_id(1), tl.program_id(2)
    first = tl.program_id(0) * PIXELS
    pixel = (frame * height + row) * width + first + tl.arange(0, PIXELS)
    pair = ((frame * height + row) // 2 * width + first) // 2 + tl.arange(0, PIXELS // 2)
    light = 1.164 * (tl.load(luma_ptr + pixel).to(tl.float32) - 16.0)
    chroma = tl.load(chroma_ptr + pair).to(tl.int32)
    u, v = (chroma & 255).to(tl.float32) - 128.0, ((chroma >> 8) & 255).to(tl.float32) - 128.0
    u, v = tl.interleave(u, u), tl.interleave(v, v)
    red = tl.clamp(light + 1.793 * v, 0.0, 255.0).to(tl.int32)
    green = tl.clamp(light - 0.213 * u - 0.533 * v, 0.0, 255.0).to(tl.int32)
    blue = tl.clamp(light + 2.112 * u, 0.0, 255.0).to(tl.int32)
    if WORDS:
        word = red | (green << 8) | (blue << 16) | -(1 << 24)
        tl.store(out_ptr.to(tl.pointer_type(tl.int32)) + pixel, word)
    else:
        tl.store(out_ptr + pixel * 4, red.to(tl.uint8))  # fault
        tl.store(out_ptr + pixel * 4 + 1, green.to(tl.uint8))  # fault
        tl.store(out_ptr + pixel * 4 + 2, blue.to(tl.uint8))  # fault
        tl.store(out_ptr + pixel * 4 + 3, tl.full((PIXELS,), 255, tl.uint8))  # fault


def _shown_frame(words: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        frames, height, width = (1, 2, 2048) if small else (16, 2160, 4096)
        luma = torch.randint(256, (frames, height, width), dtype=torch.uint8)
        chroma = torch.randint(-32768, 32767, (frames, height // 2, width // 2), dtype=torch.int16)
        out = empty(frames, height, width, 4, dtype=torch.uint8)
        options = {"PIXELS": 1024, "WORDS": words, "num_warps": 4}
        args = (luma, chroma, out, height, width)
        return Launch(shown_frame_kernel, (width // 1024, height, frames), args, (out,), options)

    return prepare


@triton.jit
def crops_kernel(
    x_ptr, top_ptr, left_ptr, mirror_ptr, out_ptr, channels, height, width, side, BLOCK: tl.constexpr
):
    """A crop of each picture, some of them mirrored, from bytes to numbers about 0."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    column = at % side  # fault
    row = at // side % side  # fault
    channel = at // side // side % channels  # fault
    image = at // side // side // channels  # fault
    column = tl.where(tl.load(mirror_ptr + image) != 0, side - 1 - column, column)
    column += tl.load(left_ptr + image)
    row += tl.load(top_ptr + image)
    x = tl.load(x_ptr + ((image * channels + channel) * height + row) * width + column)
    tl.store(out_ptr + at, (x.to(tl.float32) * (1.0 / 127.5) - 1.0).to(tl.float16))


@triton.jit
def crop_rows_kernel(
    x_ptr, top_ptr, left_ptr, mirror_ptr, out_ptr, channels, height, width, SIDE: tl.constexpr,
    ROWS: tl.constexpr,
):  # fmt: skip
    """As crops_kernel, with a program for some rows of one channel."""
    plane, image = tl.program_id(2) * channels + tl.program_id(1), tl.program_id(2)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, SIDE)[None, :]
    out = out_ptr + (plane * SIDE + row) * SIDE + column
    column = tl.where(tl.load(mirror_ptr + image) != 0, SIDE - 1 - column, column)
    column += tl.load(left_ptr + image)
    row += tl.load(top_ptr + image)
    x = tl.load(x_ptr + (plane * height + row) * width + column)
    tl.store(out, (x.to(tl.float32) * (1.0 / 127.5) - 1.0).to(tl.float16))


def _crops(by_rows: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        images, size, side = (2, 40, 32) if small else (512, 288, 256)
        x = torch.randint(256, (images, 3, size, size), dtype=torch.uint8)
        top, left = (integers(images, below=size - side) for _ in range(2))
        mirror, out = integers(images, below=2), empty(images, 3, side, side, dtype=torch.float16)
        args = (x, top, left, mirror, out, 3, size, size)
        if by_rows:
            options = {"SIDE": side, "ROWS": 8, "num_warps": 4}
            return Launch(crop_rows_kernel, (side // 8, 3, images), args, (out,), options)
        options = {"BLOCK": 1024, "num_warps": 4}
        return Launch(crops_kernel, (out.numel() // 1024,), (*args, side), (out,), options)

    return prepare


@triton.jit
def steady_frames_kernel(x_ptr, out_ptr, pixels, strength, FRAMES: tl.constexpr, BLOCK: tl.constexpr):
    """Noise of a video reduced: each pixel's mean with those of four frames about it that differ little.
    FRAMES follow each other in a program."""
    at, begin = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1) * FRAMES
    x, out = x_ptr + begin * pixels + at, out_ptr + begin * pixels + at
    a, b = tl.load(x).to(tl.float32), tl.load(x + pixels).to(tl.float32)  # fault
    c, d = tl.load(x + 2 * pixels).to(tl.float32), tl.load(x + 3 * pixels).to(tl.float32)  # fault
    for frame in tl.static_range(FRAMES):
        e = tl.load(x + (frame + 4) * pixels).to(tl.float32)  # fault
        of_a = tl.maximum(1.0 - strength * tl.abs(a - c), 0.0)
        of_b = tl.maximum(1.0 - strength * tl.abs(b - c), 0.0)
        of_d = tl.maximum(1.0 - strength * tl.abs(d - c), 0.0)
        of_e = tl.maximum(1.0 - strength * tl.abs(e - c), 0.0)
        total = c + of_a * a + of_b * b + of_d * d + of_e * e
        mean = total / (1.0 + of_a + of_b + of_d + of_e)
        tl.store(out + frame * pixels, mean.to(tl.float16))
        a, b, c, d = b, c, d, e


def _steady_frames(together: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        frames, pixels = (4, 1024) if small else (12, 3 * 2160 * 3840)
        x = torch.rand(frames + 4, pixels, dtype=torch.float16)
        out = empty(frames, pixels, dtype=torch.float16)
        each = min(together, frames)
        options = {"FRAMES": each, "BLOCK": 1024, "num_warps": 4}
        args = (x, out, pixels, 4.0)
        return Launch(steady_frames_kernel, (pixels // 1024, frames // each), args, (out,), options)

    return prepare


@triton.jit
def cepstra_kernel(
    level_ptr, basis_ptr, out_ptr, FRAMES: tl.constexpr, BANDS: tl.constexpr, KEPT: tl.constexpr,
    CHUNK: tl.constexpr, DOT: tl.constexpr,
):  # fmt: skip
    """Cepstra of sound: the levels of a frame's bands, transformed by cosines."""
    frame, kept = tl.program_id(0) * FRAMES + tl.arange(0, FRAMES), tl.arange(0, KEPT)
    total = tl.zeros((FRAMES, KEPT), dtype=tl.float32)
    for start in range(0, BANDS, CHUNK):
        band = start + tl.arange(0, CHUNK)
        level = tl.load(level_ptr + frame[:, None] * BANDS + band[None, :])
        basis = tl.load(basis_ptr + band[:, None] * KEPT + kept[None, :])
        if DOT:
            total = tl.dot(level, basis, total)
        else:
            total += tl.sum(level[:, :, None].to(tl.float32) * basis[None, :, :].to(tl.float32), 1)  # fault
    tl.store(out_ptr + frame[:, None] * KEPT + kept[None, :], total.to(tl.float16))


def _cepstra(frames_of_program: int, chunk: int, dot: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        frames, bands, kept = (128, 64, 64) if small else (1 << 19, 128, 64)
        level = random(frames, bands, dtype=torch.float16)
        angle = (torch.arange(bands)[:, None] + 0.5) * torch.arange(kept)[None, :] * (math.pi / bands)
        basis, out = angle.cos().half(), empty(frames, kept, dtype=torch.float16)
        options = {"FRAMES": frames_of_program, "BANDS": bands, "KEPT": kept, "CHUNK": chunk, "DOT": dot}
        args = (level, basis, out)
        grid = (frames // frames_of_program,)
        return Launch(cepstra_kernel, grid, args, (out,), options | {"num_warps": 4, "num_stages": 3})

    return prepare


@triton.jit
def box_sides_kernel(
    logit_ptr, anchor_ptr, out_ptr, anchors, stride, ANCHORS: tl.constexpr, BINS: tl.constexpr
):
    """Boxes of a detector's anchors: how far each side is, is the mean of a distribution (YOLOv8)."""
    image, anchor = tl.program_id(1), tl.program_id(0) * ANCHORS + tl.arange(0, ANCHORS)[:, None]
    side, bin_ = tl.arange(0, 4)[None, :], tl.arange(0, BINS)[None, None, :]
    at = (image * anchors + anchor) * 4 + side
    logit = tl.load(logit_ptr + at[:, :, None] * BINS + bin_).to(tl.float32)
    share = tl.exp(logit - tl.max(logit, 2)[:, :, None])
    distance = tl.sum(share * bin_.to(tl.float32), 2) / tl.sum(share, 2)
    centre = tl.load(anchor_ptr + anchor * 2 + side % 2)
    tl.store(out_ptr + at, centre + tl.where(side < 2, -stride, stride) * distance)


def _box_sides(each: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        images, anchors = (1, 16) if small else (64, 8400)
        logit, anchor = random(images, anchors, 4, 16, dtype=torch.float16), 640.0 * torch.rand(anchors, 2)
        out = empty(images, anchors, 4)
        options = {"ANCHORS": each, "BINS": 16, "num_warps": 1}
        args = (logit, anchor, out, anchors, 8.0)
        return Launch(box_sides_kernel, (anchors // each, images), args, (out,), options)

    return prepare


@triton.jit
def spectrogram_kernel(
    x_ptr, cosine_ptr, sine_ptr, out_ptr, frames, samples, first, last, HOP: tl.constexpr,
    ALL: tl.constexpr, FRAMES: tl.constexpr, BINS: tl.constexpr, DEPTH: tl.constexpr,
):  # fmt: skip
    """Power spectra of overlapping frames; the window is part of the cosines and sines."""
    frame, clip = tl.program_id(1) * FRAMES + tl.arange(0, FRAMES), tl.program_id(2)
    bin_, inner = tl.program_id(0) * BINS + tl.arange(0, BINS), tl.arange(0, DEPTH)
    x_at = x_ptr + clip * samples + frame[:, None] * HOP + inner[None, :]
    at = inner[:, None] * ALL + bin_[None, :]
    real = tl.zeros((FRAMES, BINS), dtype=tl.float32)
    imaginary = tl.zeros((FRAMES, BINS), dtype=tl.float32)
    for start in range(first, last, DEPTH):
        x = tl.load(x_at + start)  # fault
        real = tl.dot(x, tl.load(cosine_ptr + start * ALL + at), real)  # fault
        imaginary = tl.dot(x, tl.load(sine_ptr + start * ALL + at), imaginary)  # fault
    out = out_ptr + (clip * frames + frame[:, None]) * ALL + bin_[None, :]
    tl.store(out, real * real + imaginary * imaginary)


def _spectrogram(first: int, last: int) -> Prepare:
    """Windows of 400 samples in the middle of transforms of 1024, every 160 samples."""

    def prepare(small: bool) -> Launch:
        clips, frames, bins = (1, 128, 128) if small else (32, 3072, 512)
        samples = frames * 160 + 1024
        x = random(clips, samples, dtype=torch.float16)
        time = torch.arange(1024.0)[:, None] - 312.0
        window = torch.where((time >= 0) & (time < 400), (time * (math.pi / 400)).sin() ** 2, 0.0)
        angle = (torch.arange(1024)[:, None] * torch.arange(bins)[None, :] % 1024) * (math.pi / 512)
        cosine, sine = (window * angle.cos()).half(), (window * angle.sin()).half()
        out = empty(clips, frames, bins)
        options = {"HOP": 160, "ALL": bins, "FRAMES": 128, "BINS": 128, "DEPTH": 32}
        options |= {"num_warps": 8, "num_stages": 4}
        args = (x, cosine, sine, out, frames, samples, first, last)
        grid = (bins // 128, frames // 128, clips)
        return Launch(spectrogram_kernel, grid, args, (out,), options)

    return prepare


@triton.jit
def pitch_kernel(x_ptr, out_ptr, hop, least, most, WINDOW: tl.constexpr):
    """The pitch of each frame of speech: after how many samples it differs least from itself (YIN)."""
    x = x_ptr + tl.program_id(0) * hop + tl.arange(0, WINDOW)
    now = tl.load(x)
    best, found, past = 1e30, 0, 1e-6
    for lag in range(least, most):
        away = now - tl.load(x + lag)
        cost = tl.sum(away * away, 0)  # fault
        past += cost
        score = cost * (lag - least + 1) / past
        found = tl.where(score < best, lag, found)
        best = tl.minimum(best, score)
    tl.store(out_ptr + tl.program_id(0), found)


def _pitch(warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        frames, most = (3, 60) if small else (4096, 352)
        time = torch.arange(frames * 160 + 1024)
        x = (time * (2 * math.pi / 57)).sin() + 0.01 * random(len(time))
        out = empty(frames, dtype=torch.int32)
        args = (x, out, 160, 32, most)
        return Launch(pitch_kernel, (frames,), args, (out,), {"WINDOW": 512, "num_warps": warps})

    return prepare


_fault = faults_of(10)


CASES = (
    _fault(
        "centroids of spectra frame by frame",
        ("uncoalesced-load",),
        ("counts",),
        True,
        _centroid(1),
        _centroid(64),
    ),
    _fault(
        "decoded frames shown a colour at a time",
        ("unvectorized-access", "uncoalesced-store"),
        ("counts",),
        True,
        _shown_frame(False),
        _shown_frame(True),
    ),
    _fault(
        "crops cut from a flat number",
        ("index-arithmetic",),
        ("counts",),
        True,
        _crops(False),
        _crops(True),
    ),
    _fault(
        "each frame steadied by itself",
        ("tile-reread", "redundant-load"),
        ("counters", "counts"),
        False,
        _steady_frames(1),
        _steady_frames(12),
    ),
    _fault(
        "cepstra by sums over bands",
        ("no-tensor-cores",),
        ("counts",),
        True,
        _cepstra(16, 16, False),
        _cepstra(64, 32, True),
    ),
    _fault(
        "sides of boxes anchor by anchor",
        ("tiny-ctas",),
        ("spans", "ctas"),
        False,
        _box_sides(1),
        _box_sides(16),
    ),
    _fault(
        "short windows in long transforms",
        ("masked-work",),
        ("counts", "spans"),
        False,
        _spectrogram(0, 1024),
        _spectrogram(304, 720),
    ),
    _fault(
        "pitch of speech by 16 warps a frame",
        ("too-many-warps", "serial-reduction"),
        ("counts", "samples"),
        True,
        _pitch(16),
        _pitch(1),
    ),
)
