"""Instructions that exchange values between threads of a warp: shuffles, votes, matrix multiplication."""

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from profscope.emulator.arrays import DTYPES, Array
from profscope.emulator.costs import Cost
from profscope.emulator.machine.batch import Batch
from profscope.emulator.machine.block import Site
from profscope.emulator.opcodes.memory import ATOMICS
from profscope.emulator.opcodes.table import Form, Meaning, items, op

__all__: list[str] = []

LANES = np.arange(32, dtype=np.int32)


def source_lanes(mode: str, b: Array, c: Array) -> tuple[Array, Array]:
    """For each lane, the lane `shfl` reads and whether it is in range, by the PTX manual's formula."""
    clamp, segment = c & 31, (c >> 8) & 31
    highest = (LANES & segment) | (clamp & ~segment)
    lowest = LANES & segment
    if mode == "up":
        lane = LANES - (b & 31)
        valid = lane >= highest
    elif mode == "down":
        lane = LANES + (b & 31)
        valid = lane <= highest
    elif mode == "bfly":
        lane = LANES ^ (b & 31)
        valid = lane <= highest
    else:
        lane = lowest | ((b & 31) & ~segment)
        valid = lane <= highest
    return np.where(valid, lane, LANES), valid


@op("shfl", "sync up down bfly idx", cost=Cost.EXCHANGE)
def shfl(form: Form) -> Meaning:
    """d|p = a of the lane that b and c select; its own, and p false, if that is out of range"""
    mode = form.pick("up", "down", "bfly", "idx")
    targets = items(form.operands[0])
    b, c = form.constant(2), form.constant(3)
    wanted = [(t, kind) for t, kind in zip(targets, ("i32", "pred"), strict=False)]
    source = (form.operands[1], "i32")

    if b is not None and c is not None:
        lane, valid = source_lanes(mode, np.int32(b), np.int32(c))
        in_range = valid.reshape(1, 1, 32)

        def fixed(a: Array) -> Any:
            moved = a if a.shape[-1] == 1 else a.take(lane, axis=-1)
            return moved if len(wanted) == 1 else (moved, in_range)

        return Meaning(fixed, wanted, [source])

    def varying(a: Array, b: Array, c: Array) -> Any:
        lane, valid = source_lanes(mode, b, c)
        a, lane = np.broadcast_arrays(np.broadcast_to(a, (*a.shape[:-1], 32)), lane)
        moved = np.take_along_axis(a, lane.astype(np.intp), axis=-1)
        return moved if len(wanted) == 1 else (moved, valid)

    return Meaning(varying, wanted, [source, (form.operands[2], "i32"), (form.operands[3], "i32")])


def lane_bits(active: Array) -> Array:
    """A boolean per lane to one 32-bit word per warp."""
    packed = np.packbits(active, axis=-1, bitorder="little")
    return np.ascontiguousarray(packed).view(np.int32)


def voters(machine: Batch, mask: Array | None, value: Array) -> Array:
    return np.broadcast_to(value if mask is None else value & mask, machine.shape)


@op("vote", "sync ballot any all uni", cost=Cost.EXCHANGE)
def vote(form: Form) -> Meaning:
    """d = the predicates of the active lanes: as bits (ballot), or whether any, all, all or none are set"""
    mode = form.pick("ballot", "any", "all", "uni")

    def function(machine: Batch, mask: Array | None, _: Site, p: Array) -> Array:
        yes = voters(machine, mask, p)
        if mode == "ballot":
            return lane_bits(yes)
        no = voters(machine, mask, ~p)
        if mode == "any":
            return yes.any(axis=-1, keepdims=True)
        if mode == "all":
            return ~no.any(axis=-1, keepdims=True)
        return ~(yes.any(axis=-1, keepdims=True) & no.any(axis=-1, keepdims=True))

    kind = "i32" if mode == "ballot" else "pred"
    return Meaning(function, [(form.operands[0], kind)], [(form.operands[1], "pred")], on_machine=True)


@op("activemask", cost=Cost.EXCHANGE)
def activemask(form: Form) -> Meaning:
    """d = the active lanes of the warp as bits"""

    def function(machine: Batch, mask: Array | None, _: Site) -> Array:
        return lane_bits(voters(machine, mask, np.ones((1, 1, 1), np.bool_)))

    return Meaning(function, [(form.operands[0], "i32")], [], on_machine=True)


@op("match", "sync any", cost=Cost.EXCHANGE)
def match(form: Form) -> Meaning:
    """d = the lanes that hold the same a, as bits"""

    def function(machine: Batch, mask: Array | None, _: Site, a: Array) -> Array:
        a = np.broadcast_to(a, machine.shape)
        same = voters(machine, mask, np.ones((1, 1, 1), np.bool_))[..., None, :] & (
            a[..., None] == a[..., None, :]
        )
        return lane_bits(same)[..., 0]

    return Meaning(function, [(form.operands[0], "i32")], [(form.operands[1], form.kind)], on_machine=True)


@op("redux", "sync add min max and or xor", cost=Cost.EXCHANGE)
def redux(form: Form) -> Meaning:
    """d = all active lanes' a, combined"""
    name = form.pick("add", "min", "max", "and", "or", "xor")
    combine = cast(np.ufunc, ATOMICS[name])
    dtype = DTYPES[form.kind]
    info = np.iinfo(dtype)
    neutral = {"min": info.max, "max": info.min, "and": -1 if form.kind[0] == "i" else info.max}.get(name, 0)

    def function(machine: Batch, mask: Array | None, _: Site, a: Array) -> Array:
        a = np.broadcast_to(a, machine.shape)
        if mask is not None:
            a = np.where(mask, a, dtype.type(neutral))
        return combine.reduce(a, axis=-1, keepdims=True, dtype=dtype)

    kind = form.kind
    return Meaning(function, [(form.operands[0], kind)], [(form.operands[1], kind)], on_machine=True)


# --- tensor cores ---
#
# A warp holds a matrix in pieces: lane 4 * g + t has `per` consecutive elements from element per * t on, of
# rows g and g + 8 (registers 0 and 1), then of the same rows further right (registers 2 and 3), as the PTX
# manual draws it. A is rows by k, B is stored by columns like a matrix of columns by k, C is rows by columns.


def gather_operand(parts: list[Array], elements: Callable[[Array], Array], tiles: int) -> Array:
    """Registers of an A (`tiles` = 2: rows g and g + 8) or B (1) to matrices (warps, 8 * tiles, k)."""
    first = elements(parts[0])  # (warps, 32, per)
    warps, _, per = first.shape
    steps = len(parts) // tiles
    grid = np.empty((warps, tiles, 8, steps, 4, per), first.dtype)
    for number, part in enumerate(parts):
        values = elements(part) if number else first
        grid[:, number % tiles, :, number // tiles] = values.reshape(warps, 8, 4, per)
    return grid.reshape(warps, tiles * 8, steps * 4 * per)


def result_parts(matrix: Array) -> list[Array]:
    """Views of matrices (warps, rows, 8) as C registers, (warps, 32) each, in their order."""
    warps, rows, _ = matrix.shape
    grid = matrix.reshape(warps, rows // 8, 64)  # lane l holds elements 2 * l and 2 * l + 1 of each
    return [grid[:, tile, element::2] for tile in range(rows // 8) for element in range(2)]


def element_reader(kind: str) -> Callable[[Array], Array]:
    """Registers (warps, 32) of packed elements to (warps, 32, elements), in the type to multiply in."""

    def read(dtype: Any, wide: Any) -> Callable[[Array], Array]:
        return lambda x: np.ascontiguousarray(x).view(dtype).reshape(*x.shape, -1).astype(wide)

    if kind == "bf16":
        return lambda x: (
            np.ascontiguousarray(x).view(np.uint16).reshape(*x.shape, 2).astype(np.uint32) << np.uint32(16)
        ).view(np.float32)
    if kind == "tf32":
        return lambda x: (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)[..., None]
    readers = {
        "f16": read(np.float16, np.float32), "s8": read(np.int8, np.float32),
        "u8": read(np.uint8, np.float32), "f64": lambda x: x[..., None],
    }  # fmt: skip
    return readers[kind]


@op("mma", "sync aligned m16n8k8 m16n8k16 m16n8k32 m16n8k4 m8n8k4 row col satfinite", cost=Cost.MMA)
def mma(form: Form) -> Meaning:
    """D = A * B + C, one small matrix product a warp; float products are summed in float32 (f64: float64)

    Integers are summed exactly; `.satfinite` clamps the int32 result. All lanes of a warp must come to it.
    """
    types = [
        t
        for t in form.instruction.opcode.split(".")
        if t in ("f16", "bf16", "tf32", "f32", "f64", "s8", "u8", "s32")
    ]
    result, a_type, b_type, _ = types
    if a_type not in ("f16", "bf16", "tf32", "f64", "s8", "u8"):
        raise form.unsupported(f"matrix elements of type {a_type} are not supported")
    d, a, b, c = (items(operand) for operand in form.operands)
    a_count, b_count = len(a), len(b)
    read_a, read_b = element_reader(a_type), element_reader(b_type)
    register = "f64" if a_type == "f64" else "i32"
    kinds = {"f32": "f32", "f64": "f64", "s32": "i32", "f16": "i32"}[result]
    tiles = 1 if form.has("m8n8k4") else 2

    def function(machine: Batch, mask: Array | None, site: Site, *registers: Array) -> tuple[Array, ...]:
        if mask is not None:
            missing = mask.any(axis=2, keepdims=True) & ~mask
            if missing.any():
                raise machine.error(site, "a lane does not come to its warp's matrix product", missing, None)
        sources_a, sources_b = registers[:a_count], registers[a_count : a_count + b_count]
        left = gather_operand([machine.flat(r) for r in sources_a], read_a, tiles)
        right = gather_operand([machine.flat(r) for r in sources_b], read_b, 1).transpose(0, 2, 1)
        total = np.matmul(left, right)
        start = [machine.flat(r) for r in registers[a_count + b_count :]]
        if result == "f16":
            halves = [np.ascontiguousarray(r).view(np.float16).reshape(-1, 32, 2) for r in start]
            for part, half in zip(
                result_parts(total), [h[..., i] for h in halves for i in range(2)], strict=True
            ):
                part += half
            sums = [p.astype(np.float16) for p in result_parts(total)]
            pairs = [np.stack(sums[2 * i : 2 * i + 2], axis=-1).view(np.int32)[..., 0] for i in range(2)]
            return tuple(machine.threads(p) for p in pairs)
        if result == "s32":
            exact = [p.astype(np.int64) + r for p, r in zip(result_parts(total), start, strict=True)]
            if form.has("satfinite"):
                exact = [np.clip(s, -(1 << 31), (1 << 31) - 1) for s in exact]
            return tuple(machine.threads(s.astype(np.int32)) for s in exact)
        for part, r in zip(result_parts(total), start, strict=True):
            part += r
        return tuple(machine.threads(p) for p in result_parts(total))

    operands = [(x, register) for x in (*a, *b)] + [(x, kinds) for x in c]
    return Meaning(function, [(x, kinds) for x in d], operands, on_machine=True)
