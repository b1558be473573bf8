"""Thirteenth round, faults of sound: arrays, losses of vocoders, filter banks, codecs, features, noise."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from bench.corpus.case import Launch, Prepare, empty, faults_of, integers, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def steered_energy_kernel(
    x_ptr, delay_ptr, out_ptr, length, chunks, chunks_of_program, steps, MICS: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Energies of an array of microphones steered to each direction by delays, chunk by chunk of time."""
    direction, mic = tl.program_id(0), tl.arange(0, MICS)
    delay = tl.load(delay_ptr + direction * MICS + mic)
    x_at = x_ptr + (mic * length + delay)[:, None] + tl.arange(0, BLOCK)[None, :]
    for each in range(chunks_of_program):
        chunk = tl.program_id(1) * chunks_of_program + each
        total = tl.zeros((BLOCK,), dtype=tl.float32)
        for step in range(steps):
            beam = tl.sum(tl.load(x_at + (chunk * steps + step) * BLOCK), 0)
            total += beam * beam
        tl.store(out_ptr + direction * chunks + chunk, tl.sum(total, 0))


def _steered_energy(programs: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        directions, chunks, steps = (2, 4, 2) if small else (72, 128, 16)
        length = chunks * steps * 512 + 64
        x, delay, out = random(8, length), integers(directions, 8, below=64), empty(directions, chunks)
        here = min(programs, chunks)
        args = (x, delay, out, length, chunks, chunks // here, steps)
        options = {"MICS": 8, "BLOCK": 512, "num_warps": num_warps}
        return Launch(steered_energy_kernel, (directions, here), args, (out,), options)

    return prepare


@triton.jit
def feature_loss_kernel(real_ptr, made_ptr, layer_ptr, first_ptr, last_ptr, out_ptr, BLOCK: tl.constexpr):
    """How far features of made sound are from those of real sound in each layer of a discriminator
    (HiFi-GAN). All layers lie in one buffer; tables say what each program sums."""
    program, lane = tl.program_id(0), tl.arange(0, BLOCK)
    first = tl.multiple_of(tl.load(first_ptr + program), BLOCK)
    last = tl.multiple_of(tl.load(last_ptr + program), BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for at in range(first, last, BLOCK):  # fault
        real, made = tl.load(real_ptr + at + lane), tl.load(made_ptr + at + lane)
        total += tl.abs(real.to(tl.float32) - made.to(tl.float32))
    tl.atomic_add(out_ptr + tl.load(layer_ptr + program), tl.sum(total, 0), sem="relaxed")


def _feature_loss(each_alike: bool) -> Prepare:
    """each_alike: as many programs for each layer, although each has half of the values of the last."""

    def prepare(small: bool) -> Launch:
        sizes = [2048 << (2 - at) for at in range(3)] if small else [1 << (26 - at) for at in range(10)]
        layers, firsts, lasts, start = [], [], [], 0
        for layer, size in enumerate(sizes):
            share = size // (1 if small else 16) if each_alike else 2048 if small else 32768
            for first in range(start, start + size, share):
                layers.append(layer)
                firsts.append(first)
                lasts.append(first + share)
            start += size
        real, made = random(start, dtype=torch.float16), random(start, dtype=torch.float16)
        tables = tuple(torch.tensor(each, dtype=torch.int32) for each in (layers, firsts, lasts))
        out, options = zeros(len(sizes)), {"BLOCK": 2048, "num_warps": 8}
        return Launch(feature_loss_kernel, (len(layers),), (real, made, *tables, out), (out,), options)

    return prepare


@triton.jit
def upsampled_kernel(
    x_ptr, tap_ptr, out_ptr, start, FRAMES: tl.constexpr, TAPS: tl.constexpr, BY_PHASE: tl.constexpr
):
    """A signal at 4 times its rate by a polyphase filter, each phase of which has its own taps."""
    frame = tl.program_id(0) * FRAMES + tl.arange(0, FRAMES)
    first, second = tl.zeros((FRAMES,), dtype=tl.float32), tl.zeros((FRAMES,), dtype=tl.float32)
    third, fourth = tl.zeros((FRAMES,), dtype=tl.float32), tl.zeros((FRAMES,), dtype=tl.float32)
    for tap in tl.static_range(TAPS):
        x = tl.load(x_ptr + start + frame + tap)
        first, second = first + x * tl.load(tap_ptr + 4 * tap), second + x * tl.load(tap_ptr + 4 * tap + 1)
        third, fourth = (
            third + x * tl.load(tap_ptr + 4 * tap + 2),
            fourth + x * tl.load(tap_ptr + 4 * tap + 3),
        )
    if BY_PHASE:
        tl.store(out_ptr + 4 * frame, first)  # fault
        tl.store(out_ptr + 4 * frame + 1, second)  # fault
        tl.store(out_ptr + 4 * frame + 2, third)  # fault
        tl.store(out_ptr + 4 * frame + 3, fourth)  # fault
    else:
        phases = tl.reshape(tl.join(tl.join(first, third), tl.join(second, fourth)), (4 * FRAMES,))
        tl.store(out_ptr + tl.program_id(0) * (4 * FRAMES) + tl.arange(0, 4 * FRAMES), phases)


def _upsampled(by_phase: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        frames, taps = 2048 if small else 1 << 25, 6
        x, tap, out = random(frames + 8), random(taps, 4), empty(4 * frames)
        options = {"FRAMES": 512, "TAPS": taps, "BY_PHASE": by_phase, "num_warps": 4}
        return Launch(upsampled_kernel, (frames // 512,), (x, tap, out, 2), (out,), options)

    return prepare


@triton.jit
def coherence_kernel(
    real_ptr, imag_ptr, first_ptr, second_ptr, out_ptr, mics, frames, BINS: tl.constexpr, BAND: tl.constexpr,
    EACH: tl.constexpr,
):  # fmt: skip
    """Cross and own powers of a band for each pair of microphones over the frames of an utterance."""
    band, pair, utterance = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    bins = band * BAND + tl.arange(0, BAND)
    first = (utterance * mics + tl.load(first_ptr + pair)) * frames * BINS
    second = (utterance * mics + tl.load(second_ptr + pair)) * frames * BINS
    shape: tl.constexpr = (1,) if EACH else (BAND,)
    across, turned = tl.zeros(shape, dtype=tl.float32), tl.zeros(shape, dtype=tl.float32)
    mine, theirs = tl.zeros(shape, dtype=tl.float32), tl.zeros(shape, dtype=tl.float32)
    for frame in range(frames):
        at = frame * BINS + bins
        a, b = tl.load(real_ptr + first + at).to(tl.float32), tl.load(imag_ptr + first + at).to(tl.float32)
        c, d = tl.load(real_ptr + second + at).to(tl.float32), tl.load(imag_ptr + second + at).to(tl.float32)
        if EACH:
            across += tl.sum(a * c + b * d, 0)  # fault
            turned += tl.sum(b * c - a * d, 0)  # fault
            mine += tl.sum(a * a + b * b, 0)  # fault
            theirs += tl.sum(c * c + d * d, 0)  # fault
        else:
            across, turned = across + a * c + b * d, turned + b * c - a * d
            mine, theirs = mine + a * a + b * b, theirs + c * c + d * d
    out_at = out_ptr + ((utterance * tl.num_programs(1) + pair) * tl.num_programs(0) + band) * 4
    tl.store(out_at, tl.sum(across, 0))
    tl.store(out_at + 1, tl.sum(turned, 0))
    tl.store(out_at + 2, tl.sum(mine, 0))
    tl.store(out_at + 3, tl.sum(theirs, 0))


def _coherence(each: bool, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        utterances, mics, frames, bins = (1, 3, 8, 256) if small else (140, 6, 512, 256)
        real, imag = (random(utterances, mics, frames, bins, dtype=torch.float16) for _ in range(2))
        pairs = [(a, b) for a in range(mics) for b in range(a)]
        first, second = (torch.tensor(side, dtype=torch.int32) for side in zip(*pairs, strict=True))
        out = empty(utterances, len(pairs), bins // 256, 4)
        options = {"BINS": bins, "BAND": 256, "EACH": each, "num_warps": num_warps}
        args, grid = (real, imag, first, second, out, mics, frames), (bins // 256, len(pairs), utterances)
        return Launch(coherence_kernel, grid, args, (out,), options)

    return prepare


@triton.jit
def codebook_kernel(
    x_ptr, code_ptr, norm_ptr, out_ptr, frames, codes, DIM: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr, OUTER: tl.constexpr,
):  # fmt: skip
    """How near the nearest code of a codebook is to each frame, as a neural codec quantises sound.
    OUTER: by outer products."""
    row, column, inner = (
        tl.program_id(0) * ROWS + tl.arange(0, ROWS),
        tl.arange(0, COLUMNS),
        tl.arange(0, DIM),
    )
    best = tl.full((ROWS, COLUMNS), -1e30, dtype=tl.float32)
    if not OUTER:
        tile = tl.load(x_ptr + inner[None, :] * frames + row[:, None])
    for start in range(0, codes, COLUMNS):
        total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
        if OUTER:
            for depth in range(DIM):  # fault
                x = tl.load(x_ptr + depth * frames + row).to(tl.float32)  # fault
                code = tl.load(code_ptr + depth * codes + start + column).to(tl.float32)  # fault
                total += x[:, None] * code[None, :]  # fault
        else:
            block = tl.load(code_ptr + inner[:, None] * codes + start + column[None, :])
            total = tl.dot(tile, block)
        best = tl.maximum(best, total - tl.load(norm_ptr + start + column)[None, :])
    tl.store(out_ptr + row, tl.max(best, 1))


def _codebook(rows: int, outer: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        frames, dim, codes = (256, 64, 256) if small else (132 * 256, 256, 4096)
        x, code = random(dim, frames, dtype=torch.bfloat16), random(dim, codes, dtype=torch.bfloat16)
        norm, out = 128.0 + random(codes), empty(frames)
        options = {"DIM": dim, "ROWS": rows, "COLUMNS": 128, "OUTER": outer, "num_warps": 8, "num_stages": 2}
        args = (x, code, norm, out, frames, codes)
        return Launch(codebook_kernel, (frames // rows,), args, (out,), options)

    return prepare


@triton.jit
def channel_energy_kernel(
    x_ptr, out_ptr, frames, rate, gain, power, BANDS: tl.constexpr, STAGES: tl.constexpr
):
    """Energies of bands divided by what they were of late, and compressed (PCEN)."""
    at = tl.program_id(0) * frames * BANDS + tl.arange(0, BANDS)
    late = tl.load(x_ptr + at)
    floor = tl.exp2(power)
    for frame in tl.range(0, frames, num_stages=STAGES):  # fault
        energy = tl.load(x_ptr + at + frame * BANDS)  # fault
        late += rate * (energy - late)  # fault
        even = energy * tl.exp2(-gain * tl.log2(late + 1e-6)) + 2.0  # fault
        tl.store(out_ptr + at + frame * BANDS, tl.exp2(power * tl.log2(even)) - floor)


def _channel_energy(stages: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        sounds, frames = (2, 16) if small else (792, 1000)
        x, out = random(sounds, frames, 128).abs(), empty(sounds, frames, 128)
        options = {"BANDS": 128, "STAGES": stages, "num_warps": 2}
        args = (x, out, frames, 0.025, 0.98, 0.5)
        return Launch(channel_energy_kernel, (sounds,), args, (out,), options)

    return prepare


@triton.jit
def phase_steps_kernel(
    real_ptr, imag_ptr, out_ptr, BINS: tl.constexpr, BLOCK: tl.constexpr, POLAR: tl.constexpr
):
    """Spectra whose phases are those since the frame before, as a phase vocoder keeps them."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    real = tl.load(real_ptr + BINS + at).to(tl.float32)
    imag = tl.load(imag_ptr + BINS + at).to(tl.float32)
    old_real, old_imag = tl.load(real_ptr + at).to(tl.float32), tl.load(imag_ptr + at).to(tl.float32)
    if POLAR:
        size = tl.sqrt(real * real + imag * imag)  # fault
        angle = libdevice.atan2(imag, real) - libdevice.atan2(old_imag, old_real)  # fault
        turned, aside = size * libdevice.cos(angle), size * libdevice.sin(angle)  # fault
    else:
        inverse = tl.rsqrt(old_real * old_real + old_imag * old_imag + 1e-20)
        turned = (real * old_real + imag * old_imag) * inverse
        aside = (imag * old_real - real * old_imag) * inverse
    tl.store(out_ptr + at, turned.to(tl.float16))
    tl.store(out_ptr + tl.num_programs(0) * BLOCK + at, aside.to(tl.float16))


def _phase_steps(polar: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        frames, bins = (8, 512) if small else (1 << 17, 512)
        real, imag = (random(frames + 1, bins, dtype=torch.float16) for _ in range(2))
        out = empty(2, frames, bins, dtype=torch.float16)
        options = {"BINS": bins, "BLOCK": 1024, "POLAR": polar, "num_warps": 4}
        return Launch(phase_steps_kernel, (frames * bins // 1024,), (real, imag, out), (out,), options)

    return prepare


@triton.jit
def speech_gain_kernel(
    power_ptr, before_ptr, noise_ptr, out_ptr, BINS: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    """Gains that leave speech and take noise away (Ephraim and Malah), of log spectra; the integral of
    exp(-t)/t is of series and of a fraction (Abramowitz and Stegun 5.1.53 and 5.1.54)."""
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    bins = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # fault
    at = row[:, None] * BINS + bins[None, :]
    inside = bins[None, :] < BINS  # fault
    noise = 1.0 / tl.load(noise_ptr + bins, mask=bins < BINS, other=1.0)
    power = tl.load(power_ptr + at, mask=inside, other=1.0).to(tl.float32)  # fault
    before = tl.load(before_ptr + at, mask=inside, other=1.0).to(tl.float32)  # fault
    after = tl.minimum(power * noise[None, :], 40.0) + 1e-3  # fault
    prior = 0.98 * before + 0.02 * tl.maximum(after - 1.0, 0.0) + 1e-3  # fault
    share = prior / (1.0 + prior)  # fault
    v = after * share  # fault
    near = -0.57721566 + v * (0.99999193 + v * (-0.24991055 + v * (0.05519968 + v * (-0.00976004))))  # fault
    near = near - 0.6931472 * tl.log2(v)  # fault
    above = 0.2677737343 + v * (8.6347608925 + v * (18.059016973 + v * (8.5733287401 + v)))  # fault
    below = 3.9584969228 + v * (21.0996530827 + v * (25.6329561486 + v * (9.5733223454 + v)))  # fault
    far = tl.exp2(-1.4426950409 * v) * above / (v * below)  # fault
    gain = share * tl.exp2(0.7213475204 * tl.where(v < 1.0, near, far))  # fault
    again = gain * gain * after  # fault
    tl.store(out_ptr + at, (gain * tl.rsqrt(1.0 + 0.1 * again)).to(tl.float16), mask=inside)  # fault


def _speech_gain(rows_of_program: int, block: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        frames, bins = 32 if small else 1 << 16, 320
        power, before = (random(frames, bins).abs().to(torch.float16) for _ in range(2))
        noise, out = torch.rand(bins) + 0.1, empty(frames, bins, dtype=torch.float16)
        options = {"BINS": bins, "ROWS": rows_of_program, "BLOCK": block, "num_warps": 4}
        grid = (-(-bins // block), frames // rows_of_program)
        return Launch(speech_gain_kernel, grid, (power, before, noise, out), (out,), options)

    return prepare


_fault = faults_of(13)

CASES = (
    _fault(
        "directions of sound by one program each",
        ("idle-sms", "low-occupancy", "exposed-latency"),
        ("ctas", "spans"),
        True,
        _steered_energy(1, 8),
        _steered_energy(128, 4),
    ),
    _fault(
        "losses of layers by 16 programs each",
        ("load-imbalance", "tail", "idle-sms", "low-occupancy"),
        ("ctas", "spans"),
        False,
        _feature_loss(True),
        _feature_loss(False),
    ),
    _fault(
        "a signal at 4 times its rate phase by phase",
        ("uncoalesced-store",),
        ("counts",),
        True,
        _upsampled(True),
        _upsampled(False),
    ),
    _fault(
        "coherence of microphones summed frame by frame",
        ("serial-reduction", "too-many-warps"),
        ("counts", "samples", "spans"),
        True,
        _coherence(True, 8),
        _coherence(False, 4),
    ),
    _fault(
        "codes of sound compared by outer products",
        ("no-tensor-cores", "issue-bound", "exposed-latency"),
        ("counts", "samples"),
        True,
        _codebook(64, True),
        _codebook(128, False),
    ),
    _fault(
        "energies of bands loaded when their frame is due",
        ("exposed-latency", "few-stages", "low-occupancy"),
        ("samples", "spans"),
        False,
        _channel_energy(1),
        _channel_energy(5),
    ),
    _fault(
        "phases taken and given back as angles",
        ("slow-math",),
        ("counts", "samples"),
        True,
        _phase_steps(True),
        _phase_steps(False),
    ),
    _fault(
        "gains of 320 bins by 512 lanes",
        ("masked-work",),
        ("counts",),
        True,
        _speech_gain(2, 512),
        _speech_gain(16, 64),
    ),
)
