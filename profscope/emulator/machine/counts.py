"""How often the instructions of a kernel ran, and what their accesses took, in one launch.

Instructions of a block are executed together, so a block and each of its predicates are counted, and an
access by itself. What only serves records is no instruction of the kernel and has no number (`records.py`).
"""

from dataclasses import dataclass

import numpy as np

from profscope.emulator.arrays import LANES, Array
from profscope.emulator.machine.transactions import local_sectors, sectors, wavefronts
from profscope.emulator.ptx.syntax import Instruction

__all__ = ["COLUMNS", "Counted", "LaunchCounts", "Totals"]

COLUMNS = (
    "executed", "threads", "sectors", "sectors_ideal", "wavefronts", "wavefronts_ideal", "local_sectors",
    "divergent",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Counted:
    """An instruction that is counted: the block it is in, and the predicate that switches it off, by their
    numbers; -1 without one."""

    instruction: Instruction
    block: int
    predicate: int


@dataclass(eq=False)
class LaunchCounts:
    """warps, threads, divergent: by block; active: threads by predicate. transactions: by instruction, the
    columns from `sectors` to `local_sectors`."""

    warps: list[int]
    threads: list[int]
    divergent: list[int]
    active: list[int]
    transactions: Array

    @classmethod
    def of(cls, blocks: int, predicates: int, instructions: int) -> "LaunchCounts":
        transactions = np.zeros((instructions, 5), np.int64)
        return cls([0] * blocks, [0] * blocks, [0] * blocks, [0] * predicates, transactions)

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

    def access(
        self,
        number: int,
        space: str,
        mask: Array | None,
        shape: tuple[int, int, int],
        where: Array,
        offset: int,
        size: int,
    ) -> None:
        """An instruction accesses `size` bytes at the addresses `where` + `offset`; what of the memory it
        takes is added."""
        own = self.transactions[number]
        lanes = where.shape[2] if space == "global" or where.shape[2] > 1 else LANES
        both = (*where.shape[:2], lanes) if mask is None else _joined(where.shape, mask.shape, lanes)
        rows = _rows(where, both)
        active = None if mask is None else _rows(mask, both)
        times = shape[0] * shape[1] // len(rows)
        if space == "local":
            own[4] += times * local_sectors(rows, offset, active, size)
            return
        at, count = (0, sectors) if space == "global" else (2, wavefronts)
        taken, fewest = count(rows, offset, active, size)
        own[at] += times * taken
        own[at + 1] += times * fewest


def _joined(a: tuple[int, ...], b: tuple[int, ...], lanes: int) -> tuple[int, int, int]:
    return max(a[0], b[0]), max(a[1], b[1]), max(lanes, b[2])


def _rows(value: Array, shape: tuple[int, ...]) -> Array:
    """A value as (warps, lanes)."""
    return (value if value.shape == shape else np.broadcast_to(value, shape)).reshape(-1, shape[2])


def _warps(any_thread: Array, shape: tuple[int, int, int]) -> int:
    return int(np.count_nonzero(any_thread) * (shape[0] * shape[1] // any_thread.size))


@dataclass(frozen=True, eq=False)
class Totals:
    """Sums over `launches`, of each of `instructions`. sums: as the fields of LaunchCounts."""

    instructions: tuple[Counted, ...]
    launches: int = 0
    sums: tuple[Array, ...] = ()

    def plus(self, launch: LaunchCounts) -> "Totals":
        """With those of one launch more."""
        fields = launch.warps, launch.threads, launch.divergent, launch.active, launch.transactions
        new = tuple(np.asarray(values, np.int64) for values in fields)
        sums = tuple(a + b for a, b in zip(self.sums, new, strict=True)) if self.sums else new
        return Totals(self.instructions, self.launches + 1, sums)

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
            **dict(zip(COLUMNS[2:7], transactions.T, strict=True)),
            "divergent": np.where(is_branch, divergent[block], 0),
        }
