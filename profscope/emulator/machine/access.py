"""Loads, stores, copies and atomics of a batch of CTAs, in every state space, with all their checks."""

from collections.abc import Callable
from typing import Any

import numpy as np

from profscope.emulator.arrays import Array, DType
from profscope.emulator.costs import SECTORS_PER_CYCLE
from profscope.emulator.machine.batch import Batch
from profscope.emulator.machine.block import Site
from profscope.emulator.machine.counts import access_rows
from profscope.emulator.machine.memory import (
    LOCAL_WINDOW,
    SHARED_WINDOW,
    MemoryViolationError,
    combine_in_turn,
)
from profscope.emulator.machine.transactions import sectors, wavefronts

__all__ = ["atomic", "charge_access", "copy_async", "load", "store"]


ITEM: dict[int, DType] = {
    1: np.dtype(np.uint8),
    2: np.dtype(np.int16),
    4: np.dtype(np.int32),
    8: np.dtype(np.int64),
    16: np.dtype(np.complex128),
}


def _shift(size: int) -> int:
    return size.bit_length() - 1


def load(
    batch: Batch,
    space: str,
    mask: Array | None,
    site: Site,
    where: Array,
    offset: int,
    dtype: DType,
    count: int,
) -> Any:
    """`count` consecutive elements of `dtype` from each thread's address; 0 for threads not active."""
    size = dtype.itemsize * count
    shape = where.shape
    if mask is not None:
        shape = np.broadcast_shapes(where.shape, mask.shape) if space == "global" else batch.shape
        chosen = np.broadcast_to(mask, shape)
        if not chosen.any():
            zero = np.zeros((1, 1, 1), dtype)
            return zero if count == 1 else (zero,) * count
        rows = gather(batch, space, site, where, offset, size, chosen)
        loaded = np.zeros((*shape, size), np.uint8)
        loaded[chosen] = rows.view(np.uint8).reshape(-1, size)
    else:
        rows = gather(batch, space, site, where, offset, size, None)
        if count == 1:
            return rows.view(dtype)
        loaded = rows.view(np.uint8).reshape(*rows.shape, size)
    elements = loaded.view(dtype)
    if count == 1:
        return elements[..., 0]
    return tuple(elements[..., i] for i in range(count))


def charge_access(
    batch: Batch, space: str, mask: Array | None, site: Site, where: Array, offset: int, size: int
) -> None:
    """Charge warps what an access takes of the memory, and count it. Accesses of records are free."""
    cycles = access_cycles(batch, space, mask, site, where, offset, size)
    if cycles is not None:
        batch.delay(site, cycles)


def access_cycles(
    batch: Batch, space: str, mask: Array | None, site: Site, where: Array, offset: int, size: int
) -> Array | None:
    """For how long an access keeps the SM's load/store unit busy, by warp; None if it is not charged. It is
    counted, if anybody wants to know."""
    if site.counted < 0 or (mask is not None and not mask.any()):
        return None
    if space == "generic":
        chosen = None if mask is None else np.broadcast_to(mask, batch.shape)
        space, offset = resolve(batch, site, where, offset, chosen)
    counts = batch.counts
    if space == "local" and counts is None:
        return None
    rows, active, axes = access_rows(where, mask, batch.shape, space)
    times = batch.shape[0] * batch.shape[1] // len(rows)
    if space == "local" and counts is not None:
        counts.local(site.counted, rows, active, times, offset, size)
        return None
    figures = (sectors if space == "global" else wavefronts)(rows, offset, active, size)
    if counts is not None:
        counts.access(site.counted, space, figures, times)
        if space == "global":
            touch(batch, site, rows + np.int64(offset), active, axes[0])
    cycles = -(-figures[0] // SECTORS_PER_CYCLE) if space == "global" else figures[0]
    return cycles.reshape(*axes, 1)


def touch(batch: Batch, site: Site, rows: Array, active: Array | None, ctas: int) -> None:
    """Mark accessed memory as touched. rows: addresses, as of `access_rows`, of so many CTAs; one CTA stands
    for all of the batch."""
    assert batch.counts is not None
    numbers = None
    if ctas == len(batch.ctas):
        numbers = np.broadcast_to(np.repeat(batch.ctas, len(rows) // ctas)[:, None], rows.shape)
        numbers = numbers.reshape(-1) if active is None else numbers[active]
    chosen = rows.reshape(-1) if active is None else rows[active]
    name, adopts = site.instruction.opcode, not site.pointers
    if not name.startswith("st"):  # an atomic loads, too
        batch.counts.touched.mark(chosen, numbers, stored=False, adopts=adopts)
    if not name.startswith(("ld", "cp")):
        batch.counts.touched.mark(chosen, numbers, stored=True, adopts=adopts)


def gather(
    batch: Batch, space: str, site: Site, where: Array, offset: int, size: int, chosen: Array | None
) -> Array:
    """One item of `size` bytes for each address; for each chosen one, flat, if `chosen` is given."""
    if space == "generic":
        space, offset = resolve(batch, site, where, offset, chosen)
    if space == "shared":
        return gather_shared(batch, site, where, offset, size, chosen)
    if space == "local":
        view, index = local_index(batch, site, where, offset, size, chosen)
        return view[index]
    addresses = where if chosen is None else np.broadcast_to(where, chosen.shape)[chosen]
    relative = global_offsets(batch, site, addresses, offset, size, chosen)
    relative >>= _shift(size)  # nobody else has it
    return batch.memory.views[size].take(relative)


def store(
    batch: Batch,
    space: str,
    mask: Array | None,
    site: Site,
    where: Array,
    offset: int,
    dtype: DType,
    data: Any,
) -> None:
    """Write each thread's elements; where threads write the same place, the last one's stay."""
    size = dtype.itemsize * len(data)
    charge_access(batch, space, mask, site, where, offset, size)
    shape = np.broadcast_shapes(where.shape, *(d.shape for d in data))
    chosen = None
    if mask is not None:
        shape = np.broadcast_shapes(shape, mask.shape) if space == "global" else batch.shape
        chosen = np.broadcast_to(mask, shape)
        if not chosen.any():
            return
    if len(data) == 1:
        value = data[0]
    else:
        value = np.empty((*shape, len(data)), dtype)
        for i, part in enumerate(data):
            value[..., i] = part
        value = value.view(ITEM[size])[..., 0]
    if space == "generic":
        space, offset = resolve(batch, site, where, offset, chosen)
    if space == "shared":
        scatter_shared(batch, site, where, offset, size, chosen, value)
        return
    if chosen is not None:
        value = np.broadcast_to(value, shape)[chosen]
    if space == "local":
        view, index = local_index(batch, site, where, offset, size, chosen)
        view[index] = value.view(view.dtype) if value.dtype != view.dtype else value
        return
    addresses = where if where.shape == shape else np.broadcast_to(where, shape)
    addresses = addresses if chosen is None else addresses[chosen]
    relative = global_offsets(batch, site, addresses, offset, size, chosen)
    view = batch.memory.views[size]
    relative >>= _shift(size)
    view[relative] = value.view(view.dtype) if value.dtype != view.dtype else value


def global_offsets(
    batch: Batch, site: Site, addresses: Array, offset: int, size: int, chosen: Array | None
) -> Array:
    try:
        return batch.memory.offsets(addresses, offset, size, site.pointers)
    except MemoryViolationError as violation:
        bad = violation.bad
        if chosen is not None:
            spread = np.zeros(chosen.shape, np.bool_)
            spread[chosen] = bad
            bad = spread
        raise batch.error(site, str(violation), bad, None) from None


def resolve(batch: Batch, site: Site, where: Array, offset: int, chosen: Array | None) -> tuple[str, int]:
    """The state space of generic addresses, which must all be in one, and the offset to apply there."""
    addresses = where if chosen is None else np.broadcast_to(where, chosen.shape)[chosen]
    low, high = int(addresses.min()), int(addresses.max())
    if high < SHARED_WINDOW:
        return "global", offset
    if low >= LOCAL_WINDOW:
        return "local", offset - LOCAL_WINDOW
    if low >= SHARED_WINDOW and high < LOCAL_WINDOW:
        return "shared", offset - SHARED_WINDOW
    raise batch.error(
        site, "generic addresses of several state spaces in one access", np.ones((1, 1, 1), bool), chosen
    )


# shared memory: every CTA's own, so an address without a CTA axis means that place in each


def shared_index(
    batch: Batch, site: Site, where: Array, offset: int, size: int, chosen: Array | None
) -> Array:
    at = where + np.int64(offset)
    checked = at if chosen is None else np.broadcast_to(at, chosen.shape)[chosen]
    bits = int(np.bitwise_or.reduce(checked, axis=None))  # negative if any address is
    if bits < 0 or int(checked.max()) + size > batch.shared.shape[1]:
        bad = (at < 0) | (at + size > batch.shared.shape[1])
        first = checked[(checked < 0) | (checked + size > batch.shared.shape[1])][0]
        text = (
            f"out of bounds: {size} bytes at offset {first} of {batch.shared.shape[1]} bytes of shared memory"
        )
        raise batch.error(site, text, bad, chosen)
    if bits & (size - 1):
        raise batch.error(
            site, f"misaligned address: {size} bytes of shared memory", at & (size - 1) != 0, chosen
        )
    return at >> _shift(size)


def gather_shared(
    batch: Batch, site: Site, where: Array, offset: int, size: int, chosen: Array | None
) -> Array:
    index = shared_index(batch, site, where, offset, size, chosen)
    view = batch.shared.view(ITEM[size])
    if chosen is None:
        if index.shape[0] == 1:
            return view.take(index[0], axis=1)
        return view.reshape(-1).take(index + cta_offsets(batch, view))
    return view.reshape(-1).take(
        np.broadcast_to(index + cta_offsets(batch, view), batch.shape)[over_batch(batch, chosen)]
    )


def scatter_shared(
    batch: Batch, site: Site, where: Array, offset: int, size: int, chosen: Array | None, value: Array
) -> None:
    index = shared_index(batch, site, where, offset, size, chosen)
    view = batch.shared.view(ITEM[size])
    value = value.view(view.dtype) if value.dtype != view.dtype else value
    if chosen is None and index.shape[0] == 1:
        shape = np.broadcast_shapes(index.shape, value.shape)
        view[:, np.broadcast_to(index[0], shape[1:])] = value
        return
    flat = view.reshape(-1)
    index = index + cta_offsets(batch, view)
    if chosen is None:
        shape = np.broadcast_shapes(index.shape, value.shape)
        flat[np.broadcast_to(index, shape)] = np.broadcast_to(value, shape)
    else:
        full = over_batch(batch, chosen)
        flat[np.broadcast_to(index, batch.shape)[full]] = np.broadcast_to(value, batch.shape)[full]


def over_batch(batch: Batch, chosen: Array) -> Array:
    return np.broadcast_to(chosen, batch.shape)


def cta_offsets(batch: Batch, view: Array) -> Array:
    return np.arange(0, view.size, view.shape[1]).reshape(-1, 1, 1)


def local_index(
    batch: Batch, site: Site, where: Array, offset: int, size: int, chosen: Array | None
) -> tuple[Array, Array]:
    """The view of all threads' local memory, and where in it each (chosen) thread's address is."""
    at = np.broadcast_to(where + np.int64(offset), batch.shape if chosen is None else chosen.shape)
    at = np.broadcast_to(at, batch.shape)
    full = None if chosen is None else over_batch(batch, chosen)
    checked = at if full is None else at[full]
    limit = batch.local.shape[-1]
    if int(checked.min()) < 0 or int(checked.max()) + size > limit:
        raise batch.error(
            site, f"out of bounds of {limit} bytes of local memory", (at < 0) | (at + size > limit), full
        )
    view = batch.local.reshape(-1).view(ITEM[size])
    thread = np.arange(0, batch.local.size, limit).reshape(batch.shape)
    index = (at + thread) >> _shift(size)
    return view, index if full is None else index[full]


def copy_async(
    batch: Batch, mask: Array | None, site: Site, into: Array, into_offset: int, where: Array,
    offset: int, size: int,
    kept: Array | None,
) -> None:  # fmt: skip
    """Global to shared memory; only the first `kept` bytes of each item are read, the rest is zero."""
    item = ITEM[size]
    active = np.broadcast_to(np.True_ if mask is None else mask, batch.shape)
    if not active.any():
        return
    written = access_cycles(batch, "shared", mask, site, into, into_offset, size)
    reads = mask if kept is None else batch.join(mask, kept > 0)
    read = access_cycles(batch, "global", reads, site, where, offset, size)
    if written is not None:  # what is written arrives while more is read
        batch.delay(site, written if read is None else np.maximum(written, read))
    if kept is not None and not (kept == size).all():
        partial = active & (kept > 0) & (kept < size)
        if partial.any():
            raise batch.error(site, "source sizes other than zero and all are not supported", partial, None)
        wanted = active & (kept > 0)
        value = np.zeros(batch.shape, item)
        if wanted.any():
            value[wanted] = gather(batch, "global", site, where, offset, size, wanted).view(item)
    else:
        value = gather(batch, "global", site, where, offset, size, None if mask is None else active)
        if mask is not None:
            spread = np.zeros(batch.shape, item)
            spread[active] = value.view(item)
            value = spread
    scatter_shared(batch, site, into, into_offset, size, None if mask is None else active, value)


def atomic(
    batch: Batch, space: str, mask: Array | None, site: Site, where: Array, offset: int, dtype: DType,
    combine: Callable[..., Array], data: Any, wants_old: bool,
) -> Array:  # fmt: skip
    """Each active thread in turn combines its data with memory; returns what each found there."""
    full = np.broadcast_to(np.True_ if mask is None else mask, batch.shape)
    size = dtype.itemsize
    old = np.zeros(batch.shape, dtype)
    if not full.any():
        return old
    in_space, from_start = space, offset
    if space == "generic":
        space, offset = resolve(batch, site, where, offset, full)
    if space == "shared":
        index = shared_index(batch, site, where, offset, size, full)
        view: Array = batch.shared.view(ITEM[size])
        places = np.broadcast_to(index + cta_offsets(batch, view), batch.shape)[full]
        view = view.reshape(-1)
    else:
        addresses = np.broadcast_to(where, batch.shape)[full]
        places = global_offsets(batch, site, addresses, offset, size, full) >> _shift(size)
        view = batch.memory.views[size]
    values = [np.broadcast_to(d, batch.shape)[full] for d in data]
    order = turns(batch, full)
    if order is not None:
        places, values = places[order], [v[order] for v in values]
    before = combine_in_turn(view.view(dtype), places, combine, values, wants_old)
    old[full] = before if order is None else before[np.argsort(order)]
    charge_access(batch, in_space, mask, site, where, from_start, size)  # it may move the clocks
    return old


def turns(batch: Batch, full: Array) -> Array | None:
    """The order in which the threads of `full` take turns, if it is not that of their numbers."""
    if not batch.grid.is_ordered or (batch.now == batch.now[0, 0]).all():
        return None
    return np.argsort(np.broadcast_to(batch.now, batch.shape)[full], kind="stable")
