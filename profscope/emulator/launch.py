"""One kernel launch: its grid cut into batches, placed on SMs and run, and the device's clock moved on."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from profscope.emulator.arrays import LANES, Array
from profscope.emulator.device import Device, Placement
from profscope.emulator.machine.batch import Batch, Grid
from profscope.emulator.machine.block import Schedule
from profscope.emulator.machine.counts import LaunchCounts, Totals
from profscope.emulator.machine.execute import run
from profscope.emulator.machine.memory import GlobalMemory
from profscope.emulator.machine.timeline import Timeline
from profscope.emulator.program import Program
from profscope.progress import Steps, working

__all__ = ["Launch"]

BATCH_THREADS = 32768  # a register's array then fits a core's cache, and a large kernel's registers in memory
MAX_BLOCKS = 5_000_000


@dataclass
class Launch:
    """`parameters` are arrays of one element, the bits of each kernel parameter; `grid` counts CTAs.

    One that `is_counted` adds to the device's `counts` of the program, if there are any.
    """

    program: Program
    device: Device
    grid: tuple[int, int, int]
    warps: int
    shared_bytes: int
    memory: GlobalMemory
    parameters: list[Array]
    max_blocks: int = MAX_BLOCKS
    is_counted: bool = False
    steps: Steps = field(default_factory=Steps)

    def __post_init__(self) -> None:
        self.shared_bytes = max(16, (self.shared_bytes + self.program.static_shared + 15) // 16 * 16)

    def run(self) -> None:
        """Execute all CTAs. Raises EmulatorError where a GPU would fault.

        Launches of several threads run one after the other, as in one stream.
        """
        model = self.device.model
        placement = Placement.of(model, self.warps, self.shared_bytes)
        total = self.grid[0] * self.grid[1] * self.grid[2]
        with self.device.turn, working(f"emulating {self.program.name}", total, self.steps):
            begun = self.begin()
            self.run_all(begun, placement)
            self.keep(list(begun.counted.values()))
            self.device.cycles += int(placement.free.max()) + model.cycles(model.launch_overhead_ns)

    def run_all(self, begun: Grid, placement: Placement) -> None:
        """Execute all CTAs and tell the placement when they end."""
        total = self.grid[0] * self.grid[1] * self.grid[2]
        if begun.is_ordered:
            self.run_by_clock(begun, placement)
        elif self.program.reads_clock:
            self.run_in_rounds(begun, total, placement)
        else:
            self.place_afterwards(begun, total, placement)

    def keep(self, counts: Sequence[LaunchCounts]) -> None:
        """Add the counts of the launch, which has ended, to those of its program."""
        if counts and self.device.counts is not None:
            totals = self.device.counts.get(self.program) or Totals(self.program.counted)
            self.device.counts[self.program] = totals.plus(counts)

    def begin(self) -> Grid:
        """What the launch's CTAs share from now on."""
        program = self.program
        return Grid(
            name=program.name,
            size=self.grid,
            warps=self.warps,
            shared_bytes=self.shared_bytes,
            local_bytes=program.graph.local_bytes,
            initial=program.initial,
            parameters=self.parameters,
            memory=self.memory,
            blocks=program.blocks,
            device=self.device,
            begin=self.device.cycles,
            is_ordered=program.graph.is_ordered,
            max_blocks=self.max_blocks,
            counts=program.new_counts if self.is_counted and self.device.counts is not None else None,
        )

    @property
    def batch_ctas(self) -> int:
        return max(1, BATCH_THREADS // (self.warps * LANES))

    def run_by_clock(self, begun: Grid, placement: Placement) -> None:
        """CTAs that wait for each other or take turns do so in the order of their clocks."""
        total = self.grid[0] * self.grid[1] * self.grid[2]
        timeline = Timeline(begun, self.schedule(placement, total), placement, self.batch_ctas)
        with np.errstate(all="ignore"):
            timeline.run()
        if timeline.late:
            self.device.note_late(begun.name, timeline.late, timeline.late_by)

    def schedule(self, placement: Placement, ctas: int) -> Schedule:
        """The cycles of blocks where so many CTAs run in a round."""
        return self.program.schedule(self.warps * placement.ctas_per_sm(ctas))

    def rounds(self, total: int, placement: Placement) -> Iterator[Array]:
        """The CTAs of each round, in which every slot takes one."""
        for first in range(0, total, len(placement.sms)):
            yield np.arange(first, min(total, first + len(placement.sms)))

    def run_in_rounds(self, begun: Grid, total: int, placement: Placement) -> None:
        """A CTA that may read the time starts when the CTA before it in its slot has ended."""
        for ctas in self.rounds(total, placement):
            schedule = self.schedule(placement, len(ctas))
            slots, sms, starts = placement.next_round(len(ctas))
            for part in range(0, len(ctas), self.batch_ctas):
                here = slice(part, part + self.batch_ctas)
                ends = self.execute(begun, schedule, ctas[here], starts[here], sms[here])
                placement.finish(slots[here], ends)

    def place_afterwards(self, begun: Grid, total: int, placement: Placement) -> None:
        """It makes no difference when CTAs run: those of several rounds run together."""
        durations = np.zeros(total, np.int64)
        whole = total // len(placement.sms) * len(placement.sms)
        for first, end in ((0, whole), (whole, total)):
            for part in range(first, end, self.batch_ctas):
                schedule = self.schedule(placement, end - first)
                ctas = np.arange(part, min(end, part + self.batch_ctas))
                nothing = np.zeros(len(ctas), np.int64)
                durations[ctas] = self.execute(begun, schedule, ctas, nothing, nothing.astype(np.int32))
        for ctas in self.rounds(total, placement):
            slots, _, starts = placement.next_round(len(ctas))
            placement.finish(slots, starts + durations[ctas])

    def execute(self, begun: Grid, schedule: Schedule, ctas: Array, starts: Array, sms: Array) -> Array:
        """Run some CTAs together; returns the cycle at which each one's last warp ended."""
        ends = np.zeros(len(ctas), np.int64)
        with np.errstate(all="ignore"):
            for part in run(Batch(begun, schedule, ctas, starts, sms)):
                ends[part.ctas - ctas[0]] = part.clocks.max(axis=(1, 2))
        self.steps.done += len(ctas)
        return ends
