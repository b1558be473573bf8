"""CTAs in the order of their clocks, for kernels in which they wait for each other or take turns.

Every batch of CTAs runs by itself up to a sync point with others (`translation/flow.py`). Of the batches
there the one with the earliest clock goes on, after CTAs that start before that clock. So a CTA sees the work
that others have done until then, and a slow CTA gets its turn less often.
"""

import heapq
from itertools import count

import numpy as np

from profscope.emulator.arrays import Array
from profscope.emulator.costs import CTA_LAUNCH_CYCLES
from profscope.emulator.device import Placement
from profscope.emulator.machine.batch import Batch, Grid
from profscope.emulator.machine.block import Schedule, SyncPoint
from profscope.emulator.machine.execute import QUANTUM, check_length, release, step, step_or_split

__all__ = ["Timeline"]

NEVER = np.iinfo(np.int64).max


class Timeline:
    """All CTAs of a launch.

    `late` counts the warps that met others after one whose clock was later, by at most `late_by` cycles.
    """

    def __init__(self, grid: Grid, schedule: Schedule, placement: Placement, most: int) -> None:
        self.grid = grid
        self.schedule = schedule
        self.placement = placement
        self.most = most  # CTAs a batch may have
        self.total = grid.size[0] * grid.size[1] * grid.size[2]
        self.started = 0
        self.slots = np.full(self.total, -1)  # of each CTA
        self.is_free = np.ones(len(placement.free), np.bool_)
        self.queue: list[tuple[int, int, Batch]] = []  # by clock, then in the order they came
        self.serial = count()
        self.now = 0  # the latest clock at which a CTA has met others
        self.late = 0
        self.late_by = 0

    def run(self) -> None:
        """Execute all CTAs; the placement has the ends."""
        while True:
            self.start_due()
            if not self.queue:
                return
            _, _, batch = heapq.heappop(self.queue)
            for part in self.advance(batch):
                self.keep(part)

    # --- CTAs come and go ---

    def start_due(self) -> None:
        """Start CTAs in the slots that are free before anything else can happen."""
        while self.started < self.total:
            free = np.flatnonzero(self.is_free & (self.placement.free[:, 0] <= self.next_clock()))
            if not len(free):
                return
            first = free[np.argsort(self.placement.free[free, 0], kind="stable")][: self.total - self.started]
            chosen = first[: self.most]
            ctas = np.arange(self.started, self.started + len(chosen))
            self.slots[ctas] = chosen
            self.is_free[chosen] = False
            self.started += len(chosen)
            starts = self.placement.free[chosen] + CTA_LAUNCH_CYCLES
            self.keep(Batch(self.grid, self.schedule, ctas, starts, chosen))

    def next_clock(self) -> int:
        return self.queue[0][0] if self.queue else NEVER

    def next_start(self) -> int:
        """No CTA that has not started can run before this cycle."""
        if self.started == self.total or not self.is_free.any():
            return NEVER
        return int(self.placement.free[self.is_free, 0].min()) + CTA_LAUNCH_CYCLES

    def keep(self, batch: Batch) -> None:
        """Insert a batch by its clock, and free the slots of its CTAs that have ended."""
        alive = np.zeros(len(batch.ctas), np.bool_)
        for mask in (*batch.at.values(), *batch.waiting.values()):
            alive |= True if mask is None else mask.any(axis=(1, 2))
        ended = batch.ctas[~alive]
        self.placement.finish(self.slots[ended], batch.clocks[~alive].max(axis=1))
        self.is_free[self.slots[ended]] = True
        if alive.any():
            rest = batch if alive.all() else batch.take(np.flatnonzero(alive))
            heapq.heappush(self.queue, (self.clock(rest), next(self.serial), rest))

    # --- and meet ---

    def clock(self, batch: Batch) -> int:
        """The cycle before which a batch does nothing that others could notice."""
        number = min(batch.at, default=-1)
        if number >= 0 and self.schedule.sync_points[number] is not None:
            first = int(self.sync_clocks(batch, number).min())
            return first if first != NEVER else int(batch.now.min())
        places = batch.at or batch.waiting
        running = [np.True_ if mask is None else mask.any(axis=2, keepdims=True) for mask in places.values()]
        return int(np.where(np.logical_or.reduce(running), batch.now, NEVER).min())

    def sync_clocks(self, batch: Batch, number: int) -> Array:
        """When each warp at block `number` meets others there, (CTAs, warps, 1); NEVER: it takes no part."""
        sync_point = self.schedule.sync_points[number]
        assert sync_point is not None
        active = batch.at[number]
        if sync_point.predicate is not None:
            slot, negated = sync_point.predicate
            predicate = batch.registers[slot]
            active = batch.join(active, ~predicate if negated else predicate)
        clocks = batch.now + sync_point.issue
        return clocks if active is None else np.where(active.any(axis=2, keepdims=True), clocks, NEVER)

    def advance(self, batch: Batch) -> list[Batch]:
        """Run a batch until it ends, parts, has run for long, or meets others whose turn comes first."""
        for _ in range(QUANTUM):
            if not batch.at:
                if not batch.waiting:
                    break
                release(batch)
            number = min(batch.at)
            sync_point = self.schedule.sync_points[number]
            if sync_point is not None:
                batch = self.those_at(batch, number)
                first = self.clock(batch)
                if first > min(self.next_clock(), self.next_start()):
                    break
                batch = self.gather(batch, first + sync_point.apart)
                batch = self.meet(batch, number, sync_point)
                continue
            parts = step_or_split(batch, number)
            if parts:
                return parts
        check_length(batch)
        return [batch]

    def those_at(self, batch: Batch, number: int) -> Batch:
        """The CTAs with threads at block `number`; the others go their own way."""
        mask = batch.at[number]
        here = np.True_ if mask is None else np.broadcast_to(mask.any(axis=(1, 2)), len(batch.ctas))
        return self.choose(batch, here)

    def choose(self, batch: Batch, chosen: Array) -> Batch:
        """The chosen CTAs of a batch; the others are kept for later."""
        if chosen.all():
            return batch
        self.keep(batch.take(np.flatnonzero(~chosen)))
        return batch.take(np.flatnonzero(chosen))

    def gather(self, batch: Batch, end: int) -> Batch:
        """The batch and those next in the queue that are at the same block alone, before the cycle `end`."""
        company = [batch]
        size = len(batch.ctas)
        while is_alone(batch) and self.next_clock() < end:
            _, _, other = self.queue[0]
            size += len(other.ctas)
            if size > self.most or other.at.keys() != batch.at.keys() or not is_alone(other):
                break
            heapq.heappop(self.queue)
            company.append(other)
        return batch if len(company) == 1 else Batch.of(company)

    def meet(self, batch: Batch, number: int, sync_point: SyncPoint) -> Batch:
        """Run the sync point at block `number` for warps that no other warp can precede."""
        clocks = self.sync_clocks(batch, number)
        limit = min(self.next_clock(), self.next_start(), int(clocks.min()) + sync_point.apart - 1)
        idle = clocks == NEVER
        goes = (clocks <= limit) & ~idle
        chosen = goes.any(axis=(1, 2)) | idle.all(axis=(1, 2))
        batch, clocks, goes, idle = self.choose(batch, chosen), clocks[chosen], goes[chosen], idle[chosen]
        self.note(clocks[goes])
        mask = batch.at.pop(number)
        if not (goes | idle).all():
            stay = ~(goes | idle) if mask is None else mask & ~(goes | idle)
            if stay.any():
                batch.at[number] = stay
            mask = goes | idle if mask is None else mask & (goes | idle)
        step(batch, number, mask)
        return batch

    def note(self, clocks: Array) -> None:
        """Warps meet others at these clocks: count those who should have come before others that have."""
        late = self.now - clocks
        if len(clocks):
            self.late += int((late > 0).sum())
            self.late_by = max(self.late_by, int(late.max()))
            self.now = max(self.now, int(clocks.max()))


def is_alone(batch: Batch) -> bool:
    """Whether all threads that have not ended are at one block."""
    return len(batch.at) == 1 and not batch.waiting
