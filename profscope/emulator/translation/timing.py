"""Issue times of the instructions of a block, and the reasons to wait, for a number of warps on an SM.

A `BlockWriter` leaves the steps of its block; `schedule` goes through them with the rules of `costs.py`, once
as they are and once without those that only serve records: what a recorded kernel takes, and what it would
take without its records.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from profscope.emulator.costs import BARRIER_CYCLES, CTA_LAUNCH_CYCLES, PARTITIONS
from profscope.emulator.machine.block import Schedule, SyncPoint, Wait
from profscope.emulator.translation.graph import Block
from profscope.emulator.translation.ordering import BlockSteps, Issue, Tick

__all__ = ["schedule"]

NEVER = 1 << 40  # cycles to what a block does not lead to
ISSUED = "selected"


@dataclass(frozen=True)
class _Ready:
    """When a register can be read, in cycles since the last tick, what waits for it, and which instruction
    writes it."""

    time: int
    stall: str
    number: int


class _BlockTiming:
    """Goes through the steps of one block. ready: what is on its way from the block before. waits: where the
    kernel's own instructions spend their cycles, by number, reason and cause."""

    def __init__(self, residents: int, ready: dict[str, _Ready]) -> None:
        self.residents = residents
        self.ready = ready
        self.time = 0
        self.ticked = 0  # cycles of the block before the last tick
        self.first_issue = -1
        self.times: dict[int, int] = {}
        self.waits: Counter[tuple[int, str, int]] = Counter()
        self.last = -1

    def run(self, steps: Iterable[Issue | Tick]) -> None:
        for step in steps:
            if isinstance(step, Tick):
                self.tick(step)
            else:
                self.issue(step)

    def issue(self, step: Issue) -> None:
        self.wait_for(step.reads, step.number)
        if self.first_issue < 0:
            self.first_issue = self.ticked + self.time
        issued = self.time
        self.times |= dict.fromkeys(step.clocks, issued)
        self.time += step.issue
        if step.number >= 0:
            self.charge(step)
            self.last = step.number
        for name in step.writes:
            self.ready[name] = _Ready(issued + step.latency, step.stalls.result, step.number)

    def charge(self, step: Issue) -> None:
        """The kernel's own instruction: the cycles that it is issued in, and those of other warps."""
        number, use = step.number, step.use
        others = max(0, -(-self.residents * use.busy // PARTITIONS) - step.issue)
        selected = min(step.issue, max(1, use.slots))
        is_pipe = use.busy > use.slots
        self.waits[number, ISSUED, number] += selected
        self.waits[number, step.stalls.busy, number] += step.issue - selected
        self.waits[number, step.stalls.busy if is_pipe else "not_selected", number] += others
        self.time += others

    def wait_for(self, registers: Iterable[str], number: int) -> None:
        """Wait until registers can be read."""
        latest = max((self.ready[name] for name in registers if name in self.ready), key=_time, default=None)
        if latest is None or latest.time <= self.time:
            return
        # at the end of a block without instructions, what came before it waits
        at = latest.number if number < 0 else number
        self.waits[at, latest.stall, latest.number] += latest.time - self.time
        self.time = latest.time

    def tick(self, step: Tick) -> None:
        self.wait_for(step.needed, self.last)
        self.times[step.time] = self.time
        self.ticked += self.time
        self.ready = {
            name: _Ready(each.time - self.time, each.stall, each.number)
            for name, each in self.ready.items()
            if each.time > self.time
        }
        self.time = 0


def _time(ready: _Ready) -> int:
    return ready.time


def _timings(blocks: Sequence[BlockSteps], residents: int) -> list[_BlockTiming]:
    timings: list[_BlockTiming] = []
    on_its_way: dict[int, dict[str, _Ready]] = {}  # into blocks that follow the one they were cut off from
    for number, each in enumerate(blocks):
        timing = _BlockTiming(residents, on_its_way.pop(number, {}))
        timing.run(each.steps)
        timings.append(timing)
        if each.is_cut:
            on_its_way[each.block.next] = timing.ready
    return timings


def schedule(blocks: Sequence[BlockSteps], residents: int) -> Schedule:
    """The cycles of a kernel's blocks where an SM has `residents` warps, all at the same instruction."""
    timings = _timings(blocks, residents)
    own_timings = timings
    if any(_is_of_records(step) for each in blocks for step in each.steps):
        own_timings = _timings([_without_records(each) for each in blocks], residents)
    ahead = _cycles_to_sync_point(blocks, timings)
    times, own_times = (
        {time: cycles for timing in each for time, cycles in timing.times.items()}
        for each in (timings, own_timings)
    )
    return Schedule(
        residents=residents,
        times=tuple((times[number], own_times.get(number, 0)) for number in range(len(times))),
        sync_points=tuple(
            _sync_point(each, timing, ahead) if each.block.meets else None
            for each, timing in zip(blocks, timings, strict=True)
        ),
        waits=tuple(
            Wait(block, number, stall, blamed, cycles)
            for block, timing in enumerate(own_timings)
            for (number, stall, blamed), cycles in timing.waits.items()
            if cycles
        ),
    )


def _is_of_records(step: Issue | Tick) -> bool:
    return isinstance(step, Issue) and step.number < 0


def _without_records(block: BlockSteps) -> BlockSteps:
    return replace(block, steps=[step for step in block.steps if not _is_of_records(step)])


def _sync_point(steps: BlockSteps, timing: _BlockTiming, ahead: list[int]) -> SyncPoint:
    return SyncPoint(
        issue=timing.first_issue,
        apart=timing.ticked - timing.first_issue + min(ahead[number] for number in steps.block.successors()),
        predicate=steps.predicate,
    )


def _cycles_to_sync_point(blocks: Sequence[BlockSteps], timings: Sequence[_BlockTiming]) -> list[int]:
    """The least cycles from each block's begin to where CTAs meet, or to the start of one in a freed slot."""
    ahead = [NEVER] * len(blocks)

    def cycles(block: Block, timing: _BlockTiming) -> int:
        if block.meets:
            return timing.first_issue
        waiting = BARRIER_CYCLES if block.end == "barrier" else 0
        after = min((ahead[number] for number in block.successors()), default=CTA_LAUNCH_CYCLES)
        return timing.ticked + waiting + after

    changed = True
    while changed:
        new = [
            min(before, cycles(each.block, timing))
            for before, each, timing in zip(ahead, blocks, timings, strict=True)
        ]
        changed = new != ahead
        ahead = new
    return ahead
