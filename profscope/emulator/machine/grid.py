"""What all CTAs of one launch share: the grid, parameters, memory, and the time at which the launch began."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from profscope.emulator.arrays import LANES, Array
from profscope.emulator.device import Device
from profscope.emulator.machine.block import Schedule, TranslatedBlock
from profscope.emulator.machine.counts import LaunchCounts
from profscope.emulator.machine.memory import GlobalMemory

__all__ = ["Grid"]


@dataclass
class Grid:
    """`size` counts CTAs; `warps`, `shared_bytes` and `local_bytes` are of one CTA, one CTA, one thread.

    `initial` are the registers' values and `parameters` the kernel parameters' bits, arrays of one element.
    The launch begins in the device's cycle `begin`. What runs `max_blocks` blocks is taken for endless.
    `counts` makes those of the CTAs that run by a schedule; None where nobody wants to know them.
    """

    name: str
    size: tuple[int, int, int]
    warps: int
    shared_bytes: int
    local_bytes: int
    initial: list[Array]
    parameters: list[Array]
    memory: GlobalMemory
    blocks: Sequence[TranslatedBlock]
    device: Device
    begin: int
    is_ordered: bool  # by the CTAs' clocks where they meet
    max_blocks: int
    counts: Callable[[Schedule], LaunchCounts] | None = None
    counted: dict[Schedule, LaunchCounts] = field(default_factory=dict)
    fixed: dict[str, Array] = field(init=False)

    def __post_init__(self) -> None:
        self.fixed = self.fixed_registers()

    def counts_of(self, schedule: Schedule) -> LaunchCounts | None:
        """Those of the CTAs that run by a schedule; None where nobody wants to know."""
        if self.counts is not None and schedule not in self.counted:
            self.counted[schedule] = self.counts(schedule)
        return self.counted.get(schedule)

    def fixed_registers(self) -> dict[str, Array]:
        """The special registers that are the same in every CTA, by name."""
        threads = np.arange(self.warps * LANES, dtype=np.int32).reshape(1, self.warps, LANES)
        lane = np.arange(LANES, dtype=np.int32).reshape(1, 1, LANES)
        ones = np.uint32(0xFFFFFFFF)
        shift = lane.astype(np.uint32)
        below = ~(ones << shift)
        equal = np.uint32(1) << shift
        registers = {
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
            "%nctaid.x": self.size[0], "%nctaid.y": self.size[1], "%nctaid.z": self.size[2],
            "%nwarpid": self.device.model.warps_per_sm, "%nsmid": self.device.model.sm_count, "%gridid": 0,
            "%cluster_ctaid.x": 0, "%cluster_ctaid.y": 0, "%cluster_ctaid.z": 0, "%cluster_nctaid.x": 1,
            "%cluster_nctaid.y": 1, "%cluster_nctaid.z": 1, "%cluster_ctarank": 0, "%cluster_nctarank": 1,
            "%total_smem_size": self.shared_bytes, "%dynamic_smem_size": self.shared_bytes,
        }  # fmt: skip
        registers.update({name: np.full((1, 1, 1), value, np.int32) for name, value in numbers.items()})
        return registers

    def special(self, ctas: Array, sms: Array) -> dict[str, Array]:
        """The special registers of some CTAs, by name."""
        x, y, _ = self.size
        column = ctas.reshape(-1, 1, 1)
        return self.fixed | {
            "%ctaid.x": (column % x).astype(np.int32),
            "%ctaid.y": (column // x % y).astype(np.int32),
            "%ctaid.z": (column // (x * y)).astype(np.int32),
            "%smid": sms.astype(np.int32).reshape(-1, 1, 1),
        }
