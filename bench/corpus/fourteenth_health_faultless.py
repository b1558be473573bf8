"""Fourteenth round, kernels of medical imaging, genomes and molecules without a fault."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from bench.corpus.case import Launch, Prepare, empty, faultless_of, integers, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def sum_of_coils_kernel(coil_ptr, out_ptr, pixels, coils, BLOCK: tl.constexpr):
    """Complex pictures of all coils as one picture of their lengths, real and imaginary planes apart.
    Bound by DRAM."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    coil_at = coil_ptr + at
    for _ in range(coils):
        real, imaginary = tl.load(coil_at), tl.load(coil_at + pixels)
        total += real * real + imaginary * imaginary
        coil_at += 2 * pixels
    tl.store(out_ptr + at, tl.sqrt(total))


def _sum_of_coils(block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        pixels, coils = 4096 if small else 1 << 21, 32
        coil, out = random(coils, 2, pixels), empty(pixels)
        args, options = (coil, out, pixels, coils), {"BLOCK": block, "num_warps": num_warps}
        return Launch(sum_of_coils_kernel, (pixels // block,), args, (out,), options)

    return prepare


@triton.jit
def moved_slice_kernel(
    x_ptr, move_ptr, out_ptr, WIDTH: tl.constexpr, HEIGHT: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    """Slices of a scan moved by a smooth field, to lie on those of another scan. Bound by DRAM, or by the
    four gathers of each voxel."""
    row, column = tl.program_id(1) * ROWS + tl.arange(0, ROWS), tl.program_id(0) * COLUMNS
    column += tl.arange(0, COLUMNS)
    plane = tl.program_id(2) * (HEIGHT * WIDTH)
    at = plane + row[:, None] * WIDTH + column[None, :]
    moved = 2 * plane + row[:, None] * WIDTH + column[None, :]
    y = row[:, None] + tl.load(move_ptr + moved)
    x = column[None, :] + tl.load(move_ptr + moved + HEIGHT * WIDTH)
    y = tl.minimum(tl.maximum(y, 0.0), HEIGHT - 1.01)
    x = tl.minimum(tl.maximum(x, 0.0), WIDTH - 1.01)
    i, j = y.to(tl.int32), x.to(tl.int32)
    y, x = y - i, x - j
    source = x_ptr + plane + i * WIDTH + j
    above = tl.load(source)
    above += x * (tl.load(source + 1) - above)
    below = tl.load(source + WIDTH)
    below += x * (tl.load(source + WIDTH + 1) - below)
    tl.store(out_ptr + at, above + y * (below - above))


def _moved_slice(rows_of_program: int, columns_of_program: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        slices, size = (1, 64) if small else (128, 512)
        width = 256 if small else size
        x, out = random(slices, size, width), empty(slices, size, width)
        line = torch.arange(size)[:, None] * 0.02 + torch.arange(width)[None, :] * 0.03
        move = torch.stack([4.0 * torch.sin(line), 4.0 * torch.cos(line)])[None].repeat(slices, 1, 1, 1)
        options = {"WIDTH": width, "HEIGHT": size, "ROWS": rows_of_program, "COLUMNS": columns_of_program}
        grid = (width // columns_of_program, size // rows_of_program, slices)
        args = (x, move, out)
        return Launch(moved_slice_kernel, grid, args, (out,), options | {"num_warps": num_warps})

    return prepare


@triton.jit
def voted_labels_kernel(label_ptr, out_ptr, voxels, ATLASES: tl.constexpr, BLOCK: tl.constexpr):
    """Labels of voxels that most of some atlases gave, four kinds of tissue, lowest first. Bound by DRAM."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    votes = tl.zeros((BLOCK,), dtype=tl.int32)
    for atlas in tl.static_range(ATLASES):
        votes += 1 << (8 * tl.load(label_ptr + atlas * voxels + at).to(tl.int32))
    most = tl.zeros((BLOCK,), dtype=tl.int32)
    for kind in tl.static_range(4):
        most = tl.maximum(most, ((votes >> (8 * kind)) & 255) * 4 + 3 - kind)
    tl.store(out_ptr + at, (3 - (most & 3)).to(tl.uint8))


def _voted_labels(block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        voxels, atlases = 4 * block if small else 1 << 25, 8
        label, out = integers(atlases, voxels, below=4, dtype=torch.uint8), empty(voxels, dtype=torch.uint8)
        options = {"ATLASES": atlases, "BLOCK": block, "num_warps": num_warps}
        return Launch(voted_labels_kernel, (voxels // block,), (label, out, voxels), (out,), options)

    return prepare


@triton.jit
def brightest_kernel(x_ptr, out_ptr, depth, plane, BLOCK: tl.constexpr, EACH: tl.constexpr):
    """The brightest voxels behind each pixel of a view of vessels along the planes of a scan.
    Bound by DRAM."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x_at = x_ptr + tl.program_id(1) * depth * plane + at
    most = tl.full((BLOCK,), -float("inf"), dtype=tl.float16)
    for _ in range(0, depth, EACH):
        for each in tl.static_range(EACH):
            most = tl.maximum(most, tl.load(x_at + each * plane))
        x_at += EACH * plane
    tl.store(out_ptr + tl.program_id(1) * plane + at, most)


def _brightest(block: int, num_warps: int, each: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        scans, depth, plane = (1, 32, 2 * block) if small else (8, 128, 512 * 512)
        x = random(scans, depth, plane, dtype=torch.float16)
        out = empty(scans, plane, dtype=torch.float16)
        options = {"BLOCK": block, "EACH": each, "num_warps": num_warps}
        grid = (plane // block, scans)
        return Launch(brightest_kernel, grid, (x, out, depth, plane), (out,), options)

    return prepare


@triton.jit
def fingerprint_kernel(tissue_ptr, pulse_ptr, real_ptr, imaginary_ptr, tissues, pulses, BLOCK: tl.constexpr):
    """Signals of kinds of tissue after a train of pulses of any angles, each after the last (Bloch).
    Bound by issue: a chain of rotations and decays without an end, of many tissues at once."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    fading, return_ = tl.load(tissue_ptr + at), tl.load(tissue_ptr + tissues + at)
    turn_cosine, turn_sine = tl.load(tissue_ptr + 2 * tissues + at), tl.load(tissue_ptr + 3 * tissues + at)
    x, y = tl.zeros((BLOCK,), dtype=tl.float32), tl.zeros((BLOCK,), dtype=tl.float32)
    z = y - 1.0
    real, imaginary = x, y
    for pulse in range(pulses):
        pulse_at = pulse_ptr + 4 * pulse
        cosine, sine = tl.load(pulse_at), tl.load(pulse_at + 1)
        tipped_y, tipped_z = y * cosine - z * sine, y * sine + z * cosine
        new_x = (x * turn_cosine - tipped_y * turn_sine) * fading
        y = (x * turn_sine + tipped_y * turn_cosine) * fading
        x, z = new_x, 1.0 + (tipped_z - 1.0) * return_
        weight, other = tl.load(pulse_at + 2), tl.load(pulse_at + 3)
        real += weight * x - other * y
        imaginary += weight * y + other * x
    tl.store(real_ptr + at, real)
    tl.store(imaginary_ptr + at, imaginary)


def _fingerprint(block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        tissues, pulses = (4 * block, 8) if small else (132 * 8192, 1000)
        turn, tip = 0.1 * random(tissues), torch.rand(pulses)
        fade, back = 0.9 + 0.09 * torch.rand(tissues), 0.98 + 0.019 * torch.rand(tissues)
        tissue = torch.stack([fade, back, torch.cos(turn), torch.sin(turn)])
        pulse = torch.cat([torch.stack([torch.cos(tip), torch.sin(tip)], 1), random(pulses, 2)], 1)
        real, imaginary = empty(tissues), empty(tissues)
        args = (tissue, pulse.contiguous(), real, imaginary, tissues, pulses)
        options = {"BLOCK": block, "num_warps": num_warps}
        return Launch(fingerprint_kernel, (tissues // block,), args, (real, imaginary), options)

    return prepare


@triton.jit
def fading_echoes_kernel(
    echo_ptr, weight_ptr, rate_ptr, first_ptr, voxels, ECHOES: tl.constexpr, BLOCK: tl.constexpr
):
    """How fast echoes of voxels fade and how strong they would begin: a line through their logarithms.
    Bound by DRAM."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    rate, first = tl.zeros((BLOCK,), dtype=tl.float32), tl.zeros((BLOCK,), dtype=tl.float32)
    for echo in tl.static_range(ECHOES):
        height = tl.log2(tl.load(echo_ptr + echo * voxels + at).to(tl.float32) + 1e-3)
        rate += tl.load(weight_ptr + 2 * echo) * height
        first += tl.load(weight_ptr + 2 * echo + 1) * height
    tl.store(rate_ptr + at, rate)
    tl.store(first_ptr + at, tl.exp2(first))


def _fading_echoes(block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        voxels, echoes = 4 * block if small else 1 << 24, 8
        echo, weight = torch.rand(echoes, voxels).half(), 0.2 * random(echoes, 2)
        rate, first = empty(voxels), empty(voxels)
        options = {"ECHOES": echoes, "BLOCK": block, "num_warps": num_warps}
        args = (echo, weight, rate, first, voxels)
        return Launch(fading_echoes_kernel, (voxels // block,), args, (rate, first), options)

    return prepare


@triton.jit
def sequence_products_kernel(
    left_ptr, right_ptr, out_ptr, size, sequences, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Products of the features of all pairs of residues, summed over sequences that are aligned.
    Bound by tensor cores."""
    group = tl.program_id(0) // (GROUP * (size // COLUMNS))
    rest = tl.program_id(0) % (GROUP * (size // COLUMNS))
    row = (group * GROUP + rest % GROUP) * ROWS + tl.arange(0, ROWS)
    column, inner = rest // GROUP * COLUMNS + tl.arange(0, COLUMNS), tl.arange(0, DEPTH)
    left_at = left_ptr + inner[None, :] * size + row[:, None]
    right_at = right_ptr + inner[:, None] * size + column[None, :]
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for _ in range(0, sequences, DEPTH):
        total = tl.dot(tl.load(left_at), tl.load(right_at), total)
        left_at += DEPTH * size
        right_at += DEPTH * size
    tl.store(out_ptr + row[:, None] * size + column[None, :], total.to(tl.bfloat16))


def _sequence_products(
    rows_of_program: int, columns_of_program: int, depth: int, num_warps: int, num_stages: int
) -> Prepare:
    def prepare(small: bool) -> Launch:
        size, sequences = (512, 256) if small else (11264, 2048)
        left, right = (random(sequences, size, dtype=torch.bfloat16) for _ in range(2))
        out = empty(size, size, dtype=torch.bfloat16)
        options = {"ROWS": rows_of_program, "COLUMNS": columns_of_program, "DEPTH": depth}
        options |= {"GROUP": 1 if small else 11, "num_warps": num_warps, "num_stages": num_stages}
        grid = (size // rows_of_program * (size // columns_of_program),)
        args = (left, right, out, size, sequences)
        return Launch(sequence_products_kernel, grid, args, (out,), options)

    return prepare


@triton.jit
def words_of_bases_kernel(packed_ptr, out_ptr, mixer, BLOCK: tl.constexpr):
    """Mixed codes of all words of 16 bases in a genome, which has 16 bases in each number.
    Bound by DRAM, into which it writes 16 times what it reads."""
    word, shift = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, 16)
    this = tl.load(packed_ptr + word).to(tl.uint32, bitcast=True)
    after = tl.load(packed_ptr + word + 1).to(tl.uint32, bitcast=True)
    wide = (this.to(tl.uint64) << 32) | after.to(tl.uint64)
    code = (wide[:, None] >> (32 - 2 * shift)[None, :].to(tl.uint64)).to(tl.uint32)
    code = (code ^ (code >> 15)) * mixer
    tl.store(out_ptr + word[:, None] * 16 + shift[None, :], code.to(tl.int32, bitcast=True))


def _words_of_bases(block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        words = 4 * block if small else 1 << 23
        packed, out = integers(words + 1, below=2147483647), empty(words, 16, dtype=torch.int32)
        options = {"BLOCK": block, "num_warps": num_warps}
        args = (packed, out, 739982445)
        return Launch(words_of_bases_kernel, (words // block,), args, (out,), options)

    return prepare


@triton.jit
def bond_forces_kernel(place_ptr, bond_ptr, force_ptr, atoms, bonds, length, BLOCK: tl.constexpr):
    """Forces of bonds on both of their atoms, any two atoms, added where other bonds add theirs.
    Bound by gathers and atomics in L2, which each bond needs."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    first, second = tl.load(bond_ptr + at), tl.load(bond_ptr + bonds + at)
    dx = tl.load(place_ptr + second) - tl.load(place_ptr + first)
    dy = tl.load(place_ptr + atoms + second) - tl.load(place_ptr + atoms + first)
    dz = tl.load(place_ptr + 2 * atoms + second) - tl.load(place_ptr + 2 * atoms + first)
    pull = 1.0 - length * tl.rsqrt(dx * dx + dy * dy + dz * dz + 1e-6)
    x, y, z = dx * pull, dy * pull, dz * pull
    tl.atomic_add(force_ptr + first, x, sem="relaxed")
    tl.atomic_add(force_ptr + atoms + first, y, sem="relaxed")
    tl.atomic_add(force_ptr + 2 * atoms + first, z, sem="relaxed")
    tl.atomic_add(force_ptr + second, -x, sem="relaxed")
    tl.atomic_add(force_ptr + atoms + second, -y, sem="relaxed")
    tl.atomic_add(force_ptr + 2 * atoms + second, -z, sem="relaxed")


def _bond_forces(block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        bonds, atoms = (4 * block, 2048) if small else (1 << 22, 1 << 21)
        place, bond, force = random(3, atoms), integers(2, bonds, below=atoms), zeros(3, atoms)
        args = (place, bond, force, atoms, bonds, 0.5)
        options = {"BLOCK": block, "num_warps": num_warps}
        return Launch(bond_forces_kernel, (bonds // block,), args, (force,), options)

    return prepare


@triton.jit
def heat_bath_kernel(place_ptr, pace_ptr, force_ptr, quarter, step, drag, kick, seed, BLOCK: tl.constexpr):
    """A step of atoms in a bath of heat, pushed by forces and by chance (Langevin), four numbers of chance
    from each counter. Bound by DRAM."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    chance = tl.rand4x(seed, at)
    for each in tl.static_range(4):
        here = at + each * quarter
        pace = (
            drag * tl.load(pace_ptr + here) + step * tl.load(force_ptr + here) + kick * (chance[each] - 0.5)
        )
        tl.store(pace_ptr + here, pace)
        tl.store(place_ptr + here, tl.load(place_ptr + here) + step * pace)


def _heat_bath(block: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        quarter = 4 * block if small else 3 << 22
        place, pace, force = random(4 * quarter), random(4 * quarter), random(4 * quarter)
        args = (place, pace, force, quarter, 0.01, 0.9, 0.1, 7)
        options = {"BLOCK": block, "num_warps": num_warps}
        return Launch(heat_bath_kernel, (quarter // block,), args, (place, pace), options)

    return prepare


@triton.jit
def pose_scores_kernel(
    grid_ptr, atom_ptr, pose_ptr, out_ptr, poses, atoms, SIDE: tl.constexpr, BLOCK: tl.constexpr
):
    """Scores of poses of a ligand: at each atom the potential of the nearest point of a lattice in the
    pocket. Bound by gathers from caches, as each pose turns the atoms otherwise."""
    pose = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    pose_at = pose_ptr + pose
    a, b, c = tl.load(pose_at), tl.load(pose_at + poses), tl.load(pose_at + 2 * poses)
    d, e, f = tl.load(pose_at + 3 * poses), tl.load(pose_at + 4 * poses), tl.load(pose_at + 5 * poses)
    g, h, i = tl.load(pose_at + 6 * poses), tl.load(pose_at + 7 * poses), tl.load(pose_at + 8 * poses)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    middle: tl.constexpr = 0.5 * SIDE
    for atom in range(atoms):
        atom_at = atom_ptr + 4 * atom
        x, y, z = tl.load(atom_at), tl.load(atom_at + 1), tl.load(atom_at + 2)
        across = (a * x + b * y + c * z + middle).to(tl.int32)
        along = (d * x + e * y + f * z + middle).to(tl.int32)
        up = (g * x + h * y + i * z + middle).to(tl.int32)
        total += tl.load(atom_at + 3) * tl.load(grid_ptr + (across * SIDE + along) * SIDE + up)
    tl.store(out_ptr + pose, total)


def _pose_scores(block: int, num_warps: int) -> Prepare:
    """No atom is farther from the middle than the lattice reaches."""

    def prepare(small: bool) -> Launch:
        poses, atoms, side = (4 * block, 8, 32) if small else (132 * 8192, 48, 64)
        grid, out = random(side, side, side), empty(poses)
        turn = torch.nn.functional.normalize(random(3, 3, poses), dim=1).reshape(9, poses).contiguous()
        atom = torch.rand(atoms, 4) * (0.5 * side - 1.0)
        atom[:, :3] = torch.nn.functional.normalize(random(atoms, 3), dim=1) * atom[:, 3:]
        options = {"SIDE": side, "BLOCK": block, "num_warps": num_warps}
        args = (grid, 0.99 * atom, turn, out, poses, atoms)
        return Launch(pose_scores_kernel, (poses // block,), args, (out,), options)

    return prepare


@triton.jit
def norm_of_pairs_kernel(x_ptr, weight_ptr, shift_ptr, out_ptr, ROWS: tl.constexpr, DIM: tl.constexpr):
    """Features of pairs of residues made alike in mean and length, 128 of each pair. Bound by DRAM."""
    row, column = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, DIM)
    at = row[:, None] * DIM + column[None, :]
    x = tl.load(x_ptr + at).to(tl.float32)
    x -= (tl.sum(x, 1) * (1.0 / DIM))[:, None]
    x *= tl.rsqrt(tl.sum(x * x, 1) * (1.0 / DIM) + 1e-5)[:, None]
    x = x * tl.load(weight_ptr + column)[None, :] + tl.load(shift_ptr + column)[None, :]
    tl.store(out_ptr + at, x.to(tl.bfloat16))


def _norm_of_pairs(rows_of_program: int, num_warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        pairs = 4 * rows_of_program if small else 1024 * 1024
        x, weight, shift = random(pairs, 128, dtype=torch.bfloat16), random(128), random(128)
        out = torch.empty_like(x)
        options = {"ROWS": rows_of_program, "DIM": 128, "num_warps": num_warps}
        args = (x, weight, shift, out)
        return Launch(norm_of_pairs_kernel, (pairs // rows_of_program,), args, (out,), options)

    return prepare


_good = faultless_of(14)

CASES = (
    _good("good sum of coils", _sum_of_coils(512, 4)),
    _good("good slices moved onto others", _moved_slice(2, 256, 4)),
    _good("good votes of atlases", _voted_labels(4096, 8)),
    _good("good view of vessels", _brightest(1024, 4, 4)),
    _good("good signals of tissues", _fingerprint(1024, 4)),
    _good("good lines through echoes", _fading_echoes(1024, 8)),
    _good("good products of aligned sequences", _sequence_products(128, 256, 64, 8, 3)),
    _good("good words of a genome", _words_of_bases(256, 4)),
    _good("good forces of bonds", _bond_forces(1024, 4)),
    _good("good step in a bath of heat", _heat_bath(512, 4)),
    _good("good scores of poses", _pose_scores(1024, 8)),
    _good("good norm of pairs", _norm_of_pairs(16, 4)),
)
