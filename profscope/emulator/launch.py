"""One kernel launch: its grid cut into batches, placed on SMs and run, and the device's clock moved on."""

from dataclasses import dataclass, field

import numpy as np

from profscope.emulator.device import Device, Placement
from profscope.emulator.machine import LANES, Batch, run
from profscope.emulator.memory import GlobalMemory
from profscope.emulator.opcodes.table import Array
from profscope.emulator.program import Program

__all__ = ["Launch"]

BATCH_THREADS = 32768  # a register's array then fits a core's cache, and a large kernel's registers in memory
MAX_BLOCKS = 5_000_000


@dataclass
class Launch:
    """`parameters` are arrays of one element, the bits of each kernel parameter; `grid` counts CTAs."""

    program: Program
    device: Device
    grid: tuple[int, int, int]
    warps: int
    shared_bytes: int
    memory: GlobalMemory
    parameters: list[Array]
    max_blocks: int = MAX_BLOCKS
    fixed: dict[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.shared_bytes = max(16, (self.shared_bytes + self.program.static_shared + 15) // 16 * 16)
        self.fixed = self.fixed_registers()

    @property
    def name(self) -> str:
        return self.program.name

    def run(self) -> None:
        """Execute all CTAs. Raises EmulatorError where a GPU would fault."""
        total = self.grid[0] * self.grid[1] * self.grid[2]
        placement = Placement.of(self.device.model, self.warps, self.shared_bytes)
        if self.program.reads_clock:
            self.run_in_rounds(total, placement)
        else:
            self.place_afterwards(self.durations(total), placement)
        self.device.cycles += int(placement.free.max()) + self.device.model.cycles(
            self.device.model.launch_overhead_ns
        )

    @property
    def batch_ctas(self) -> int:
        return max(1, BATCH_THREADS // (self.warps * LANES))

    def run_in_rounds(self, total: int, placement: Placement) -> None:
        """A CTA that may read the time starts when the CTA before it in its slot has ended."""
        for first in range(0, total, len(placement.sms)):
            ctas = np.arange(first, min(total, first + len(placement.sms)))
            slots, sms, starts = placement.next_round(len(ctas))
            for part in range(0, len(ctas), self.batch_ctas):
                here = slice(part, part + self.batch_ctas)
                ends = self.execute(ctas[here], starts[here], sms[here])
                placement.finish(slots[here], ends)

    def durations(self, total: int) -> Array:
        """Cycles each CTA takes, where it makes no difference when it runs."""
        cycles = np.zeros(total, np.int64)
        for first in range(0, total, self.batch_ctas):
            ctas = np.arange(first, min(total, first + self.batch_ctas))
            nothing = np.zeros(len(ctas), np.int64)
            cycles[ctas] = self.execute(ctas, nothing, nothing.astype(np.int32))
        return cycles

    def place_afterwards(self, durations: Array, placement: Placement) -> None:
        for first in range(0, len(durations), len(placement.sms)):
            part = durations[first : first + len(placement.sms)]
            slots, _, starts = placement.next_round(len(part))
            placement.finish(slots, starts + part)

    def execute(self, ctas: Array, starts: Array, sms: Array) -> Array:
        """Run some CTAs together; returns the cycle at which each one's last warp ended."""
        ends = np.zeros(len(ctas), np.int64)
        with np.errstate(all="ignore"):
            for part in run(Batch(self, ctas, starts, sms)):
                ends[part.ctas - ctas[0]] = part.clocks.max(axis=(1, 2))
        return ends

    # --- what CTAs can ask about themselves ---

    def fixed_registers(self) -> dict[str, Array]:
        threads = np.arange(self.warps * LANES, dtype=np.int32).reshape(1, self.warps, LANES)
        lane = np.arange(LANES, dtype=np.int32).reshape(1, 1, LANES)
        ones = np.uint32(0xFFFFFFFF)
        shift = lane.astype(np.uint32)
        below = ~(ones << shift)
        equal = np.uint32(1) << shift
        found = {
            "%tid.x": threads,
            "%laneid": lane,
            "%warpid": threads[:, :, :1] // LANES,
            "%lanemask_eq": equal.view(np.int32),
            "%lanemask_lt": below.view(np.int32),
            "%lanemask_le": (below | equal).view(np.int32),
            "%lanemask_gt": (~(below | equal)).view(np.int32),
            "%lanemask_ge": (~below).view(np.int32),
        }
        numbers = {
            "%tid.y": 0, "%tid.z": 0, "%ntid.x": self.warps * LANES, "%ntid.y": 1, "%ntid.z": 1,
            "%nctaid.x": self.grid[0], "%nctaid.y": self.grid[1], "%nctaid.z": self.grid[2],
            "%nwarpid": self.device.model.warps_per_sm, "%nsmid": self.device.model.sm_count, "%gridid": 0,
            "%cluster_ctaid.x": 0, "%cluster_ctaid.y": 0, "%cluster_ctaid.z": 0, "%cluster_nctaid.x": 1,
            "%cluster_nctaid.y": 1, "%cluster_nctaid.z": 1, "%cluster_ctarank": 0, "%cluster_nctarank": 1,
            "%total_smem_size": self.shared_bytes, "%dynamic_smem_size": self.shared_bytes,
        }  # fmt: skip
        found.update({name: np.full((1, 1, 1), value, np.int32) for name, value in numbers.items()})
        return found

    def special(self, ctas: Array, sms: Array) -> dict[str, Array]:
        """Special registers of a batch, by name."""
        x, y, _ = self.grid
        column = ctas.reshape(-1, 1, 1)
        return self.fixed | {
            "%ctaid.x": (column % x).astype(np.int32),
            "%ctaid.y": (column // x % y).astype(np.int32),
            "%ctaid.z": (column // (x * y)).astype(np.int32),
            "%smid": sms.astype(np.int32).reshape(-1, 1, 1),
        }

    def sm_clock(self, cycles: Array, sms: Array) -> Array:
        return self.device.sm_clock(cycles, sms)

    def globaltimer(self, cycles: Array) -> Array:
        return self.device.globaltimer(cycles)
