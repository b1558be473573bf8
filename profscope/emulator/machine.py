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
from profscope.emulator.memory import GlobalMemory
from profscope.emulator.opcodes.table import Array, describe_instruction
from profscope.emulator.shared_checks import SharedChecks
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
        """Run blocks until all threads have ended or the turn is over. Returns itself, or its parts."""
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
        """All threads that have not ended wait at barriers: let those go on whose barrier is complete."""
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
        """CTAs with threads at block `number`, and those without, if the former are few or alone for long."""
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

    def parameter(self, index: int, dtype: np.dtype[Any]) -> Array:
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
    done: list[Batch] = []
    while queue:
        for part in queue.popleft().run():
            (done if part.is_done else queue).append(part)
    return done
