"""Execution of threads: the warps of a batch of CTAs run the same basic block together whenever they can.

Each thread is at some block. The lowest block any thread is at runs next, for all threads that are at it; a
mask says which when they are not all. Blocks are ordered so that threads which parted meet again (`flow.py`).
CTAs that go a way of their own for long are split off into a batch of their own.
"""

from collections import deque

import numpy as np

from profscope.emulator.arrays import Array
from profscope.emulator.costs import BARRIER_CYCLES
from profscope.emulator.machine.batch import Batch, compact
from profscope.emulator.machine.block import Site, TranslatedBlock
from profscope.errors import HangError

__all__ = ["QUANTUM", "check_length", "release", "run", "step", "step_or_split"]

QUANTUM = 256  # blocks a batch runs before another has its turn; CTAs that wait for each other need turns


def run(batch: Batch) -> list[Batch]:
    """Run until all threads have ended, in turns where parts were split off. Returns the parts."""
    queue = deque([batch])
    done: list[Batch] = []
    while queue:
        for part in turn(queue.popleft()):
            (done if part.is_done else queue).append(part)
    return done


def turn(batch: Batch) -> list[Batch]:
    """Run blocks until all threads have ended or the turn is over. Returns the batch, or its parts."""
    for _ in range(QUANTUM):
        if not batch.at:
            if not batch.waiting:
                return [batch]
            release(batch)
        parts = step_or_split(batch, min(batch.at))
        if parts:
            return parts
    check_length(batch)
    return [batch]


def step_or_split(batch: Batch, number: int) -> list[Batch]:
    """Run block `number` for all threads that are there; or, where CTAs part ways, return their batches."""
    if len(batch.at) + len(batch.waiting) > 1:
        parts = split(batch, number)
        if parts:
            return parts
    step(batch, number, batch.at.pop(number))
    return []


def step(batch: Batch, number: int, mask: Array | None) -> None:
    """Run block `number` for the threads of `mask`, None for all, and bring them to what comes next."""
    block = batch.grid.blocks[number]
    condition = block.run(batch, batch.registers, mask)
    batch.steps += 1
    threads = batch.size if mask is None else int(mask.sum()) * (batch.size // mask.size)
    batch.grid.device.lane_instructions += block.instructions * threads
    if batch.counts is not None:
        batch.counts.block(number, mask, batch.shape, threads)
    if block.end == "jump":
        arrive(batch.at, block.next, mask)
    elif block.end == "branch":
        branch(batch, number, condition, mask)
    elif block.end == "barrier":
        arrive(batch.waiting, number, mask)
    elif block.end == "switch":
        switch(batch, block, condition, mask)


def check_length(batch: Batch) -> None:
    """Raise HangError if the batch seems to run without end."""
    if batch.steps > batch.grid.max_blocks:
        raise HangError(
            f"{batch.grid.name}: CTA {int(batch.ctas[0])} ran {batch.steps} basic blocks without ending; "
            "it may wait for a CTA that has not started (raise max_blocks if it is just long)"
        )


def arrive(where: dict[int, Array | None], number: int, mask: Array | None) -> None:
    """Threads of `mask` come to block `number`."""
    if number not in where:
        where[number] = mask
        return
    there = where[number]
    joined = None if mask is None or there is None else mask | there
    where[number] = None if joined is None or joined.all() else joined


def branch(batch: Batch, number: int, condition: Array, mask: Array | None) -> None:
    """Threads of `mask` at block `number` go on at its block for a true or false condition."""
    taken, otherwise = batch.grid.blocks[number].taken, batch.grid.blocks[number].next
    if mask is None:
        yes, no = condition, ~condition
        if yes.all():
            arrive(batch.at, taken, None)
            return
        if no.all():
            arrive(batch.at, otherwise, None)
            return
    else:
        yes, no = mask & condition, mask & ~condition
    if batch.counts is not None:
        batch.counts.branch(number, yes, no, batch.shape)
    for target, part in ((taken, yes), (otherwise, no)):
        if part.any():
            arrive(batch.at, target, compact(part))


def switch(batch: Batch, block: TranslatedBlock, index: Array, mask: Array | None) -> None:
    """Threads of `mask` go on at the target that `index` counts, or after the switch where it is -1."""
    unreached = np.broadcast_to(np.True_ if mask is None else mask, batch.shape)
    for value, number in (
        enumerate(block.targets) if block.next < 0 else enumerate((block.next, *block.targets), -1)
    ):
        part = unreached & (index == value)
        if part.any():
            arrive(batch.at, number, compact(part))
            unreached = unreached & ~part
    if unreached.any():
        assert block.site is not None
        raise batch.error(
            block.site, f"no label for the index in a list of {len(block.targets)}", unreached, None
        )


def release(batch: Batch) -> None:
    """All threads that have not ended wait at barriers: let those go on whose barrier is complete."""
    blocks = batch.grid.blocks
    arrived: dict[int, list[tuple[int, Array]]] = {}
    everyone = np.zeros(batch.shape, np.bool_)
    for number, mask in batch.waiting.items():
        full = np.broadcast_to(np.True_ if mask is None else mask, batch.shape)
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
        align_clocks(batch, [(blocks[number].site, full & chosen) for number, full in places])
        for number, full in places:
            stay = full & ~chosen
            batch.waiting.pop(number)
            if stay.any():
                batch.waiting[number] = stay
            go = full & chosen
            if go.any():
                arrive(batch.at, blocks[number].next, compact(go))
    if not freed:
        number, mask = next(iter(batch.waiting.items()))
        site = blocks[number].site
        assert site is not None
        full = np.broadcast_to(np.True_ if mask is None else mask, batch.shape)
        raise HangError(str(batch.error(site, "deadlock: not all threads come to this barrier", full, None)))


def align_clocks(batch: Batch, places: list[tuple[Site | None, Array]]) -> None:
    """The warps at a barrier go on when the last of them has come. places: the instructions at which they
    are, and masks."""
    together = np.logical_or.reduce([mask for _, mask in places]).any(axis=2, keepdims=True)
    latest = np.where(together, batch.clocks, -1).max(axis=1, keepdims=True)
    before, batch.clocks = batch.clocks, np.where(together, latest + BARRIER_CYCLES, batch.clocks)
    if batch.counts is not None:
        waited = (batch.clocks - before)[..., 1:]
        for site, mask in places:
            if site is not None and site.counted >= 0:
                batch.counts.delay(site.counted, int(waited[mask.any(axis=2, keepdims=True)].sum()))


def split(batch: Batch, number: int) -> list[Batch]:
    """CTAs with threads at block `number`, and those without, if the former are few or alone for long."""
    mask = batch.at[number]
    if mask is None or len(batch.ctas) == 1:
        return []
    here = np.broadcast_to(mask.any(axis=(1, 2)), len(batch.ctas))
    count = int(here.sum())
    if count == len(batch.ctas) or (2 * count > len(batch.ctas) and (batch.steps + 1) % QUANTUM):
        return []
    return [batch.take(np.flatnonzero(here)), batch.take(np.flatnonzero(~here))]
