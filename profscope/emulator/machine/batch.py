"""A batch of CTAs: all of their state, and the interface for the functions of instructions.

Registers are one array each for all threads of the batch (`arrays.py`); a mask says which threads a function
is called for where they are not all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from profscope.emulator.arrays import LANES, Array, DType
from profscope.emulator.costs import COSTS, Cost
from profscope.emulator.device import Device
from profscope.emulator.machine.block import Schedule, Site, TranslatedBlock
from profscope.emulator.machine.counts import LaunchCounts
from profscope.emulator.machine.memory import GlobalMemory
from profscope.errors import EmulatorError

__all__ = ["Batch", "Grid", "compact"]


@dataclass
class Grid:
    """`size` counts CTAs; `warps`, `shared_bytes` and `local_bytes` are of one CTA, one CTA, one thread.

    `initial` are the registers' values and `parameters` the kernel parameters' bits, arrays of one element.
    The launch begins in the device's cycle `begin`. After `max_blocks` blocks it counts as endless. `counts`
    makes the counts of the CTAs that run by a schedule; None if not wanted.
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
        """Those of the CTAs that run by a schedule; None if they are not wanted."""
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
            "%total_smem_size": self.shared_bytes, "%dynamic_smem_size": self.shared_bytes,
        }  # fmt: skip
        registers.update({name: np.full((1, 1, 1), value, np.int32) for name, value in numbers.items()})
        return registers

    def special(self, ctas: Array, slots: Array) -> dict[str, Array]:
        """The special registers of some CTAs, by name. slots: those of the placement that they are in."""
        x, y, _ = self.size
        column, sm_count = ctas.reshape(-1, 1, 1), self.device.model.sm_count
        warps = np.arange(self.warps, dtype=np.int32).reshape(1, -1, 1)
        return self.fixed | {
            "%ctaid.x": (column % x).astype(np.int32),
            "%ctaid.y": (column // x % y).astype(np.int32),
            "%ctaid.z": (column // (x * y)).astype(np.int32),
            "%smid": self.sms(slots).reshape(-1, 1, 1),
            "%warpid": (slots // sm_count * self.warps).astype(np.int32).reshape(-1, 1, 1) + warps,
        }

    def sms(self, slots: Array) -> Array:
        """The SM of each slot."""
        return (slots % self.device.model.sm_count).astype(np.int32)


GROUPS = 16  # asynchronous copy groups a warp remembers
CLOCKS = 2  # of a warp: as it is, and without the instructions of records


class Batch:
    """CTAs of one launch, by linear number.

    `registers[i]` are arrays as in `arrays.py`; `clocks` is (CTAs, warps, 2), cycles since the launch began,
    and what they would be without the instructions of records, brought up to date at each `tick` of the
    schedule; `groups` is (CTAs, warps, 2, GROUPS), when copies arrive; `shared` is (CTAs, bytes); `at` maps
    blocks to the mask of the threads there, None for all; `waiting` likewise for threads at the barrier that
    ends a block.
    """

    def __init__(
        self, grid: Grid, schedule: Schedule, ctas: Array, start_cycles: Array, slots: Array
    ) -> None:
        self.grid = grid
        self.schedule = schedule
        self.times = np.array(schedule.times, np.int64).reshape(-1, CLOCKS)
        self.memory: GlobalMemory = grid.memory
        self.ctas = ctas
        self.slots = slots
        self.shape = (len(ctas), grid.warps, LANES)
        self.size = len(ctas) * grid.warps * LANES
        self.registers = list(grid.initial)
        self.clocks = np.repeat(start_cycles.astype(np.int64)[:, None, :], grid.warps, axis=1)
        self.shared = np.zeros((len(ctas), grid.shared_bytes), np.uint8)
        self.local = np.zeros((*self.shape, grid.local_bytes), np.uint8)
        self.groups = np.zeros((*self.shape[:2], CLOCKS, GROUPS), np.int64)
        self.at: dict[int, Array | None] = {0: None}
        self.waiting: dict[int, Array | None] = {}
        self.special = grid.special(ctas, slots)
        self.steps = 0
        self.counts = grid.counts_of(schedule)

    @property
    def is_done(self) -> bool:
        return not self.at and not self.waiting

    def take(self, chosen: Array) -> Batch:
        """The batch of some of the CTAs."""
        part = object.__new__(Batch)
        part.__dict__.update(self.__dict__)
        total = len(self.ctas)

        def pick(array: Array) -> Array:
            return array[chosen] if array.shape[0] == total else array

        part.ctas, part.slots = self.ctas[chosen], self.slots[chosen]
        part.shape = (len(chosen), *self.shape[1:])
        part.size = len(chosen) * self.shape[1] * LANES
        part.registers = [pick(r) for r in self.registers]
        part.clocks, part.shared, part.local = self.clocks[chosen], self.shared[chosen], self.local[chosen]
        part.groups = self.groups[chosen]
        part.special = self.grid.special(part.ctas, part.slots)

        def masks(places: dict[int, Array | None]) -> dict[int, Array | None]:
            picked = {n: None if m is None else pick(m) for n, m in places.items()}
            return {n: m if m is None else compact(m) for n, m in picked.items() if m is None or m.any()}

        part.at, part.waiting = masks(self.at), masks(self.waiting)
        return part

    @classmethod
    def of(cls, parts: Sequence[Batch]) -> Batch:
        """One batch of the CTAs of several, all of whose threads are at the same block or have ended."""
        whole = object.__new__(cls)
        first = parts[0]
        whole.__dict__.update(first.__dict__)
        for name in ("ctas", "slots", "clocks", "shared", "local", "groups"):
            setattr(whole, name, np.concatenate([getattr(part, name) for part in parts]))
        whole.shape = (len(whole.ctas), *first.shape[1:])
        whole.size = sum(part.size for part in parts)
        whole.registers = [
            _joined(parts, values) for values in zip(*(p.registers for p in parts), strict=True)
        ]
        whole.special = first.grid.special(whole.ctas, whole.slots)
        whole.steps = max(part.steps for part in parts)
        whole.waiting = {}
        (number,) = first.at
        masks = [p.at[number] for p in parts]
        joined = (
            None
            if all(m is None for m in masks)
            else _joined(parts, [np.True_ if m is None else m for m in masks])
        )
        whole.at = {number: joined}
        return whole

    # --- what translated blocks call ---

    def join(self, mask: Array | None, predicate: Array) -> Array | None:
        """The threads of `mask` whose predicate is true; `mask` itself if all of them."""
        if predicate.all():
            return mask
        return predicate if mask is None else mask & predicate

    def count_predicate(self, number: int, mask: Array | None) -> None:
        """A predicate of the block is true for the threads of `mask`."""
        if self.counts is not None:
            self.counts.predicate(number, mask, self.shape)

    def parameter(self, index: int, dtype: DType) -> Array:
        return self.grid.parameters[index].view(dtype)[..., :1]

    def flat(self, value: Array) -> Array:
        """A value as (warps of all CTAs, lanes)."""
        return (value if value.shape == self.shape else np.broadcast_to(value, self.shape)).reshape(-1, LANES)

    def threads(self, value: Array) -> Array:
        """The inverse of `flat`."""
        return value.reshape(self.shape)

    # --- clocks ---

    @property
    def now(self) -> Array:
        """The cycles since the launch began, (CTAs, warps, 1)."""
        return self.clocks[..., :1]

    def tick(self, mask: Array | None, time: int) -> None:
        """The warps of `mask` are at the schedule's time of this number."""
        cycles = self.times[time]
        if mask is None:
            self.clocks = self.clocks + cycles
        else:
            self.clocks = self.clocks + cycles * mask.any(axis=2, keepdims=True)

    def delay(self, site: Site, cycles: Array) -> None:
        """An access keeps the SM's load/store unit busy for so many cycles a warp, (CTAs, warps, 1); the
        schedule has one. The other resident warps do the same at the same time."""
        residents = self.schedule.residents
        late = np.maximum(residents * cycles - max(site.issue, residents), 0)
        self.clocks = self.clocks + late
        if self.counts is not None:
            warps = self.shape[0] * self.shape[1]
            self.counts.delay(site.counted, int(late.sum()) * (warps // late.size))

    def clock(self, time: int) -> Array:
        """%clock64: the SM's counter, at the schedule's time of this number."""
        return self.grid.device.sm_clock(self.cycle(time), self.grid.sms(self.slots))

    def cycle(self, time: int) -> Array:
        """The device's cycle at the schedule's time of this number."""
        return self.now + (self.grid.begin + self.times[time, 0])

    def globaltimer(self, time: int) -> Array:
        return self.grid.device.globaltimer(self.cycle(time))

    def commit_group(self, mask: Array | None) -> None:
        done = self.clocks + COSTS[Cost.ASYNC_COPY].latency
        moved = np.concatenate([done[..., None], self.groups[..., :-1]], axis=3)
        if mask is not None:
            moved = np.where(mask.any(axis=2)[..., None, None], moved, self.groups)
        self.groups = moved

    def wait_group(self, mask: Array | None, site: Site, pending: int) -> None:
        if pending >= GROUPS:
            return
        until = np.maximum(self.clocks, self.groups[..., pending])
        until = until if mask is None else np.where(mask.any(axis=2, keepdims=True), until, self.clocks)
        if self.counts is not None and site.counted >= 0:
            self.counts.delay(site.counted, int((until - self.clocks)[..., 1].sum()))
        self.clocks = until

    # --- reports ---

    def error(self, site: Site, text: str, bad: Array, mask: Array | None) -> EmulatorError:
        """An error that names the kernel, the instruction and the first thread of `bad` (within `mask`)."""
        threads = np.broadcast_to(bad, self.shape)
        if mask is not None:
            threads = threads & np.broadcast_to(mask, self.shape)
        cta, warp, lane = (int(x[0]) for x in np.nonzero(threads)) if threads.any() else (0, 0, 0)
        x, y, z = (int(self.special[f"%ctaid.{axis}"][cta, 0, 0]) for axis in "xyz")
        return EmulatorError(
            f"{self.grid.name}: {text}, in CTA ({x}, {y}, {z}) warp {warp} lane {lane}: {site.instruction}"
        )


def _joined(parts: Sequence[Batch], values: Sequence[Array]) -> Array:
    """The values of several batches as one of all their CTAs."""
    first = values[0]
    if all(value is first for value in values):
        return first
    values = [np.asarray(value).reshape(-1, 1, 1) if np.ndim(value) < 3 else value for value in values]
    if all(len(value) == 1 and np.array_equal(value, values[0]) for value in values):
        return values[0]
    inner = np.broadcast_shapes(*(value.shape[1:] for value in values))
    return np.concatenate(
        [np.broadcast_to(value, (len(part.ctas), *inner)) for part, value in zip(parts, values, strict=True)]
    )


def compact(mask: Array) -> Array | None:
    """The mask without the axes along which it does not vary; None if it is of all threads."""
    if mask.all():
        return None
    for axis in (2, 1):
        if mask.shape[axis] > 1:
            first = mask.take([0], axis=axis)
            if not (mask == first).all():
                return mask
            mask = first
    return mask
