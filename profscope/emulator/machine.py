"""The machine: a batch of CTAs whose warps run the same basic block at the same time wherever they can.

Each thread is at some block. The lowest block any thread is at runs next, for all threads that are at it; a
mask says which when they are not all. Blocks are ordered so that threads which parted meet again (`flow.py`).
CTAs that go a way of their own for long are split off into a batch of their own.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from profscope.emulator.costs import BARRIER_CYCLES, COSTS, Cost
from profscope.emulator.memory import GlobalMemory, Violation
from profscope.emulator.opcodes.convert import LOCAL_WINDOW, SHARED_WINDOW
from profscope.emulator.opcodes.table import Array, describe_instruction
from profscope.emulator.shared_checks import SharedChecks
from profscope.emulator.text import format_c, read_c_string
from profscope.emulator.translate import Site
from profscope.errors import EmulatorError

if TYPE_CHECKING:
    from profscope.emulator.launch import Launch

__all__ = ["Batch", "run"]

LANES = 32
QUANTUM = 256  # blocks a batch runs before another has its turn; CTAs that wait for each other need turns
GROUPS = 16  # asynchronous copy groups a warp remembers


class Batch:
    """CTAs of one launch, by linear number, with all their state.

    `registers[i]` are arrays as in `opcodes/table.py`; `clocks` is (CTAs, warps, 1), cycles since the launch
    began; `shared` is (CTAs, bytes); `at` maps blocks to the mask of the threads there, None for all.
    """

    def __init__(self, launch: "Launch", ctas: Array, start_cycles: Array, sms: Array) -> None:
        self.launch = launch
        self.memory: GlobalMemory = launch.memory
        self.ctas = ctas
        self.sms = sms
        self.shape = (len(ctas), launch.warps, LANES)
        self.size = len(ctas) * launch.warps * LANES
        self.registers = list(launch.program.initial)
        self.clocks = np.repeat(start_cycles.astype(np.int64).reshape(-1, 1, 1), launch.warps, axis=1)
        self.shared = np.zeros((len(ctas), launch.shared_bytes), np.uint8)
        self.checks = SharedChecks.of(*self.shared.shape) if launch.device.model.check_shared else None
        self.local = np.zeros((*self.shape, launch.program.graph.local_bytes), np.uint8)
        self.groups = np.zeros((*self.shape[:2], GROUPS), np.int64)
        self.at: dict[int, Array | None] = {0: None}
        self.waiting: dict[int, Array | None] = {}  # at the barrier that ends a block
        self.memos: dict[Any, tuple[Any, Array]] = {}
        self.special = launch.special(ctas, sms)
        self.steps = 0

    # --- running ---

    def run(self) -> "list[Batch]":
        """Run blocks until all threads have ended, or a turn's worth. Returns itself, or what it was split into."""
        blocks = self.launch.program.blocks
        for _ in range(QUANTUM):
            if not self.at:
                if not self.waiting:
                    return [self]
                self.release()
            number = min(self.at)
            if len(self.at) + len(self.waiting) > 1:
                parts = self.split(number)
                if parts:
                    return parts
            mask = self.at.pop(number)
            block = blocks[number]
            condition = block.run(self, self.registers, mask)
            self.steps += 1
            threads = self.size if mask is None else int(mask.sum()) * (self.size // mask.size)
            self.launch.device.lane_instructions += block.instructions * threads
            self.memos.clear()
            if block.end == "jump":
                self.arrive(self.at, block.next, mask)
            elif block.end == "branch":
                self.branch(block.taken, block.next, condition, mask)
            elif block.end == "barrier":
                self.arrive(self.waiting, number, mask)
        if self.steps > self.launch.max_blocks:
            raise EmulatorError(
                f"{self.launch.name}: CTA {int(self.ctas[0])} ran {self.steps} basic blocks without ending; "
                "it may wait for a CTA that has not started (raise max_blocks if it is just long)"
            )
        return [self]

    @property
    def is_done(self) -> bool:
        return not self.at and not self.waiting

    def arrive(self, where: dict[int, Array | None], number: int, mask: Array | None) -> None:
        """Threads of `mask` come to block `number`."""
        if number not in where:
            where[number] = mask
            return
        there = where[number]
        joined = None if mask is None or there is None else mask | there
        where[number] = None if joined is None or joined.all() else joined

    def branch(self, taken: int, otherwise: int, condition: Array, mask: Array | None) -> None:
        if mask is None:
            yes, no = condition, ~condition
            if yes.all():
                self.arrive(self.at, taken, None)
                return
            if no.all():
                self.arrive(self.at, otherwise, None)
                return
        else:
            yes, no = mask & condition, mask & ~condition
        for number, part in ((taken, yes), (otherwise, no)):
            if part.any():
                self.arrive(self.at, number, _compact(part))

    def release(self) -> None:
        """All threads that have not ended wait at barriers: let those on whose barrier all have arrived go on."""
        blocks = self.launch.program.blocks
        arrived: dict[int, list[tuple[int, Array]]] = {}
        everyone = np.zeros(self.shape, np.bool_)
        for number, mask in self.waiting.items():
            full = np.broadcast_to(np.True_ if mask is None else mask, self.shape)
            arrived.setdefault(blocks[number].barrier[0], []).append((number, full))
            everyone |= full
        alive = everyone.sum(axis=(1, 2))
        freed = False
        for places in arrived.values():
            count = sum(full.sum(axis=(1, 2)) for _, full in places)
            expected = max(blocks[number].barrier[1] for number, _ in places) or alive
            complete = (count == expected) & (count > 0)
            if not complete.any():
                continue
            freed = True
            chosen = complete.reshape(-1, 1, 1)
            if self.checks is not None:
                self.checks.barrier(complete)
            self.align_clocks([full & chosen for _, full in places])
            for number, full in places:
                stay = full & ~chosen
                self.waiting.pop(number)
                if stay.any():
                    self.waiting[number] = stay
                go = full & chosen
                if go.any():
                    self.arrive(self.at, blocks[number].next, _compact(go))
        if not freed:
            number, mask = next(iter(self.waiting.items()))
            site = blocks[number].site
            assert site is not None
            full = np.broadcast_to(np.True_ if mask is None else mask, self.shape)
            raise self.error(site, "deadlock: not all threads come to this barrier", full, None)

    def align_clocks(self, masks: list[Array]) -> None:
        """The warps at a barrier go on when the last of them has come."""
        together = np.logical_or.reduce(masks).any(axis=2, keepdims=True)
        latest = np.where(together, self.clocks, -1).max(axis=1, keepdims=True)
        self.clocks = np.where(together, latest + BARRIER_CYCLES, self.clocks)

    # --- splitting ---

    def split(self, number: int) -> "list[Batch]":
        """CTAs with threads at block `number`, and those without, if the former are few or run alone for long."""
        mask = self.at[number]
        if mask is None or len(self.ctas) == 1:
            return []
        here = np.broadcast_to(mask.any(axis=(1, 2)), len(self.ctas))
        count = int(here.sum())
        if count == len(self.ctas) or (2 * count > len(self.ctas) and (self.steps + 1) % QUANTUM):
            return []
        return [self.take(np.flatnonzero(here)), self.take(np.flatnonzero(~here))]

    def take(self, chosen: Array) -> "Batch":
        """The batch of some of the CTAs."""
        part = object.__new__(Batch)
        part.__dict__.update(self.__dict__)
        total = len(self.ctas)

        def pick(array: Array) -> Array:
            return array[chosen] if array.shape[0] == total else array

        part.ctas, part.sms = self.ctas[chosen], self.sms[chosen]
        part.shape = (len(chosen), *self.shape[1:])
        part.size = len(chosen) * self.shape[1] * LANES
        part.registers = [pick(r) for r in self.registers]
        part.clocks, part.shared, part.local = self.clocks[chosen], self.shared[chosen], self.local[chosen]
        part.groups = self.groups[chosen]
        part.checks = self.checks and self.checks.take(chosen)
        part.special = self.launch.special(part.ctas, part.sms)
        part.memos = {}

        def masks(places: dict[int, Array | None]) -> dict[int, Array | None]:
            found = {n: None if m is None else pick(m) for n, m in places.items()}
            return {n: m if m is None else _compact(m) for n, m in found.items() if m is None or m.any()}

        part.at, part.waiting = masks(self.at), masks(self.waiting)
        return part

    # --- what translated blocks call ---

    def join(self, mask: Array | None, predicate: Array) -> Array | None:
        """The threads of `mask` whose predicate is true; `mask` itself if all of them."""
        if predicate.all():
            return mask
        return predicate if mask is None else mask & predicate

    def parameter(self, index: int, dtype: np.dtype) -> Array:
        return self.launch.parameters[index].view(dtype)[..., :1]

    def memo(self, key: Any, sources: Any, make: Callable[[], Array]) -> Array:
        """`make()`, once for the same arrays in a block."""
        if key not in self.memos:
            self.memos[key] = (sources, make())
        return self.memos[key][1]

    def flat(self, value: Array) -> Array:
        """A value as (warps of all CTAs, lanes)."""
        return (value if value.shape == self.shape else np.broadcast_to(value, self.shape)).reshape(-1, LANES)

    def threads(self, value: Array) -> Array:
        """The inverse of `flat`."""
        return value.reshape(self.shape)

    # --- clocks ---

    def tick(self, mask: Array | None, cycles: int) -> None:
        if mask is None:
            self.clocks = self.clocks + cycles
        else:
            self.clocks = self.clocks + cycles * mask.any(axis=2, keepdims=True)

    def clock(self, cycles: int) -> Array:
        """%clock64: the SM's counter."""
        return self.launch.sm_clock(self.clocks + cycles, self.sms)

    def clock_low(self, cycles: int) -> Array:
        return self.clock(cycles).astype(np.int32)

    def clock_high(self, cycles: int) -> Array:
        return (self.clock(cycles) >> np.int64(32)).astype(np.int32)

    def globaltimer(self, cycles: int) -> Array:
        return self.launch.globaltimer(self.clocks + cycles)

    def globaltimer_low(self, cycles: int) -> Array:
        return self.globaltimer(cycles).astype(np.int32)

    def globaltimer_high(self, cycles: int) -> Array:
        return (self.globaltimer(cycles) >> np.int64(32)).astype(np.int32)

    def commit_group(self, mask: Array | None) -> None:
        done = self.clocks + COSTS[Cost.ASYNC_COPY].latency
        moved = np.concatenate([done, self.groups[..., :-1]], axis=2)
        self.groups = moved if mask is None else np.where(mask.any(axis=2, keepdims=True), moved, self.groups)

    def wait_group(self, mask: Array | None, pending: int) -> None:
        if pending >= GROUPS:
            return
        until = np.maximum(self.clocks, self.groups[..., pending : pending + 1])
        self.clocks = until if mask is None else np.where(mask.any(axis=2, keepdims=True), until, self.clocks)

    # --- memory ---

    def load(
        self, space: str, mask: Array | None, site: Site, where: Array, offset: int, dtype: np.dtype, count: int
    ) -> Any:
        """`count` consecutive elements of `dtype` from each thread's address; 0 for threads not active."""
        size = dtype.itemsize * count
        shape = where.shape
        if mask is not None:
            shape = np.broadcast_shapes(where.shape, mask.shape) if space == "global" else self.shape
            chosen = np.broadcast_to(mask, shape)
            if not chosen.any():
                zero = np.zeros((1, 1, 1), dtype)
                return zero if count == 1 else (zero,) * count
            rows = self.gather(space, site, where, offset, size, chosen)
            found = np.zeros((*shape, size), np.uint8)
            found[chosen] = rows.view(np.uint8).reshape(-1, size)
        else:
            rows = self.gather(space, site, where, offset, size, None)
            if count == 1:
                return rows.view(dtype)
            found = rows.view(np.uint8).reshape(*rows.shape, size)
        elements = found.view(dtype)
        if count == 1:
            return elements[..., 0]
        return tuple(elements[..., i] for i in range(count))

    def gather(
        self, space: str, site: Site, where: Array, offset: int, size: int, chosen: Array | None
    ) -> Array:
        """One item of `size` bytes for each address; for each chosen one, flat, if `chosen` is given."""
        if space == "generic":
            space, offset = self.resolve(site, where, offset, chosen)
        if space == "shared":
            return self.gather_shared(site, where, offset, size, chosen)
        if space == "local":
            view, index = self.local_index(site, where, offset, size, chosen)
            return view[index]
        addresses = where if chosen is None else np.broadcast_to(where, chosen.shape)[chosen]
        relative = self.global_offsets(site, addresses, offset, size, chosen)
        return self.memory.views[size].take(relative >> _shift(size))

    def store(
        self, space: str, mask: Array | None, site: Site, where: Array, offset: int, dtype: np.dtype, data: Any
    ) -> None:
        """Write each thread's elements; where threads write the same place, the last one's stay."""
        size = dtype.itemsize * len(data)
        shape = np.broadcast_shapes(where.shape, *(d.shape for d in data))
        chosen = None
        if mask is not None:
            shape = np.broadcast_shapes(shape, mask.shape) if space == "global" else self.shape
            chosen = np.broadcast_to(mask, shape)
            if not chosen.any():
                return
        if len(data) == 1:
            value = data[0]
        else:
            value = np.empty((*shape, len(data)), dtype)
            for i, part in enumerate(data):
                value[..., i] = part
            value = value.view(_ITEM[size])[..., 0]
        if space == "generic":
            space, offset = self.resolve(site, where, offset, chosen)
        if space == "shared":
            self.scatter_shared(site, where, offset, size, chosen, value)
            return
        if chosen is not None:
            value = np.broadcast_to(value, shape)[chosen]
        if space == "local":
            view, index = self.local_index(site, where, offset, size, chosen)
            view[index] = value.view(view.dtype) if value.dtype != view.dtype else value
            return
        addresses = np.broadcast_to(where, shape)
        addresses = addresses if chosen is None else addresses[chosen]
        relative = self.global_offsets(site, addresses, offset, size, chosen)
        view = self.memory.views[size]
        view[relative >> _shift(size)] = value.view(view.dtype) if value.dtype != view.dtype else value

    def global_offsets(self, site: Site, addresses: Array, offset: int, size: int, chosen: Array | None) -> Array:
        try:
            return self.memory.offsets(addresses, offset, size, site.pointer)
        except Violation as violation:
            bad = violation.bad
            if chosen is not None:
                spread = np.zeros(chosen.shape, np.bool_)
                spread[chosen] = bad
                bad = spread
            raise self.error(site, str(violation), bad, None) from None

    def resolve(self, site: Site, where: Array, offset: int, chosen: Array | None) -> tuple[str, int]:
        """The state space of generic addresses, which must all be in one, and the offset to apply there."""
        addresses = where if chosen is None else np.broadcast_to(where, chosen.shape)[chosen]
        low, high = int(addresses.min()), int(addresses.max())
        if high < SHARED_WINDOW:
            return "global", offset
        if low >= LOCAL_WINDOW:
            return "local", offset - LOCAL_WINDOW
        if low >= SHARED_WINDOW and high < LOCAL_WINDOW:
            return "shared", offset - SHARED_WINDOW
        raise self.error(site, "generic addresses of several state spaces in one access", np.ones((1, 1, 1), bool), chosen)

    # shared memory: every CTA's own, so an address without a CTA axis means that place in each

    def shared_index(self, site: Site, where: Array, offset: int, size: int, chosen: Array | None) -> Array:
        at = where + np.int64(offset)
        checked = at if chosen is None else np.broadcast_to(at, chosen.shape)[chosen]
        low, high = int(checked.min()), int(checked.max()) + size
        if low < 0 or high > self.shared.shape[1]:
            bad = (at < 0) | (at + size > self.shared.shape[1])
            first = checked[(checked < 0) | (checked + size > self.shared.shape[1])][0]
            text = f"out of bounds: {size} bytes at offset {first} of {self.shared.shape[1]} bytes of shared memory"
            raise self.error(site, text, bad, chosen)
        if size > 1 and int(np.bitwise_or.reduce(checked, axis=None)) & (size - 1):
            raise self.error(site, f"misaligned address: {size} bytes of shared memory", at & (size - 1) != 0, chosen)
        return at >> _shift(size)

    def gather_shared(self, site: Site, where: Array, offset: int, size: int, chosen: Array | None) -> Array:
        index = self.shared_index(site, where, offset, size, chosen)
        view = self.shared.view(_ITEM[size])
        if self.checks is not None:
            self.check_shared(site, index, size, chosen, None)
        if chosen is None:
            if index.shape[0] == 1:
                return view.take(index[0], axis=1)
            return view.reshape(-1).take(index + self.cta_offsets(view))
        return view.reshape(-1).take(np.broadcast_to(index + self.cta_offsets(view), self.shape)[self.full(chosen)])

    def scatter_shared(
        self, site: Site, where: Array, offset: int, size: int, chosen: Array | None, value: Array
    ) -> None:
        index = self.shared_index(site, where, offset, size, chosen)
        view = self.shared.view(_ITEM[size])
        value = value.view(view.dtype) if value.dtype != view.dtype else value
        if self.checks is not None:
            self.check_shared(site, index, size, chosen, value)
        if chosen is None and index.shape[0] == 1:
            shape = np.broadcast_shapes(index.shape, value.shape)
            view[:, np.broadcast_to(index[0], shape[1:])] = value
            return
        flat = view.reshape(-1)
        index = index + self.cta_offsets(view)
        if chosen is None:
            shape = np.broadcast_shapes(index.shape, value.shape)
            flat[np.broadcast_to(index, shape)] = np.broadcast_to(value, shape)
        else:
            full = self.full(chosen)
            flat[np.broadcast_to(index, self.shape)[full]] = np.broadcast_to(value, self.shape)[full]

    def check_shared(self, site: Site, index: Array, size: int, chosen: Array | None, value: Array | None) -> None:
        """Report a race or a read of what was never written; `value` is what is to be written, None for a read."""
        assert self.checks is not None
        shape = (*self.shape[:2], index.shape[2] if index.shape[2] > 1 else LANES)
        active = np.broadcast_to(np.True_ if chosen is None else chosen, shape)
        cta, warp, _ = np.nonzero(active)
        at = (np.broadcast_to(index, shape)[active] << _shift(size)).astype(np.int64)
        if value is None:
            problem = self.checks.read(cta, warp, at, size)
        else:
            new = np.ascontiguousarray(np.broadcast_to(value, shape)[active]).view(np.uint8).reshape(-1, size)
            columns = at[:, None] + np.arange(size)
            problem = self.checks.write(cta, warp, at, size, self.shared[cta[:, None], columns] != new)
        if problem is not None:
            text, which = problem
            bad = np.zeros(shape, np.bool_)
            bad[active] = which
            raise self.error(site, text, bad, None)

    def full(self, chosen: Array) -> Array:
        return np.broadcast_to(chosen, self.shape)

    def cta_offsets(self, view: Array) -> Array:
        return np.arange(0, view.size, view.shape[1]).reshape(-1, 1, 1)

    def local_index(
        self, site: Site, where: Array, offset: int, size: int, chosen: Array | None
    ) -> tuple[Array, Array]:
        """The view of all threads' local memory, and where in it each (chosen) thread's address is."""
        at = np.broadcast_to(where + np.int64(offset), self.shape if chosen is None else chosen.shape)
        at = np.broadcast_to(at, self.shape)
        full = None if chosen is None else self.full(chosen)
        checked = at if full is None else at[full]
        limit = self.local.shape[-1]
        if int(checked.min()) < 0 or int(checked.max()) + size > limit:
            raise self.error(site, f"out of bounds of {limit} bytes of local memory", (at < 0) | (at + size > limit), full)
        view = self.local.reshape(-1).view(_ITEM[size])
        thread = np.arange(0, self.local.size, limit).reshape(self.shape)
        index = (at + thread) >> _shift(size)
        return view, index if full is None else index[full]

    def copy_async(
        self, mask: Array | None, site: Site, into: Array, into_offset: int, where: Array, offset: int, size: int,
        kept: Array | None,
    ) -> None:  # fmt: skip
        """Global to shared memory; only the first `kept` bytes of each item are read, the rest is zero."""
        item = _ITEM[size]
        active = np.broadcast_to(np.True_ if mask is None else mask, self.shape)
        if kept is not None and not (kept == size).all():
            partial = active & (kept > 0) & (kept < size)
            if partial.any():
                raise self.error(site, "source sizes other than zero and all are not supported", partial, None)
            wanted = active & (kept > 0)
            value = np.zeros(self.shape, item)
            if wanted.any():
                value[wanted] = self.gather("global", site, where, offset, size, wanted).view(item)
        else:
            value = self.gather("global", site, where, offset, size, None if mask is None else active)
            if mask is not None:
                spread = np.zeros(self.shape, item)
                spread[active] = value.view(item)
                value = spread
        self.scatter_shared(site, into, into_offset, size, None if mask is None else active, value)

    def atomic(
        self, space: str, mask: Array | None, site: Site, where: Array, offset: int, dtype: np.dtype, name: str,
        combine: Callable[..., Array], data: Any, wants_old: bool,
    ) -> Array:  # fmt: skip
        """Each active thread in turn combines its data with memory; returns what each found there."""
        from profscope.emulator.atomics import combine_in_turn

        full = np.broadcast_to(np.True_ if mask is None else mask, self.shape)
        size = dtype.itemsize
        old = np.zeros(self.shape, dtype)
        if not full.any():
            return old
        if space == "generic":
            space, offset = self.resolve(site, where, offset, full)
        if space == "shared":
            index = self.shared_index(site, where, offset, size, full)
            view = self.shared.view(_ITEM[size])
            places = np.broadcast_to(index + self.cta_offsets(view), self.shape)[full]
            view = view.reshape(-1)
        else:
            addresses = np.broadcast_to(where, self.shape)[full]
            view = self.memory.views[size]
            places = self.global_offsets(site, addresses, offset, size, full) >> _shift(size)
        values = [np.broadcast_to(d, self.shape)[full] for d in data]
        old[full] = combine_in_turn(view.view(dtype), places, name, combine, values, wants_old)
        return old

    # --- reports ---

    def error(self, site: Site, text: str, bad: Array, mask: Array | None) -> EmulatorError:
        """An error that names the kernel, the instruction and the first thread of `bad` (within `mask`)."""
        threads = np.broadcast_to(bad, self.shape)
        if mask is not None:
            threads = threads & np.broadcast_to(mask, self.shape)
        cta, warp, lane = (int(x[0]) for x in np.nonzero(threads)) if threads.any() else (0, 0, 0)
        x, y, z = (int(self.special[f"%ctaid.{axis}"][cta, 0, 0]) for axis in "xyz")
        return EmulatorError(
            f"{self.launch.name}: {text}, in CTA ({x}, {y}, {z}) warp {warp} lane {lane}: "
            f"{describe_instruction(site.instruction)}"
        )

    def text_at(self, address: int, site: Site) -> str:
        return read_c_string(self.memory, address)

    def print(self, mask: Array | None, site: Site, text: Array, values: Array) -> None:
        """vprintf: one line a thread, in the order of their numbers."""
        full = np.broadcast_to(np.True_ if mask is None else mask, self.shape)
        texts, buffers = (np.broadcast_to(a, self.shape) for a in (text, values))
        for cta, warp, lane in zip(*np.nonzero(full), strict=True):
            start = int(buffers[cta, warp, lane]) - LOCAL_WINDOW
            data = self.local[cta, warp, lane][max(start, 0) :].tobytes()
            template = self.text_at(int(texts[cta, warp, lane]), site)
            self.launch.print(format_c(template, data, lambda address: self.text_at(address, site)))

    def assertion_failed(
        self, mask: Array | None, site: Site, message: Array, file: Array, line: Array, function: Array
    ) -> None:
        full = np.broadcast_to(np.True_ if mask is None else mask, self.shape)
        if not full.any():
            return
        said = self.text_at(int(message.flat[0]), site)
        place = f"{self.text_at(int(file.flat[0]), site)}:{int(line.flat[0])}"
        raise self.error(site, f"assertion failed at {place}: {said}", full, None)


_ITEM = {
    1: np.dtype(np.uint8), 2: np.dtype(np.int16), 4: np.dtype(np.int32), 8: np.dtype(np.int64),
    16: np.dtype(np.complex128),
}  # fmt: skip


def _shift(size: int) -> int:
    return size.bit_length() - 1


def _compact(mask: Array) -> Array:
    """The mask without the axes along which it does not vary."""
    for axis in (2, 1):
        if mask.shape[axis] > 1:
            first = mask.take([0], axis=axis)
            if not (mask == first).all():
                return mask
            mask = first
    return mask


def run(batch: Batch) -> list[Batch]:
    """Run until all threads have ended, in turns where parts were split off. Returns the parts."""
    queue = deque([batch])
    done = []
    while queue:
        for part in queue.popleft().run():
            (done if part.is_done else queue).append(part)
    return done
