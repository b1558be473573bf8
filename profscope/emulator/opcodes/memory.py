"""Loads, stores, atomics and asynchronous copies."""

from collections.abc import Callable
from typing import Any

import numpy as np

from profscope.emulator.arrays import DTYPES, Array
from profscope.emulator.costs import Cost
from profscope.emulator.machine import access
from profscope.emulator.machine.batch import Batch
from profscope.emulator.machine.block import Site
from profscope.emulator.opcodes.table import Form, Meaning, items, nothing, op
from profscope.emulator.ptx_syntax import Address, Operand

__all__: list[str] = []

# Cache, ordering and scope qualifiers: memory here is sequentially consistent and has no caches.
HINTS = (
    "relaxed acquire release acq_rel volatile weak cta gpu sys cluster ca cg cs cv lu wb wt nc mmio L1 L2 "
    "unified evict_first evict_last evict_normal no_allocate"
)
SPACES = ("global", "shared", "local", "param", "const")


def space_of(form: Form) -> str:
    """The state space named, or "generic"."""
    return form.pick(*SPACES) or "generic"


def address(form: Form, index: int) -> tuple[tuple[Operand, str], int]:
    """The register (as i64) and the constant offset of an address operand."""
    operand = form.operands[index]
    if not isinstance(operand, Address):
        raise form.unsupported("an address in brackets is expected")
    return (operand.base, "i64"), operand.offset


def integer_kind(kind: str) -> str:
    """Memory holds bits; a register's float view is made when it is used."""
    return {1: "u8", 2: "i16", 4: "i32", 8: "i64"}[
        DTYPES[kind].itemsize if kind not in ("f16x2", "bf16x2") else 4
    ]


@op("ld ldu", HINTS + " global shared local param const v2 v4", cost=Cost.GLOBAL_LOAD)
def ld(form: Form) -> Meaning:
    """d = memory at the address; narrow values are extended to the register by their type's sign"""
    space = space_of(form)
    targets = items(form.operands[0])
    base, offset = address(form, 1)
    narrow = form.kind in ("u8", "i8")
    kind = form.kind if narrow else integer_kind(form.kind if form.kind != "bf16" else "i16")
    if form.instruction.opcode.endswith((".b16", ".u16", ".b32", ".u32")):
        kind = kind.replace("i", "u")  # a wider register gets zeros
    count = len(targets)

    def function(machine: Batch, mask: Array | None, site: Site, where: Array) -> Any:
        size = DTYPES[kind].itemsize * count
        access.charge_access(machine, space, mask, site, where, offset, size)
        return access.load(machine, space, mask, site, where, offset, DTYPES[kind], count)

    return Meaning(function, [(t, kind) for t in targets], [base], on_machine=True)


@op("st", HINTS + " global shared local param v2 v4", cost=Cost.STORE, results=0)
def st(form: Form) -> Meaning:
    """memory at the address = a"""
    space = space_of(form)
    values = items(form.operands[1])
    base, offset = address(form, 0)
    kind = (
        form.kind if form.kind in ("u8", "i8") else integer_kind(form.kind if form.kind != "bf16" else "i16")
    )

    def function(machine: Batch, mask: Array | None, site: Site, where: Array, *data: Array) -> None:
        access.store(machine, space, mask, site, where, offset, DTYPES[kind], data)

    return Meaning(function, [], [base, *((v, kind) for v in values)], on_machine=True)


def wrapping_increment(old: Array, limit: Array) -> Array:
    return np.where(old >= limit, 0, old + np.uint32(1)).astype(np.uint32)


def wrapping_decrement(old: Array, limit: Array) -> Array:
    return np.where((old == 0) | (old > limit), limit, old - np.uint32(1)).astype(np.uint32)


ATOMICS: dict[str, Callable[..., Array]] = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "exch": lambda old, new: new, "inc": wrapping_increment, "dec": wrapping_decrement,
    "cas": lambda old, compare, new: np.where(old == compare, new, old),
}  # fmt: skip


@op("atom", HINTS + " global shared noftz " + " ".join(ATOMICS), cost=Cost.ATOMIC)
def atom(form: Form) -> Meaning:
    """d = memory; memory = memory combined with a (and b); threads take turns in order"""
    base, offset = address(form, 1)
    return read_modify_write(form, [(form.operands[0], form.kind)], base, offset, form.operands[2:])


@op("red", HINTS + " global shared noftz " + " ".join(ATOMICS), cost=Cost.STORE, results=0)
def red(form: Form) -> Meaning:
    """memory = memory combined with a, as `atom` without its result"""
    base, offset = address(form, 0)
    return read_modify_write(form, [], base, offset, form.operands[1:])


def read_modify_write(
    form: Form, results: list[tuple[Operand, str]], base: tuple[Operand, str], offset: int, operands: Any
) -> Meaning:
    space = space_of(form)
    kind = form.kind
    if kind.startswith("bf16"):
        raise form.unsupported("atomics on bfloat16 are not supported")
    if kind == "f16x2":
        raise form.unsupported("packed atomics are not supported")
    combine = ATOMICS[form.pick(*ATOMICS)]

    def function(machine: Batch, mask: Array | None, site: Site, where: Array, *data: Array) -> Any:
        old = access.atomic(
            machine, space, mask, site, where, offset, DTYPES[kind], combine, data, bool(results)
        )
        return old if results else None

    return Meaning(function, results, [base, *((x, kind) for x in operands)], on_machine=True)


@op("cp.async", HINTS + " shared global L2 128B 256B 64B", cost=Cost.ASYNC_COPY, results=0)
def cp_async(form: Form) -> Meaning:
    """shared memory = `size` bytes of global memory; beyond the optional source size, zeros

    The data arrive at once; a real GPU promises them only after `cp.async.wait_group`.
    """
    target, target_offset = address(form, 0)
    source, source_offset = address(form, 1)
    size = form.constant(2)
    if size not in (4, 8, 16):
        raise form.unsupported("the size must be 4, 8 or 16")
    bytes_kept = [(operand, "i32") for operand in form.operands[3:4]]

    def function(
        machine: Batch, mask: Array | None, site: Site, into: Array, where: Array, *kept: Array
    ) -> None:
        access.copy_async(
            machine, mask, site, into, target_offset, where, source_offset, size, kept[0] if kept else None
        )

    return Meaning(function, [], [target, source, *bytes_kept], on_machine=True)


@op("cp.async.commit_group", cost=Cost.WAIT, results=0)
def commit_group(form: Form) -> Meaning:
    """the warp's copies since the last one form a group"""

    def function(machine: Batch, mask: Array | None, site: Site) -> None:
        machine.commit_group(mask)

    return Meaning(function, [], [], on_machine=True, is_sync=True)


@op("cp.async.wait_group cp.async.wait_all", cost=Cost.WAIT, results=0)
def wait_group(form: Form) -> Meaning:
    """wait until at most n of the warp's latest groups are on their way"""
    pending = form.constant(0) if form.operands else 0

    def function(machine: Batch, mask: Array | None, site: Site) -> None:
        machine.wait_group(mask, site, pending or 0)

    return Meaning(function, [], [], on_machine=True, is_sync=True)


@op("ldmatrix", "sync aligned m8n8 x1 x2 x4 trans shared", cost=Cost.MATRIX_LOAD)
def ldmatrix(form: Form) -> Meaning:
    """d... = 8x8 matrices of 16-bit elements; lane 8 * i + r gives the address of row r of matrix i

    Lane l receives the elements 2 * (l % 4) and the next of row l / 4; with `.trans`, of column l / 4.
    """
    targets = items(form.operands[0])
    base, offset = address(form, 1)
    count = len(targets)
    row = np.dtype(np.complex128)  # 16 bytes

    def function(machine: Batch, mask: Array | None, site: Site, where: Array) -> Any:
        lanes = where if where.shape[-1] == 32 else np.repeat(where, 32, axis=-1)
        used = lanes[..., : 8 * count]
        who = None if mask is None else mask[..., : 8 * count]
        access.charge_access(machine, "shared", who, site, used, offset, row.itemsize)
        if mask is not None:  # it speaks of 32 lanes
            used = np.tile(used, 4 // count)
        rows = access.load(machine, "shared", mask, site, used, offset, row, 1)[..., : 8 * count]
        shape = (*rows.shape[:-1], count, 32)
        if form.has("trans"):
            elements = rows.view(np.int16).reshape(*shape[:-1], 8, 8)
            matrices = np.ascontiguousarray(elements.swapaxes(-1, -2)).view(np.int32).reshape(shape)
        else:
            matrices = rows.view(np.int32).reshape(shape)
        parts = tuple(matrices[..., i, :] for i in range(count))
        return parts if count > 1 else parts[0]

    return Meaning(function, [(t, "i32") for t in targets], [base], on_machine=True)


for _names, _modifiers, _cost, _meaning in (
    ("prefetch prefetchu", HINTS + " global", Cost.STORE, "nothing: there are no caches"),
    (
        "membar fence",
        HINTS + " gl sc",
        Cost.WAIT,
        "nothing: memory is sequentially consistent",
    ),
    ("griddepcontrol", "wait launch_dependents", Cost.WAIT, "nothing: launches do not overlap"),
):
    op(_names, _modifiers, cost=_cost, results=0, meaning=_meaning)(nothing)


@op("createpolicy", "fractional L2 evict_first evict_last evict_normal", cost=Cost.MOVE)
def createpolicy(form: Form) -> Meaning:
    """d = 0: there are no caches"""
    return Meaning(lambda: np.zeros((1, 1, 1), np.int64), [(form.operands[0], "i64")], [])
