"""Counts of the instructions of a kernel, and costs of their accesses, in one launch.

Instructions of a block are executed together, so a block and each of its predicates are counted, and an
access by itself. Instructions that only serve records have no number.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from profscope.emulator.arrays import LANES, Array
from profscope.emulator.machine.block import Schedule, Wait
from profscope.emulator.machine.transactions import NONE, Distinct, Figures, Touched, local_sectors
from profscope.emulator.ptx_syntax import Instruction

__all__ = ["COLUMNS", "Counted", "LaunchCounts", "Totals", "access_rows"]

COLUMNS = (
    "executed", "threads", "sectors", "sectors_ideal", "wavefronts", "wavefronts_ideal", "local_sectors",
    "divergent",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Counted:
    """An instruction that is counted: the block it is in, and the predicate that switches it off, by their
    numbers; -1 without one. delayed: why warps wait at it beyond its schedule."""

    instruction: Instruction
    block: int
    predicate: int
    delayed: str = ""


@dataclass(eq=False)
class LaunchCounts:
    """Counts of the CTAs of a launch that run by one schedule. warps, threads, divergent: by block; active:
    threads by predicate. transactions: by instruction, the columns from `sectors` to `local_sectors`, and the
    cycles that warps wait beyond the schedule. touched: by all CTAs of the launch."""

    schedule: Schedule
    touched: Touched
    warps: list[int]
    threads: list[int]
    divergent: list[int]
    active: list[int]
    transactions: Array

    @classmethod
    def of(
        cls, schedule: Schedule, touched: Touched, blocks: int, predicates: int, instructions: int
    ) -> "LaunchCounts":
        transactions = np.zeros((instructions, 6), np.int64)
        return cls(
            schedule, touched, [0] * blocks, [0] * blocks, [0] * blocks, [0] * predicates, transactions
        )

    def block(self, number: int, mask: Array | None, shape: tuple[int, int, int], threads: int) -> None:
        """`threads` threads of a batch of this shape run a block, those of `mask`."""
        self.threads[number] += threads
        self.warps[number] += shape[0] * shape[1] if mask is None else _warps(mask.any(axis=2), shape)

    def branch(self, number: int, yes: Array, no: Array, shape: tuple[int, int, int]) -> None:
        """A block's branch sends threads two ways."""
        if yes.shape[2] > 1 or no.shape[2] > 1:
            self.divergent[number] += _warps(yes.any(axis=2) & no.any(axis=2), shape)

    def predicate(self, number: int, mask: Array | None, shape: tuple[int, int, int]) -> None:
        """Instructions run for the threads of `mask`, because of a predicate."""
        size = shape[0] * shape[1] * shape[2]
        self.active[number] += size if mask is None else np.count_nonzero(mask) * (size // mask.size)

    def local(
        self, number: int, rows: Array, active: Array | None, times: int, offset: int, size: int
    ) -> None:
        """An instruction accesses local memory. rows, active: of `access_rows`; each row stands for `times`
        warps."""
        self.transactions[number, 4] += times * local_sectors(rows, offset, active, size)

    def access(self, number: int, space: str, figures: Figures, times: int) -> None:
        """An instruction takes so many transactions. figures: of rows that each stand for `times` warps."""
        own, at = self.transactions[number], 0 if space == "global" else 2
        for column, each in enumerate(figures, at):
            own[column] += times * int(each.sum())

    def delay(self, number: int, cycles: int) -> None:
        """Warps wait at an instruction, all together for so many cycles beyond the schedule."""
        self.transactions[number, 5] += cycles


def access_rows(
    where: Array, mask: Array | None, shape: tuple[int, int, int], space: str
) -> tuple[Array, Array | None, tuple[int, int]]:
    """Addresses and mask as (warps, lanes); each row stands for one warp or several. Also the first two axes
    of the rows, CTAs and warps."""
    lanes = where.shape[2] if space == "global" or where.shape[2] > 1 else LANES
    both = (*where.shape[:2], lanes) if mask is None else _joined(where.shape, mask.shape, lanes)
    return _rows(where, both), None if mask is None else _rows(mask, both), both[:2]


def _joined(a: tuple[int, ...], b: tuple[int, ...], lanes: int) -> tuple[int, int, int]:
    return max(a[0], b[0]), max(a[1], b[1]), max(lanes, b[2])


def _rows(value: Array, shape: tuple[int, ...]) -> Array:
    """A value as (warps, lanes)."""
    return (value if value.shape == shape else np.broadcast_to(value, shape)).reshape(-1, shape[2])


def _warps(any_thread: Array, shape: tuple[int, int, int]) -> int:
    return int(np.count_nonzero(any_thread) * (shape[0] * shape[1] // any_thread.size))


@dataclass(frozen=True, eq=False)
class Totals:
    """Sums over `launches`, of each of `instructions`. cycles: of the launches, and what they would be
    without the instructions of records. sums: as the fields of LaunchCounts. warps: by block for each
    schedule. loaded, stored: sectors of global memory. tensors: by argument, the most bytes from its pointer
    to the end of its storage."""

    instructions: tuple[Counted, ...]
    launches: int = 0
    cycles: tuple[int, int] = (0, 0)
    sums: tuple[Array, ...] = ()
    warps: tuple[tuple[Schedule, Array], ...] = ()
    loaded: Distinct = NONE
    stored: Distinct = NONE
    tensors: Mapping[str, int] = field(default_factory=dict)

    def plus(
        self, launch: Sequence[LaunchCounts], tensors: Mapping[str, int], cycles: tuple[int, int]
    ) -> "Totals":
        """With those of one launch more."""
        sums, warps = self.sums, dict(self.warps)
        for part in launch:
            fields = part.warps, part.threads, part.divergent, part.active, part.transactions
            new = tuple(np.asarray(values, np.int64) for values in fields)
            sums = tuple(a + b for a, b in zip(sums, new, strict=True)) if sums else new
            warps[part.schedule] = warps.get(part.schedule, 0) + new[0]
        touched = launch[0].touched
        return Totals(
            self.instructions,
            self.launches + 1,
            (self.cycles[0] + cycles[0], self.cycles[1] + cycles[1]),
            sums,
            tuple(warps.items()),
            self.loaded.plus(touched.distinct(stored=False)),
            self.stored.plus(touched.distinct(stored=True)),
            {name: max(size, self.tensors.get(name, 0)) for name, size in tensors.items()},
        )

    @property
    def columns(self) -> dict[str, Array]:
        """By column of COLUMNS, one for each instruction. There is a launch at least."""
        warps, threads, divergent, active, transactions = self.sums
        block = np.array([row.block for row in self.instructions])
        predicate = np.array([row.predicate for row in self.instructions])
        is_branch = np.array([row.instruction.opcode.startswith("br") for row in self.instructions])
        by_predicate = np.append(active, 0)[predicate]
        return {
            "executed": warps[block],
            "threads": np.where(predicate < 0, threads[block], by_predicate),
            **dict(zip(COLUMNS[2:7], transactions.T, strict=False)),
            "divergent": np.where(is_branch, divergent[block], 0),
        }

    @property
    def waits(self) -> list[Wait]:
        """The cycles of all warps, as `Schedule.waits` has those of one. Waits for copies are charged to all
        copies, as often as each was executed."""
        waits = [
            each._replace(cycles=each.cycles * int(warps[each.block]))
            for schedule, warps in self.warps
            for each in schedule.waits
        ]
        delays = self.sums[-1][:, 5].tolist()
        executed = self.columns["executed"].tolist()
        copies = [
            number for number, row in enumerate(self.instructions) if _is_copy(row) and executed[number]
        ]
        for number, (row, cycles) in enumerate(zip(self.instructions, delays, strict=True)):
            causes = copies if row.instruction.opcode.startswith("cp.async.wait") and copies else [number]
            shares = _divided(cycles, [executed[each] for each in causes])
            waits += [
                Wait(row.block, number, row.delayed, cause, share)
                for cause, share in zip(causes, shares, strict=True)
            ]
        return [each for each in waits if each.cycles]


def _is_copy(row: Counted) -> bool:
    return row.instruction.opcode.startswith(("cp.async.ca", "cp.async.cg"))


def _divided(cycles: int, weights: list[Any]) -> list[int]:
    """Whole cycles that add up, in proportion to the weights."""
    total, ends = sum(weights), [0]
    for weight in weights:
        ends.append(ends[-1] + weight)
    bounds = [cycles * end // total if total else 0 for end in ends[:-1]] + [cycles]
    return [after - before for before, after in pairwise(bounds)]
