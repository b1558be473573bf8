"""The time of a launch after rows of the evidence table have changed: the largest remaining part.

    time without a cause = max(1 - removed, each resource at the part of its peak that good kernels attain)

A resource's use follows from the table: issue slots and pipes from the instructions, shared memory and L1
from wavefronts and sectors, L2 and DRAM from the sectors that loads and stores touch. So a cause only gives
the reduced rows, and the part of the time in which it delays warps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from profscope.analysis.evidence_table import (
    ATOMIC_OPS,
    LOAD_OPS,
    SECTOR_BYTES,
    STORE_OPS,
    EvidenceTable,
    Mask,
)
from profscope.analysis.kernels.devices import PIPES
from profscope.analysis.limits import binding
from profscope.analysis.rules import thresholds

__all__ = ["EXCHANGES", "LSU_QUEUES", "QUEUES", "RESULTS", "Edit", "Resources", "without"]

Floats = NDArray[np.float64]

LSU_QUEUES = ("lg_throttle", "mio_throttle")
QUEUES = (*LSU_QUEUES, "long_scoreboard", "drain", "tex_throttle", "short_scoreboard")
"""Stalls that are waits for memory, or until one of its queues takes an access."""
EXCHANGES = ("barrier", "short_scoreboard", "mio_throttle")
"""Stalls that are waits for other warps, or for the shared memory that warps exchange data through."""
RESULTS = ("wait", "short_scoreboard", "branch_resolving", "no_instructions")
"""Stalls that are waits for results of instructions."""
_ROOFS = ("dram", "tensor")  # what a kernel is written for: near them, nothing else is in its way
_PLACES = 64  # of an SM, for warps


@dataclass(frozen=True, eq=False)
class Edit:
    """The table without a cause.

    removed: the part of the time in which the cause delays warps. instructions: by row, the part that stays;
    None if all do. sectors, wavefronts: by row, moved afterwards; if None, L1 and shared memory move as much
    as the remaining instructions did, L2 and DRAM as much as before. kept: by resource, the part of its use
    that stays, if no row has it.
    """

    removed: float
    instructions: Floats | None = None
    sectors: Floats | None = None
    wavefronts: Floats | None = None
    kept: Mapping[str, float] = field(default_factory=dict)


def without(rows: Mask, part: float = 1.0) -> Floats:
    """`Edit.instructions` if a part of the instructions of these rows is gone."""
    return np.where(rows, 1 - part, 1.0)


@dataclass(frozen=True, eq=False)
class Resources:
    """used: by resource (see `limits`), the part of its peak that a launch uses, 0 to 1; without unknown
    ones. counters: values by name. idle: the part of the time of the SMs in which no warp is on them.
    resident_warps: on an SM at a time."""

    table: EvidenceTable
    used: Mapping[str, float]
    counters: Mapping[str, float]
    idle: float
    resident_warps: float

    @property
    def binding(self) -> str:
        """The resource that binds the kernel; "" if none does."""
        return binding({name: 100 * used for name, used in self.used.items()}) if self.used else ""

    @property
    def is_bound(self) -> bool:
        """Whether a resource is so busy that latencies are not what holds the kernel back."""
        return max(self.used.values(), default=0.0) >= thresholds.BOUND

    def kept(self, edit: Edit) -> dict[str, float]:
        """By resource, the part of its use that stays."""
        table = self.table
        left = np.ones(len(table)) if edit.instructions is None else edit.instructions

        def part(after: Floats, before: Floats) -> float:
            every = float(before.sum())
            return float(after.sum()) / every if every else 1.0

        executed, wavefronts, sectors = (table.amount(name) for name in ("executed", "wavefronts", "sectors"))
        waves = wavefronts * left if edit.wavefronts is None else edit.wavefronts
        touched = sectors * left if edit.sectors is None else edit.sectors
        passed = part(
            waves + touched / thresholds.LINE_SECTORS, wavefronts + sectors / thresholds.LINE_SECTORS
        )
        found = {pipe: part(table.amount(pipe) * left, table.amount(pipe)) for pipe in PIPES}
        found |= {"issue": part(executed * left, executed), "shared": part(waves, wavefronts), "l1": passed}
        if edit.sectors is not None or edit.wavefronts is not None:
            found["lsu"] = min(found["lsu"], passed)
        if edit.sectors is not None:
            found |= self._traffic(edit.sectors)
        return found | dict(edit.kept)

    def _traffic(self, sectors: Floats) -> dict[str, float]:
        """L2 and DRAM move no more than loads and stores then touch; what caches have spared already is no
        gain."""
        table = self.table
        load, store = (SECTOR_BYTES * float(sectors[table.of(*ops)].sum()) for ops in (LOAD_OPS, STORE_OPS))
        taken_store = SECTOR_BYTES * table.sectors(*STORE_OPS)
        missed = SECTOR_BYTES * table.sectors(*LOAD_OPS) * self.missed_by_l1
        others = table.local_bytes + 2 * SECTOR_BYTES * table.sectors(
            *ATOMIC_OPS
        )  # it reads its sector and writes it
        read, written = (self.counters.get(name, 0.0) for name in ("dram_read", "dram_write"))
        return {
            "l2": min(1.0, (min(missed, load) + store + others) / max(1.0, missed + taken_store + others)),
            "dram": min(1.0, (min(read, load) + min(written, store)) / max(1.0, read + written)),
        }

    @property
    def missed_by_l1(self) -> float:
        """The part of the loads' sectors that misses L1. Its hit rate is of all sectors
        (NVIDIA, "Nsight Compute", memory tables). Stores and atomics go on to L2, and hit where a store has
        just been."""
        table = self.table
        loaded = table.sectors(*LOAD_OPS) + table.local_bytes / SECTOR_BYTES
        every = loaded + table.sectors(*STORE_OPS, *ATOMIC_OPS)
        stores = table.of(*STORE_OPS)
        again = (table.amount("sectors") - table.amount("sectors_ideal"))[stores].clip(min=0).sum()
        hits = every * min(100.0, max(0.0, self.counters.get("l1_hit_rate", 0.0))) / 100 - again
        return float(1 - min(1.0, max(0.0, hits) / max(1.0, loaded)))

    @property
    def l2_bytes(self) -> float:
        """Bytes that instructions request from L2."""
        moved = self.table.sectors(*LOAD_OPS, *STORE_OPS) + 2 * self.table.sectors(*ATOMIC_OPS)
        return max(1.0, SECTOR_BYTES * moved + self.table.local_bytes)

    def held_by_traffic(self, kept: Mapping[str, float], part: float = 1.0) -> float | None:
        """The part of the time that waits for traffic, if traffic binds the kernel; else None.

        If a resource binds the kernel, it is the saved part of its traffic. If none does, but at any time a
        warp of each scheduler waits until queues of memory accept its access, or until its stores have left
        them, it is all waits for memory: these queues have no counter. part: of the queued accesses that is
        gone."""
        if self.binding:
            return 1 - kept.get(self.binding, 1.0)
        is_full = self.table.stalled(*LSU_QUEUES, "drain") * self.resident_warps >= thresholds.SCHEDULERS
        return part * self.table.stalled(*QUEUES) if is_full else None

    def busiest(self, kept: Mapping[str, float] | None = None) -> float:
        """The time of the busiest resource: its remaining work at the speed that good kernels attain."""
        kept = kept or {}
        return max(
            (used * kept.get(name, 1.0) / thresholds.attainable(name) for name, used in self.used.items()),
            default=0.0,
        )

    def saved(self, edit: Edit) -> float:
        """The part of the time that an edit saves; 0 if DRAM or the tensor cores stay at their limit."""
        kept = self.kept(edit)
        if any(self.used.get(name, 0.0) * kept.get(name, 1.0) >= thresholds.NEAR_ROOF for name in _ROOFS):
            return 0.0
        return max(0.0, 1 - max(1 - edit.removed, self.busiest(kept)))

    def hidden(self, waits: float, times: float = thresholds.IN_FLIGHT) -> float:
        """The part of the time that is gone if `times` as much is in flight, of waits that others then hide.

        In the time in which CTAs run, a kernel at a roof, or one that uses most of the issue slots, a pipe or
        shared memory, has others to run in these waits; so has an SM with warps for more than half of its
        places: not even twice as many could be there."""
        if thresholds.IN_FLIGHT / 2 * self.resident_warps > _PLACES:
            return 0.0
        at_roof = thresholds.NEAR_ROOF * (1 - self.idle)
        if any(self.used.get(name, 0.0) >= at_roof for name in (*_ROOFS, "issue", "shared", *PIPES)):
            return 0.0
        return waits / max(1 - self.table.stalled("barrier"), waits) * (1 - 1 / times)
