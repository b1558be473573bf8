"""Fourteenth round, faults of genomes and molecules: charges, bases, reads, poses, variants, folds."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from bench.corpus.case import Launch, Prepare, empty, faults_of, integers, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def near_charges_kernel(
    atom_ptr, charge_ptr, start_ptr, out_ptr, atoms, near, BLOCK: tl.constexpr, SERIES: tl.constexpr
):
    """Potentials of the charges near to atoms, less what the mesh adds (Ewald), within one unit of length.
    SERIES: the error function over the distance as a series of its square."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(atom_ptr + at), tl.load(atom_ptr + atoms + at)
    z = tl.load(atom_ptr + 2 * atoms + at)
    start = tl.load(start_ptr + tl.program_id(0))
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for other in range(start, start + near):
        other_at = atom_ptr + other
        dx, dy = x - tl.load(other_at), y - tl.load(other_at + atoms)
        dz = z - tl.load(other_at + 2 * atoms)
        square = dx * dx + dy * dy + dz * dz + 1e-4
        inverse = tl.rsqrt(square)
        if SERIES:
            series = square * 6.351596 - 32.54013
            series = series * square + 73.5751
            series = series * square - 98.06254
            series = series * square + 87.35137
            series = series * square - 56.09602
            series = series * square + 27.18264
            series = series * square - 10.14711
            share = inverse - (series * square + 3.385089)
        else:
            share = libdevice.erfc(3.0 * (square * inverse)) * inverse  # fault
        total += tl.where(square < 1.0, tl.load(charge_ptr + other) * share, 0.0)
    tl.store(out_ptr + at, total)


def _near_charges(series: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        atoms, near = (2048, 16) if small else (1 << 20, 512)
        atom, charge, out = 1.2 * torch.rand(3, atoms), random(atoms), empty(atoms)
        start = (torch.arange(atoms // 512, dtype=torch.int32) * 512).clamp(max=atoms - near)
        options = {"BLOCK": 512, "SERIES": series, "num_warps": 4}
        args = (atom, charge, start, out, atoms, near)
        return Launch(near_charges_kernel, (atoms // 512,), args, (out,), options)

    return prepare


@triton.jit
def base_shares_kernel(
    base_ptr, count_ptr, steps, ROWS: tl.constexpr, CYCLES: tl.constexpr, EACH: tl.constexpr
):
    """How often each of four bases was read in each cycle of a sequencer, to judge its quality."""
    row, cycle = tl.arange(0, ROWS), tl.arange(0, CYCLES)
    at = base_ptr + (tl.program_id(0) * steps * ROWS + row[:, None]) * CYCLES + cycle[None, :]
    count = tl.zeros((ROWS, CYCLES), dtype=tl.int32)
    for _ in range(steps):
        base = tl.load(at).to(tl.int32)
        if EACH:
            tl.atomic_add(count_ptr + base * CYCLES + cycle[None, :], 1, sem="relaxed")  # fault
        else:
            count += 1 << (8 * base)
        at += ROWS * CYCLES
    if not EACH:
        for base in tl.static_range(4):
            total = tl.sum((count >> (8 * base)) & 255, 0)
            tl.atomic_add(count_ptr + base * CYCLES + cycle, total, sem="relaxed")


def _base_shares(each: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        programs, steps = (2, 4) if small else (1024, 32)
        base = integers(programs * steps * 64, 128, below=4, dtype=torch.uint8)
        count = zeros(4, 128, dtype=torch.int32)
        options = {"ROWS": 64, "CYCLES": 128, "EACH": each, "num_warps": 8}
        return Launch(base_shares_kernel, (programs,), (base, count, steps), (count,), options)

    return prepare


@triton.jit
def other_strand_kernel(
    text_ptr, offset_ptr, out_ptr, ROWS: tl.constexpr, LENGTH: tl.constexpr, ALIGNED: tl.constexpr
):
    """Reads cut out of one long text to rows of a batch, as bases of the other strand."""
    row, column = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, LENGTH)
    offset = tl.load(offset_ptr + row)
    if ALIGNED:
        offset = tl.multiple_of(offset, 16)
    base = tl.load(text_ptr + offset[:, None] + column[None, :])  # fault
    tl.store(out_ptr + row[:, None] * LENGTH + column[None, :], base ^ 3)


def _other_strand(aligned: bool) -> Prepare:
    """Reads of 151 bases, of which the first 7 are a barcode, or of 160 with those at the end."""

    def prepare(small: bool) -> Launch:
        reads = 512 if small else 1 << 21
        base = integers(reads, 128, below=4, dtype=torch.uint8)
        pitch, first = (160, 0) if aligned else (151, 7)
        text = zeros(reads, pitch, dtype=torch.uint8)
        text[:, first : first + 128] = base
        offset = torch.arange(reads, dtype=torch.int32) * pitch + first
        out = empty(reads, 128, dtype=torch.uint8)
        options = {"ROWS": 64, "LENGTH": 128, "ALIGNED": aligned, "num_warps": 4}
        args = (text, offset, out)
        return Launch(other_strand_kernel, (reads // 64,), args, (out,), options)

    return prepare


@triton.jit
def pose_energy_kernel(energy_ptr, out_ptr, poses, sharpness, BLOCK: tl.constexpr, EACH: tl.constexpr):
    """Free energies of ligands: logarithms of sums of exponentials over all poses that were docked."""
    at = energy_ptr + tl.program_id(0) * poses + tl.arange(0, BLOCK)
    if EACH:
        peak, mass = -1e30, 0.0
        for _ in range(0, poses, BLOCK):
            energy = -sharpness * tl.load(at)
            new = tl.maximum(peak, tl.max(energy, 0))  # fault
            mass = mass * tl.exp2(peak - new) + tl.sum(tl.exp2(energy - new), 0)  # fault
            peak = new  # fault
            at += BLOCK
        tl.store(out_ptr + tl.program_id(0), peak + tl.log2(mass))
    else:
        peaks, masses = tl.zeros((BLOCK,), dtype=tl.float32) - 1e30, tl.zeros((BLOCK,), dtype=tl.float32)
        for _ in range(0, poses, BLOCK):
            energy = -sharpness * tl.load(at)
            news = tl.maximum(peaks, energy)
            masses = masses * tl.exp2(peaks - news) + tl.exp2(energy - news)
            peaks = news
            at += BLOCK
        peak = tl.max(peaks, 0)
        mass = tl.sum(masses * tl.exp2(peaks - peak), 0)
        tl.store(out_ptr + tl.program_id(0), peak + tl.log2(mass))


def _pose_energy(each: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        ligands, poses = (4, 4096) if small else (4224, 32768)
        energy, out = random(ligands, poses), empty(ligands)
        options = {"BLOCK": 512, "EACH": each, "num_warps": 8}
        args = (energy, out, poses, 1.4)
        return Launch(pose_energy_kernel, (ligands,), args, (out,), options)

    return prepare


@triton.jit
def balance_kernel(word_ptr, out_ptr, people, ROWS: tl.constexpr, WORDS: tl.constexpr):
    """How far variants are from the balance of Hardy and Weinberg; 16 people's genotypes in each word."""
    row, column = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, WORDS)
    word = tl.load(word_ptr + row[:, None] * WORDS + column[None, :])
    low, high = word & 0x55555555, (word >> 1) & 0x55555555
    mixed = tl.sum(libdevice.popc(low & ~high), 1).to(tl.float32)
    double = tl.sum(libdevice.popc(high & ~low), 1).to(tl.float32)
    share = (mixed + 2.0 * double) / (2.0 * people)
    expected = 2.0 * people * share * (1.0 - share)
    far = mixed - expected
    tl.store(out_ptr + row, far * far / (expected + 1.0))


def _balance(rows: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        variants, words = 256 if small else 1 << 21, 32
        variants = 8 if small and rows == 1 else variants
        word = integers(256 if small else variants, words, below=2147483647)
        out = zeros(256 if small else variants)
        options = {"ROWS": rows, "WORDS": words, "num_warps": num_warps}
        args = (word, out, 16 * words)
        return Launch(balance_kernel, (variants // rows,), args, (out[:8] if small else out,), options)

    return prepare


@triton.jit
def far_features_kernel(
    place_ptr, out_ptr, residues, of_pair, of_bin, BINS: tl.constexpr, BLOCK: tl.constexpr
):
    """Distances of pairs of residues, each spread over bumps at 64 of them, as a network's input."""
    row, column = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    dx = tl.load(place_ptr + column) - tl.load(place_ptr + row)
    dy = tl.load(place_ptr + residues + column) - tl.load(place_ptr + residues + row)
    dz = tl.load(place_ptr + 2 * residues + column) - tl.load(place_ptr + 2 * residues + row)
    far = tl.sqrt(dx * dx + dy * dy + dz * dz) * 8.0
    at = out_ptr + (row * residues + column) * of_pair
    for each in range(BINS):
        off = far - each
        tl.store(at, tl.exp2(-0.5 * off * off).to(tl.bfloat16))  # fault
        at += of_bin


def _far_features(bin_last: bool, block: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        residues, bins = 1024 if small else 2048, 64
        rows = 1 if small else residues
        place = 3.0 * random(3, residues)
        out = empty(rows * residues, bins, dtype=torch.bfloat16)
        strides = (bins, 1)
        if not bin_last:
            out, strides = empty(bins, rows * residues, dtype=torch.bfloat16), (1, rows * residues)
        result = out if bin_last else out.T
        args, options = (place, out, residues, *strides), {"BINS": bins, "BLOCK": block, "num_warps": 4}
        return Launch(far_features_kernel, (residues // block, rows), args, (result,), options)

    return prepare


@triton.jit
def triangles_kernel(
    left_ptr, right_ptr, out_ptr, size, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr,
    CHANNEL_LAST: tl.constexpr,
):  # fmt: skip
    """Features of pairs of residues by all triangles they are in: a product for each channel (AlphaFold).
    CHANNEL_LAST: the tiles of one channel follow each other, not the channels of one tile."""
    if CHANNEL_LAST:
        tile, channel = tl.program_id(0), tl.program_id(1)
    else:
        channel, tile = tl.program_id(0), tl.program_id(1)  # fault
    row = tile // (size // COLUMNS) * ROWS + tl.arange(0, ROWS)
    column, inner = tile % (size // COLUMNS) * COLUMNS + tl.arange(0, COLUMNS), tl.arange(0, DEPTH)
    left_at = left_ptr + channel * size * size + row[:, None] * size + inner[None, :]
    right_at = right_ptr + channel * size * size + column[None, :] * size + inner[:, None]
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for _ in range(0, size, DEPTH):
        total = tl.dot(tl.load(left_at), tl.load(right_at), total)  # fault
        left_at += DEPTH
        right_at += DEPTH
    out_at = out_ptr + channel * size * size + row[:, None] * size + column[None, :]
    tl.store(out_at, total.to(tl.bfloat16))


def _triangles(channel_last: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        channels, size = (2, 256) if small else (128, 1024)
        left, right = (random(channels, size, size, dtype=torch.bfloat16) for _ in range(2))
        out = torch.empty_like(left)
        tiles = (size // 128) * (size // 256)
        options = {"ROWS": 128, "COLUMNS": 256, "DEPTH": 64, "CHANNEL_LAST": channel_last}
        options |= {"num_warps": 8, "num_stages": 3}
        grid = (tiles, channels) if channel_last else (channels, tiles)
        return Launch(triangles_kernel, grid, (left, right, out, size), (out,), options)

    return prepare


@triton.jit
def stress_kernel(model_ptr, known_ptr, out_ptr, residues, reach, BLOCK: tl.constexpr, WIDE: tl.constexpr):
    """How far the distances of residues in models of a protein are from those of its known structure."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    model = model_ptr + tl.program_id(1) * 3 * residues
    x, y = tl.load(model + at).to(WIDE), tl.load(model + residues + at).to(WIDE)
    z = tl.load(model + 2 * residues + at).to(WIDE)
    u, v = tl.load(known_ptr + at).to(WIDE), tl.load(known_ptr + residues + at).to(WIDE)
    w = tl.load(known_ptr + 2 * residues + at).to(WIDE)
    total = tl.zeros((BLOCK,), dtype=WIDE)
    for other in range(residues):
        other_at, known_at = model + other, known_ptr + other
        dx = x - tl.load(other_at).to(WIDE)  # fault
        dy = y - tl.load(other_at + residues).to(WIDE)  # fault
        dz = z - tl.load(other_at + 2 * residues).to(WIDE)  # fault
        du = u - tl.load(known_at).to(WIDE)  # fault
        dv = v - tl.load(known_at + residues).to(WIDE)  # fault
        dw = w - tl.load(known_at + 2 * residues).to(WIDE)  # fault
        known = du * du + dv * dv + dw * dw  # fault
        off = dx * dx + dy * dy + dz * dz - known  # fault
        total += tl.where(known < reach, off * off, 0.0)  # fault
    tl.store(out_ptr + tl.program_id(1) * residues + at, total.to(tl.float32))


def _stress(wide: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        models, residues = (2, 512) if small else (4096, 512)
        known, out = random(3, residues), empty(models, residues)
        model = known[None] + 0.1 * random(models, 3, residues)
        options = {"BLOCK": 512, "WIDE": tl.float64 if wide else tl.float32, "num_warps": 4}
        args = (model, known, out, residues, 4.0)
        return Launch(stress_kernel, (1, models), args, (out,), options)

    return prepare


_fault = faults_of(14)

CASES = (
    _fault(
        "near charges of Ewald's sums by erfc",
        ("slow-math", "issue-bound"),
        ("counts", "samples"),
        True,
        _near_charges(False),
        _near_charges(True),
    ),
    _fault(
        "bases of each cycle counted one by one",
        ("atomics",),
        ("counts", "samples"),
        True,
        _base_shares(True),
        _base_shares(False),
    ),
    _fault(
        "other strands of reads from anywhere in a text",
        ("unvectorized-access", "uncoalesced-load"),
        ("counts", "samples"),
        True,
        _other_strand(False),
        _other_strand(True),
    ),
    _fault(
        "free energies of poses reduced block by block",
        ("serial-reduction", "too-many-warps"),
        ("counts", "samples", "spans"),
        True,
        _pose_energy(True),
        _pose_energy(False),
    ),
    _fault(
        "balance of genotypes a variant a program",
        ("tiny-ctas", "low-occupancy"),
        ("ctas", "spans"),
        True,
        _balance(1, 1),
        _balance(128, 4),
    ),
    _fault(
        "distances of residues stored bump by bump",
        ("uncoalesced-store",),
        ("counts", "samples"),
        True,
        _far_features(True, 128),
        _far_features(False, 1024),
    ),
    _fault(
        "triangles of residues with the channel first",
        ("tile-reread",),
        ("counters", "samples"),
        False,
        _triangles(False),
        _triangles(True),
    ),
    _fault(
        "stress of models of a protein in float64",
        ("fp64-arithmetic", "conversions"),
        ("counts", "samples"),
        True,
        _stress(True),
        _stress(False),
    ),
)
