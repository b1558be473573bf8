"""Ninth round, faults of scientific codes: implicit steps, orbits, strands of DNA, crystals, fluids."""

from __future__ import annotations

import itertools

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from bench.corpus.case import Launch, Prepare, empty, faults_of, integers, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def tridiagonal_kernel(
    lower_ptr, middle_ptr, upper_ptr, right_ptr, ratio_ptr, out_ptr, unknowns, SYSTEM: tl.constexpr,
    STEP: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Tridiagonal systems of an implicit step, one for each thread, by Thomas' algorithm."""
    at = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)) * SYSTEM
    ratio = tl.zeros((BLOCK,), dtype=tl.float32)
    x = tl.zeros((BLOCK,), dtype=tl.float32)
    for _ in range(unknowns):
        lower, middle = tl.load(lower_ptr + at), tl.load(middle_ptr + at)  # fault
        upper, right = tl.load(upper_ptr + at), tl.load(right_ptr + at)  # fault
        scale = 1.0 / (middle - lower * ratio)
        ratio = upper * scale
        x = (right - lower * x) * scale
        tl.store(ratio_ptr + at, ratio)  # fault
        tl.store(out_ptr + at, x)  # fault
        at += STEP
    x = tl.zeros((BLOCK,), dtype=tl.float32)
    for _ in range(unknowns):
        at -= STEP
        x = tl.load(out_ptr + at) - tl.load(ratio_ptr + at) * x  # fault
        tl.store(out_ptr + at, x)  # fault


def _tridiagonal(by_system: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        systems, unknowns = (512, 16) if small else (131072, 256)
        lower, upper, right = (torch.rand(unknowns, systems) for _ in range(3))
        middle, ratio, out = 2.5 + lower, empty(unknowns, systems), empty(unknowns, systems)
        tensors = [lower, middle, upper, right, ratio, out]
        system, step = (unknowns, 1) if by_system else (1, systems)
        if by_system:
            tensors = [each.T.contiguous() for each in tensors]
        result = tensors[5].T if by_system else tensors[5]
        options = {"SYSTEM": system, "STEP": step, "BLOCK": 128, "num_warps": 4}
        return Launch(tridiagonal_kernel, (systems // 128,), (*tensors, unknowns), (result,), options)

    return prepare


@triton.jit
def star_speeds_kernel(
    time_ptr, orbit_ptr, out_ptr, times, STEPS: tl.constexpr, BLOCK: tl.constexpr, NARROW: tl.constexpr
):
    """Radial speeds of a star for trial orbits of a planet; times of observation are days in float64.
    NARROW: float32 once the phase is known."""
    orbit, at = tl.program_id(1), tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    period, start = tl.load(orbit_ptr + 5 * orbit), tl.load(orbit_ptr + 5 * orbit + 1)
    eccentric, along = tl.load(orbit_ptr + 5 * orbit + 2), tl.load(orbit_ptr + 5 * orbit + 3)
    across = tl.load(orbit_ptr + 5 * orbit + 4)
    turns = (tl.load(time_ptr + at) - start) / period
    anomaly = 6.283185307179586 * (turns - tl.floor(turns))
    if NARROW:
        anomaly, eccentric = anomaly.to(tl.float32), eccentric.to(tl.float32)
        along, across = along.to(tl.float32), across.to(tl.float32)
    angle = anomaly
    for _ in tl.static_range(STEPS):
        sine, cosine = tl.sin(angle), tl.cos(angle)  # fault
        angle -= (angle - eccentric * sine - anomaly) / (1.0 - eccentric * cosine)  # fault
    sine, cosine = tl.sin(angle), tl.cos(angle)  # fault
    near = 1.0 / (1.0 - eccentric * cosine)  # fault
    side = tl.sqrt(1.0 - eccentric * eccentric) * sine * near  # fault
    speed = along * ((cosine - eccentric) * near + eccentric) - across * side  # fault
    tl.store(out_ptr + orbit * times + at, speed.to(tl.float32))


def _star_speeds(narrow: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        orbits, times = (3, 256) if small else (4096, 1024)
        time = 2.4e6 + 4000.0 * torch.rand(times, dtype=torch.float64)
        orbit = torch.rand(orbits, 5, dtype=torch.float64)
        orbit[:, 0] = 3.0 + 400.0 * orbit[:, 0]
        orbit[:, 2] *= 0.6
        out = empty(orbits, times)
        options = {"STEPS": 4, "BLOCK": 128, "NARROW": narrow, "num_warps": 4}
        grid = (times // 128, orbits)
        return Launch(star_speeds_kernel, grid, (time, orbit, out, times), (out,), options)

    return prepare


@triton.jit
def opposite_strands_kernel(base_ptr, quality_ptr, out_ptr, length, BLOCK: tl.constexpr):
    """Opposite strands of reads of DNA: complements of the bases 0 to 3, from the last to the first, or 4
    where a base was read with a quality below 20."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    first = tl.program_id(1) * length
    base = tl.load(base_ptr + first + length - 1 - at)  # fault
    quality = tl.load(quality_ptr + first + length - 1 - at)  # fault
    tl.store(out_ptr + first + at, tl.where(quality < 20, 4, 3 - base))


@triton.jit
def opposite_words_kernel(base_ptr, quality_ptr, out_ptr, length, BLOCK: tl.constexpr):
    """As opposite_strands_kernel, eight bases at a time, which are turned around in registers."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    first = tl.program_id(1) * length
    base = tl.load(base_ptr + first + length - 1 - at)
    quality = tl.load(quality_ptr + first + length - 1 - at)
    known = (((quality + 0x6C6C6C6C6C6C6C6C) >> 7) & 0x0101010101010101) * 255
    word = ((0x0303030303030303 - base) & known) | (0x0404040404040404 & ~known)
    word = ((word >> 8) & 0x00FF00FF00FF00FF) | ((word & 0x00FF00FF00FF00FF) << 8)
    word = ((word >> 16) & 0x0000FFFF0000FFFF) | ((word & 0x0000FFFF0000FFFF) << 16)
    word = ((word >> 32) & 0xFFFFFFFF) | (word << 32)
    tl.store(out_ptr + first + at, word)


def _opposite_strands(by_word: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        reads, length = (2, 8192) if small else (16384, 16384)
        base = integers(reads, length, below=4, dtype=torch.uint8)
        quality = integers(reads, length, below=42, dtype=torch.uint8)
        out = torch.empty_like(base)
        grid = (length // 4096, reads)
        if not by_word:
            args, options = (base, quality, out, length), {"BLOCK": 4096, "num_warps": 4}
            return Launch(opposite_strands_kernel, grid, args, (out,), options)
        words = [each.view(torch.int64) for each in (base, quality, out)]
        options = {"BLOCK": 512, "num_warps": 4}
        return Launch(opposite_words_kernel, grid, (*words, length // 8), (out,), options)

    return prepare


@triton.jit
def structure_factors_kernel(
    place_ptr, charge_ptr, wave_ptr, out_ptr, atoms, waves, BLOCK: tl.constexpr, EACH: tl.constexpr
):
    """Structure factors of a crystal: places are fractions of its cell, waves whole numbers of turns."""
    wave = tl.program_id(0)
    h, k = tl.load(wave_ptr + wave), tl.load(wave_ptr + waves + wave)
    m = tl.load(wave_ptr + 2 * waves + wave)
    if EACH:
        real, imaginary = 0.0, 0.0
    else:
        real = tl.zeros((BLOCK,), dtype=tl.float32)
        imaginary = tl.zeros((BLOCK,), dtype=tl.float32)
    for first in range(0, atoms, BLOCK):
        at = first + tl.arange(0, BLOCK)
        x, y = tl.load(place_ptr + at), tl.load(place_ptr + atoms + at)
        turns = h * x + k * y + m * tl.load(place_ptr + 2 * atoms + at)
        angle = 6.2831853 * (turns - tl.floor(turns))
        charge = tl.load(charge_ptr + at)
        if EACH:
            real += tl.sum(charge * libdevice.fast_cosf(angle), 0)  # fault
            imaginary += tl.sum(charge * libdevice.fast_sinf(angle), 0)  # fault
        else:
            real += charge * libdevice.fast_cosf(angle)
            imaginary += charge * libdevice.fast_sinf(angle)
    if not EACH:
        real, imaginary = tl.sum(real, 0), tl.sum(imaginary, 0)
    tl.store(out_ptr + wave, real * real + imaginary * imaginary)


def _structure_factors(each_step: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        atoms, waves = (2048, 4) if small else (16384, 16384)
        place, charge, out = torch.rand(3, atoms), 1.0 + 5.0 * torch.rand(atoms), empty(waves)
        wave = integers(3, waves, below=24).float()
        options = {"BLOCK": 512, "EACH": each_step, "num_warps": 4}
        args = (place, charge, wave, out, atoms, waves)
        return Launch(structure_factors_kernel, (waves,), args, (out,), options)

    return prepare


@triton.jit
def fluid_density_kernel(
    place_ptr, count_ptr, near_ptr, out_ptr, slots, reach, SLOTS: tl.constexpr, OTHERS: tl.constexpr,
    COUNTED: tl.constexpr,
):  # fmt: skip
    """Densities at a cell's smoothed particles, from those of the 27 cells around. COUNTED: slots without a
    particle are left out, a block of OTHERS at a time."""
    cell = tl.program_id(0)
    own = cell * SLOTS + tl.arange(0, SLOTS)
    x, y = tl.load(place_ptr + own)[:, None], tl.load(place_ptr + slots + own)[:, None]
    z = tl.load(place_ptr + 2 * slots + own)[:, None]
    total = tl.zeros((SLOTS, OTHERS), dtype=tl.float32)
    for each in range(27):
        near = tl.load(near_ptr + cell * 27 + each)
        count = tl.load(count_ptr + near)
        end = count if COUNTED else SLOTS
        for first in range(0, end, OTHERS):  # fault
            slot = first + tl.arange(0, OTHERS)
            at, used = near * SLOTS + slot, slot < count
            dx = x - tl.load(place_ptr + at, mask=used, other=1e3)[None, :]  # fault
            dy = y - tl.load(place_ptr + slots + at, mask=used, other=1e3)[None, :]  # fault
            dz = z - tl.load(place_ptr + 2 * slots + at, mask=used, other=1e3)[None, :]  # fault
            left = tl.maximum(reach - dx * dx - dy * dy - dz * dz, 0.0)  # fault
            total += left * left * left  # fault
    tl.store(out_ptr + own, tl.sum(total, 1))


def _fluid_density(counted: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        side = 2 if small else 24
        cells = side**3
        index = torch.arange(cells)
        layer, row, column = index // side**2, index // side % side, index % side
        near = [
            ((layer + a) % side * side + (row + b) % side) * side + (column + c) % side
            for a in (-1, 0, 1)
            for b in (-1, 0, 1)
            for c in (-1, 0, 1)
        ]
        count = (6.0 + 58.0 * torch.rand(cells) ** 6).int()
        place = torch.stack([layer, row, column]).float()[:, :, None] + torch.rand(3, cells, 64)
        table, out = torch.stack(near, 1).int(), empty(cells, 64)
        options = {"SLOTS": 64, "OTHERS": 16 if counted else 64, "COUNTED": counted, "num_warps": 4}
        args = (place, count, table, out, cells * 64, 1.0)
        return Launch(fluid_density_kernel, (cells,), args, (out,), options)

    return prepare


@triton.jit
def _potentials(atom_ptr, out_ptr, atoms, row, start, end, BLOCK: tl.constexpr):
    own = row + tl.arange(0, BLOCK)
    x, y = tl.load(atom_ptr + own, mask=own < end), tl.load(atom_ptr + atoms + own, mask=own < end)
    z = tl.load(atom_ptr + 2 * atoms + own, mask=own < end)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for first in range(start, end, BLOCK):
        other = first + tl.arange(0, BLOCK)
        used = other < end
        dx = x[:, None] - tl.load(atom_ptr + other, mask=used, other=0.0)[None, :]
        dy = y[:, None] - tl.load(atom_ptr + atoms + other, mask=used, other=0.0)[None, :]
        dz = z[:, None] - tl.load(atom_ptr + 2 * atoms + other, mask=used, other=0.0)[None, :]
        charge = tl.load(atom_ptr + 3 * atoms + other, mask=used, other=0.0)
        near = tl.rsqrt(dx * dx + dy * dy + dz * dz + 0.01)
        total += tl.where(own[:, None] != other[None, :], charge[None, :] * near, 0.0)
    tl.store(out_ptr + own, tl.sum(total, 1), mask=own < end)


@triton.jit
def molecule_potentials_kernel(atom_ptr, start_ptr, out_ptr, atoms, BLOCK: tl.constexpr):
    """Potentials at the atoms of a batch of molecules, which lie one after the other; a program for each."""
    start, end = tl.load(start_ptr + tl.program_id(0)), tl.load(start_ptr + tl.program_id(0) + 1)
    for row in range(start, end, BLOCK):  # fault
        _potentials(atom_ptr, out_ptr, atoms, row, start, end, BLOCK)  # fault


@triton.jit
def block_potentials_kernel(atom_ptr, block_ptr, out_ptr, atoms, BLOCK: tl.constexpr):
    """As molecule_potentials_kernel, a program for each block of a molecule's atoms."""
    at = block_ptr + 3 * tl.program_id(0)
    _potentials(atom_ptr, out_ptr, atoms, tl.load(at), tl.load(at + 1), tl.load(at + 2), BLOCK)


def _molecule_potentials(by_block: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        count, largest = (12, 512) if small else (1024, 2048)
        sizes = [
            largest if each % 256 == 5 else 24 + each * 37 % (32 if small else 160) for each in range(count)
        ]
        starts = [sum(sizes[:each]) for each in range(count + 1)]
        atoms = starts[-1]
        atom, out = random(4, atoms), empty(atoms)
        options = {"BLOCK": 64, "num_warps": 4}
        if not by_block:
            args = (atom, torch.tensor(starts, dtype=torch.int32), out, atoms)
            return Launch(molecule_potentials_kernel, (count,), args, (out,), options)
        blocks = [
            (row, first, end) for first, end in itertools.pairwise(starts) for row in range(first, end, 64)
        ]
        args = (atom, torch.tensor(blocks, dtype=torch.int32), out, atoms)
        return Launch(block_potentials_kernel, (len(blocks),), args, (out,), options)

    return prepare


_case = faults_of(9)


CASES = (
    _case(
        "tridiagonal systems stored one by one",
        ("uncoalesced-load", "uncoalesced-store"),
        ("counts",),
        True,
        _tridiagonal(True),
        _tridiagonal(False),
    ),
    _case(
        "orbits solved in float64",
        ("fp64-arithmetic",),
        ("counts",),
        True,
        _star_speeds(False),
        _star_speeds(True),
    ),
    _case(
        "opposite strands base by base",
        ("unvectorized-access", "uncoalesced-load"),
        ("counts",),
        True,
        _opposite_strands(False),
        _opposite_strands(True),
    ),
    _case(
        "structure factors summed each step",
        ("serial-reduction",),
        ("counts", "samples"),
        True,
        _structure_factors(True),
        _structure_factors(False),
    ),
    _case(
        "empty slots of fluid cells",
        ("masked-work",),
        ("counts",),
        True,
        _fluid_density(False),
        _fluid_density(True),
    ),
    _case(
        "molecules of any size by one program each",
        ("load-imbalance", "tail"),
        ("ctas", "spans"),
        True,
        _molecule_potentials(False),
        _molecule_potentials(True),
    ),
)
