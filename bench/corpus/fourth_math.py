"""Fourth round, faults of arithmetic: what is computed, how precisely, how often and across which threads."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from bench.corpus.case import Launch, Prepare, empty, faults_of, integers, random

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def undistorted_kernel(x_ptr, y_ptr, camera_ptr, u_ptr, v_ptr, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    """Removes a lens' radial distortion by iteration, in the precision of the camera's constants."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + offs), tl.load(y_ptr + offs)
    k1, k2, k3 = tl.load(camera_ptr), tl.load(camera_ptr + 1), tl.load(camera_ptr + 2)
    u, v = x + 0.0 * k1, y + 0.0 * k1
    for _ in range(STEPS):
        r = u * u + v * v  # fault
        shrink = 1.0 / (1.0 + r * (k1 + r * (k2 + r * k3)))  # fault
        u, v = x * shrink, y * shrink  # fault
    tl.store(u_ptr + offs, u.to(tl.float32))
    tl.store(v_ptr + offs, v.to(tl.float32))


def _undistorted(dtype: torch.dtype) -> Prepare:
    def prepare(small: bool) -> Launch:
        n = 2048 if small else 1 << 22
        x, y = torch.rand(n) - 0.5, torch.rand(n) - 0.5
        camera = torch.tensor([0.2, -0.05, 0.01], dtype=dtype)
        u, v = empty(n), empty(n)
        options = {"STEPS": 10, "BLOCK": 512, "num_warps": 4}
        return Launch(undistorted_kernel, (n // 512,), (x, y, camera, u, v), (u, v), options)

    return prepare


@triton.jit
def mish_kernel(x_ptr, out_ptr, PLAIN: tl.constexpr, BLOCK: tl.constexpr):
    """Mish, as its definition has it: x times the hyperbolic tangent of the softplus of x."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs).to(tl.float32)
    if PLAIN:
        y = x * libdevice.tanh(libdevice.log1p(libdevice.exp(x)))  # fault
    else:
        e = tl.exp(tl.minimum(x, 20.0))
        square = (1.0 + e) * (1.0 + e)
        y = x * tl.fdiv(square - 1.0, square + 1.0)
    tl.store(out_ptr + offs, y.to(tl.bfloat16))


def _mish(plain: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        n = 4096 if small else 1 << 26
        x, out = random(n, dtype=torch.bfloat16), empty(n, dtype=torch.bfloat16)
        options = {"PLAIN": plain, "BLOCK": 1024, "num_warps": 4}
        return Launch(mish_kernel, (n // 1024,), (x, out), (out,), options)

    return prepare


@triton.jit
def morton_kernel(x_ptr, inside_ptr, out_ptr, BITS: tl.constexpr, LOOK: tl.constexpr):
    """Puts a volume into Morton order: the bits of a voxel's three coordinates alternate in its place.

    A program has a brick of 8 x 8 x 8; LOOK: a table knows the places inside it.
    """
    lanes = tl.arange(0, 512)
    x = tl.program_id(0) * 8 + (lanes & 7)
    y = tl.program_id(1) * 8 + (lanes >> 3 & 7)
    z = tl.program_id(2) * 8 + (lanes >> 6)
    voxel = tl.load(x_ptr + (z << (2 * BITS)) + (y << BITS) + x)
    if LOOK:
        place = tl.load(inside_ptr + lanes)
        for bit in tl.static_range(BITS - 3):
            place += ((tl.program_id(0) >> bit) & 1) << (3 * bit + 9)
            place += ((tl.program_id(1) >> bit) & 1) << (3 * bit + 10)
            place += ((tl.program_id(2) >> bit) & 1) << (3 * bit + 11)
    else:
        place = tl.zeros((512,), dtype=tl.int32)
        for bit in tl.static_range(BITS):
            place += ((x >> bit) & 1) << (3 * bit)  # fault
            place += ((y >> bit) & 1) << (3 * bit + 1)  # fault
            place += ((z >> bit) & 1) << (3 * bit + 2)  # fault
    tl.store(out_ptr + place, voxel)


def _morton(look: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        bits = 4 if small else 9
        x, out = random(1 << 3 * bits), empty(1 << 3 * bits)
        lane, inside = torch.arange(512), torch.zeros(512, dtype=torch.int32)
        for axis in range(3):
            for bit in range(3):
                inside |= ((lane >> (3 * axis + bit) & 1) << (3 * bit + axis)).int()
        side = 1 << (bits - 3)
        options = {"BITS": bits, "LOOK": look, "num_warps": 4}
        return Launch(morton_kernel, (side, side, side), (x, inside, out), (out,), options)

    return prepare


@triton.jit
def oscillators_kernel(out_ptr, step, harmonics, WRAP: tl.constexpr, BLOCK: tl.constexpr):
    """A sound of many triangular waves; WRAP: the whole turns of each phase go by way of an integer."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    first = (offs % 4096).to(tl.float32) * step
    first -= tl.floor(first)
    phase = tl.zeros((BLOCK,), dtype=tl.float32)
    sound = tl.zeros((BLOCK,), dtype=tl.float32)
    for _ in range(harmonics):
        phase += first
        if WRAP:
            phase -= phase.to(tl.int32).to(tl.float32)  # fault
        else:
            phase = tl.where(phase >= 1.0, phase - 1.0, phase)
        sound += tl.abs(phase - 0.5) - 0.25
    tl.store(out_ptr + offs, sound)


def _oscillators(wrap: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        n, harmonics = (2048, 8) if small else (1 << 22, 64)
        out = empty(n)
        options = {"WRAP": wrap, "BLOCK": 512, "num_warps": 4}
        return Launch(oscillators_kernel, (n // 512,), (out, 0.0137, harmonics), (out,), options)

    return prepare


@triton.jit
def two_best_kernel(logit_ptr, weight_ptr, SORT: tl.constexpr, TOKENS: tl.constexpr, EXPERTS: tl.constexpr):
    """The weights of the two best experts of each token, for a sum of 1."""
    token = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)
    expert = tl.arange(0, EXPERTS)
    logit = tl.load(logit_ptr + token[:, None] * EXPERTS + expert[None, :])
    if SORT:
        ranked = tl.sort(logit, 1, descending=True)  # fault
        first = tl.sum(tl.where(expert[None, :] == 0, ranked, 0.0), 1)
        second = tl.sum(tl.where(expert[None, :] == 1, ranked, 0.0), 1)
    else:
        first = tl.max(logit, 1)
        second = tl.max(tl.where(logit < first[:, None], logit, float("-inf")), 1)
    share = 1.0 / (1.0 + tl.exp(second - first))
    tl.store(weight_ptr + token * 2, share)
    tl.store(weight_ptr + token * 2 + 1, 1.0 - share)


def _two_best(sort: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        tokens, experts = (32, 128) if small else (1 << 18, 128)
        logit, weight = random(tokens, experts), empty(tokens, 2)
        options = {"SORT": sort, "TOKENS": 16, "EXPERTS": experts, "num_warps": 4}
        return Launch(two_best_kernel, (tokens // 16,), (logit, weight), (weight,), options)

    return prepare


@triton.jit
def candidate_scores_kernel(
    query_ptr, key_ptr, candidate_ptr, out_ptr, DIM: tl.constexpr, CANDIDATES: tl.constexpr,
    TOGETHER: tl.constexpr,
):  # fmt: skip
    """Scores of a query's candidates; TOGETHER: how many keys are multiplied in a step."""
    dims, lanes = tl.arange(0, DIM), tl.arange(0, TOGETHER)
    first = tl.program_id(0) * CANDIDATES
    query = tl.load(query_ptr + tl.program_id(0) * DIM + dims).to(tl.float32)
    for at in range(0, CANDIDATES, TOGETHER):
        candidate = tl.load(candidate_ptr + first + at + lanes)
        key = tl.load(key_ptr + candidate[:, None] * DIM + dims[None, :]).to(tl.float32)  # fault
        tl.store(out_ptr + first + at + lanes, tl.sum(key * query[None, :], 1))  # fault


def _candidate_scores(together: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        queries, keys, dim, each = (2, 32, 1024, 16) if small else (4096, 1 << 14, 1024, 64)
        query, key = (random(count, dim, dtype=torch.float16) for count in (queries, keys))
        candidate, out = integers(queries, each, below=keys), empty(queries, each)
        options = {"DIM": dim, "CANDIDATES": each, "TOGETHER": together, "num_warps": 4}
        args = (query, key, candidate, out)
        return Launch(candidate_scores_kernel, (queries,), args, (out,), options)

    return prepare


@triton.jit
def butterflies_kernel(x_ptr, out_ptr, BITS: tl.constexpr):
    """Hadamard transforms of rows by butterflies, after each of which the row is shuffled."""
    size: tl.constexpr = 1 << BITS
    offs = tl.program_id(0) * size + tl.arange(0, size)
    x = tl.load(x_ptr + offs).to(tl.float32)
    for _ in tl.static_range(BITS):
        one, two = tl.split(tl.trans(tl.reshape(x, (2, size // 2))))  # fault
        x = tl.reshape(tl.join(one + two, one - two), (size,))  # fault
    tl.store(out_ptr + offs, (x * 0.03125).to(tl.float16))


@triton.jit
def hadamard_products_kernel(x_ptr, h_ptr, out_ptr, ROWS: tl.constexpr):
    """As butterflies_kernel, of rows of 1,024, as two products with a matrix of 32 x 32."""
    row, i, j = tl.arange(0, ROWS), tl.arange(0, 32), tl.arange(0, 32)
    first = tl.program_id(0) * ROWS
    at = (first + row)[:, None, None] * 1024 + i[None, :, None] * 32 + j[None, None, :]
    h = tl.load(h_ptr + i[:, None] * 32 + j[None, :])
    x = tl.reshape(tl.load(x_ptr + at), (ROWS * 32, 32))
    x = tl.reshape(tl.dot(x, h).to(tl.float16), (ROWS, 32, 32))
    x = tl.reshape(tl.permute(x, (0, 2, 1)), (ROWS * 32, 32))
    x = tl.permute(tl.reshape(tl.dot(x, h), (ROWS, 32, 32)), (0, 2, 1))
    tl.store(out_ptr + at, (x * 0.03125).to(tl.float16))


def _hadamard(by_products: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        rows = 8 if small else 1 << 16
        x, out = random(rows, 1024, dtype=torch.float16), empty(rows, 1024, dtype=torch.float16)
        if by_products:
            h = torch.ones(1, 1)
            for _ in range(5):
                h = torch.cat((torch.cat((h, h), 1), torch.cat((h, -h), 1)), 0)
            options = {"ROWS": 4, "num_warps": 4}
            return Launch(hadamard_products_kernel, (rows // 4,), (x, h.half(), out), (out,), options)
        return Launch(butterflies_kernel, (rows,), (x, out), (out,), {"BITS": 10, "num_warps": 4})

    return prepare


@triton.jit
def common_divisors_kernel(a_ptr, b_ptr, out_ptr, steps, BLOCK: tl.constexpr):
    """The sum of the greatest common divisors of pairs; a pair goes on until its remainder is 0."""
    lanes = tl.arange(0, BLOCK)
    total = 0
    for step in range(steps):
        offs = (tl.program_id(0) * steps + step) * BLOCK + lanes
        divisor = tl.inline_asm_elementwise(
            """{
            .reg .pred p; .reg .u32 a, b, t;
            mov.u32 a, $1; mov.u32 b, $2;
            more:
            rem.u32 t, a, b;
            mov.u32 a, b; mov.u32 b, t;
            setp.ne.u32 p, b, 0;
            @p bra more;
            mov.u32 $0, a; }""",
            "=r,r,r", [tl.load(a_ptr + offs), tl.load(b_ptr + offs)], dtype=tl.int32, is_pure=False, pack=1,
        )  # fmt: skip
        total += tl.sum(divisor & 255, 0)  # fault
    tl.store(out_ptr + tl.program_id(0), total)


def _common_divisors(in_step: bool) -> Prepare:
    """One warp of eight has pairs that take long: in every step, or (in_step) all of them in one of eight."""

    def prepare(small: bool) -> Launch:
        programs, steps = (1, 8) if small else (1056, 64)
        step, warp = torch.arange(8)[:, None], torch.arange(8)[None, :]
        hard = (step == warp)[None, :, :, None]
        shape = (programs * steps // 8, 8, 8, 32)
        factor = 1 + integers(*shape, below=200)
        a = torch.where(hard, 832040 * factor, 6 * factor)
        b = torch.where(hard, 514229 * factor, 2 * factor)
        if in_step:
            old_step = (step + warp) % 8  # the hard pairs of each warp come in step 0
            a, b = a[:, old_step, warp], b[:, old_step, warp]
        out = empty(programs, dtype=torch.int32)
        args = (a.int().contiguous(), b.int().contiguous(), out, steps)
        options = {"BLOCK": 256, "num_warps": 8}
        return Launch(common_divisors_kernel, (programs,), args, (out,), options)

    return prepare


@triton.jit
def cholesky_kernel(a_ptr, out_ptr, SIDE: tl.constexpr):
    """Cholesky factors of small positive matrices, a matrix a program."""
    row, column = tl.arange(0, SIDE), tl.arange(0, SIDE)
    at = tl.program_id(0) * SIDE * SIDE + row[:, None] * SIDE + column[None, :]
    a = tl.load(a_ptr + at)
    factor = tl.zeros((SIDE, SIDE), dtype=tl.float32)
    for k in range(SIDE):
        down = tl.sum(tl.where(column[None, :] == k, a, 0.0), 1)
        across = tl.sum(tl.where(row[:, None] == k, a, 0.0), 0)
        scale = tl.rsqrt(tl.sum(tl.where(column == k, across, 0.0), 0))
        down = tl.where(row >= k, down * scale, 0.0)
        across = tl.where(column >= k, across * scale, 0.0)
        factor = tl.where(column[None, :] == k, down[:, None], factor)
        a -= down[:, None] * across[None, :]
    tl.store(out_ptr + at, factor)


def _cholesky(warps: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        matrices = 2 if small else 1 << 14
        half = random(matrices, 32, 32)
        a = half + half.transpose(1, 2) + 32.0 * torch.eye(32)
        out = torch.empty_like(a)
        options = {"SIDE": 32, "num_warps": warps}
        return Launch(cholesky_kernel, (matrices,), (a.contiguous(), out), (out,), options)

    return prepare


_case = faults_of(4)


CASES = (
    _case(
        "camera's constants in float64",
        ("fp64-arithmetic",),
        ("counts",),
        True,
        _undistorted(torch.float64),
        _undistorted(torch.float32),
    ),
    _case(
        "mish by its definition",
        ("slow-math",),
        ("counts", "samples"),
        True,
        _mish(True),
        _mish(False),
    ),
    _case(
        "Morton order voxel by voxel",
        ("index-arithmetic", "issue-bound"),
        ("counts",),
        True,
        _morton(False),
        _morton(True),
    ),
    _case(
        "phases wrapped by integers",
        ("conversions",),
        ("counts",),
        True,
        _oscillators(True),
        _oscillators(False),
    ),
    _case(
        "two best by a full sort",
        ("issue-bound",),
        ("counts", "samples"),
        True,
        _two_best(True),
        _two_best(False),
    ),
    _case(
        "one candidate after another",
        ("serial-reduction", "exposed-latency"),
        ("samples", "spans"),
        True,
        _candidate_scores(1),
        _candidate_scores(8),
    ),
    _case(
        "row shuffled after each butterfly",
        ("layout-conversion",),
        ("counts", "samples"),
        True,
        _hadamard(False),
        _hadamard(True),
    ),
    _case(
        "hard divisors of one warp",
        ("late-warp",),
        ("spans", "samples"),
        False,
        _common_divisors(False),
        _common_divisors(True),
    ),
    _case(
        "small factors of 8 warps",
        ("too-many-warps", "serial-reduction"),
        ("counts", "resources"),
        True,
        _cholesky(8),
        _cholesky(1),
    ),
)
