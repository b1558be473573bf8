"""Eighth round, faults of scientific codes: particles, waves, fluids, rivers and lattices."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from bench.corpus.case import Launch, Prepare, empty, faults_of, random, zeros

# ruff: noqa: N803
__all__ = ["CASES"]


@triton.jit
def soft_pairs_kernel(
    x_ptr, box_ptr, out_ptr, atoms, ATOMS: tl.constexpr, OTHERS: tl.constexpr, NARROW: tl.constexpr
):
    """Energies of a soft-core Lennard-Jones fluid in a periodic box. NARROW: the box becomes float32."""
    atom = tl.program_id(0) * ATOMS + tl.arange(0, ATOMS)
    x, y = tl.load(x_ptr + atom)[:, None], tl.load(x_ptr + atoms + atom)[:, None]
    z = tl.load(x_ptr + 2 * atoms + atom)[:, None]
    width, depth, height = tl.load(box_ptr), tl.load(box_ptr + 1), tl.load(box_ptr + 2)
    if NARROW:
        width, depth, height = width.to(tl.float32), depth.to(tl.float32), height.to(tl.float32)
    energy = tl.zeros((ATOMS, OTHERS), dtype=tl.float32)
    for first in range(0, atoms, OTHERS):
        other = first + tl.arange(0, OTHERS)
        dx = x - tl.load(x_ptr + other)[None, :]
        dy = y - tl.load(x_ptr + atoms + other)[None, :]
        dz = z - tl.load(x_ptr + 2 * atoms + other)[None, :]
        ex = dx - width * tl.floor(dx / width + 0.5)  # fault
        ey = dy - depth * tl.floor(dy / depth + 0.5)  # fault
        ez = dz - height * tl.floor(dz / height + 0.5)  # fault
        square = ex * ex + ey * ey + ez * ez  # fault
        soft = 1.0 / (0.5 + square * square * square)  # fault
        energy += (4.0 * (soft * soft - soft)).to(tl.float32)  # fault
    tl.store(out_ptr + atom, tl.sum(energy, 1))


def _soft_pairs(narrow: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        atoms = 64 if small else 12288
        box = torch.tensor([24.0, 25.0, 26.0], dtype=torch.float64)
        x, out = 25.0 * torch.rand(3, atoms), empty(atoms)
        options = {"ATOMS": 16, "OTHERS": 16 if small else 64, "NARROW": narrow, "num_warps": 4}
        return Launch(soft_pairs_kernel, (atoms // 16,), (x, box, out, atoms), (out,), options)

    return prepare


@triton.jit
def dispersion_kernel(
    speed_ptr, depth_ptr, out_ptr, STEPS: tl.constexpr, BLOCK: tl.constexpr, FAST: tl.constexpr
):
    """Wave numbers of water waves of given angular speed and depth, by Newton's method."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    speed, depth = tl.load(speed_ptr + at), tl.load(depth_ptr + at)
    deep = speed * speed * (1 / 9.81)
    number = deep + tl.sqrt(deep / depth) * 0.5
    for _ in range(STEPS):
        phase = number * depth
        if FAST:
            decay = tl.exp2(-2.8853901 * phase)
            slope = libdevice.fast_dividef(1.0 - decay, 1.0 + decay)
            error, change = number * slope - deep, slope + phase * (1.0 - slope * slope)
            number -= libdevice.fast_dividef(error, change)
        else:
            slope, grown = libdevice.tanh(phase), libdevice.cosh(phase)  # fault
            error, change = number * slope - deep, slope + phase / (grown * grown)  # fault
            number -= error / change  # fault
    tl.store(out_ptr + at, number)


def _dispersion(fast: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        n = 1 << (11 if small else 24)
        speed, depth, out = 0.3 + 1.5 * torch.rand(n), 2.0 + 48.0 * torch.rand(n), empty(n)
        options = {"STEPS": 10, "BLOCK": 512, "FAST": fast, "num_warps": 4}
        return Launch(dispersion_kernel, (n // 512,), (speed, depth, out), (out,), options)

    return prepare


@triton.jit
def tracers_kernel(
    x_ptr, face_ptr, out_ptr, plane, ROW: tl.constexpr, BLOCK: tl.constexpr, TRACERS: tl.constexpr
):
    """A step of tracers that diffuse through the faces of an ocean's cells, of a conductance each."""
    inside = (tl.program_id(1) + 1) * ROW + 16 + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left, right = tl.load(face_ptr + inside), tl.load(face_ptr + plane + inside)  # fault
    up, down = tl.load(face_ptr + 2 * plane + inside), tl.load(face_ptr + 3 * plane + inside)  # fault
    share = tl.load(face_ptr + 4 * plane + inside)  # fault
    for each in tl.static_range(TRACERS):
        at = (tl.program_id(2) * TRACERS + each).to(tl.int64) * plane + inside
        x = tl.load(x_ptr + at)
        flow = left * (tl.load(x_ptr + at - 1) - x) + right * (tl.load(x_ptr + at + 1) - x)
        flow += up * (tl.load(x_ptr + at - ROW) - x) + down * (tl.load(x_ptr + at + ROW) - x)
        tl.store(out_ptr + at, x + share * flow)


def _tracers(together: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        tracers, rows, columns = (8, 2, 1024) if small else (16, 2048, 2048)
        shape = (rows + 2, columns + 32)
        x, face, out = random(tracers, *shape), torch.rand(5, *shape), zeros(tracers, *shape)
        options = {"ROW": shape[1], "BLOCK": 512, "TRACERS": together, "num_warps": 4}
        args = (x, face, out, shape[0] * shape[1])
        return Launch(tracers_kernel, (columns // 512, rows, tracers // together), args, (out,), options)

    return prepare


@triton.jit
def stars_kernel(
    x_ptr, mass_ptr, out_ptr, stars, STARS: tl.constexpr, OTHERS: tl.constexpr, CENTRED: tl.constexpr
):
    """Pulls of stars on each other, whose places are float64. CENTRED: places from the block's first star."""
    star, first = tl.program_id(0) * STARS + tl.arange(0, STARS), tl.program_id(0) * STARS
    x, y, z = tl.load(x_ptr + star), tl.load(x_ptr + stars + star), tl.load(x_ptr + 2 * stars + star)
    if CENTRED:
        x0, y0 = tl.load(x_ptr + first), tl.load(x_ptr + stars + first)
        z0 = tl.load(x_ptr + 2 * stars + first)
        x, y, z = (x - x0).to(tl.float32), (y - y0).to(tl.float32), (z - z0).to(tl.float32)
    ax = tl.zeros((STARS, OTHERS), dtype=tl.float32)
    ay, az = tl.zeros_like(ax), tl.zeros_like(ax)
    for start in range(0, stars, OTHERS):
        other = start + tl.arange(0, OTHERS)
        u, v, w = tl.load(x_ptr + other), tl.load(x_ptr + stars + other), tl.load(x_ptr + 2 * stars + other)
        mass = tl.load(mass_ptr + other)
        if CENTRED:
            u, v, w = (u - x0).to(tl.float32), (v - y0).to(tl.float32), (w - z0).to(tl.float32)
        dx = (u[None, :] - x[:, None]).to(tl.float32)  # fault
        dy = (v[None, :] - y[:, None]).to(tl.float32)  # fault
        dz = (w[None, :] - z[:, None]).to(tl.float32)  # fault
        near = tl.rsqrt(dx * dx + dy * dy + dz * dz + 1e-2)
        pull = mass[None, :] * near * near * near
        ax += pull * dx
        ay += pull * dy
        az += pull * dz
    tl.store(out_ptr + star, tl.sum(ax, 1))
    tl.store(out_ptr + stars + star, tl.sum(ay, 1))
    tl.store(out_ptr + 2 * stars + star, tl.sum(az, 1))


def _stars(centred: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        stars = 128 if small else 32768
        x, mass, out = 40.0 * random(3, stars, dtype=torch.float64), torch.rand(stars), empty(3, stars)
        options = {"STARS": 64, "OTHERS": 32, "CENTRED": centred, "num_warps": 4}
        return Launch(stars_kernel, (stars // 64,), (x, mass, out, stars), (out,), options)

    return prepare


@triton.jit
def phases_kernel(
    x_ptr, out_ptr, plane, ROW: tl.constexpr, DEEP: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    """A step of two phases that part (Allen and Cahn); a program marches through DEEP planes."""
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS) + 1
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS) + 16
    first = (tl.program_id(2) * DEEP + 1).to(tl.int64)
    at = first * plane + row[:, None] * ROW + column[None, :]
    above, x = tl.load(x_ptr + at - plane), tl.load(x_ptr + at)
    for _ in range(DEEP):
        below = tl.load(x_ptr + at + plane)
        around = tl.load(x_ptr + at - ROW) + tl.load(x_ptr + at + ROW)
        around += tl.load(x_ptr + at - 1) + tl.load(x_ptr + at + 1)
        change = above + below + around - 6.0 * x + 0.5 * (x - x * x * x)
        tl.store(out_ptr + at, x + 0.1 * change)
        above, x = x, below
        at += plane


def _phases(deep: int) -> Prepare:
    def prepare(small: bool) -> Launch:
        depth, rows, columns = (8, 32, 128) if small else (1024, 256, 512)
        shape = (depth + 2, rows + 2, columns + 32)
        x, out = random(*shape), zeros(*shape)
        planes = min(depth, deep if not small else deep // 32)
        options = {"ROW": shape[2], "DEEP": planes, "ROWS": 16, "COLUMNS": 64, "num_warps": 4}
        grid = (columns // 64, rows // 16, depth // planes)
        return Launch(phases_kernel, grid, (x, out, shape[1] * shape[2]), (out,), options)

    return prepare


@triton.jit
def rivers_kernel(inflow_ptr, share_ptr, out_ptr, hours, rivers, BLOCK: tl.constexpr, AHEAD: tl.constexpr):
    """Outflow of reaches of rivers (Muskingum). AHEAD: eight hours are loaded before they are routed."""
    river = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    now, past = tl.load(share_ptr + river), tl.load(share_ptr + rivers + river)
    kept = 1.0 - now - past
    x, out = inflow_ptr + river, out_ptr + river
    last = tl.load(x)
    flow = last
    if AHEAD:
        for _ in range(0, hours, 8):
            a, b, c, d = tl.load(x), tl.load(x + rivers), tl.load(x + 2 * rivers), tl.load(x + 3 * rivers)
            x += 4 * rivers
            e, f, g, h = tl.load(x), tl.load(x + rivers), tl.load(x + 2 * rivers), tl.load(x + 3 * rivers)
            x += 4 * rivers
            for each in tl.static_range(8):
                flow = now * a + past * last + kept * flow
                tl.store(out + each * rivers, flow)
                last, a, b, c, d, e, f, g = a, b, c, d, e, f, g, h
            out += 8 * rivers
    else:
        for _ in range(hours):
            inflow = tl.load(x)  # fault
            flow = now * inflow + past * last + kept * flow  # fault
            tl.store(out, flow)
            last = inflow
            x += rivers
            out += rivers


def _rivers(ahead: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        hours, rivers = (16, 512) if small else (1024, 65536)
        inflow, share, out = torch.rand(hours, rivers), 0.3 * torch.rand(2, rivers), empty(hours, rivers)
        options = {"BLOCK": 128, "AHEAD": ahead, "num_warps": 4}
        args = (inflow, share, out, hours, rivers)
        return Launch(rivers_kernel, (rivers // 128,), args, (out,), options)

    return prepare


@triton.jit
def _onward(site, STEP: tl.constexpr, SIZE: tl.constexpr):
    return tl.where(site // STEP % SIZE == SIZE - 1, site - (SIZE - 1) * STEP, site + STEP)


@triton.jit
def plaquettes_kernel(
    link_ptr, out_ptr, SITE: tl.constexpr, WAY: tl.constexpr, PART: tl.constexpr, SIZE: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Mean plaquette at each site of lattices of SU(2) links, of four numbers each."""
    site = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for m in tl.static_range(3):
        for n in tl.static_range(m + 1, 4):
            p = link_ptr + site * SITE + m * WAY
            q = link_ptr + _onward(site, SIZE**m, SIZE) * SITE + n * WAY
            a0, a1 = tl.load(p), tl.load(p + PART)  # fault
            a2, a3 = tl.load(p + 2 * PART), tl.load(p + 3 * PART)  # fault
            b0, b1 = tl.load(q), tl.load(q + PART)  # fault
            b2, b3 = tl.load(q + 2 * PART), tl.load(q + 3 * PART)  # fault
            s, t = a0 * b0 - a1 * b1 - a2 * b2 - a3 * b3, a0 * b1 + a1 * b0 + a2 * b3 - a3 * b2
            u, v = a0 * b2 - a1 * b3 + a2 * b0 + a3 * b1, a0 * b3 + a1 * b2 - a2 * b1 + a3 * b0
            p = link_ptr + site * SITE + n * WAY
            q = link_ptr + _onward(site, SIZE**n, SIZE) * SITE + m * WAY
            a0, a1 = tl.load(p), tl.load(p + PART)  # fault
            a2, a3 = tl.load(p + 2 * PART), tl.load(p + 3 * PART)  # fault
            b0, b1 = tl.load(q), tl.load(q + PART)  # fault
            b2, b3 = tl.load(q + 2 * PART), tl.load(q + 3 * PART)  # fault
            total += s * (a0 * b0 - a1 * b1 - a2 * b2 - a3 * b3)
            total += t * (a0 * b1 + a1 * b0 + a2 * b3 - a3 * b2)
            total += u * (a0 * b2 - a1 * b3 + a2 * b0 + a3 * b1)
            total += v * (a0 * b3 + a1 * b2 - a2 * b1 + a3 * b0)
    tl.store(out_ptr + site, total * (1 / 6))


def _plaquettes(by_site: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        size = 4 if small else 32
        sites = size**4 * (2 if small else 4)
        link = torch.nn.functional.normalize(random(4, 4, sites), dim=1)
        out = empty(sites)
        if by_site:
            link = link.permute(2, 0, 1).contiguous()
        site, way, part = (16, 4, 1) if by_site else (1, 4 * sites, sites)
        options = {"SITE": site, "WAY": way, "PART": part, "SIZE": size}
        options |= {"BLOCK": 128, "num_warps": 4}
        return Launch(plaquettes_kernel, (sites // 128,), (link, out), (out,), options)

    return prepare


@triton.jit
def field_force_kernel(
    x_ptr, out_ptr, size, time, mass, coupling, SIZE: tl.constexpr, TIME: tl.constexpr, FIXED: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Force on each site of a periodic lattice in four dimensions. FIXED: the compiler knows the sizes."""
    if FIXED:
        size, time = SIZE, TIME
    site = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = site % size, site // size % size  # fault
    z, t = site // (size * size) % size, site // (size * size * size)  # fault
    line, layer = (t * size + z) * size, t * size
    middle = tl.load(x_ptr + site)
    total = tl.load(x_ptr + (line + y) * size + (x + 1) % size)  # fault
    total += tl.load(x_ptr + (line + y) * size + (x + size - 1) % size)  # fault
    total += tl.load(x_ptr + (line + (y + 1) % size) * size + x)  # fault
    total += tl.load(x_ptr + (line + (y + size - 1) % size) * size + x)  # fault
    total += tl.load(x_ptr + ((layer + (z + 1) % size) * size + y) * size + x)  # fault
    total += tl.load(x_ptr + ((layer + (z + size - 1) % size) * size + y) * size + x)  # fault
    total += tl.load(x_ptr + (((t + 1) % time * size + z) * size + y) * size + x)  # fault
    total += tl.load(x_ptr + (((t + time - 1) % time * size + z) * size + y) * size + x)  # fault
    force = total - (8.0 + mass) * middle - coupling * middle * middle * middle
    tl.store(out_ptr + site, force)


def _field_force(fixed: bool) -> Prepare:
    def prepare(small: bool) -> Launch:
        size, time = (8, 4) if small else (64, 128)
        sites = size**3 * time
        x, out = random(sites), empty(sites)
        options = {"SIZE": size if fixed else 0, "TIME": time if fixed else 0, "FIXED": fixed}
        options |= {"BLOCK": 512, "num_warps": 4}
        args = (x, out, size, time, 0.1, 0.02)
        return Launch(field_force_kernel, (sites // 512,), args, (out,), options)

    return prepare


_case = faults_of(8)


CASES = (
    _case(
        "atoms in a box of float64",
        ("fp64-arithmetic",),
        ("counts",),
        True,
        _soft_pairs(False),
        _soft_pairs(True),
    ),
    _case(
        "water waves by tanh and cosh",
        ("slow-math",),
        ("counts",),
        True,
        _dispersion(False),
        _dispersion(True),
    ),
    _case(
        "conductances loaded for each tracer",
        ("tile-reread", "redundant-load"),
        ("counters", "counts"),
        True,
        _tracers(1),
        _tracers(8),
    ),
    _case(
        "distances of stars narrowed pair by pair",
        ("conversions", "fp64-arithmetic"),
        ("counts",),
        True,
        _stars(False),
        _stars(True),
    ),
    _case(
        "phases marched by 128 programs",
        ("low-occupancy", "exposed-latency"),
        ("ctas", "samples"),
        False,
        _phases(1024),
        _phases(64),
    ),
    _case(
        "rivers routed hour by hour",
        ("exposed-latency",),
        ("spans", "samples"),
        False,
        _rivers(False),
        _rivers(True),
    ),
    _case(
        "gauge links stored site by site",
        ("uncoalesced-load",),
        ("counts",),
        True,
        _plaquettes(True),
        _plaquettes(False),
    ),
    _case(
        "a lattice of any size by division",
        ("index-arithmetic",),
        ("counts",),
        True,
        _field_force(False),
        _field_force(True),
    ),
)
