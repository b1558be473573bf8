"""The device model: number of SMs, occupancy, and time.

CTAs are placed in rounds. Each SM has as many slots as the occupancy limits allow; in a round every slot
takes one CTA, in linear order, the slot that is free first taking the first. Among equals, each SM's first
slot comes before any SM's second, so that CTAs spread. All of it is arithmetic on the cost model's cycles, so
it is the same on every machine.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from profscope.emulator.arrays import Array
from profscope.emulator.costs import CTA_LAUNCH_CYCLES
from profscope.emulator.machine.counts import Totals
from profscope.errors import OptionError

__all__ = ["Device", "Model", "Placement"]


@dataclass(frozen=True)
class Model:
    """The machine's parameters. Per SM: warps, CTAs and bytes of shared memory that fit at a time."""

    sm_count: int = 16
    warps_per_sm: int = 64
    ctas_per_sm: int = 32
    shared_bytes_per_sm: int = 167936  # 164 KiB, as sm_80 has
    max_shared_bytes_per_cta: int = 166912  # 163 KiB
    clock_khz: int = 1_250_000  # 4 ns are 5 cycles
    globaltimer_tick_ns: int = 32
    launch_overhead_ns: int = 2048

    def __post_init__(self) -> None:
        if not 1 <= self.sm_count <= 1024:
            raise OptionError(f"sm_count must be 1 to 1024, not {self.sm_count}")

    def slots_per_sm(self, warps: int, shared_bytes: int) -> int:
        """CTAs of this size that run on one SM at a time; registers are not counted."""
        by_shared = self.shared_bytes_per_sm // (shared_bytes + 1024) if shared_bytes else self.ctas_per_sm
        return max(1, min(self.ctas_per_sm, self.warps_per_sm // warps, by_shared))

    def nanoseconds(self, cycles: Any) -> Any:
        """Whole nanoseconds of a number of cycles, rounded down; also of arrays."""
        return cycles * 1_000_000 // self.clock_khz

    def cycles(self, nanoseconds: int) -> int:
        return nanoseconds * self.clock_khz // 1_000_000

    def milliseconds(self, cycles: float) -> float:
        return cycles / self.clock_khz


@dataclass
class Placement:
    """The times and SMs of the CTAs of one launch. Cycles count from the launch's begin.

    sms: of each slot. free: (slots, 2), the cycle from which each is free, and from which it would be without
    the instructions of records; at first, so that a launch begins with its first CTA.
    """

    sms: Array
    free: Array

    @classmethod
    def of(cls, model: Model, warps: int, shared_bytes: int) -> "Placement":
        per_sm = model.slots_per_sm(warps, shared_bytes)
        slots = np.tile(np.arange(model.sm_count, dtype=np.int32), per_sm)
        return cls(slots, np.full((len(slots), 2), -CTA_LAUNCH_CYCLES, np.int64))

    @property
    def slots_per_sm(self) -> int:
        return len(self.sms) // (int(self.sms.max()) + 1)

    def ctas_per_sm(self, count: int) -> int:
        """The most CTAs that an SM runs at a time, of a round of `count`."""
        sm_count = int(self.sms.max()) + 1
        return min(self.slots_per_sm, -(-count // sm_count))

    def next_round(self, count: int) -> tuple[Array, Array]:
        """Slots and start cycles of the next `count` CTAs, at most one a slot."""
        order = np.argsort(self.free[:, 0], kind="stable")[:count]
        return order, self.free[order] + CTA_LAUNCH_CYCLES

    @property
    def cycles(self) -> tuple[int, int]:
        """When the launch ends, and when it would without the instructions of records."""
        end, own_end = self.free.max(axis=0).tolist()
        return end, own_end

    def finish(self, slots: Array, ends: Array) -> None:
        self.free[slots] = ends


# The time at which every device is switched on: clocks that start at zero hide mistakes in their readers.
FIRST_NS = 1_700_000_000_000_000_000
FIRST_CYCLE = 5_000_000_000
SM_SKEW_CYCLES = 1_000_003  # each SM's counter is ahead of the one before it by this


@dataclass
class Device:
    """One emulated GPU: a model, the cycles since it was switched on, and the work it did.

    `turn` is held by the launch that runs. `late` has, of each kernel whose CTAs could not be kept in the
    order of their clocks, how many accesses came late, and by how many cycles at most. `counts` are those of
    each program of the launches that are to be counted; None: none is.
    """

    model: Model = field(default_factory=Model)
    cycles: int = 0
    lane_instructions: int = 0  # PTX instructions times the threads that executed them
    turn: threading.RLock = field(default_factory=threading.RLock, repr=False, compare=False)
    late: dict[str, tuple[int, int]] = field(default_factory=dict)
    counts: dict[Any, Totals] | None = None

    def time(self, launch: Callable[[], Any]) -> tuple[Any, int]:
        """The result of a function that launches one kernel, and the cycles of that launch; 0 without one."""
        with self.turn:
            before = self.cycles
            result = launch()
            took = self.cycles - before - self.model.cycles(self.model.launch_overhead_ns)
            return result, max(0, took)

    def note_late(self, kernel: str, count: int, cycles: int) -> None:
        before = self.late.get(kernel, (0, 0))
        self.late[kernel] = (before[0] + count, max(before[1], cycles))

    def notes(self, before: Mapping[str, tuple[int, int]]) -> list[str]:
        """Notes on accesses that came after others with later clocks, a line for each kernel. before: the
        initial `late`."""
        since = {
            kernel: (count - before.get(kernel, (0, 0))[0], cycles)
            for kernel, (count, cycles) in sorted(self.late.items())
        }
        return [
            f"{kernel}: on the emulator {count} accesses by which CTAs wait for each other came after others "
            f"with later clocks, by up to {cycles} cycles: what depends on them may be that much too early"
            for kernel, (count, cycles) in since.items()
            if count
        ]

    def sm_clock(self, cycles: Array, sms: Array) -> Array:
        """%clock64 on each CTA's SM, `cycles` after the device was switched on."""
        return cycles + FIRST_CYCLE + sms.astype(np.int64).reshape(-1, 1, 1) * SM_SKEW_CYCLES

    def globaltimer(self, cycles: Array) -> Array:
        """%globaltimer, which advances in ticks, `cycles` after the device was switched on."""
        tick = self.model.globaltimer_tick_ns
        return FIRST_NS + self.model.nanoseconds(cycles) // tick * tick

    def properties(self) -> dict[str, int]:
        """As Triton asks for them; clock rates in kHz."""
        return {
            "max_shared_mem": self.model.max_shared_bytes_per_cta,
            "max_num_regs": 65536,
            "multiprocessor_count": self.model.sm_count,
            "warpSize": 32,
            "sm_clock_rate": self.model.clock_khz,
            "mem_clock_rate": 1_000_000,
            "mem_bus_width": 1024,
        }
